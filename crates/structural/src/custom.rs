//! Custom resources of one version: decoding, pruning, defaulting and validation.

use serde_json::Value;

use crate::correlate::Pair;
use crate::default;
use crate::fields::{FieldError, FieldErrorKind};
use crate::lists;
use crate::meta::{self, InvalidMetadataPolicy};
use crate::path::shown;
use crate::prune;
use crate::rules::{OBJECT_LIMIT, Ratchet, RuleTarget, Rules, Run};
use crate::schema::Schema;
use crate::validate::{self, Subject};

/// The result of validating an update.
#[derive(Debug, Default)]
pub struct UpdateErrors {
    /// The violations.
    pub errors: Vec<FieldError>,
    /// Rule violations that the old object already had (ratcheting); worth a warning.
    pub tolerated: Vec<FieldError>,
}

/// The compiled schema of one version of a definition.
#[derive(Debug)]
pub struct CustomSchema {
    schema: Schema,
    rules: Option<Rules>,
}

impl CustomSchema {
    /// Parses a schema and compiles its rules.
    #[must_use]
    pub fn new(schema: &Value) -> Self {
        let mut schema = Schema::parse(schema);
        let rules = Rules::compile(&schema, true);
        crate::defaults::prune_defaults(&mut schema);
        Self { schema, rules }
    }

    /// Decodes a custom resource: normalizes metadata, prunes unknown fields, drops misplaced nulls.
    ///
    /// Returns the paths of the unknown fields.
    ///
    /// # Errors
    /// If metadata has a field of the wrong type, with the error text of Go's decoder.
    pub fn decode(&self, object: &mut Value) -> Result<Vec<String>, String> {
        let mut unknown = Vec::new();
        if let Some(metadata) = object.get("metadata") {
            let decoded = meta::decode(metadata, "metadata", &mut unknown)?;
            if let Some(root) = object.as_object_mut() {
                root.insert("metadata".into(), decoded);
            }
        }
        unknown.extend(prune::prune(object, &self.schema, true));
        default::drop_nulls(object, Some(&self.schema));
        let mut embedded = Vec::new();
        meta::coerce(object, &self.schema, "", false, InvalidMetadataPolicy::Refuse, &mut embedded)
            .map_err(|error| error.to_string())?;
        embedded.sort_unstable();
        unknown.extend(embedded);
        Ok(unknown)
    }

    /// Removes fields unknown to the schema. Metadata is left unchanged.
    pub fn prune(&self, object: &mut Value) {
        prune::prune(object, &self.schema, true);
    }

    /// Applies the schema's defaults.
    pub fn default(&self, object: &mut Value) {
        default::fill(object, &self.schema);
    }

    /// Validates a new object, except for its own metadata.
    #[must_use]
    pub fn check(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        validate::check(&self.schema, object, None, Subject::Object, "", &mut errors);
        meta::check_embedded(object, &self.schema, "", false, &mut errors);
        lists::check(object, &self.schema, "", &mut errors);
        self.check_rules(object, None, &mut errors);
        errors
    }

    /// Validates an update, except for the object's own metadata.
    /// Unchanged values need not be valid (ratcheting).
    ///
    /// ```
    /// use serde_json::json;
    /// use steersman_structural::CustomSchema;
    ///
    /// let schema = CustomSchema::new(&json!({"type": "object", "properties": {
    ///     "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]},
    /// }}));
    /// let problems = schema.check_update(&json!({"size": 2}), &json!({"size": 1}));
    /// assert_eq!(problems.errors[0].to_string(), "size: Invalid value: 2: immutable");
    /// ```
    #[must_use]
    pub fn check_update(&self, object: &Value, old: &Value) -> UpdateErrors {
        let mut errors = Vec::new();
        let pair = Pair { new: object, old, schema: &self.schema };
        validate::check(&self.schema, object, Some(pair), Subject::Object, "", &mut errors);
        meta::check_embedded(object, &self.schema, "", false, &mut errors);
        self.check_lists(object, old, &mut errors);
        let tolerated = self.check_rules(object, Some(old), &mut errors);
        UpdateErrors { errors, tolerated }
    }

    /// Validates an update of the status.
    #[must_use]
    pub fn check_status(&self, object: &Value, old: &Value) -> UpdateErrors {
        let mut errors = Vec::new();
        let whole = Pair { new: object, old, schema: &self.schema };
        if let (Some(status), Some(schema)) = (object.get("status"), self.schema.properties.get("status")) {
            let pair = whole.key("status");
            validate::check(schema, status, pair, Subject::Object, "status", &mut errors);
        }
        self.check_lists(object, old, &mut errors);
        let tolerated = self.check_rules(object, Some(old), &mut errors);
        UpdateErrors { errors, tolerated }
    }

    fn check_lists(&self, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        let mut before = Vec::new();
        lists::check(old, &self.schema, "", &mut before);
        if before.is_empty() {
            lists::check(object, &self.schema, "", errors);
        }
    }

    /// Runs the validation rules and returns the ratcheted violations.
    fn check_rules(
        &self,
        object: &Value,
        old: Option<&Value>,
        errors: &mut Vec<FieldError>,
    ) -> Vec<FieldError> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let is_blocked = errors.iter().any(|error| {
            matches!(
                error.kind,
                FieldErrorKind::NotSupported(..)
                    | FieldErrorKind::Required
                    | FieldErrorKind::TooLong(_)
                    | FieldErrorKind::TooMany(..)
                    | FieldErrorKind::TypeInvalid(_)
            )
        });
        if is_blocked {
            let detail = "some validation rules were not checked because the object was invalid; \
                          correct the existing errors to complete validation";
            errors.push(FieldError::invalid(shown(""), Value::Null, detail));
            return Vec::new();
        }
        let mut run = self.run(rules, object, old);
        errors.append(&mut run.errors);
        run.tolerated
    }

    fn run(&self, rules: &Rules, object: &Value, old: Option<&Value>) -> Run {
        let mut run = Run::new(OBJECT_LIMIT);
        let pair = old.map(|old| Pair { new: object, old, schema: &self.schema });
        let ratchet = Ratchet::new(pair);
        let (schema, path) = (&self.schema, String::new());
        rules.check(&mut run, RuleTarget { value: object, old, schema, path, is_resource: true, ratchet });
        run
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_wrong_before_is_tolerated() {
        let schema = CustomSchema::new(&json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"n": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.n > 0", "message": "too small"}]},
            "b": {"type": "string", "maxLength": 2},
        }}));
        let old = json!({"a": {"n": 0}, "b": "x"});
        let said = |object: &Value, of: fn(&UpdateErrors) -> &Vec<FieldError>| {
            let judged = schema.check_update(object, &old);
            of(&judged).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let same = json!({"a": {"n": 0}, "b": "y"});
        assert_eq!(said(&same, |judged| &judged.errors), [""; 0]);
        assert_eq!(said(&same, |judged| &judged.tolerated).len(), 1);
        let other = json!({"a": {"n": -1}, "b": "x"});
        assert_eq!(said(&other, |judged| &judged.errors).len(), 1);
        assert_eq!(said(&other, |judged| &judged.tolerated), [""; 0]);
        // Rules do not run on values that failed schema validation.
        let blocked = json!({"a": {"n": 0}, "b": "long"});
        assert_eq!(said(&blocked, |judged| &judged.errors).len(), 2);
        assert_eq!(said(&blocked, |judged| &judged.tolerated), [""; 0]);
    }

    #[test]
    fn what_was_wrong_before_in_an_item_of_a_list_is_tolerated() {
        let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["name"], "x-kubernetes-validations": [{"rule": "self.n > 0"}]});
        let schema = CustomSchema::new(&json!({"type": "object", "properties": {"items": {
            "type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        }}}));
        let one = |n: i64| json!({"name": "one", "n": n});
        let old = json!({"items": [one(0)]});
        let counts = |items: Value| {
            let judged = schema.check_update(&json!({"items": items}), &old);
            (judged.errors.len(), judged.tolerated.len())
        };
        assert_eq!(counts(json!([{"name": "two", "n": 1}, one(0)])), (0, 1));
        assert_eq!(counts(json!([{"name": "two", "n": 1}, one(-1)])), (1, 0));
    }
}
