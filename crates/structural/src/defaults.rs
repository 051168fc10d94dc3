//! Validates the defaults in a schema against the schema itself.

use serde_json::{Map, Value};

use crate::fields::FieldError;
use crate::meta::{self, InvalidMetadataPolicy};
use crate::path::{child, property};
use crate::prune::{self, is_meta};
use crate::rules::{OBJECT_LIMIT, Ratchet, RuleTarget, Rules, Run};
use crate::schema::{Items, Schema};
use crate::validate::{self, Subject};

/// A step of the path from the enclosing resource to a default.
#[derive(Clone)]
enum Step {
    Field(String),
    Item,
}

/// Returns the defaults that violate the schema.
pub(crate) fn check(schema: &Schema, path: &str, require_pruned: bool) -> Vec<FieldError> {
    let mut checker = Checker { errors: Vec::new(), budget: OBJECT_LIMIT, require_pruned };
    checker.check(schema, path, true, schema, &mut Vec::new(), false);
    checker.errors
}

struct Checker {
    errors: Vec<FieldError>,
    budget: i64,
    require_pruned: bool,
}

impl Checker {
    fn check(
        &mut self,
        schema: &Schema,
        path: &str,
        is_root: bool,
        resource: &Schema,
        steps: &mut Vec<Step>,
        inside_meta: bool,
    ) {
        let is_resource = is_root || schema.embedded_resource;
        if is_resource && !(is_root && steps.is_empty()) {
            // Inside an embedded resource, paths start at that resource.
            return self.within(schema, path, schema, &mut Vec::new(), false, true);
        }
        self.within(schema, path, resource, steps, inside_meta, is_resource);
    }

    fn within(
        &mut self,
        schema: &Schema,
        path: &str,
        resource: &Schema,
        steps: &mut Vec<Step>,
        inside_meta: bool,
        is_resource: bool,
    ) {
        if let Some(default) = &schema.default {
            self.judge(schema, default, &child(path, "default"), resource, steps, inside_meta, is_resource);
        }
        if self.budget < 0 {
            return;
        }
        if let Some(item) = schema.item() {
            steps.push(Step::Item);
            self.check(item, &child(path, "items"), false, resource, steps, inside_meta);
            steps.pop();
        }
        for (name, field) in &schema.properties {
            if self.budget < 0 {
                return;
            }
            steps.push(Step::Field(name.clone()));
            let inside_meta = inside_meta || (is_resource && is_meta(name));
            self.check(field, &property(path, name), false, resource, steps, inside_meta);
            steps.pop();
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a default, its place, and what surrounds it")]
    fn judge(
        &mut self,
        schema: &Schema,
        default: &Value,
        path: &str,
        resource: &Schema,
        steps: &[Step],
        inside_meta: bool,
        is_resource: bool,
    ) {
        if inside_meta {
            let mut object = surrounded(default.clone(), steps);
            let complaint = match meta::coerce(
                &mut object,
                resource,
                "",
                true,
                InvalidMetadataPolicy::Refuse,
                &mut Vec::new(),
            ) {
                Err(error) => Some(error.to_string()),
                Ok(()) => {
                    let mut errors = Vec::new();
                    meta::check_embedded(&object, resource, "", true, &mut errors);
                    match errors.as_slice() {
                        [] => None,
                        [only] => Some(only.to_string()),
                        many => {
                            let texts: Vec<String> = many.iter().map(ToString::to_string).collect();
                            Some(format!("[{}]", texts.join(", ")))
                        }
                    }
                }
            };
            if let Some(why) = complaint {
                let detail = format!("must result in valid metadata: {why}");
                self.errors.push(FieldError::invalid(path, default.clone(), detail));
                return;
            }
        } else {
            let mut pruned = default.clone();
            prune::prune(&mut pruned, schema, is_resource);
            let is_pruned = pruned == *default;
            let mut coerced = default.clone();
            let outcome = meta::coerce(
                &mut coerced,
                schema,
                path,
                is_resource,
                InvalidMetadataPolicy::Refuse,
                &mut Vec::new(),
            );
            if self.require_pruned && !is_pruned {
                self.errors.push(FieldError::invalid(path, coerced.clone(), "must not have unknown fields"));
            }
            if let Err(error) = outcome {
                self.errors.push(error);
                return;
            }
            let before = self.errors.len();
            meta::check_embedded(&coerced, schema, path, is_resource, &mut self.errors);
            if self.errors.len() > before {
                return;
            }
        }
        let before = self.errors.len();
        validate::check(schema, default, None, Subject::Default, path, &mut self.errors);
        if self.errors.len() > before {
            return;
        }
        let Some(rules) = Rules::compile(schema, is_resource) else { return };
        let mut spent = self.budget;
        for old in [Some(default), None] {
            let mut run = Run::new(self.budget);
            let at = RuleTarget {
                value: default,
                old,
                schema,
                path: path.to_owned(),
                is_resource,
                ratchet: Ratchet::default(),
            };
            rules.check(&mut run, at);
            spent = spent.min(run.budget);
            let failed = !run.errors.is_empty();
            self.errors.append(&mut run.errors);
            if failed {
                break;
            }
        }
        self.budget = spent;
    }
}

/// Wraps a value in a resource, at the path given by `steps`.
fn surrounded(value: Value, steps: &[Step]) -> Value {
    let mut object = steps.iter().rev().fold(value, |value, step| match step {
        Step::Field(name) => Value::Object(Map::from_iter([(name.clone(), value)])),
        Step::Item => Value::Array(vec![value]),
    });
    if let Some(map) = object.as_object_mut() {
        map.entry("kind").or_insert_with(|| "Validation".into());
        map.entry("apiVersion").or_insert_with(|| "validation/v1".into());
    }
    object
}

/// Prunes unknown fields from the schema's defaults.
pub(crate) fn prune_defaults(schema: &mut Schema) {
    let mut pruned = schema.clone();
    prune_within(&mut pruned, schema);
    *schema = pruned;
}

fn prune_within(schema: &mut Schema, original: &Schema) {
    if let Some(default) = &mut schema.default {
        let is_resource = original.embedded_resource;
        let _ =
            meta::coerce(default, original, "", is_resource, InvalidMetadataPolicy::Drop, &mut Vec::new());
        prune::prune(default, original, is_resource);
    }
    if let (Some(items), Some(original)) = (schema.items.as_mut(), original.item())
        && let Items::One(item) = items
    {
        prune_within(item, original);
    }
    for (name, field) in &mut schema.properties {
        if let Some(original) = original.properties.get(name) {
            prune_within(field, original);
        }
    }
}
