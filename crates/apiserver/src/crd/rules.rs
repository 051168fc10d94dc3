//! The rules of a custom resource: `x-kubernetes-validations`, compiled once and run on every write.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::Value;
use steersman_cel::{Environment, ObjectType, Program, Type, Value as Cel, parse_duration, parse_timestamp};

use crate::fields::{FieldError, FieldErrorKind};

/// One run of a rule may cost so much.
const CALL_LIMIT: u64 = 1_000_000;

/// All rules of an object together may cost so much.
const OBJECT_LIMIT: u64 = 10_000_000;

/// Schemas nested deeper than this have no rules.
const MAX_DEPTH: usize = 100;

/// Words that expressions cannot use as field names.
const KEYWORDS: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The rules of a schema and of what it is made of.
#[derive(Debug, Default)]
pub(super) struct Rules {
    schema: Value,
    rules: Vec<Rule>,
    properties: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    additional: Option<Box<Rules>>,
}

#[derive(Debug)]
struct Rule {
    program: Program,
    text: String,
    message: String,
    message_expression: Option<Program>,
    reason: String,
    field_path: String,
    /// The rule compares with the value before the write.
    is_transition: bool,
    /// `oldSelf` is there on a create too, as an absent optional.
    optional_old: bool,
}

impl Rules {
    /// Compiles the rules of a schema. What does not compile is left out, with a complaint at the rule's place below `path`.
    pub(super) fn compile(schema: &Value, path: &str, errors: &mut Vec<FieldError>) -> Self {
        Self::node(schema, path, "self", true, 0, errors).unwrap_or_default()
    }

    /// `None` if there are no rules here nor below.
    fn node(
        schema: &Value,
        path: &str,
        name: &str,
        is_root: bool,
        depth: usize,
        errors: &mut Vec<FieldError>,
    ) -> Option<Self> {
        if depth > MAX_DEPTH || !schema.is_object() {
            return None;
        }
        let mut node = Self { schema: schema.clone(), ..Self::default() };
        for (i, rule) in list(&schema["x-kubernetes-validations"]).iter().enumerate() {
            let ty = declared(schema, name, is_root, depth);
            match Rule::compile(rule, &ty) {
                Ok(rule) => node.rules.push(rule),
                Err((field, detail)) => {
                    let place = format!("{path}.x-kubernetes-validations[{i}].{field}");
                    errors.push(FieldError::invalid(place, rule.clone(), detail));
                }
            }
        }
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let place = format!("{path}.properties[{key}]");
            if let Some(child) =
                Self::node(property, &place, &format!("{name}.{key}"), false, depth + 1, errors)
            {
                node.properties.insert(key.clone(), child);
            }
        }
        let mut child = |key: &str, suffix: &str| {
            let child = Self::node(
                &schema[key],
                &format!("{path}.{key}"),
                &format!("{name}{suffix}"),
                false,
                depth + 1,
                errors,
            );
            child.map(Box::new)
        };
        node.items = child("items", "[]");
        node.additional = child("additionalProperties", "{}");
        let is_empty = node.rules.is_empty()
            && node.properties.is_empty()
            && node.items.is_none()
            && node.additional.is_none();
        (!is_empty).then_some(node)
    }

    /// Judges an object, on an update beside the one before. Without rules it costs nothing.
    pub(super) fn check(&self, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        if self.schema.is_null() {
            return;
        }
        let blocked = errors.iter().any(|error| {
            matches!(
                error.kind,
                FieldErrorKind::NotSupported(..)
                    | FieldErrorKind::Required
                    | FieldErrorKind::TooLong(_)
                    | FieldErrorKind::TooMany(..)
                    | FieldErrorKind::TypeInvalid(_)
            )
        });
        if blocked {
            let detail = "some validation rules were not checked because the object was invalid; \
                          correct the existing errors to complete validation";
            errors.push(FieldError::invalid("", Value::Null, detail));
            return;
        }
        let mut budget = OBJECT_LIMIT;
        self.walk(object, old, "", true, &mut budget, errors);
    }

    fn walk(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        is_root: bool,
        budget: &mut u64,
        errors: &mut Vec<FieldError>,
    ) {
        if value.is_null() {
            return;
        }
        if !self.rules.is_empty() {
            let this = converted(&self.schema, value, is_root);
            let before = old.map(|old| converted(&self.schema, old, is_root));
            for rule in &self.rules {
                rule.run(&self.schema, &this, before.as_ref(), path, budget, errors);
            }
        }
        match value {
            Value::Object(map) => {
                for (key, child) in map {
                    let rules = self.properties.get(key).or(self.additional.as_deref());
                    let Some(rules) = rules else { continue };
                    let is_property = self.properties.contains_key(key);
                    let place = match (is_property, path) {
                        (true, "") => key.clone(),
                        (true, _) => format!("{path}.{key}"),
                        (false, _) => format!("{path}[{key}]"),
                    };
                    rules.walk(child, old.and_then(|old| old.get(key)), &place, false, budget, errors);
                }
            }
            Value::Array(items) => {
                let Some(rules) = &self.items else { return };
                for (i, item) in items.iter().enumerate() {
                    let before = self.counterpart(item, old);
                    rules.walk(item, before, &format!("{path}[{i}]"), false, budget, errors);
                }
            }
            _ => {}
        }
    }

    /// The item of the old list that is the same by its keys. Other lists have no items that stay the same.
    fn counterpart<'v>(&self, item: &Value, old: Option<&'v Value>) -> Option<&'v Value> {
        if self.schema["x-kubernetes-list-type"] != "map" {
            return None;
        }
        let keys = list(&self.schema["x-kubernetes-list-map-keys"]);
        let same = |other: &&Value| keys.iter().filter_map(Value::as_str).all(|key| other[key] == item[key]);
        list(old?).iter().find(same)
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

impl Rule {
    /// The error names the field of the rule that is wrong.
    fn compile(rule: &Value, ty: &Type) -> Result<Self, (&'static str, String)> {
        let text = |key: &str| rule[key].as_str().unwrap_or_default().to_owned();
        let optional_old = rule["optionalOldSelf"] == true;
        let old_type = if optional_old { Type::optional(ty.clone()) } else { ty.clone() };
        let environment = Environment::new().with("self", ty.clone()).with("oldSelf", old_type);
        let failed = |error: &dyn std::fmt::Display| format!("compilation failed: {error}");
        let source = text("rule");
        if source.trim().is_empty() {
            return Err(("rule", "rule is not specified".into()));
        }
        let program = Program::compile(&environment, &source).map_err(|e| ("rule", failed(&e)))?;
        if !matches!(program.output(), Type::Bool) {
            return Err(("rule", "cel expression must evaluate to a bool".into()));
        }
        let message_expression = match text("messageExpression") {
            expression if expression.is_empty() => None,
            expression => {
                let program = Program::compile(&environment, &expression)
                    .map_err(|e| ("messageExpression", format!("messageExpression {}", failed(&e))))?;
                if !matches!(program.output(), Type::String) {
                    return Err(("messageExpression", "messageExpression must evaluate to a string".into()));
                }
                Some(program)
            }
        };
        Ok(Self {
            is_transition: program.uses("oldSelf"),
            program,
            text: source.trim().to_owned(),
            message: text("message").trim().to_owned(),
            message_expression,
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old,
        })
    }

    fn run(
        &self,
        schema: &Value,
        this: &Cel,
        old: Option<&Cel>,
        path: &str,
        budget: &mut u64,
        errors: &mut Vec<FieldError>,
    ) {
        let before = match (old, self.optional_old) {
            (old, true) => Cel::Optional(old.cloned().map(Arc::new)),
            (Some(old), false) => old.clone(),
            (None, false) if self.is_transition => return,
            (None, false) => Cel::Null,
        };
        let kind = schema["type"].as_str().unwrap_or_default();
        let variables = || [("self", this.clone()), ("oldSelf", before.clone())];
        let (result, cost) = self.program.run(variables(), CALL_LIMIT.min(*budget));
        *budget = budget.saturating_sub(cost);
        match result {
            Ok(Cel::Bool(true)) => {}
            Ok(_) => {
                let message = self.message_expression.as_ref().and_then(|program| {
                    let (text, cost) = program.run(variables(), CALL_LIMIT.min(*budget));
                    *budget = budget.saturating_sub(cost);
                    match text {
                        Ok(Cel::String(text)) if !text.trim().is_empty() => Some(text.trim().to_owned()),
                        _ => None,
                    }
                });
                let message = message.unwrap_or_else(|| match self.message.as_str() {
                    "" => format!("failed rule: {}", self.text),
                    message => message.to_owned(),
                });
                errors.push(self.complaint(format!("{path}{}", self.place(path)), kind, message));
            }
            Err(error) => {
                let rule = if self.message.is_empty() { &self.text } else { &self.message };
                let detail = format!("{error} evaluating rule: {rule}");
                errors.push(FieldError::invalid(path, kind, detail));
            }
        }
    }

    /// Where below the rule's own place the complaint belongs.
    fn place(&self, path: &str) -> &str {
        if path.is_empty() { self.field_path.trim_start_matches('.') } else { &self.field_path }
    }

    fn complaint(&self, path: String, kind: &str, message: String) -> FieldError {
        match self.reason.as_str() {
            "FieldValueForbidden" => FieldError::forbidden(path, message),
            "FieldValueRequired" => FieldError::required(path, message),
            "FieldValueDuplicate" => FieldError::duplicate(path, kind),
            _ => FieldError::invalid(path, kind, message),
        }
    }
}

/// The name by which expressions select a field; `None` for names that no expression can write.
fn escaped(name: &str) -> Option<String> {
    if KEYWORDS.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let escaped = name
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    let starts = escaped.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (starts && escaped.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')).then_some(escaped)
}

/// The type that a schema declares.
fn declared(schema: &Value, name: &str, is_root: bool, depth: usize) -> Type {
    if depth > MAX_DEPTH || schema["x-kubernetes-int-or-string"] == true {
        return Type::Dyn;
    }
    let text = |key: &str| schema[key].as_str().unwrap_or_default();
    match (text("type"), text("format")) {
        ("string", "date-time" | "date") => Type::Timestamp,
        ("string", "duration") => Type::Duration,
        ("string", "byte") => Type::Bytes,
        ("string", _) => Type::String,
        ("integer", _) => Type::Int,
        ("number", _) => Type::Double,
        ("boolean", _) => Type::Bool,
        ("array", _) => Type::list(declared(&schema["items"], &format!("{name}[]"), false, depth + 1)),
        ("object", _) if schema["additionalProperties"].is_object() => {
            let values = declared(&schema["additionalProperties"], &format!("{name}{{}}"), false, depth + 1);
            Type::map(Type::String, values)
        }
        ("object", _) => {
            let mut fields = BTreeMap::new();
            for (key, property) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(field) = escaped(key) {
                    let ty = declared(property, &format!("{name}.{key}"), false, depth + 1);
                    fields.insert(field, ty);
                }
            }
            if is_root || schema["x-kubernetes-embedded-resource"] == true {
                let metadata = BTreeMap::from([
                    ("name".to_owned(), Type::String),
                    ("generateName".to_owned(), Type::String),
                ]);
                let metadata = ObjectType { name: format!("{name}.metadata"), fields: metadata };
                fields.insert("apiVersion".into(), Type::String);
                fields.insert("kind".into(), Type::String);
                fields.insert("metadata".into(), Type::Object(Arc::new(metadata)));
            }
            Type::Object(Arc::new(ObjectType { name: name.to_owned(), fields }))
        }
        _ => Type::Dyn,
    }
}

/// The value as its schema has expressions see it.
fn converted(schema: &Value, value: &Value, is_root: bool) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) if schema["type"] == "number" => Cel::Double(number as f64),
            Some(number) => Cel::Int(number),
            None => Cel::Double(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => string(schema, text),
        Value::Array(items) => {
            Cel::list(items.iter().map(|item| converted(&schema["items"], item, false)).collect())
        }
        Value::Object(map) => {
            let is_map = schema["additionalProperties"].is_object();
            let entries = map.iter().filter_map(|(key, value)| {
                if is_map {
                    let value = converted(&schema["additionalProperties"], value, false);
                    return Some((Cel::string(key.as_str()), value));
                }
                let is_system = is_root && matches!(key.as_str(), "apiVersion" | "kind" | "metadata");
                let property = schema["properties"].get(key);
                if property.is_none() && !is_system {
                    return None;
                }
                let value = converted(property.unwrap_or(&Value::Null), value, is_system);
                Some((Cel::string(escaped(key)?), value))
            });
            Cel::map(entries.collect())
        }
    }
}

fn string(schema: &Value, text: &str) -> Cel {
    let plain = || Cel::string(text);
    match schema["format"].as_str().unwrap_or_default() {
        "date-time" => parse_timestamp(text).map_or_else(plain, Cel::Timestamp),
        "date" => parse_timestamp(&format!("{text}T00:00:00Z")).map_or_else(plain, Cel::Timestamp),
        "duration" => parse_duration(text).map_or_else(plain, Cel::Duration),
        "byte" => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_or_else(|_| plain(), |bytes| Cel::Bytes(bytes.into())),
        _ => plain(),
    }
}
