//! How objects of a custom resource behave.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use serde_json::{Map, Value};
use steersman_patch::{
    StrategicError,
    apply::{TypeId, Types},
};

use super::{default, rules::Rules, validate};
use crate::{
    catalog::split_api_version,
    fields::FieldError,
    names::NameRule,
    object,
    schema::Schema,
    server::Core,
    status::ApiResult,
    strategy::{Hook, Strategy},
    table::{self, Cell, Column},
};

/// One version of a definition, prepared.
struct Version {
    name: String,
    source: Value,
    schema: Arc<Schema>,
    rules: Rules,
    types: (Types, TypeId),
    status: bool,
    columns: Vec<(Column, Vec<String>)>,
    selectable: Vec<(String, Vec<String>)>,
}

/// The strategy of a custom resource.
pub(super) struct Custom {
    versions: Vec<Version>,
    storage: String,
}

impl Custom {
    pub(super) fn new(definition: &Value) -> Self {
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
                    schema: Arc::new(Schema::structural(&source)),
                    // A definition with rules that do not compile was refused.
                    rules: Rules::compile(&source, "", &mut Vec::new()),
                    types: Types::from_structural(&source, Some(metadata_components())),
                    status: v["subresources"]["status"].is_object(),
                    columns: columns(&v["additionalPrinterColumns"]),
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
        Self { versions, storage }
    }

    fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|v| v.name == name)
    }

    /// What is wrong with an object by its schema and its rules.
    fn judge(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(version) = self.stored() {
            validate::check(&without_meta(&version.source), object, "", &mut errors);
            version.rules.check(object, old, &mut errors);
        }
        errors
    }

    fn stored(&self) -> Option<&Version> {
        self.version(&self.storage)
    }
}

/// The component schemas that metadata is made of.
fn metadata_components() -> &'static Map<String, Value> {
    static COMPONENTS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
        let all = crate::schema::definitions();
        ["ObjectMeta", "OwnerReference", "ManagedFieldsEntry", "FieldsV1", "Time"]
            .iter()
            .map(|name| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"))
            .filter_map(|name| Some((name.clone(), all.get(&name)?.clone())))
            .collect()
    });
    &COMPONENTS
}

fn columns(list: &Value) -> Vec<(Column, Vec<String>)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut out: Vec<(Column, Vec<String>)> = list
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
            (column, simple_path(&text(&c["jsonPath"])))
        })
        .collect();
    if out.is_empty() {
        let column = Column::new("Age", "date", "", 0);
        out.push((column, simple_path(".metadata.creationTimestamp")));
    }
    out
}

/// A JSON path as a list of keys and indices.
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
    fn schema(&self, version: &str) -> Option<Arc<Schema>> {
        self.version(version).map(|v| Arc::clone(&v.schema))
    }

    fn openapi(&self, version: &str) -> Option<Value> {
        self.version(version).map(|v| v.source.clone())
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
            default::apply(&version.source, object);
        }
    }

    fn convert(&self, mut object: Value, from: &str, to: &str) -> ApiResult<Value> {
        if from == to {
            return Ok(object);
        }
        object::ensure(&mut object).insert("apiVersion".into(), to.into());
        // What another version stored may lack this version's defaults or have more fields.
        if let Some(version) = self.version(split_api_version(to).1) {
            version.schema.prune(&mut object);
            default::apply(&version.source, &mut object);
        }
        Ok(object)
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        if self.stored().is_some_and(|v| v.status)
            && let Some(root) = object.as_object_mut()
        {
            root.remove("status");
        }
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if !self.stored().is_some_and(|v| v.status) {
            return Ok(());
        }
        if hook.subresource == Some("status") {
            // Nothing but the status moves.
            let status = object.get("status").cloned();
            *object = old.clone();
            let root = object::ensure(object);
            match status {
                Some(status) => root.insert("status".into(), status),
                None => root.remove("status"),
            };
        } else {
            object::carry(old, object, "status");
        }
        Ok(())
    }

    fn validate_create(&self, _: Hook<'_>, object: &Value) -> Vec<FieldError> {
        self.judge(object, None)
    }

    fn validate_update(&self, _: Hook<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        self.judge(object, Some(old))
    }

    fn release(&self, _: &Core, _: &Value) {}

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

    fn cells(&self, core: &Core, version: &str, object: &Value) -> Vec<Cell> {
        let mut out: Vec<Cell> = vec![object::name(object).into()];
        for (column, path) in self.version(version).into_iter().flat_map(|v| &v.columns) {
            out.push(cell(core, column, lookup(object, path)));
        }
        out
    }
}

fn cell(core: &Core, column: &Column, value: Option<&Value>) -> Cell {
    match (column.kind.as_str(), value) {
        (_, None | Some(Value::Null)) => Value::Null,
        ("date", Some(Value::String(then))) => table::age(core.environment.now(), then).into(),
        ("integer" | "number", Some(v @ Value::Number(_))) | ("boolean", Some(v @ Value::Bool(_))) => {
            v.clone()
        }
        ("string", Some(Value::String(s))) => s.as_str().into(),
        ("string", Some(other)) => other.to_string().into(),
        _ => Value::Null,
    }
}

/// Metadata is judged elsewhere; a schema may restrict its name only.
fn without_meta(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for key in ["metadata", "apiVersion", "kind"] {
            if let Some(property) = properties.get_mut(key) {
                *property = Value::Object(Map::new());
            }
        }
    }
    schema
}
