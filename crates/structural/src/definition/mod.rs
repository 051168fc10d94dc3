//! Validates custom resource definitions.

mod approval;
mod conversion;
mod model;
mod rule;
mod schema;

use std::collections::HashSet;

use serde_json::Value;
use steersman_formats::names;
use steersman_gostd::unicode;

pub use self::approval::approval_condition;
use self::approval::check_approval;
use self::conversion::check_conversion;
pub use self::conversion::check_webhook_client;
use self::model::{Column, Common, Definition, Names, Scale, Subresources, Version, shown_texts};
use self::schema::{Options, check_schema};
use crate::field_path;
use crate::fields::FieldError;
use crate::path::{child, index};
use crate::schema::Schema;
use crate::structural;

/// Validates a new definition, except for the generic rules of its metadata.
///
/// ```
/// use serde_json::json;
/// use steersman_structural::definition;
///
/// let mut widgets = json!({
///     "metadata": {"name": "widgets.example.com"},
///     "spec": {
///         "group": "example.com",
///         "scope": "Namespaced",
///         "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
///         "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
///         "conversion": {"strategy": "None"},
///     },
///     "status": {"storedVersions": ["v1"]},
/// });
/// assert!(definition::check(&widgets).is_empty());
/// widgets["metadata"]["name"] = json!("gadgets.example.com");
/// assert_eq!(definition::check(&widgets)[0].field, "metadata.name");
/// ```
#[must_use]
pub fn check(definition: &Value) -> Vec<FieldError> {
    let definition = Definition::parse(definition);
    let mut errors = Vec::new();
    if definition.name != format!("{}.{}", definition.names.plural, definition.group) {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", definition.name.as_str(), detail));
    }
    let checker = Checker { definition: &definition, old: None, options: Options::default() };
    checker.check(&mut errors);
    check_approval(&definition, None, &mut errors);
    check_preserve_unknown(&definition, None, &mut errors);
    errors
}

/// Validates an update of a definition, except for the generic rules of its metadata.
#[must_use]
pub fn check_update(definition: &Value, old: &Value) -> Vec<FieldError> {
    let (definition, old) = (Definition::parse(definition), Definition::parse(old));
    let mut errors = Vec::new();
    let checker = Checker { definition: &definition, old: Some(&old), options: Options::for_update(&old) };
    checker.check(&mut errors);
    let mut immutable = |path: &str, new: &str, old: &str| {
        if new != old {
            errors.push(FieldError::invalid(path, new, "field is immutable"));
        }
    };
    if old.is_established {
        immutable("spec.scope", &definition.scope, &old.scope);
        immutable("spec.names.kind", &definition.names.kind, &old.names.kind);
    }
    immutable("spec.group", &definition.group, &old.group);
    immutable("spec.names.plural", &definition.names.plural, &old.names.plural);
    check_status_of(&definition, &mut errors);
    check_approval(&definition, Some(&old), &mut errors);
    check_preserve_unknown(&definition, Some(&old), &mut errors);
    errors
}

/// Validates the status of a definition.
#[must_use]
pub fn check_status(definition: &Value) -> Vec<FieldError> {
    let definition = Definition::parse(definition);
    let mut errors = Vec::new();
    check_names(&definition.accepted_names, "status.acceptedNames", &mut errors);
    errors
}

/// Returns the schema formats that the server does not validate, in schema order.
#[must_use]
pub fn unrecognized_formats(definition: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for schema in Definition::parse(definition).schemas() {
        schema.has(&mut |schema| {
            if !schema.format.is_empty() && !steersman_formats::is_known(&schema.kind, &schema.format) {
                found.push(schema.format.clone());
            }
            false
        });
    }
    found
}

/// Returns the violations that make the schemas of a definition non-structural.
#[must_use]
pub fn non_structural(definition: &Value) -> Vec<FieldError> {
    let definition = Definition::parse(definition);
    let mut errors = Vec::new();
    let mut one = |schema: Option<&Schema>, path: &str| {
        let Some(schema) = schema else { return };
        match structural::unsupported(schema) {
            Some(why) => errors.push(FieldError::invalid(path, "", why)),
            None => errors.extend(structural::check(schema, path)),
        }
    };
    one(definition.common_schema(), "spec.validation.openAPIV3Schema");
    for (i, version) in definition.versions.iter().enumerate() {
        let own = version.own.schema.as_ref().and_then(Option::as_ref);
        one(own, &format!("spec.versions[{i}].schema.openAPIV3Schema"));
    }
    errors
}

struct Checker<'a> {
    definition: &'a Definition,
    old: Option<&'a Definition>,
    options: Options,
}

impl Checker<'_> {
    fn check(&self, errors: &mut Vec<FieldError>) {
        let definition = self.definition;
        check_group(&definition.group, errors);
        let scopes = ["Cluster", "Namespaced"];
        check_word("spec.scope", &definition.scope, &scopes, errors);
        if self.options.require_schema && definition.common_schema().is_none() {
            for (i, version) in definition.versions.iter().enumerate() {
                if definition.schema(version).is_none() {
                    let path = format!("spec.versions[{i}].schema.openAPIV3Schema");
                    errors.push(FieldError::required(path, ""));
                }
            }
        }
        for (i, version) in definition.versions.iter().enumerate() {
            self.check_version(version, &format!("spec.versions[{i}]"), errors);
        }
        self.check_versions(errors);
        for (name, value) in [
            ("plural", &definition.names.plural),
            ("singular", &definition.names.singular),
            ("kind", &definition.names.kind),
            ("listKind", &definition.names.list_kind),
        ] {
            if value.is_empty() {
                errors.push(FieldError::required(format!("spec.names.{name}"), ""));
            }
        }
        check_names(&definition.names, "spec.names", errors);
        let is_any_status = |common: &Common| common.subresources.as_ref().is_some_and(|s| s.status);
        let has_status =
            is_any_status(&definition.common) || definition.versions.iter().any(|v| is_any_status(&v.own));
        let first = definition.versions.first().map_or("", |v| v.name.as_str());
        self.check_validation(&definition.common, first, has_status, "spec.validation", errors);
        if let Some(subresources) = &definition.common.subresources {
            check_subresources(subresources, "spec.subresources", errors);
        }
        for (i, column) in definition.common.columns.iter().enumerate() {
            check_column(column, &format!("spec.additionalPrinterColumns[{i}]"), errors);
        }
        if !definition.common.selectable.is_empty() {
            match &definition.common.schema {
                None => errors.push(FieldError::invalid(
                    "spec.selectableFields",
                    "",
                    "may only be set when validations.schema is included",
                )),
                Some(schema) => {
                    let schema = schema.as_ref();
                    self.check_selectable(
                        &definition.common.selectable,
                        schema,
                        "spec.selectableFields",
                        "",
                        errors,
                    );
                }
            }
        }
        if let Some(conversion) = &definition.conversion {
            if conversion.strategy != "None" && definition.preserve_unknown {
                let detail = "must be None if spec.preserveUnknownFields is true";
                let path = "spec.conversion.strategy";
                errors.push(FieldError::invalid(path, conversion.strategy.as_str(), detail));
            }
            let old = self.old.and_then(|old| old.conversion.as_ref());
            check_conversion(conversion, old, "spec.conversion", errors);
        }
        if self.old.is_none() {
            check_status_of(definition, errors);
        }
    }

    fn check_version(&self, version: &Version, path: &str, errors: &mut Vec<FieldError>) {
        let complaints = names::label_1035(&version.name);
        if !complaints.is_empty() {
            errors.push(FieldError::invalid(
                child(path, "name"),
                version.name.as_str(),
                complaints.join(","),
            ));
        }
        for complaint in deprecation_complaints(version) {
            let place = child(path, "deprecationWarning");
            match &version.deprecation_warning {
                Some(warning) => errors.push(FieldError::invalid(place, warning.as_str(), complaint)),
                None => errors.push(FieldError::invalid(place, Value::Null, complaint)),
            }
        }
        let definition = self.definition;
        let is_per_version = definition.versions.iter().any(|v| v.own.subresources.is_some());
        let subresources =
            if is_per_version { &version.own.subresources } else { &definition.common.subresources };
        let has_status = subresources.as_ref().is_some_and(|s| s.status);
        self.check_validation(&version.own, &version.name, has_status, &child(path, "schema"), errors);
        if let Some(subresources) = &version.own.subresources {
            check_subresources(subresources, &child(path, "subresources"), errors);
        }
        for (i, column) in version.own.columns.iter().enumerate() {
            check_column(column, &index(&child(path, "additionalPrinterColumns"), i), errors);
        }
        if !version.own.selectable.is_empty() {
            let place = child(path, "selectableFields");
            match version.own.schema.as_ref().and_then(Option::as_ref) {
                None => errors.push(FieldError::invalid(
                    place,
                    "",
                    "may only be set when `version.schema.openAPIV3Schema` is not included",
                )),
                schema => {
                    self.check_selectable(&version.own.selectable, schema, &place, &version.name, errors);
                }
            }
        }
    }

    fn check_validation(
        &self,
        common: &Common,
        version: &str,
        has_status: bool,
        path: &str,
        errors: &mut Vec<FieldError>,
    ) {
        let Some(schema) = common.schema.as_ref().and_then(Option::as_ref) else { return };
        let definition = self.definition;
        let is_unchanged = self.old.is_some_and(|old| {
            let new = definition.versions.iter().find(|v| v.name == version);
            let before = old.versions.iter().find(|v| v.name == version);
            match (new, before) {
                (Some(new), Some(before)) => definition.schema(new) == old.schema(before),
                _ => false,
            }
        });
        let options = Options { skip_expression_cost: is_unchanged, ..self.options };
        errors.extend(check_schema(schema, has_status, &options, &child(path, "openAPIV3Schema")));
    }

    fn check_versions(&self, errors: &mut Vec<FieldError>) {
        let versions = &self.definition.versions;
        let mut complain = |detail: &str| {
            let shown = self.definition.shown_versions();
            errors.push(FieldError::invalid_shown("spec.versions", shown, detail));
        };
        let mut names = HashSet::new();
        if !versions.iter().all(|version| names.insert(version.name.as_str())) {
            complain("must contain unique version names");
        }
        if versions.iter().filter(|v| v.storage).count() != 1 {
            complain("must have exactly one version marked as storage version");
        }
        // The first version is the preferred one, and its name is validated again as such.
        if let Some(first) = versions.first().filter(|v| !v.name.is_empty()) {
            let complaints = names::label_1035(&first.name);
            if !complaints.is_empty() {
                errors.push(FieldError::invalid("spec.version", first.name.as_str(), complaints.join(",")));
            }
        }
    }

    fn check_selectable(
        &self,
        fields: &[String],
        schema: Option<&Schema>,
        path: &str,
        version: &str,
        errors: &mut Vec<FieldError>,
    ) {
        const MAX_FIELDS: usize = 8;
        let nothing = Schema::default();
        let schema = schema.unwrap_or(&nothing);
        let mut seen: Vec<String> = Vec::new();
        for (i, field) in fields.iter().enumerate() {
            let place = child(&index(path, i), "jsonPath");
            if field.is_empty() {
                errors.push(FieldError::required(place, ""));
                continue;
            }
            let found = match field_path::valid(field, schema, false) {
                Ok(found) => found,
                Err(why) => {
                    let detail = format!("is an invalid path: {why}");
                    errors.push(FieldError::invalid(place, field.as_str(), detail));
                    continue;
                }
            };
            if found.root == "metadata" {
                let detail = "must not point to fields in metadata";
                errors.push(FieldError::invalid(place.as_str(), field.as_str(), detail));
            }
            if !matches!(found.schema.kind.as_str(), "string" | "boolean" | "integer") {
                let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
                errors.push(FieldError::invalid(place.as_str(), field.as_str(), detail));
            }
            if seen.contains(&found.path) {
                errors.push(FieldError::duplicate(place, field.as_str()));
            } else {
                seen.push(found.path);
            }
        }
        let is_kept = self.old.is_some_and(|old| {
            let before = match version {
                "" => Some(&old.common.selectable),
                name => old.versions.iter().find(|v| v.name == name).map(|v| &v.own.selectable),
            };
            before.is_some_and(|before| before.len() > MAX_FIELDS && before == fields)
        });
        if seen.len() > MAX_FIELDS && !is_kept {
            errors.push(FieldError::too_many(path, seen.len(), MAX_FIELDS));
        }
    }
}

fn check_group(group: &str, errors: &mut Vec<FieldError>) {
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
        return;
    }
    let complaints = names::subdomain(group);
    if !complaints.is_empty() {
        errors.push(FieldError::invalid("spec.group", group, complaints.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
}

fn check_word(path: &str, word: &str, accepted: &[&str], errors: &mut Vec<FieldError>) {
    if word.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !accepted.contains(&word) {
        errors.push(FieldError::not_supported(path, word, accepted));
    }
}

fn check_names(names: &Names, path: &str, errors: &mut Vec<FieldError>) {
    let mut label = |path: String, name: &str, prefix: &str, shown: &str| {
        let complaints = names::label_1035(name);
        if !complaints.is_empty() {
            errors.push(FieldError::invalid(path, shown, format!("{prefix}{}", complaints.join(","))));
        }
    };
    let mixed = "may have mixed case, but should otherwise match: ";
    if !names.plural.is_empty() {
        label(child(path, "plural"), &names.plural, "", &names.plural);
    }
    if !names.singular.is_empty() {
        label(child(path, "singular"), &names.singular, "", &names.singular);
    }
    if !names.kind.is_empty() {
        label(child(path, "kind"), &names.kind.to_lowercase(), mixed, &names.kind);
    }
    if !names.list_kind.is_empty() {
        label(child(path, "listKind"), &names.list_kind.to_lowercase(), mixed, &names.list_kind);
    }
    for (i, name) in names.short_names.iter().enumerate() {
        label(index(&child(path, "shortNames"), i), name, "", name);
    }
    for (i, name) in names.categories.iter().enumerate() {
        label(index(&child(path, "categories"), i), name, "", name);
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(child(path, "listKind"), names.list_kind.as_str(), detail));
    }
}

fn deprecation_complaints(version: &Version) -> Vec<String> {
    let Some(warning) = &version.deprecation_warning else { return Vec::new() };
    if !version.deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut complaints = Vec::new();
    if warning.len() > 256 {
        complaints.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        complaints.push("must not be an empty string".to_owned());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| !unicode::is_print(*c)) {
        complaints.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
    complaints
}

fn check_column(column: &Column, path: &str, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    if column.name.is_empty() {
        errors.push(FieldError::required(child(path, "name"), ""));
    }
    let types = format!("must be one of {}", TYPES.join(","));
    if column.kind.is_empty() {
        errors.push(FieldError::required(child(path, "type"), types));
    } else if !TYPES.contains(&column.kind.as_str()) {
        errors.push(FieldError::invalid(child(path, "type"), column.kind.as_str(), types));
    }
    if !column.format.is_empty() && !FORMATS.contains(&column.format.as_str()) {
        let detail = format!("must be one of {}", FORMATS.join(","));
        errors.push(FieldError::invalid(child(path, "format"), column.format.as_str(), detail));
    }
    let place = child(path, "JSONPath");
    if column.json_path.is_empty() {
        errors.push(FieldError::required(place, ""));
    } else {
        check_json_path(&column.json_path, &place, errors);
    }
}

fn check_json_path(json_path: &str, path: &str, errors: &mut Vec<FieldError>) -> bool {
    let is_fine = json_path.starts_with('.');
    if !is_fine {
        let detail = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(path, json_path, detail));
    }
    is_fine
}

fn check_subresources(subresources: &Subresources, path: &str, errors: &mut Vec<FieldError>) {
    let Some(Scale { spec_replicas, status_replicas, label_selector }) = &subresources.scale else { return };
    let mut check = |name: &str, json_path: &str, roots: &[&str], detail: &str| {
        let place = child(path, name);
        if check_json_path(json_path, &place, errors) && !roots.iter().any(|root| json_path.starts_with(root))
        {
            errors.push(FieldError::invalid(place, json_path, detail));
        }
    };
    let mut missing = Vec::new();
    for (name, json_path, root) in [
        ("scale.specReplicasPath", spec_replicas, ".spec."),
        ("scale.statusReplicasPath", status_replicas, ".status."),
    ] {
        if json_path.is_empty() {
            missing.push(FieldError::required(child(path, name), ""));
        } else {
            let detail = format!("should be a json path under {}", root.trim_end_matches('.'));
            check(name, json_path, &[root], &detail);
        }
    }
    if let Some(selector) = label_selector.as_ref().filter(|s| !s.is_empty()) {
        let detail = "should be a json path under either .spec or .status";
        check("scale.labelSelectorPath", selector, &[".spec.", ".status."], detail);
    }
    errors.append(&mut missing);
}

fn check_status_of(definition: &Definition, errors: &mut Vec<FieldError>) {
    check_names(&definition.accepted_names, "status.acceptedNames", errors);
    let path = "status.storedVersions";
    let stored = &definition.stored_versions;
    if stored.is_empty() {
        errors.push(FieldError::invalid_shown(path, "null", "must have at least one stored version"));
        return;
    }
    for version in definition.versions.iter().filter(|v| v.storage && !stored.contains(&v.name)) {
        let detail = format!("must have the storage version {}", version.name);
        errors.push(FieldError::invalid_shown(path, shown_texts(stored), detail));
    }
    for (i, name) in stored.iter().enumerate() {
        if !definition.versions.iter().any(|v| v.name == *name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(index(path, i), name.as_str(), detail));
        }
    }
}

fn check_preserve_unknown(definition: &Definition, old: Option<&Definition>, errors: &mut Vec<FieldError>) {
    if definition.preserve_unknown && !old.is_some_and(|old| old.preserve_unknown) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_scope_of_an_established_definition_stay() {
        let definition = |group: &str, plural: &str, kind: &str, scope: &str, established: &str| {
            json!({
                "metadata": {"name": format!("{plural}.{group}")},
                "spec": {
                    "group": group, "scope": scope,
                    "names": {"plural": plural, "singular": "shop", "kind": kind, "listKind": "ShopList"},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                                  "schema": {"openAPIV3Schema": {"type": "object"}}}],
                },
                "status": {"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": established}]},
            })
        };
        let immutable = |new: &Value, old: &Value| -> Vec<String> {
            let errors = check_update(new, old);
            errors.iter().map(ToString::to_string).filter(|error| error.contains("immutable")).collect()
        };
        let old = definition("example.com", "shops", "Shop", "Namespaced", "True");
        assert_eq!(immutable(&old, &old), [""; 0]);
        let new = definition("example.org", "stores", "Store", "Cluster", "True");
        assert_eq!(immutable(&new, &old).len(), 4);
        let young = definition("example.com", "shops", "Shop", "Namespaced", "False");
        let found = immutable(&new, &young);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn what_an_old_definition_got_wrong_its_successor_may_keep() {
        let definition = |default: Value| {
            json!({
                "metadata": {"name": "shops.example.com"},
                "spec": {
                    "group": "example.com", "scope": "Namespaced",
                    "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "properties": {"size": {
                            "type": "object", "default": default, "properties": {"height": {"type": "integer"}},
                        }},
                    }}}],
                },
                "status": {"storedVersions": ["v1"]},
            })
        };
        let (pruned, unpruned) = (definition(json!({"height": 1})), definition(json!({"depth": 1})));
        let refused = |new: &Value, old: &Value| !check_update(new, old).is_empty();
        assert!(!refused(&pruned, &pruned));
        assert!(refused(&unpruned, &pruned), "a new default holds what pruning would drop");
        assert!(!refused(&unpruned, &unpruned), "the default was there before");
    }

    #[test]
    fn formats_are_looked_for_in_all_schemas() {
        let schema = |format: &str| json!({"type": "object", "properties": {"a": {"type": "string", "format": format}}});
        let version = |format: &str| json!({"name": "v1", "schema": {"openAPIV3Schema": schema(format)}});
        let definition =
            json!({"spec": {"versions": [version("date"), version("colour"), version("shape")]}});
        assert_eq!(unrecognized_formats(&definition), ["colour", "shape"]);
        let alike = json!({"spec": {"versions": [version("colour"), version("colour")]}});
        assert_eq!(unrecognized_formats(&alike), ["colour"], "versions that are alike have one schema");
    }
}
