//! The strategy of custom resources: defaulting, validation, conversion and columns.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use jiff::Timestamp;
use serde_json::{Map, Value};
use steersman_patch::{
    StrategicError,
    apply::{TypeId, Types},
};
use steersman_structural::CustomSchema;

use steersman_api::{
    allocator::Allocators,
    fields::FieldError,
    names::NameRule,
    object,
    schema::{Decoded, Decoder, Schema},
    status::ApiResult,
    strategy::{self, Hook, ScalePaths, Strategy, UpdateErrors},
    table::{self, Cell, Column, Path},
};

use super::{Converter, version::compare_versions};
use crate::catalog::split_api_version;

/// A version of a definition with its compiled schema.
struct Version {
    name: String,
    source: Value,
    schema: CustomSchema,
    types: (Types, TypeId),
    status: bool,
    scale: Option<Scale>,
    columns: Vec<(Column, Option<Path>)>,
    selectable: Vec<(String, Vec<String>)>,
    /// The deprecation warning for clients of this version.
    deprecation: Option<String>,
}

/// The paths of the scale subresource.
struct Scale {
    spec_replicas: String,
    status_replicas: String,
    label_selector: Option<String>,
    paths: ScalePaths,
}

impl Scale {
    fn new(scale: &Value) -> Option<Self> {
        let text = |key: &str| scale.get(key).and_then(Value::as_str).map(str::to_owned);
        scale.is_object().then(|| {
            let [spec_replicas, status_replicas] =
                ["specReplicasPath", "statusReplicasPath"].map(|key| text(key).unwrap_or_default());
            let label_selector = text("labelSelectorPath");
            let selector = label_selector.as_deref().unwrap_or_default();
            let paths = ScalePaths::new(&spec_replicas, &status_replicas, selector);
            Self { spec_replicas, status_replicas, label_selector, paths }
        })
    }

    /// Validates that replicas are non-negative integers and the selector is a string.
    fn check(&self, object: &Value, only_status: bool, errors: &mut Vec<FieldError>) {
        let paths = [(&self.spec_replicas, only_status), (&self.status_replicas, false)];
        for path in paths.into_iter().filter(|(_, is_skipped)| !is_skipped).map(|(path, _)| path) {
            let detail = match nested(object, path) {
                Ok(None) => continue,
                Ok(Some(value)) => match value.as_i64() {
                    Some(count) if (0..=i64::from(i32::MAX)).contains(&count) => continue,
                    Some(count) if count < 0 => (count, "should be a non-negative integer".to_owned()),
                    Some(count) => (count, format!("should be less than or equal to {}", i32::MAX)),
                    None => (0, wrong_accessor(path, value, "int64")),
                },
                Err(why) => (0, why),
            };
            errors.push(FieldError::invalid(path.as_str(), detail.0, detail.1));
        }
        if let Some(path) = &self.label_selector {
            let why = match nested(object, path) {
                Ok(None | Some(Value::String(_))) => return,
                Ok(Some(value)) => wrong_accessor(path, value, "string"),
                Err(why) => why,
            };
            errors.push(FieldError::invalid(path.as_str(), "", why));
        }
    }
}

/// Returns the value at a dotted path; an error if a parent is not an object.
fn nested<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let trimmed = path.strip_prefix('.').unwrap_or(path);
    let mut value = object;
    for part in trimmed.split('.') {
        let Some(map) = value.as_object() else {
            return Err(wrong_accessor(path, value, "map[string]interface{}"));
        };
        match map.get(part) {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn wrong_accessor(path: &str, value: &Value, expected: &str) -> String {
    let (shown, actual) = match value {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(b) => (b.to_string(), "bool"),
        Value::Number(n) if n.is_i64() => (n.to_string(), "int64"),
        Value::Number(n) => (steersman_structural::go::float(n.as_f64().unwrap_or_default()), "float64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (value.to_string(), "[]interface {}"),
        Value::Object(_) => (value.to_string(), "map[string]interface {}"),
    };
    let path = path.strip_prefix('.').unwrap_or(path);
    format!(".{path} accessor error: {shown} is of the type {actual}, expected {expected}")
}

/// The strategy of a custom resource.
pub(super) struct Custom {
    versions: Vec<Version>,
    storage: String,
    storage_api_version: String,
    /// The store revision at which the definition got its current form.
    since: u64,
    converter: Option<Converter>,
}

impl Custom {
    pub(super) fn new(definition: &Value, since: u64, converter: Option<Converter>) -> Self {
        let mut storage = String::new();
        let versions = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|v| {
                let name = v["name"].as_str().unwrap_or_default().to_owned();
                if v["storage"] == true {
                    storage.clone_from(&name);
                }
                let source = v["schema"]["openAPIV3Schema"].clone();
                Version {
                    schema: CustomSchema::new(&source),
                    types: Types::from_structural(&source, Some(metadata_components())),
                    status: v["subresources"]["status"].is_object(),
                    scale: Scale::new(&v["subresources"]["scale"]),
                    columns: columns(&v["additionalPrinterColumns"]),
                    deprecation: (v["deprecated"] == true).then(|| deprecation(&definition["spec"], v)),
                    selectable: v["selectableFields"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(|f| {
                            let path = f["jsonPath"].as_str()?;
                            Some((path.trim_start_matches('.').to_owned(), simple_path(path)))
                        })
                        .collect(),
                    source,
                    name,
                }
            })
            .collect();
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        let storage_api_version = crate::catalog::api_version(group, &storage);
        Self { versions, storage, storage_api_version, since, converter }
    }

    fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|v| v.name == name)
    }

    fn stored(&self) -> Option<&Version> {
        self.version(&self.storage)
    }
}

/// Returns a version's deprecation warning: its own, or a default that names the best newer version.
fn deprecation(spec: &Value, version: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(warning) = version["deprecationWarning"].as_str() {
        return warning.to_owned();
    }
    let (group, kind, name) = (text(&spec["group"]), text(&spec["names"]["kind"]), text(&version["name"]));
    let better = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|other| other["served"] == true && other["deprecated"] != true)
        .map(|other| text(&other["name"]))
        .filter(|other| compare_versions(other, &name).is_gt())
        .max_by(|a, b| compare_versions(a, b));
    let warning = format!("{group}/{name} {kind} is deprecated");
    better.map_or(warning.clone(), |better| format!("{warning}; use {group}/{better} {kind}"))
}

/// Returns the component schemas of metadata.
fn metadata_components() -> &'static Map<String, Value> {
    static COMPONENTS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
        let all = steersman_api::schema::definitions();
        ["ObjectMeta", "OwnerReference", "ManagedFieldsEntry", "FieldsV1", "Time"]
            .iter()
            .map(|name| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"))
            .filter_map(|name| Some((name.clone(), all.get(&name)?.clone())))
            .collect()
    });
    &COMPONENTS
}

fn columns(list: &Value) -> Vec<(Column, Option<Path>)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut out: Vec<(Column, Option<Path>)> = list
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| {
            let mut column = Column::new(
                &text(&c["name"]),
                &text(&c["type"]),
                &text(&c["format"]),
                c["priority"].as_i64().unwrap_or(0),
            );
            column.description = text(&c["description"]);
            if column.description.is_empty() {
                column.description = format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    text(&c["jsonPath"])
                );
            }
            (column, Path::parse(&text(&c["jsonPath"])))
        })
        .collect();
    if out.is_empty() {
        let column = Column::new("Age", "date", "", 0);
        out.push((column, Path::parse(".metadata.creationTimestamp")));
    }
    out
}

/// Splits a JSON path into keys and indices.
fn simple_path(path: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for part in path.trim_start_matches('.').split('.') {
        let mut rest = part;
        while let Some((head, tail)) = rest.split_once('[') {
            if !head.is_empty() {
                parts.push(head.to_owned());
            }
            let (index, after) = tail.split_once(']').unwrap_or((tail, ""));
            parts.push(index.trim_matches(['\'', '"']).to_owned());
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(rest.to_owned());
        }
    }
    parts
}

fn lookup<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |v, part| match v {
        Value::Array(list) => list.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    })
}

impl Strategy for Custom {
    fn schema(&self, _: &str) -> Option<Arc<Schema>> {
        None
    }

    fn decode(&self, version: &str, object: &mut Value, _: Decoder) -> Result<Decoded, String> {
        let Some(version) = self.version(version) else { return Ok(Decoded::default()) };
        let unknown = version.schema.decode(object)?;
        let complaint = |path: &String| format!("unknown field {}", steersman_api::status::quote(path));
        Ok(Decoded { unknown: unknown.iter().map(complaint).collect(), emptied: Vec::new() })
    }

    fn deprecation(&self, version: &str) -> Option<&str> {
        self.version(version)?.deprecation.as_deref()
    }

    fn openapi(&self, version: &str) -> Option<Value> {
        self.version(version).map(|v| v.source.clone())
    }

    fn scale_paths(&self, version: &str) -> Option<&ScalePaths> {
        Some(&self.version(version)?.scale.as_ref()?.paths)
    }

    fn types(&self, version: &str) -> Option<(&Types, TypeId)> {
        self.version(version).map(|v| (&v.types.0, v.types.1))
    }

    fn reset_fields(&self, subresource: &str) -> &'static [&'static [&'static str]] {
        match subresource {
            "status" => &[&["metadata"], &["spec"]],
            "" if self.stored().is_some_and(|v| v.status) => &[&["status"]],
            _ => &[],
        }
    }

    fn strategic(&self, _: &str, _: &Value, _: &Value) -> Option<Result<Value, StrategicError>> {
        None
    }

    fn typed(&self) -> bool {
        false
    }

    fn default(&self, version: &str, object: &mut Value) {
        if let Some(version) = self.version(version) {
            version.schema.default(object);
        }
    }

    fn outdates(&self, revision: u64) -> bool {
        revision < self.since
    }

    fn refresh(&self, object: &mut Value) {
        let known = |object: &Value| {
            let (_, name) = split_api_version(object::text(object, &["apiVersion"]).unwrap_or_default());
            self.version(name)
        };
        // The stored version may have been removed from the definition.
        if known(object).is_none() {
            object::ensure(object).insert("apiVersion".into(), self.storage_api_version.as_str().into());
        }
        if let Some(version) = known(object) {
            version.schema.prune(object);
            version.schema.default(object);
        }
    }

    fn convert(&self, mut object: Value, from: &str, to: &str) -> ApiResult<Value> {
        if from == to {
            return Ok(object);
        }
        object::ensure(&mut object).insert("apiVersion".into(), to.into());
        self.coerce(&mut object);
        Ok(object)
    }

    fn converter(&self) -> Option<&dyn strategy::Converter> {
        self.converter.as_ref().map(|converter| converter as &dyn strategy::Converter)
    }

    fn coerce(&self, object: &mut Value) {
        let (_, name) = split_api_version(object::text(object, &["apiVersion"]).unwrap_or_default());
        // An object from another version may have additional fields. Only the storage version is defaulted here.
        if let Some(version) = self.version(name) {
            version.schema.prune(object);
            if version.name == self.storage {
                version.schema.default(object);
            }
        }
    }

    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        if self.version(hook.version).is_some_and(|v| v.status)
            && let Some(root) = object.as_object_mut()
        {
            root.remove("status");
        }
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if !self.version(hook.version).is_some_and(|v| v.status) {
            return Ok(());
        }
        if hook.subresource == Some("status") {
            // Only the status may change.
            let status = object::ensure(object).remove("status");
            let mut root = object::copy_without(old, &["metadata", "status"]);
            // The pipeline updates managedFields.
            let metadata = old.get("metadata").map(|old| object::copy_without(old, &["managedFields"]));
            root.extend(metadata.map(|metadata| ("metadata".into(), Value::Object(metadata))));
            root.extend(status.map(|status| ("status".into(), status)));
            *object = Value::Object(root);
        } else {
            object::carry(old, object, "status");
        }
        Ok(())
    }

    fn validate_create(&self, hook: Hook<'_>, object: &Value) -> Vec<FieldError> {
        let Some(version) = self.version(hook.version) else { return Vec::new() };
        let mut errors = version.schema.check(object);
        if let Some(scale) = &version.scale {
            scale.check(object, false, &mut errors);
        }
        errors
    }

    fn validate_update(&self, hook: Hook<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        self.judge_update(hook, object, old).errors
    }

    fn judge_update(&self, hook: Hook<'_>, object: &Value, old: &Value) -> UpdateErrors {
        let Some(version) = self.version(hook.version) else { return UpdateErrors::default() };
        let is_status = hook.subresource == Some("status");
        let mut judged = if is_status {
            version.schema.check_status(object, old)
        } else {
            version.schema.check_update(object, old)
        };
        if let Some(scale) = &version.scale {
            scale.check(object, is_status, &mut judged.errors);
        }
        judged
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
        let known = old.map(object::finalizers).unwrap_or_default();
        let mut added = object::finalizers(object);
        added.retain(|name| !known.contains(name));
        added.sort_unstable();
        added.dedup();
        let mut warnings = Vec::new();
        for name in added {
            let quoted = steersman_api::status::quote(name);
            for complaint in steersman_api::names::qualified(name) {
                warnings.push(format!("metadata.finalizers: {quoted}: {complaint}"));
            }
            if !name.contains('/') && !STANDARD.contains(&name) {
                let path = if name.contains('.') { " including a path (/)" } else { "" };
                warnings.push(format!(
                    "metadata.finalizers: {quoted}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
                ));
            }
        }
        warnings
    }

    fn prune(&self, version: &str, object: &mut Value) {
        if let Some(version) = self.version(version) {
            version.schema.prune(object);
        }
    }

    fn release(&self, _: &Allocators, _: &Value) {}

    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        let skip: &[&str] = if self.stored().is_some_and(|v| v.status) { &["status"] } else { &[] };
        !object::same_except(object, old, skip)
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn allows_create_on_update(&self) -> bool {
        false
    }

    fn grace_seconds(&self, _: &Value, _: Option<i64>) -> Option<i64> {
        None
    }

    fn selectable(&self, object: &Value) -> Vec<(Cow<'static, str>, String)> {
        let Some(version) = self.stored() else { return Vec::new() };
        version
            .selectable
            .iter()
            .map(|(name, path)| {
                let text = match lookup(object, path) {
                    None | Some(Value::Null) => String::new(),
                    Some(Value::String(s)) => s.clone(),
                    Some(other) => other.to_string(),
                };
                (Cow::Owned(name.clone()), text)
            })
            .collect()
    }

    fn selectable_names(&self, version: &str) -> Vec<String> {
        self.version(version)
            .map(|v| v.selectable.iter().map(|(n, _)| n.clone()).collect())
            .unwrap_or_default()
    }

    fn columns(&self, version: &str) -> Vec<Column> {
        let mut out = vec![Column::new("Name", "string", "name", 0)];
        if let Some(version) = self.version(version) {
            out.extend(version.columns.iter().map(|(c, _)| c.clone()));
        }
        out
    }

    fn cells(&self, version: &str, object: &Value, now: Timestamp) -> Vec<Cell> {
        let mut out: Vec<Cell> = vec![object::name(object).into()];
        for (column, path) in self.version(version).into_iter().flat_map(|v| &v.columns) {
            let value = path.as_ref().and_then(|path| path.first(object));
            out.push(cell(now, column, value));
        }
        out
    }
}

fn cell(now: Timestamp, column: &Column, value: Option<&Value>) -> Cell {
    match (column.kind.as_str(), value) {
        (_, None | Some(Value::Null)) => Value::Null,
        ("date", Some(Value::String(then))) => table::age(now, then).into(),
        ("integer" | "number", Some(v @ Value::Number(_))) | ("boolean", Some(v @ Value::Bool(_))) => {
            v.clone()
        }
        ("string", Some(Value::String(s))) => s.as_str().into(),
        ("string", Some(other)) => other.to_string().into(),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deprecated_versions_name_a_better_one() {
        let version =
            |name: &str, deprecated: bool| json!({"name": name, "served": true, "deprecated": deprecated});
        let mut spec = json!({
            "group": "example.com",
            "names": {"kind": "Widget"},
            "versions": [version("v1alpha1", true), version("v1beta1", false), version("v1", false)],
        });
        let warning = |spec: &Value| Custom::new(&json!({"spec": spec}), 0, None);
        let custom = warning(&spec);
        let expected = "example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget";
        assert_eq!(custom.deprecation("v1alpha1"), Some(expected));
        assert_eq!(custom.deprecation("v1"), None);
        spec["versions"] = json!([version("v1", true), version("v1beta1", false)]);
        assert_eq!(warning(&spec).deprecation("v1"), Some("example.com/v1 Widget is deprecated"));
        spec["versions"][0]["deprecationWarning"] = "go on".into();
        assert_eq!(warning(&spec).deprecation("v1"), Some("go on"));
    }
}
