//! Validates values against schemas, with the error texts of the validator in kube-openapi.

use serde_json::{Map, Value};
use steersman_formats as formats;

use crate::correlate::{Pair, same};
use crate::fields::FieldError;
use crate::go::{self, quote};
use crate::path::{child, shown};
use crate::schema::{Items, Schema};

/// What is being validated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// An object sent by a client.
    Object,
    /// A default. Its validator interprets schemas differently.
    Default,
}

/// Validates a value. With `pair`, violations of unchanged values are ignored (ratcheting).
pub(crate) fn check(
    schema: &Schema,
    value: &Value,
    pair: Option<Pair<'_>>,
    subject: Subject,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let validator = Validator { subject };
    let outcome = validator.ratcheted(schema, value, "", pair);
    errors.extend(outcome.problems.into_iter().map(|problem| problem.at(path)));
}

/// A violation without its absolute path.
struct Problem {
    /// The path within the value, possibly with a leading dot.
    name: String,
    kind: ProblemKind,
    message: String,
}

enum ProblemKind {
    Required,
    NotSupported(Value, Vec<String>),
    TooLong(i64),
    TooMany(i64, i64),
    WrongType(Value),
    Invalid(Value),
    /// A violation that concerns the whole value.
    Plain,
}

impl Problem {
    fn at(self, base: &str) -> FieldError {
        let name = self.name.strip_prefix('.').unwrap_or(&self.name);
        let path = match (&self.kind, name) {
            (ProblemKind::Plain, _) | (_, "") => shown(base),
            (_, name) => child(base, name),
        };
        let limit = |limit: i64| usize::try_from(limit).unwrap_or_default();
        match self.kind {
            ProblemKind::Required => FieldError::required(path, ""),
            ProblemKind::NotSupported(value, supported) => {
                let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
                FieldError::not_supported(path, value, &supported)
            }
            ProblemKind::TooLong(max) => FieldError::too_long(path, limit(max)),
            ProblemKind::TooMany(actual, max) => FieldError::too_many(path, limit(actual), limit(max)),
            ProblemKind::WrongType(value) => FieldError::type_invalid(path, value, self.message),
            ProblemKind::Invalid(value) => FieldError::invalid(path, value, self.message),
            ProblemKind::Plain => FieldError::invalid(path, "", self.message),
        }
    }
}

/// Distinct violations and the number of successful checks.
/// Of several alternatives, the one with the most successful checks is reported.
#[derive(Default)]
struct Outcome {
    problems: Vec<Problem>,
    matches: i64,
}

impl Outcome {
    fn add(&mut self, problem: Problem) {
        if !self.problems.iter().any(|known| known.message == problem.message) {
            self.problems.push(problem);
        }
    }

    fn plain(&mut self, message: String) {
        self.add(Problem { name: String::new(), kind: ProblemKind::Plain, message });
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        other.problems.into_iter().for_each(|problem| self.add(problem));
    }

    fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }
}

struct Validator {
    subject: Subject,
}

/// Returns the JSON type of a value and Go's format of it.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(n) if n.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

impl Validator {
    fn ratcheted(&self, schema: &Schema, value: &Value, path: &str, pair: Option<Pair<'_>>) -> Outcome {
        let mut outcome = self.check(schema, value, path, pair);
        if !outcome.is_valid() && pair.is_some_and(|pair| pair.is_unchanged()) {
            outcome.problems.clear();
        }
        outcome
    }

    fn check(&self, schema: &Schema, value: &Value, path: &str, pair: Option<Pair<'_>>) -> Outcome {
        let mut outcome = Outcome::default();
        let kinds = self.kinds(schema);
        let format = self.format(schema);
        if value.is_null() {
            self.check_type(&kinds, format, schema, value, path, &mut outcome);
            check_enum(schema, value, path, &mut outcome);
            return outcome;
        }
        if !kinds.is_empty() || !format.is_empty() {
            self.check_type(&kinds, format, schema, value, path, &mut outcome);
            outcome.matches += 1;
        }
        self.combinations(schema, value, path, &mut outcome);
        outcome.matches += 1;
        match value {
            Value::String(text) => {
                check_text(schema, text, path, &mut outcome);
                outcome.matches += 1;
                if let Some(follows) = formats::follows(format, text) {
                    if !follows {
                        let message = format!("{path} in body must be of type {format}: {}", quote(text));
                        let kind = ProblemKind::WrongType(value.clone());
                        outcome.add(Problem { name: path.to_owned(), kind, message });
                    }
                    outcome.matches += 1;
                }
            }
            Value::Number(_) => {
                check_number(&kinds, format, schema, value, path, &mut outcome);
                outcome.matches += 1;
            }
            Value::Array(items) => {
                self.check_items(schema, items, path, pair, &mut outcome);
                outcome.matches += 1;
            }
            _ => {}
        }
        check_enum(schema, value, path, &mut outcome);
        outcome.matches += 1;
        if let Value::Object(map) = value {
            self.check_fields(schema, map, path, pair, &mut outcome);
            outcome.matches += 1;
        }
        outcome.matches += 1;
        outcome
    }

    fn kinds<'s>(&self, schema: &'s Schema) -> Vec<&'s str> {
        if schema.int_or_string && self.subject == Subject::Object {
            return vec!["integer", "string"];
        }
        if schema.kind.is_empty() { Vec::new() } else { vec![&schema.kind] }
    }

    /// Returns the format, or an empty string if it is not validated.
    fn format<'s>(&self, schema: &'s Schema) -> &'s str {
        let kind = if schema.int_or_string { "" } else { schema.kind.as_str() };
        let counts = self.subject == Subject::Default || formats::is_known(kind, &schema.format);
        if counts { &schema.format } else { "" }
    }

    fn check_type(
        &self,
        kinds: &[&str],
        format: &str,
        schema: &Schema,
        value: &Value,
        path: &str,
        outcome: &mut Outcome,
    ) {
        let (actual, actual_format) = type_of(value);
        let mut wrong = |expected: &str, actual: &str| {
            let message = format!("{path} in body must be of type {expected}: {}", quote(actual));
            let kind = ProblemKind::WrongType(actual.into());
            outcome.add(Problem { name: path.to_owned(), kind, message });
        };
        if value.is_null() {
            if !kinds.is_empty() && !kinds.contains(&"null") && !schema.nullable {
                return wrong(&kinds.join(","), actual);
            }
            outcome.matches += 1;
            return;
        }
        let is_whole = value.as_f64().is_some_and(is_integer) && kinds.contains(&"integer");
        let fits = kinds.contains(&actual)
            || (actual == "number" && is_whole)
            || (actual == "integer" && kinds.contains(&"number"));
        let is_text_or_list = value.is_string() || value.is_array();
        if !is_text_or_list && !format.is_empty() && !fits && actual_format != format {
            return wrong(format, actual_format);
        }
        let is_numeric = kinds.contains(&"number") || kinds.contains(&"integer");
        if !is_numeric && !format.is_empty() && is_text_or_list {
            outcome.matches += 1;
            return;
        }
        if !fits {
            return wrong(&kinds.join(","), actual);
        }
        outcome.matches += 1;
    }

    fn check_items(
        &self,
        schema: &Schema,
        items: &[Value],
        path: &str,
        pair: Option<Pair<'_>>,
        outcome: &mut Outcome,
    ) {
        if let Some(Items::One(item)) = schema.items.as_ref() {
            for (i, value) in items.iter().enumerate() {
                let pair = pair.and_then(|pair| pair.index(i));
                outcome.merge(self.ratcheted(item, value, &format!("{path}[{i}]"), pair));
            }
        }
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let name = || path.to_owned();
        if let Some(min) = schema.min_items.filter(|min| size < *min) {
            let message = format!("{path} in body should have at least {min} items");
            outcome.add(Problem { name: name(), kind: ProblemKind::Invalid(size.into()), message });
        }
        if let Some(max) = schema.max_items.filter(|max| size > *max) {
            let message = format!("{path} in body should have at most {max} items");
            outcome.add(Problem { name: name(), kind: ProblemKind::TooMany(size, max), message });
        }
        let repeats = || items.iter().enumerate().any(|(i, a)| items[..i].iter().any(|b| same(a, b)));
        if schema.unique_items && repeats() {
            let message = format!("{path} in body shouldn't contain duplicates");
            outcome.add(Problem { name: name(), kind: ProblemKind::Invalid("".into()), message });
        }
        outcome.matches += 1;
    }

    fn check_fields(
        &self,
        schema: &Schema,
        map: &Map<String, Value>,
        path: &str,
        pair: Option<Pair<'_>>,
        outcome: &mut Outcome,
    ) {
        let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.min_properties.filter(|min| size < *min) {
            let message = format!("{path} in body should have at least {min} properties");
            outcome.add(Problem { name: path.to_owned(), kind: ProblemKind::Invalid(size.into()), message });
        }
        if let Some(max) = schema.max_properties.filter(|max| size > *max) {
            let message = format!("{path} in body should have at most {max} properties");
            outcome.add(Problem { name: path.to_owned(), kind: ProblemKind::TooMany(size, max), message });
        }
        // `apiVersion` and `kind` of the root are never correlated with the old object.
        let pair_of = |name: &str| {
            let is_type = path.is_empty() && matches!(name, "apiVersion" | "kind");
            pair.filter(|_| !is_type).and_then(|pair| pair.key(name))
        };
        let others = map.iter().filter(|(name, _)| !schema.properties.contains_key(*name));
        match schema.additional_properties.as_deref() {
            Some(additional) if !additional.allows => {
                for (name, _) in others {
                    let message = format!("{path}.{name} in body is a forbidden property");
                    let kind = ProblemKind::Invalid(name.as_str().into());
                    outcome.add(Problem { name: path.to_owned(), kind, message });
                }
            }
            Some(additional) => {
                let Some(values) = &additional.schema else {
                    return self.known(schema, map, path, pair_of, outcome);
                };
                for (name, value) in others {
                    outcome.merge(self.ratcheted(values, value, &format!("{path}.{name}"), pair_of(name)));
                }
            }
            None => {}
        }
        self.known(schema, map, path, pair_of, outcome);
    }

    /// Validates declared fields and the presence of required ones.
    fn known<'p>(
        &self,
        schema: &Schema,
        map: &Map<String, Value>,
        path: &str,
        pair_of: impl Fn(&str) -> Option<Pair<'p>>,
        outcome: &mut Outcome,
    ) {
        for (name, field) in &schema.properties {
            if let Some(value) = map.get(name) {
                outcome.merge(self.ratcheted(field, value, &child(path, name), pair_of(name)));
            }
        }
        for name in &schema.required {
            if !map.contains_key(name) {
                let name = format!("{path}.{name}");
                let message = format!("{name} in body is required");
                outcome.add(Problem { name, kind: ProblemKind::Required, message });
            }
        }
    }

    fn combinations(&self, schema: &Schema, value: &Value, path: &str, outcome: &mut Outcome) {
        let whole = quote(path);
        let mut own = Outcome::default();
        if !schema.any_of.is_empty() {
            let mut best: Option<Outcome> = None;
            for part in &schema.any_of {
                let result = self.check(part, value, path, None);
                let is_valid = result.is_valid();
                if is_valid || best.as_ref().is_none_or(|best| result.matches > best.matches) {
                    best = Some(result);
                }
                if is_valid {
                    break;
                }
            }
            if best.as_ref().is_none_or(|best| !best.is_valid()) {
                own.plain(format!("{whole} must validate at least one schema (anyOf)"));
            }
            best.into_iter().for_each(|best| own.merge(best));
        }
        if !schema.one_of.is_empty() {
            let (mut best, mut first): (Option<Outcome>, Option<Outcome>) = (None, None);
            let mut valid = 0;
            for part in &schema.one_of {
                let result = self.check(part, value, path, None);
                if result.is_valid() {
                    valid += 1;
                    best = None;
                    first = first.or(Some(result));
                } else if valid == 0 && best.as_ref().is_none_or(|best| result.matches > best.matches) {
                    best = Some(result);
                }
            }
            if valid == 1 {
                first.into_iter().for_each(|first| own.merge(first));
            } else {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    n => format!("Found {n} valid alternatives"),
                };
                own.plain(format!("{whole} must validate one and only one schema (oneOf). {found}"));
                best.into_iter().for_each(|best| own.merge(best));
            }
        }
        if !schema.all_of.is_empty() {
            let mut valid = 0;
            for part in &schema.all_of {
                let result = self.check(part, value, path, None);
                valid += usize::from(result.is_valid());
                own.merge(result);
            }
            if valid != schema.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                own.plain(format!("{whole} must validate all the schemas (allOf){none}"));
            }
        }
        if let Some(not) = &schema.not
            && self.check(not, value, path, None).is_valid()
        {
            own.plain(format!("{whole} must not validate the schema (not)"));
        }
        own.matches += 1;
        outcome.merge(own);
    }
}

fn check_enum(schema: &Schema, value: &Value, path: &str, outcome: &mut Outcome) {
    if schema.enumeration.is_empty() || schema.enumeration.iter().any(|allowed| converts(value, allowed)) {
        return;
    }
    let supported: Vec<String> = schema
        .enumeration
        .iter()
        .map(|allowed| allowed.as_str().map_or_else(|| go::json(allowed), str::to_owned))
        .collect();
    let message = format!("{path} in body should be one of {}", supported.join(" "));
    outcome.add(Problem {
        name: path.to_owned(),
        kind: ProblemKind::NotSupported(value.clone(), supported),
        message,
    });
}

/// Whether a value equals `allowed` after Go's possibly lossy conversion to the latter's type.
fn converts(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(allowed)) => match (value.as_i64(), allowed.as_i64()) {
            (Some(value), Some(allowed)) => value == allowed,
            (Some(value), None) => allowed.as_f64() == Some(value as f64),
            (None, Some(allowed)) => value.as_f64().is_some_and(|value| value as i64 == allowed),
            (None, None) => value.as_f64() == allowed.as_f64(),
        },
        (Value::Number(value), Value::String(allowed)) => {
            let c = value.as_i64().map(|n| {
                u32::try_from(n).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
            });
            c.is_some_and(|c| allowed.chars().eq([c]))
        }
        (value, allowed) => same(value, allowed),
    }
}

fn check_text(schema: &Schema, text: &str, path: &str, outcome: &mut Outcome) {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let name = path.to_owned();
    if let Some(max) = schema.max_length.filter(|max| length > *max) {
        let message = format!("{path} in body should be at most {max} chars long");
        return outcome.add(Problem { name, kind: ProblemKind::TooLong(max), message });
    }
    if let Some(min) = schema.min_length.filter(|min| length < *min) {
        let message = format!("{path} in body should be at least {min} chars long");
        return outcome.add(Problem { name, kind: ProblemKind::Invalid(text.into()), message });
    }
    let pattern = &schema.pattern;
    if pattern.text.is_empty() {
        return;
    }
    let why = match pattern.compiled() {
        Ok(regex) if regex.is_match(text) => return,
        Ok(_) => pattern.text.clone(),
        Err(why) => format!("{}, but pattern is invalid: {why}", pattern.text),
    };
    let message = format!("{path} in body should match '{why}'");
    outcome.add(Problem { name, kind: ProblemKind::Invalid(text.into()), message });
}

/// Whether a float is almost a whole number.
fn is_integer(number: f64) -> bool {
    const LIMIT: f64 = 9_007_199_254_740_991.0;
    if !number.is_finite() || number.abs() > LIMIT {
        return false;
    }
    let whole = number.trunc();
    if number == whole {
        return true;
    }
    number > 0.0 && whole != 0.0 && (number - whole).abs() / (number.abs() + whole.abs()) < 1e-9
}

/// Whether a number fits the schema's type and format.
fn is_in_range(number: &Value, kinds: &[&str], format: &str) -> bool {
    let float = number.as_f64().unwrap_or_default();
    match (kinds, format) {
        (["integer"], format) => {
            let whole = match number.as_i64() {
                Some(n) => Some(n),
                None if float.fract() == 0.0
                    && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float) =>
                {
                    Some(float as i64)
                }
                None => None,
            };
            whole.is_some_and(|n| format != "int32" || i32::try_from(n).is_ok())
        }
        (["number"], "float") => float.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}

fn check_number(
    kinds: &[&str],
    format: &str,
    schema: &Schema,
    value: &Value,
    path: &str,
    outcome: &mut Outcome,
) {
    let kind = match kinds {
        [kind @ ("integer" | "number")] => *kind,
        _ => "",
    };
    let format = match (kind, format) {
        ("integer", "int32" | "int64") | ("number", "float" | "double") => format,
        _ => "",
    };
    let range = |subject: &str| {
        if format.is_empty() {
            format!("{subject} value must be of type {kind} (default format) in {path}")
        } else {
            format!("{subject} value must be of type {kind} with format {format} in {path}")
        }
    };
    let mut own = Outcome::default();
    if !is_in_range(value, kinds, format) {
        own.plain(range("Checked"));
    }
    let float = value.as_f64().unwrap_or_default();
    // Limits of a different number type are compared as floats.
    let bound = |limit: Option<f64>, subject: &str, own: &mut Outcome| -> Option<Bound> {
        let limit = limit?;
        let fits = is_in_range(&Value::from(limit), kinds, format);
        if !fits {
            own.plain(range(subject));
        }
        Some(match value.as_i64().filter(|_| fits) {
            Some(number) => Bound::Integers { number, limit: limit as i64 },
            None => Bound::Floats { number: float, limit },
        })
    };
    if let Some(bound) = bound(schema.multiple_of, "MultipleOf", &mut own)
        && let Some((message, shown)) = bound.not_multiple(path)
    {
        own.add(Problem { name: path.to_owned(), kind: ProblemKind::Invalid(shown), message });
    }
    let mut exceeds = |bound: Option<Bound>,
                       broken: fn(&Bound, bool) -> bool,
                       exclusive: bool,
                       words: [&str; 2]| {
        if let Some(bound) = bound.filter(|bound| broken(bound, exclusive)) {
            let words = if exclusive { words[1] } else { words[0] };
            let message = format!("{path} in body should be {words} {}", bound.limit());
            own.add(Problem { name: path.to_owned(), kind: ProblemKind::Invalid(bound.number()), message });
        }
    };
    let mut late = Outcome::default();
    let minimum = bound(schema.minimum, "Minimum boundary", &mut late);
    exceeds(minimum, Bound::is_below, schema.exclusive_minimum, ["greater than or equal to", "greater than"]);
    let maximum = bound(schema.maximum, "Maximum boundary", &mut late);
    exceeds(maximum, Bound::is_above, schema.exclusive_maximum, ["less than or equal to", "less than"]);
    own.merge(late);
    own.matches += 1;
    outcome.merge(own);
}

/// A number and its limit, both integers or both floats.
enum Bound {
    Integers { number: i64, limit: i64 },
    Floats { number: f64, limit: f64 },
}

impl Bound {
    fn limit(&self) -> String {
        match self {
            Self::Integers { limit, .. } => limit.to_string(),
            Self::Floats { limit, .. } => go::float(*limit),
        }
    }

    fn number(&self) -> Value {
        match self {
            Self::Integers { number, .. } => (*number).into(),
            Self::Floats { number, .. } => (*number).into(),
        }
    }

    fn is_below(&self, exclusive: bool) -> bool {
        match self {
            Self::Integers { number, limit } => number < limit || (exclusive && number == limit),
            Self::Floats { number, limit } => number < limit || (exclusive && number == limit),
        }
    }

    fn is_above(&self, exclusive: bool) -> bool {
        match self {
            Self::Integers { number, limit } => number > limit || (exclusive && number == limit),
            Self::Floats { number, limit } => number > limit || (exclusive && number == limit),
        }
    }

    /// Returns the message and the value to show, unless the number is a multiple of a positive limit.
    fn not_multiple(&self, path: &str) -> Option<(String, Value)> {
        let (is_positive, is_multiple) = match self {
            Self::Integers { number, limit } => {
                (*limit > 0, *limit > 0 && number.checked_rem(*limit) == Some(0))
            }
            Self::Floats { number, limit } => {
                let quotient = if *limit < 1.0 { 1.0 / limit * number } else { number / limit };
                (*limit > 0.0, is_integer(quotient))
            }
        };
        if !is_positive {
            let message = format!("factor MultipleOf declared for {path} must be positive: {}", self.limit());
            let limit = match self {
                Self::Integers { limit, .. } => (*limit).into(),
                Self::Floats { limit, .. } => (*limit).into(),
            };
            return Some((message, limit));
        }
        let message = format!("{path} in body should be a multiple of {}", self.limit());
        (!is_multiple).then(|| (message, self.number()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_whole_up_to_what_they_can_count() {
        let limit = 9_007_199_254_740_991.0;
        for whole in [0.0, 3.0, -3.0, limit, -limit] {
            assert!(is_integer(whole), "{whole}");
        }
        for other in [0.5, 3.1, limit + 1.0, limit * 4.0, f64::INFINITY, f64::NAN] {
            assert!(!is_integer(other), "{other}");
        }
    }

    #[test]
    fn multiples_of_fractions_are_multiples() {
        let is_multiple =
            |number: f64, limit: f64| Bound::Floats { number, limit }.not_multiple("spec.a").is_none();
        assert!(is_multiple(0.3, 0.1) && is_multiple(7.0, 0.5) && is_multiple(7.5, 2.5));
        assert!(!is_multiple(0.35, 0.1) && !is_multiple(7.0, 2.5) && !is_multiple(1.0, -1.0));
    }
}
