//! Validation rules (`x-kubernetes-validations`): compiled once per schema, evaluated on every write.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::Value;
use steersman_cel::{CompileError, Environment, EvalError, Program, Type, Value as Cel};
use steersman_formats::{parse_date, parse_lenient_duration, parse_timestamp};

use crate::correlate::{Pair, same_keys};
use crate::decl::{Decl, declare, escaped, visible_fields};
use crate::field_path;
use crate::fields::FieldError;
use crate::go::quote;
use crate::path::{child, index, key, shown};
use crate::schema::{Rule, Schema};

/// Cost limit for one evaluation of a rule.
pub(crate) const CALL_LIMIT: u64 = 1_000_000;

/// Cost limit for all rules of an object.
pub(crate) const OBJECT_LIMIT: i64 = 10_000_000;

/// Maximum length of a message computed by `messageExpression`, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// A compiled rule.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) program: Program,
    pub(crate) message: Option<Program>,
    /// The compile error of the message expression.
    pub(crate) message_error: Option<String>,
    /// Whether the rule uses `oldSelf` (a transition rule).
    pub(crate) uses_old: bool,
    /// Field path, relative to the value, at which violations are reported.
    field_path: String,
}

impl Compiled {
    /// Compiles a rule for values of type `decl`. The error is a human-readable message.
    pub(crate) fn new(rule: &Rule, schema: &Schema, decl: &Decl) -> Result<Self, String> {
        let this = decl.ty.clone();
        let is_optional = rule.optional_old_self == Some(true);
        let old = if is_optional { Type::optional(this.clone()) } else { this.clone() };
        let environment = Environment::new().with("self", this).with("oldSelf", old);
        let compile = |text: &str| {
            Program::compile(&environment, text).map_err(|error| match error {
                CompileError::Conversion(_) => (true, format!("instantiation failed: {error}")),
                _ => (false, format!("compilation failed: {error}")),
            })
        };
        let program =
            compile(&rule.rule).map_err(
                |(is_instantiation, why)| {
                    if is_instantiation { format!("program {why}") } else { why }
                },
            )?;
        if *program.output() != Type::Bool {
            return Err("cel expression must evaluate to a bool".to_owned());
        }
        let (mut message, mut message_error) = (None, None);
        if !rule.message_expression.is_empty() {
            match compile(&rule.message_expression) {
                Ok(program) if *program.output() == Type::String => message = Some(program),
                Ok(_) => message_error = Some("messageExpression must evaluate to a string".to_owned()),
                Err((_, why)) => message_error = Some(format!("messageExpression {why}")),
            }
        }
        let field_path =
            field_path::valid(&rule.field_path, schema, true).map_or_else(|_| String::new(), |f| f.path);
        Ok(Self { uses_old: program.uses("oldSelf"), program, message, message_error, field_path })
    }
}

/// The compiled rules of a schema and the schemas in it.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Result<Option<Compiled>, String>>,
    properties: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    additional: Option<Box<Rules>>,
}

impl Rules {
    /// Compiles all rules of a schema; `None` if it has none.
    pub(crate) fn compile(schema: &Schema, is_resource: bool) -> Option<Self> {
        let mut node = Self::default();
        if !schema.rules.is_empty() {
            let decl = declare(schema, "selfType", is_resource);
            let compile = |rule: &Rule| match &decl {
                _ if rule.rule.trim().is_empty() => Ok(None),
                Some(decl) => Compiled::new(rule, schema, decl).map(Some),
                None => Err("failed to convert to declType for CEL validation rules".to_owned()),
            };
            node.rules = schema.rules.iter().map(compile).collect();
        }
        let child = |schema: &Schema| Self::compile(schema, schema.embedded_resource);
        for (name, property) in &schema.properties {
            if let Some(rules) = child(property) {
                node.properties.insert(name.clone(), rules);
            }
        }
        node.items = schema.item().and_then(child).map(Box::new);
        node.additional = schema.additional().and_then(child).map(Box::new);
        let is_empty = node.rules.is_empty()
            && node.properties.is_empty()
            && node.items.is_none()
            && node.additional.is_none();
        (!is_empty).then_some(node)
    }

    /// Evaluates the rules on a value; on an update, with its old value.
    pub(crate) fn check(&self, run: &mut Run, at: RuleTarget<'_>) {
        if at.value.is_null() || run.budget < 0 {
            return;
        }
        self.expressions(run, &at);
        if run.budget < 0 {
            return;
        }
        match at.value {
            Value::Array(items) => {
                let (Some(rules), Some(item)) = (&self.items, at.schema.item()) else { return };
                let old_items = at.old.and_then(Value::as_array);
                for (i, value) in items.iter().enumerate() {
                    let old = old_items.and_then(|list| same_keys(at.schema, value, list));
                    let ratchet = at.ratchet.index(i);
                    let path = index(&at.path, i);
                    let is_resource = item.embedded_resource;
                    rules.check(run, RuleTarget { value, old, schema: item, path, is_resource, ratchet });
                }
            }
            Value::Object(map) => {
                let old = |name: &str| at.old.and_then(Value::as_object)?.get(name);
                if let (Some(rules), Some(values)) = (&self.additional, at.schema.additional()) {
                    for (name, value) in map {
                        let ratchet = at.ratchet.key(name);
                        let path = key(&at.path, name);
                        let is_resource = values.embedded_resource;
                        let old = old(name);
                        rules.check(
                            run,
                            RuleTarget { value, old, schema: values, path, is_resource, ratchet },
                        );
                    }
                }
                for (name, rules) in &self.properties {
                    let (Some(value), Some(schema)) = (map.get(name), at.schema.properties.get(name)) else {
                        continue;
                    };
                    let ratchet = at.ratchet.key(name);
                    let path = child(&at.path, name);
                    let is_resource = schema.embedded_resource;
                    rules
                        .check(run, RuleTarget { value, old: old(name), schema, path, is_resource, ratchet });
                }
            }
            _ => {}
        }
    }

    fn expressions(&self, run: &mut Run, at: &RuleTarget<'_>) {
        const OUT_OF_BUDGET: &str =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        if self.rules.is_empty() {
            return;
        }
        let path = shown(&at.path);
        let kind = at.schema.kind.as_str();
        if run.budget <= 0 {
            run.errors.push(FieldError::invalid(path, kind, OUT_OF_BUDGET));
            run.budget = -1;
            return;
        }
        let this = converted(at.value, at.schema, at.is_resource);
        let before = at.old.filter(|old| !old.is_null()).map(|old| converted(old, at.schema, at.is_resource));
        for (rule, compiled) in at.schema.rules.iter().zip(&self.rules) {
            let compiled = match compiled {
                Ok(Some(compiled)) => compiled,
                Ok(None) => continue,
                Err(why) => {
                    run.errors.push(FieldError::invalid(
                        path.as_str(),
                        kind,
                        format!("rule compile error: {why}"),
                    ));
                    continue;
                }
            };
            let is_optional = rule.optional_old_self == Some(true);
            if compiled.uses_old && before.is_none() && !is_optional {
                continue;
            }
            let variables = |is_optional: bool| {
                let old = match (&before, is_optional) {
                    (old, true) => Cel::Optional(old.clone().map(Arc::new)),
                    (Some(old), false) => old.clone(),
                    (None, false) => Cel::Invalid("no such attribute(s): oldSelf".into()),
                };
                [("self", this.clone()), ("oldSelf", old)]
            };
            let (result, cost) = compiled.program.run(variables(is_optional), CALL_LIMIT);
            let cost = i64::try_from(cost).unwrap_or(i64::MAX);
            if cost > run.budget {
                run.errors.push(FieldError::invalid(path, kind, OUT_OF_BUDGET));
                run.budget = -1;
                return;
            }
            run.budget -= cost;
            match result {
                Ok(Cel::Bool(true)) => continue,
                Ok(_) => {}
                Err(error) => {
                    let about = rule_text(rule);
                    let detail = match &error {
                        EvalError::NoSuchOverload(_) => format!(
                            "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {about}"
                        ),
                        EvalError::CostLimitExceeded => format!(
                            "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {about}"
                        ),
                        _ => format!("{error} evaluating rule: {about}"),
                    };
                    run.errors.push(FieldError::invalid(path.as_str(), kind, detail));
                    if error == EvalError::CostLimitExceeded {
                        run.budget = -1;
                        return;
                    }
                    continue;
                }
            }
            let place = match compiled.field_path.as_str() {
                "" => path.clone(),
                field => child(&at.path, field),
            };
            let is_ratcheted = !compiled.uses_old && at.ratchet.is_unchanged();
            let message = compiled.message.as_ref().map(|message| {
                let (text, cost) = message.run(variables(false), CALL_LIMIT);
                (text, i64::try_from(cost).unwrap_or(i64::MAX))
            });
            let mut detail = None;
            if let Some((text, cost)) = message {
                let end = |run: &mut Run, why: String| {
                    if !is_ratcheted {
                        run.errors.push(FieldError::invalid(place.as_str(), kind, why));
                    }
                    run.budget = -1;
                };
                if cost > run.budget {
                    return end(run, "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned());
                }
                match text {
                    Err(EvalError::CostLimitExceeded) => {
                        return end(
                            run,
                            format!(
                                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                                quote(&rule.message_expression)
                            ),
                        );
                    }
                    Ok(Cel::String(text)) => {
                        let text = text.trim();
                        let is_fine = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                        detail = is_fine.then(|| text.to_owned());
                    }
                    _ => {}
                }
                run.budget -= cost;
            }
            let detail = detail.unwrap_or_else(|| {
                if rule.message.is_empty() {
                    format!("failed rule: {}", rule_text(rule))
                } else {
                    rule.message.trim().to_owned()
                }
            });
            let complaint = complaint(rule, at.value, kind, place, detail);
            if is_ratcheted {
                run.tolerated.push(complaint);
            } else {
                run.errors.push(complaint);
            }
        }
    }
}

/// The state of validating one object.
pub(crate) struct Run {
    /// Remaining cost budget; once negative, no more rules run.
    pub(crate) budget: i64,
    pub(crate) errors: Vec<FieldError>,
    /// Ratcheted violations: the old value already had them.
    pub(crate) tolerated: Vec<FieldError>,
}

impl Run {
    pub(crate) fn new(budget: i64) -> Self {
        Self { budget, errors: Vec::new(), tolerated: Vec::new() }
    }
}

/// A value to validate, with its schema, path and old value.
#[derive(Clone)]
pub(crate) struct RuleTarget<'a> {
    pub(crate) value: &'a Value,
    pub(crate) old: Option<&'a Value>,
    pub(crate) schema: &'a Schema,
    pub(crate) path: String,
    pub(crate) is_resource: bool,
    pub(crate) ratchet: Ratchet<'a>,
}

/// Determines whether a value has changed, for ratcheting.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ratchet<'a> {
    current: Option<Pair<'a>>,
    /// The nearest enclosing value that can be correlated.
    parent: Option<Pair<'a>>,
}

impl<'a> Ratchet<'a> {
    pub(crate) fn new(pair: Option<Pair<'a>>) -> Self {
        Self { current: pair, parent: None }
    }

    fn key(self, name: &str) -> Self {
        match self.current {
            None => self,
            Some(_) if self.parent.is_none() && matches!(name, "apiVersion" | "kind") => Self::default(),
            Some(pair) => Self { current: pair.key(name), parent: Some(pair) },
        }
    }

    fn index(self, index: usize) -> Self {
        match self.current {
            None => self,
            Some(pair) => Self { current: pair.index(index), parent: Some(pair) },
        }
    }

    fn is_unchanged(self) -> bool {
        self.current.or(self.parent).is_some_and(|pair| pair.is_unchanged())
    }
}

fn rule_text(rule: &Rule) -> &str {
    if rule.message.is_empty() { rule.rule.trim() } else { rule.message.trim() }
}

fn complaint(rule: &Rule, value: &Value, kind: &str, path: String, detail: String) -> FieldError {
    let is_large = matches!(kind, "object" | "array");
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(path, detail),
        Some("FieldValueRequired") => FieldError::required(path, detail),
        Some("FieldValueDuplicate") if is_large => FieldError::duplicate_omitted(path),
        Some("FieldValueDuplicate") => FieldError::duplicate(path, value.clone()),
        _ if is_large => FieldError::invalid_omitted(path, detail),
        _ => FieldError::invalid(path, value.clone(), detail),
    }
}

fn invalid(why: impl Into<EvalError>) -> Cel {
    Cel::Invalid(why.into())
}

/// Converts a value to CEL according to its schema.
fn converted(value: &Value, schema: &Schema, is_resource: bool) -> Cel {
    if value.is_null() {
        return if schema.nullable {
            Cel::Null
        } else {
            invalid("invalid data, got null for schema with nullable=false")
        };
    }
    if schema.int_or_string {
        return match value {
            Value::String(text) => Cel::string(text.as_str()),
            Value::Number(n) if n.is_i64() => Cel::Int(n.as_i64().unwrap_or_default()),
            _ => invalid("invalid data, expected XIntOrString value to be either a string or integer"),
        };
    }
    let unexpected = |what: &str| invalid(format!("invalid data, expected {what}, got {}", go_type(value)));
    match (schema.kind.as_str(), value) {
        ("object", Value::Object(map)) => {
            let is_resource = is_resource || schema.embedded_resource;
            let fields = visible_fields(schema, is_resource);
            let entries = if fields.is_empty() {
                let Some(values) = schema.additional() else { return Cel::map(Vec::new()) };
                map.iter().map(|(k, v)| (Cel::string(k.as_str()), converted(v, values, false))).collect()
            } else {
                let visible = |(k, v): (&String, &Value)| {
                    let field = fields.get(k).filter(|_| !v.is_null())?;
                    Some((Cel::string(escaped(k)?), converted(v, field, false)))
                };
                map.iter().filter_map(visible).collect()
            };
            Cel::map(entries)
        }
        ("object", _) => invalid("invalid data, expected a map for the provided schema with type=object"),
        ("array", Value::Array(items)) => {
            let Some(item) = schema.item() else {
                return invalid("invalid array type, expected Items with a non-empty Schema");
            };
            let items = items.iter().map(|value| converted(value, item, false)).collect();
            match schema.list_type.as_deref() {
                Some("set") => Cel::set(items),
                Some("map") => {
                    let keys = schema.list_map_keys.iter().map(|k| escaped(k).unwrap_or_else(|| k.clone()));
                    Cel::keyed(items, keys.collect())
                }
                _ => Cel::list(items),
            }
        }
        ("array", _) => invalid("invalid data, expected an array for the provided schema with type=array"),
        ("string", Value::String(text)) => text_value(text, &schema.format),
        ("string", _) => unexpected("string"),
        ("number", Value::Number(n)) => Cel::Double(n.as_f64().unwrap_or_default()),
        ("number", _) => unexpected("float"),
        ("integer", Value::Number(n)) if n.is_i64() => Cel::Int(n.as_i64().unwrap_or_default()),
        ("integer", _) => unexpected("int"),
        ("boolean", Value::Bool(value)) => Cel::Bool(*value),
        ("boolean", _) => unexpected("bool"),
        _ => Cel::Null,
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn text_value(text: &str, format: &str) -> Cel {
    match format {
        "duration" => parse_lenient_duration(text).map_or_else(
            || invalid(format!("Invalid duration {text}: unable to parse {text} as duration")),
            Cel::Duration,
        ),
        "date" => match parse_date(text).and_then(|_| parse_timestamp(&format!("{text}T00:00:00Z"))) {
            Some(time) => Cel::Timestamp(time.into()),
            None => invalid(format!("Invalid date formatted string {text}")),
        },
        "date-time" => match parse_timestamp(text).or_else(|| parse_timestamp(&format!("{text}Z"))) {
            Some(time) => Cel::Timestamp(time.into()),
            None => invalid(format!("Invalid date-time formatted string {text}")),
        },
        "byte" => match base64::engine::general_purpose::URL_SAFE.decode(text) {
            Ok(bytes) => Cel::Bytes(bytes.into()),
            Err(_) => {
                let at = text
                    .bytes()
                    .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'=')));
                let at = at.unwrap_or(text.len());
                invalid(format!(
                    "Invalid byte formatted string {text}: illegal base64 data at input byte {at}"
                ))
            }
        },
        _ => Cel::string(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the remaining budget and the violations.
    /// The object has a rule on itself and on each of its two numbers.
    fn judged(budget: i64, message: &str) -> (i64, Vec<String>) {
        let rule = |rule: &str| json!([{"rule": rule, "messageExpression": message}]);
        let schema = Schema::parse(&json!({
            "type": "object",
            "x-kubernetes-validations": [{"rule": "self.a + self.b > 0"}],
            "properties": {
                "a": {"type": "integer", "x-kubernetes-validations": rule("self > 100")},
                "b": {"type": "integer", "x-kubernetes-validations": rule("self > 200")},
            },
        }));
        let rules = Rules::compile(&schema, false).expect("the schema has rules");
        let mut run = Run::new(budget);
        let (value, path) = (json!({"a": 1, "b": 2}), String::new());
        let at = RuleTarget {
            value: &value,
            old: None,
            schema: &schema,
            path,
            is_resource: false,
            ratchet: Ratchet::default(),
        };
        rules.check(&mut run, at);
        (run.budget, run.errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn rules_spend_from_one_budget() {
        let (left, errors) = judged(100, "");
        assert_eq!(errors.len(), 2, "{errors:?}");
        let (total, root, each) = (100 - left, 6, 2);
        assert_eq!(total, root + 2 * each, "{errors:?}");
        assert_eq!(judged(total, "").0, 0, "what is left may be spent whole");
    }

    #[test]
    fn nothing_is_run_once_the_budget_is_spent() {
        let out = "running out of cost budget";
        // In turn: during the second rule, just before the third, and during the first.
        for (budget, others) in [(7, 0), (8, 1), (9, 1), (5, 0), (0, 0)] {
            let (left, errors) = judged(budget, "");
            assert_eq!(left, -1, "{budget}");
            assert_eq!(errors.len(), others + 1, "{budget}: {errors:?}");
            assert!(errors.last().is_some_and(|error| error.contains(out)), "{errors:?}");
        }
    }

    #[test]
    fn messages_are_paid_for_too() {
        let (left, errors) = judged(100, "'below ' + string(200)");
        let spent = 100 - left;
        assert!(errors.iter().all(|error| error.contains("below 200")), "{errors:?}");
        assert!(spent > 10, "{spent}");
        assert_eq!(judged(spent, "'below ' + string(200)"), (0, errors));
        let (left, errors) = judged(spent - 1, "'below ' + string(200)");
        assert_eq!(left, -1);
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors[1].contains("messageExpression evaluation failed due to running out"), "{errors:?}");
    }
}
