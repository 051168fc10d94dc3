//! Validates the schemas of a definition.

use std::collections::{BTreeMap, HashSet};

use super::model::Definition;
use super::rule::{Costs, RULE_LIMIT, SCHEMA_LIMIT, check_rule, over_budget};
use crate::decl::{Decl, declare, escaped};
use crate::defaults;
use crate::fields::FieldError;
use crate::path::{child, index, key, property};
use crate::prune::is_meta;
use crate::rules::Compiled;
use crate::schema::{Dependency, Items, Schema, Shown};
use crate::structural::{self, wrong_type};

/// Schema requirements. Those that the stored definition violates are relaxed on update.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) require_schema: bool,
    pub(super) require_valid_types: bool,
    pub(super) require_pruned_defaults: bool,
    pub(super) require_atomic_sets: bool,
    pub(super) require_map_keys: bool,
    pub(super) skip_expression_cost: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            require_schema: true,
            require_valid_types: true,
            require_pruned_defaults: true,
            require_atomic_sets: true,
            require_map_keys: true,
            skip_expression_cost: false,
        }
    }
}

impl Options {
    /// Skips the requirements that the old definition violates.
    pub(super) fn for_update(old: &Definition) -> Self {
        let has = |test: fn(&Schema) -> bool| old.schemas().any(|schema| schema.has(&mut |s| test(s)));
        Self {
            require_schema: old.versions.iter().all(|version| old.schema(version).is_some()),
            require_valid_types: !has(|s| !s.kind.is_empty() && !TYPES.contains(&s.kind.as_str())),
            require_pruned_defaults: !old.schemas().any(has_unpruned_defaults),
            require_atomic_sets: !has(|s| set_of_granular(s).is_some()),
            require_map_keys: !has(|s| !map_keys(s, "").is_empty()),
            skip_expression_cost: false,
        }
    }
}

fn has_unpruned_defaults(schema: &Schema) -> bool {
    if structural::unsupported(schema).is_some() || !structural::check(schema, "").is_empty() {
        return false;
    }
    let mut pruned = schema.clone();
    defaults::prune_defaults(&mut pruned);
    pruned != *schema
}

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Validates the schema of a version.
pub(super) fn check_schema(
    schema: &Schema,
    has_status: bool,
    options: &Options,
    path: &str,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if has_status {
        check_root_fields(schema, path, &mut errors);
    }
    if schema.nullable {
        let place = child(path, "nullable");
        errors.push(FieldError::forbidden(place, "nullable cannot be true at the root"));
    }
    let mut unstructured = None;
    let mut costs = None;
    match structural::unsupported(schema) {
        Some(why) => unstructured = Some(FieldError::invalid(path, "", why)),
        None => {
            let mut found = structural::check(schema, path);
            if found.is_empty() {
                found = defaults::check(schema, path, options.require_pruned_defaults);
            }
            if found.is_empty() {
                costs = Some(Costs::default());
            }
            errors.extend(found);
        }
    }
    let mut checker = Checker { options, schema_errors: Vec::new(), rule_errors: Vec::new(), costs };
    let scope = Scope {
        forbidden_defaults: None,
        inside_meta: false,
        uncorrelated: None,
        rules: checker.costs.is_some().then_some(RuleScope { decl: None, cardinality: Some(1) }),
    };
    checker.check(schema, path, scope, true);
    let costs = checker.costs.take();
    errors.append(&mut checker.schema_errors);
    errors.append(&mut checker.rule_errors);
    if errors.is_empty() {
        errors.extend(unstructured);
    }
    if let Some(costs) = costs.filter(|costs| costs.total > SCHEMA_LIMIT) {
        for (path, _) in costs.most_expensive {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(path, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path, over_budget(what, costs.total, SCHEMA_LIMIT)));
    }
    errors
}

/// With a status subresource, the root schema may only have a limited set of fields.
fn check_root_fields(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    if !schema.id.is_empty() || !schema.schema.is_empty() || schema.reference.is_some() {
        return errors.push(not_allowed_at_root(schema, path));
    }
    if !schema.kind.is_empty() && schema.kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return errors.push(FieldError::invalid(child(path, "type"), schema.kind.as_str(), detail));
    }
    let is_beyond = schema.nullable
        || schema.default.is_some()
        || !schema.enumeration.is_empty()
        || schema.max_properties.is_some()
        || schema.min_properties.is_some()
        || !schema.all_of.is_empty()
        || !schema.one_of.is_empty()
        || !schema.any_of.is_empty()
        || schema.not.is_some()
        || schema.additional_properties.is_some()
        || !schema.pattern_properties.is_empty()
        || !schema.dependencies.is_empty()
        || schema.additional_items.is_some()
        || !schema.definitions.is_empty()
        || schema.embedded_resource
        || schema.int_or_string
        || !schema.list_map_keys.is_empty()
        || schema.list_type.is_some()
        || schema.map_type.is_some();
    if is_beyond {
        errors.push(not_allowed_at_root(schema, path));
    }
}

fn not_allowed_at_root(schema: &Schema, path: &str) -> FieldError {
    let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled";
    FieldError::invalid_shown(path, schema.shown(), detail)
}

/// Constraints inherited from the enclosing schemas.
#[derive(Clone)]
struct Scope<'a> {
    /// Why defaults are forbidden here, if they are.
    forbidden_defaults: Option<&'a str>,
    inside_meta: bool,
    /// The path of the nearest enclosing schema without correlation between old and new values.
    uncorrelated: Option<&'a str>,
    /// `None` where rules are not validated.
    rules: Option<RuleScope<'a>>,
}

/// What the validation of rules at a path needs.
#[derive(Clone, Copy)]
struct RuleScope<'a> {
    /// The CEL type of this schema, if an enclosing rule has already declared it.
    decl: Option<&'a Decl>,
    /// Maximum number of values at this path; `None` if unbounded.
    cardinality: Option<u64>,
}

struct Checker<'a> {
    options: &'a Options,
    schema_errors: Vec<FieldError>,
    rule_errors: Vec<FieldError>,
    costs: Option<Costs>,
}

impl Checker<'_> {
    fn check(&mut self, schema: &Schema, path: &str, scope: Scope<'_>, is_root: bool) {
        // Rules are validated only if this schema and everything in it are valid.
        let (known, known_rules) =
            (std::mem::take(&mut self.schema_errors), std::mem::take(&mut self.rule_errors));
        let own_decl;
        let mut scope = scope;
        if let Some(rules) = &mut scope.rules
            && rules.decl.is_none()
            && !schema.rules.is_empty()
        {
            own_decl = declare(schema, "selfType", is_root || schema.embedded_resource);
            rules.decl = own_decl.as_ref();
        }
        self.check_fields(schema, path, &scope);
        self.check_parts(schema, path, &scope, is_root);
        self.check_extensions(schema, path);
        self.check_rules(schema, path, &scope);
        let found = std::mem::replace(&mut self.schema_errors, known);
        self.schema_errors.extend(found);
        let found = std::mem::replace(&mut self.rule_errors, known_rules);
        self.rule_errors.extend(found);
    }

    fn forbid(&mut self, path: String, detail: &str) {
        self.schema_errors.push(FieldError::forbidden(path, detail));
    }

    fn check_fields(&mut self, schema: &Schema, path: &str, scope: &Scope<'_>) {
        let kind = schema.kind.as_str();
        if self.options.require_valid_types && !kind.is_empty() && !TYPES.contains(&kind) {
            self.schema_errors.push(FieldError::not_supported(child(path, "type"), kind, &TYPES));
        }
        if let (Some(reason), Some(_)) = (scope.forbidden_defaults, &schema.default) {
            self.forbid(child(path, "default"), &format!("must not be set {reason}"));
        }
        let unsupported = [
            ("id", !schema.id.is_empty()),
            ("additionalItems", schema.additional_items.is_some()),
            ("patternProperties", !schema.pattern_properties.is_empty()),
            ("definitions", !schema.definitions.is_empty()),
            ("dependencies", !schema.dependencies.is_empty()),
            ("$ref", schema.reference.is_some()),
        ];
        for (name, is_there) in unsupported {
            if is_there {
                self.forbid(child(path, name), &format!("{name} is not supported"));
            }
        }
        if kind == "null" {
            self.forbid(child(path, "type"), "type cannot be set to null, use nullable as an alternative");
        }
        if matches!(schema.items.as_ref(), Some(Items::Many(items)) if !items.is_empty()) {
            self.forbid(child(path, "items"), "items must be a schema object and not an array");
        }
        if scope.inside_meta && schema.embedded_resource {
            let place = child(path, "x-kubernetes-embedded-resource");
            self.forbid(place, "must not be used inside of resource meta");
        }
        if schema.unique_items {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(child(path, "uniqueItems"), detail);
        }
    }

    fn check_parts(&mut self, schema: &Schema, path: &str, scope: &Scope<'_>, is_root: bool) {
        let below = |decl: Option<fn(&Decl) -> Option<&Decl>>| {
            scope.rules.map(|rules| RuleScope {
                decl: rules.decl.and_then(|d| decl.and_then(|get| get(d))),
                cardinality: rules.cardinality.zip(max_elements(schema)).map(|(a, b)| a.saturating_mul(b)),
            })
        };
        fn elem(decl: &Decl) -> Option<&Decl> {
            decl.elem.as_deref()
        }
        if let Some(additional) = schema.additional_properties.as_deref() {
            let place = child(path, "additionalProperties");
            if !schema.properties.is_empty() && (!additional.allows || additional.schema.is_some()) {
                self.forbid(place.clone(), "additionalProperties and properties are mutual exclusive");
            }
            if let Some(values) = &additional.schema {
                let mut scope = Scope { rules: below(Some(elem)), ..scope.clone() };
                if scope.inside_meta {
                    scope.forbidden_defaults =
                        Some("inside additionalProperties applying to object metadata");
                }
                self.check(values, &place, scope, false);
            }
        }
        for (name, field) in &schema.properties {
            let mut scope = scope.clone();
            let is_correlated =
                schema.map_type.as_deref().is_none_or(|kind| matches!(kind, "granular" | "atomic"));
            if !is_correlated {
                scope.uncorrelated = scope.uncorrelated.or(Some(path));
            }
            let reason = format!("in top-level {name}");
            if (is_root || schema.embedded_resource) && is_meta(name) {
                scope.inside_meta = true;
                if is_root {
                    scope.forbidden_defaults = Some(&reason);
                }
            }
            scope.rules = scope.rules.map(|rules| RuleScope {
                decl: rules.decl.and_then(|decl| decl.fields.get(&escaped(name)?)),
                cardinality: rules.cardinality.zip(max_elements(schema)).map(|(a, b)| a.saturating_mul(b)),
            });
            self.check(field, &property(path, name), scope, false);
        }
        let plain = Scope { rules: None, ..scope.clone() };
        if let Some(not) = &schema.not {
            self.check(not, &child(path, "not"), plain.clone(), false);
        }
        for (name, parts) in [("allOf", &schema.all_of), ("oneOf", &schema.one_of), ("anyOf", &schema.any_of)]
        {
            for (i, part) in parts.iter().enumerate() {
                self.check(part, &index(&child(path, name), i), plain.clone(), false);
            }
        }
        self.check_named(&schema.definitions, &child(path, "definitions"), &plain);
        if let Some(items) = schema.items.as_ref() {
            let mut scope = Scope { rules: below(Some(elem)), ..scope.clone() };
            if !schema.is_list_map() {
                scope.uncorrelated = scope.uncorrelated.or(Some(path));
            }
            let place = child(path, "items");
            match items {
                Items::One(item) => self.check(item, &place, scope, false),
                Items::Many(items) => {
                    for (i, item) in items.iter().enumerate() {
                        self.check(item, &index(&place, i), scope.clone(), false);
                    }
                }
            }
        }
        for (name, dependency) in &schema.dependencies {
            if let Dependency::Schema(part) = dependency {
                self.check(part, &key(&child(path, "dependencies"), name), plain.clone(), false);
            }
        }
    }

    fn check_named(&mut self, schemas: &BTreeMap<String, Schema>, path: &str, scope: &Scope<'_>) {
        for (name, schema) in schemas {
            self.check(schema, &key(path, name), scope.clone(), false);
        }
    }

    fn check_extensions(&mut self, schema: &Schema, path: &str) {
        let kind = schema.kind.as_str();
        let type_path = child(path, "type");
        if schema.preserve_unknown == Some(false) {
            let place = child(path, "x-kubernetes-preserve-unknown-fields");
            self.schema_errors.push(FieldError::invalid(place, false, "must be true or undefined"));
        }
        if let Some(map_type) = &schema.map_type {
            if kind != "object" {
                let detail = "must be object if x-kubernetes-map-type is specified";
                self.schema_errors.push(wrong_type(&type_path, kind, detail));
            }
            let accepted = ["atomic", "granular"];
            if !accepted.contains(&map_type.as_str()) {
                let place = child(path, "x-kubernetes-map-type");
                self.schema_errors.push(FieldError::not_supported(place, map_type.as_str(), &accepted));
            }
        }
        if schema.list_type.is_some() && kind != "array" {
            let detail = "must be array if x-kubernetes-list-type is specified";
            self.schema_errors.push(wrong_type(&type_path, kind, detail));
        } else if self.options.require_atomic_sets
            && let Some((name, shown)) = set_of_granular(schema)
        {
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let place = child(&child(path, "items"), name);
            self.schema_errors.push(FieldError::invalid(place, shown, detail));
        }
        self.check_list_type(schema, path);
        if self.options.require_map_keys {
            self.schema_errors.extend(map_keys(schema, path));
        }
    }

    fn check_list_type(&mut self, schema: &Schema, path: &str) {
        let errors = &mut self.schema_errors;
        let type_path = child(path, "x-kubernetes-list-type");
        let accepted = ["atomic", "set", "map"];
        if let Some(list_type) = schema.list_type.as_deref().filter(|kind| !accepted.contains(kind)) {
            errors.push(FieldError::not_supported(type_path.as_str(), list_type, &accepted));
        }
        if !schema.list_map_keys.is_empty() && !schema.is_list_map() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.push(wrong_type(&type_path, schema.list_type.as_deref().unwrap_or_default(), detail));
        }
        if !schema.is_list_map() {
            return;
        }
        let keys_path = child(path, "x-kubernetes-list-map-keys");
        let items_path = child(path, "items");
        if schema.list_map_keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(keys_path.as_str(), detail));
        }
        let item = match schema.items.as_ref() {
            None => {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                return errors.push(FieldError::required(items_path, detail));
            }
            Some(items @ Items::Many(_)) => {
                let mut shown = String::new();
                Shown(&mut shown).items(items);
                let detail = "must only have a single schema if x-kubernetes-list-type is map";
                return errors.push(FieldError::invalid_shown(items_path, shown, detail));
            }
            Some(Items::One(item)) => item,
        };
        if item.kind != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            return errors.push(FieldError::invalid(child(&items_path, "type"), item.kind.as_str(), detail));
        }
        let shown = crate::go::json(&serde_json::json!(schema.list_map_keys));
        let mut seen = HashSet::new();
        for name in &schema.list_map_keys {
            match item.properties.get(name) {
                Some(field) if matches!(field.kind.as_str(), "array" | "object") => {
                    let place = child(&property(&items_path, name), "type");
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    errors.push(FieldError::invalid(place, item.kind.as_str(), detail));
                }
                Some(_) => {}
                None => {
                    let detail = "entries must all be names of item properties";
                    errors.push(FieldError::invalid_shown(keys_path.as_str(), shown.as_str(), detail));
                }
            }
            if !seen.insert(name) {
                let detail = "must not contain duplicate entries";
                errors.push(FieldError::invalid_shown(keys_path.as_str(), shown.as_str(), detail));
            }
        }
    }

    fn check_rules(&mut self, schema: &Schema, path: &str, scope: &Scope<'_>) {
        if schema.rules.is_empty() {
            return;
        }
        let rules_path = child(path, "x-kubernetes-validations");
        for (i, rule) in schema.rules.iter().enumerate() {
            check_rule(rule, schema, &index(&rules_path, i), &mut self.schema_errors);
        }
        let (Some(rules), true) = (scope.rules, self.schema_errors.is_empty()) else { return };
        let Some(decl) = rules.decl else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.rule_errors.push(FieldError::internal(rules_path, detail));
            return;
        };
        for (i, rule) in schema.rules.iter().enumerate() {
            let place = index(&rules_path, i);
            let rule_path = child(&place, "rule");
            let compiled = match Compiled::new(rule, schema, decl) {
                Ok(compiled) => Some(compiled),
                Err(why) => {
                    self.rule_errors.push(FieldError::invalid_shown(rule_path.as_str(), rule.shown(), why));
                    None
                }
            };
            let Some(compiled) = compiled else {
                if let Some(optional) = rule.optional_old_self {
                    self.complain_optional(&place, optional);
                }
                continue;
            };
            self.check_costs(&compiled, decl, rules, &place);
            if let Some(why) = &compiled.message_error {
                let place = child(&place, "messageExpression");
                self.rule_errors.push(FieldError::invalid_shown(place, rule.shown(), why.as_str()));
            }
            if compiled.uses_old {
                if let Some(around) = scope.uncorrelated {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {around}"
                    );
                    self.rule_errors.push(FieldError::invalid(rule_path, rule.rule.as_str(), detail));
                }
            } else if let Some(optional) = rule.optional_old_self {
                self.complain_optional(&place, optional);
            }
        }
    }

    fn complain_optional(&mut self, path: &str, optional: bool) {
        let detail = "may not be set if oldSelf is not used in rule";
        self.rule_errors.push(FieldError::invalid(child(path, "optionalOldSelf"), optional, detail));
    }

    fn check_costs(&mut self, compiled: &Compiled, decl: &Decl, rules: RuleScope<'_>, path: &str) {
        let times = rules.cardinality.unwrap_or_else(|| decl.max_cardinality());
        let cost = compiled.program.estimate(decl).max.saturating_mul(times);
        let rule_path = child(path, "rule");
        let is_limited = !self.options.skip_expression_cost;
        if is_limited && cost > RULE_LIMIT {
            let detail = over_budget("estimated rule cost", cost, RULE_LIMIT);
            self.rule_errors.push(FieldError::forbidden(rule_path.as_str(), detail));
        }
        if let Some(costs) = &mut self.costs {
            costs.add(rule_path, cost);
        }
        let Some(message) = &compiled.message else { return };
        let cost = message.estimate(decl).max;
        let message_path = child(path, "messageExpression");
        if is_limited && cost > RULE_LIMIT {
            let detail = over_budget("estimated messageExpression cost", cost, RULE_LIMIT);
            self.rule_errors.push(FieldError::forbidden(message_path.as_str(), detail));
        }
        if let Some(costs) = &mut self.costs {
            costs.add(message_path, cost);
        }
    }
}

/// Returns the maximum number of elements of a value; `None` if unbounded.
fn max_elements(schema: &Schema) -> Option<u64> {
    let limit = |max: Option<i64>| max.map(|max| max.max(0).unsigned_abs());
    match schema.kind.as_str() {
        "object" if schema.additional_properties.is_some() => limit(schema.max_properties),
        "array" => limit(schema.max_items),
        _ => Some(1),
    }
}

/// Returns the list or map type that makes the items of a set non-atomic, with the value to show.
fn set_of_granular(schema: &Schema) -> Option<(&'static str, serde_json::Value)> {
    if schema.list_type.as_deref() != Some("set") {
        return None;
    }
    let item = schema.item()?;
    let shown = || item.list_type.as_deref().map_or(serde_json::Value::Null, Into::into);
    match item.kind.as_str() {
        "array" if item.list_type.as_deref().is_some_and(|kind| kind != "atomic") => {
            Some(("x-kubernetes-list-type", shown()))
        }
        "object" if item.map_type.as_deref() != Some("atomic") => Some(("x-kubernetes-map-type", shown())),
        _ => None,
    }
}

/// Validates that items of sets and maps are not nullable and that map keys are required or defaulted.
fn map_keys(schema: &Schema, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(item) = schema.item() else { return errors };
    let Some(list_type @ ("set" | "map")) = schema.list_type.as_deref() else { return errors };
    let items_path = child(path, "items");
    if item.nullable {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(child(&items_path, "nullable"), detail));
    }
    if list_type != "map" {
        return errors;
    }
    for name in &schema.list_map_keys {
        let Some(field) = item.properties.get(name) else { continue };
        let place = property(&items_path, name);
        if !item.required.contains(name) && field.default.is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(child(&place, "default"), detail));
        }
        if field.nullable {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(child(&place, "nullable"), detail));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_of_sets_are_not_merged() {
        let field = |item: serde_json::Value, list: &str| {
            let schema = json!({"type": "array", "x-kubernetes-list-type": list, "items": item});
            set_of_granular(&Schema::parse(&schema)).map(|(name, _)| name)
        };
        assert_eq!(field(json!({"type": "string"}), "set"), None);
        assert_eq!(field(json!({"type": "object"}), "set"), Some("x-kubernetes-map-type"));
        assert_eq!(field(json!({"type": "object", "x-kubernetes-map-type": "atomic"}), "set"), None);
        assert_eq!(field(json!({"type": "object"}), "atomic"), None);
        let list = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
        assert_eq!(field(list, "set"), Some("x-kubernetes-list-type"));
    }

    #[test]
    fn defaults_that_pruning_would_change_are_told() {
        let unpruned = |schema: serde_json::Value| has_unpruned_defaults(&Schema::parse(&schema));
        let with_default = |default: serde_json::Value| {
            json!({"type": "object", "properties": {
                "size": {"type": "object", "default": default, "properties": {"height": {"type": "integer"}}},
            }})
        };
        assert!(!unpruned(with_default(json!({"height": 1}))));
        assert!(unpruned(with_default(json!({"height": 1, "depth": 2}))));
        // An untyped field makes the schema non-structural, so nothing is pruned.
        let mut untyped = with_default(json!({"depth": 2}));
        untyped["properties"]["size"]["properties"]["height"] = json!({});
        assert!(!unpruned(untyped));
    }

    #[test]
    fn the_root_beside_a_status_describes_an_object_and_no_more() {
        let complaints = |schema: serde_json::Value| {
            let mut errors = Vec::new();
            check_root_fields(&Schema::parse(&schema), "root", &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let allowed = json!({
            "type": "object", "description": "A shop.", "title": "Shop", "format": "", "required": ["spec"],
            "properties": {"spec": {"type": "object"}}, "maximum": 1, "pattern": "a", "minLength": 1,
            "x-kubernetes-preserve-unknown-fields": true,
        });
        assert_eq!(complaints(allowed), [""; 0]);
        assert_eq!(complaints(json!({})), [""; 0]);
        let beyond = [
            ("id", json!("a")),
            ("$schema", json!("a")),
            ("$ref", json!("a")),
            ("nullable", json!(true)),
            ("default", json!({})),
            ("enum", json!([{}])),
            ("maxProperties", json!(1)),
            ("minProperties", json!(1)),
            ("allOf", json!([{}])),
            ("oneOf", json!([{}])),
            ("anyOf", json!([{}])),
            ("not", json!({})),
            ("additionalProperties", json!(true)),
            ("patternProperties", json!({"a": {}})),
            ("dependencies", json!({"a": ["b"]})),
            ("additionalItems", json!(true)),
            ("definitions", json!({"a": {}})),
            ("x-kubernetes-embedded-resource", json!(true)),
            ("x-kubernetes-int-or-string", json!(true)),
            ("x-kubernetes-list-map-keys", json!(["a"])),
            ("x-kubernetes-list-type", json!("map")),
            ("x-kubernetes-map-type", json!("atomic")),
        ];
        for (field, value) in beyond {
            let found = complaints(json!({"type": "object", field: value}));
            assert_eq!(found.len(), 1, "{field}: {found:?}");
        }
        let found = complaints(json!({"type": "string"}));
        assert!(found.len() == 1 && found[0].contains("only \"object\" is allowed"), "{found:?}");
    }
}
