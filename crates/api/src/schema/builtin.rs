//! Types of the built-in kinds, loaded from the data file.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use serde_json::{Map, Value, json};

use super::{Field, Presence, Scalar, Schema, Struct, Type, TypeId};

struct Loaded {
    raw: Map<String, Value>,
    types: Vec<Type>,
    by_name: HashMap<String, u32>,
}

static LOADED: LazyLock<Loaded> = LazyLock::new(|| {
    // The file is compiled in; a test checks that it parses.
    let compact: Map<String, Value> =
        serde_json::from_str(include_str!("../../data/schemas.json")).unwrap_or_default();
    let raw: Map<String, Value> = compact.into_iter().map(|(name, schema)| (name, expand(schema))).collect();
    let presence = serde_json::from_str(include_str!("../../data/presence.json")).unwrap_or_default();
    let mut loader = Loader { types: vec![Type::Any; raw.len()], by_name: HashMap::new(), presence };
    for (index, name) in raw.keys().enumerate() {
        loader.by_name.insert(name.clone(), u32::try_from(index).unwrap_or_default());
    }
    for (index, (name, schema)) in raw.iter().enumerate() {
        let ty = loader.build(schema, name);
        if let Some(slot) = loader.types.get_mut(index) {
            *slot = ty;
        }
    }
    Loaded { types: loader.types, by_name: loader.by_name, raw }
});

/// Returns all built-in types.
pub fn builtin() -> &'static [Type] {
    &LOADED.types
}

/// Returns all built-in OpenAPI component schemas by name.
pub fn definitions() -> &'static Map<String, Value> {
    &LOADED.raw
}

/// Returns the schema with this OpenAPI name.
pub fn definition(name: &str) -> Option<Arc<Schema>> {
    let root = TypeId::Builtin(*LOADED.by_name.get(name)?);
    Some(Arc::new(Schema { root }))
}

/// Returns the OpenAPI name of a kind.
pub fn definition_name(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    LOADED.raw.iter().find_map(|(name, schema)| {
        let matches = schema["x-kubernetes-group-version-kind"]
            .as_array()?
            .iter()
            .any(|gvk| gvk["group"] == group && gvk["version"] == version && gvk["kind"] == kind);
        matches.then_some(name.as_str())
    })
}

/// Returns a field's Go type where it can't be derived from the schema. Only error messages use it.
pub fn go_type(structure: &str, field: &str) -> Option<&'static str> {
    static TYPES: LazyLock<HashMap<String, HashMap<String, String>>> = LazyLock::new(|| {
        // The file is compiled in; a test checks that it parses.
        serde_json::from_str(include_str!("../../data/gotypes.json")).unwrap_or_default()
    });
    TYPES.get(structure)?.get(field).map(String::as_str)
}

/// Prefix of references between component schemas.
pub const PREFIX: &str = "#/components/schemas/";

/// Expands the data file's `ref` to OpenAPI references.
fn expand(node: Value) -> Value {
    match node {
        Value::Object(map) => {
            let alone = map.len() == 1;
            let mut out = Map::new();
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("ref", Value::String(name)) => {
                        let target = Value::from(format!("{PREFIX}{name}"));
                        if alone {
                            out.insert("$ref".into(), target);
                        } else {
                            out.insert("allOf".into(), json!([{"$ref": target}]));
                        }
                    }
                    ("properties", Value::Object(properties)) => {
                        let inner = properties.into_iter().map(|(k, v)| (k, expand(v))).collect();
                        out.insert(key, Value::Object(inner));
                    }
                    ("default" | "enum" | "required", value) => {
                        out.insert(key, value);
                    }
                    (_, value) => {
                        out.insert(key, expand(value));
                    }
                }
            }
            Value::Object(out)
        }
        Value::Array(list) => list.into_iter().map(expand).collect(),
        other => other,
    }
}

/// Returns the name of the schema that a schema references, directly or through `allOf`.
pub fn reference(schema: &Value) -> Option<&str> {
    let plain = schema.get("$ref");
    let target = plain.or_else(|| schema.get("allOf")?.get(0)?.get("$ref"))?.as_str()?;
    target.strip_prefix(PREFIX)
}

struct Loader {
    types: Vec<Type>,
    by_name: HashMap<String, u32>,
    presence: HashMap<String, PresenceData>,
}

impl Loader {
    fn add(&mut self, ty: Type) -> TypeId {
        self.types.push(ty);
        TypeId::Builtin(u32::try_from(self.types.len() - 1).unwrap_or_default())
    }

    /// Returns the type of a property or item.
    fn inline(&mut self, schema: &Value) -> TypeId {
        if let Some(name) = reference(schema) {
            let target = self.by_name.get(name).map(|i| TypeId::Builtin(*i));
            return target.unwrap_or_else(|| self.add(Type::Any));
        }
        let ty = self.build(schema, "");
        self.add(ty)
    }

    fn build(&mut self, schema: &Value, name: &str) -> Type {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        match special(name) {
            Some(special) => return special,
            None if name.contains(".JSONSchemaPropsOr") => {
                let props = name.split("Or").next().and_then(|props| self.by_name.get(props));
                return props.map_or(Type::Any, |props| Type::Or(TypeId::Builtin(*props)));
            }
            None => {}
        }
        match (text("type"), text("format")) {
            ("string", "byte") => Type::Scalar(Scalar::Bytes),
            ("string", "date-time") => Type::Scalar(Scalar::Time),
            ("string", "int-or-string") => Type::Scalar(Scalar::IntOrString),
            ("string", _) => Type::Scalar(Scalar::String),
            ("integer", "int32") => Type::Scalar(Scalar::Int32),
            ("integer", _) => Type::Scalar(Scalar::Int64),
            ("number", _) => Type::Scalar(Scalar::Number),
            ("boolean", _) => Type::Scalar(Scalar::Boolean),
            ("array", _) => {
                let items = self.inline(schema.get("items").unwrap_or(&Value::Null));
                Type::List(items)
            }
            ("object", _) if schema.get("additionalProperties").is_some() => {
                let values = self.inline(&schema["additionalProperties"]);
                Type::Map(values)
            }
            ("object", _) if schema.get("properties").is_some() || !name.is_empty() => {
                Type::Struct(self.structure(schema, name))
            }
            _ => Type::Any,
        }
    }

    fn structure(&mut self, schema: &Value, name: &str) -> Struct {
        let mut fields = HashMap::default();
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let presence = self.presence.get(name).map(|p| p.of(key)).unwrap_or_default();
            fields.insert(key.clone(), Field { ty: self.inline(property), presence });
        }
        let short = name.rsplit('.').next().unwrap_or_default().to_owned();
        let mut always: Vec<(String, Field)> = fields
            .iter()
            .filter(|(_, field)| field.presence.always())
            .map(|(key, field)| (key.clone(), *field))
            .collect();
        always.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Struct { name: short, full: name.to_owned(), always, fields, open: false }
    }
}

/// An entry of the presence file: field names by [`Presence`].
#[derive(Default, serde::Deserialize)]
struct PresenceData {
    #[serde(default)]
    s: Vec<String>,
    #[serde(default)]
    z: Vec<String>,
    #[serde(default)]
    n: Vec<String>,
    #[serde(default)]
    p: Vec<String>,
}

impl PresenceData {
    fn of(&self, field: &str) -> Presence {
        let has = |list: &[String]| list.iter().any(|f| f == field);
        match () {
            () if has(&self.s) => Presence::Struct,
            () if has(&self.z) => Presence::Zero,
            () if has(&self.n) => Presence::Null,
            () if has(&self.p) => Presence::Pointer,
            () => Presence::Omitted,
        }
    }
}

/// Types that OpenAPI describes imprecisely.
fn special(name: &str) -> Option<Type> {
    let short = name.strip_prefix("io.k8s.apimachinery.pkg.")?;
    Some(match short {
        "api.resource.Quantity" => Type::Scalar(Scalar::Quantity),
        "util.intstr.IntOrString" => Type::Scalar(Scalar::IntOrString),
        "apis.meta.v1.MicroTime" => Type::Scalar(Scalar::MicroTime),
        "runtime.RawExtension" | "apis.meta.v1.FieldsV1" => Type::Any,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_parses() {
        assert!(definitions().len() > 500);
        assert_eq!(go_type("io.k8s.api.core.v1.Container", "imagePullPolicy"), Some("v1.PullPolicy"));
        let deployment = definition("io.k8s.api.apps.v1.Deployment").unwrap();
        let Type::Struct(root) = deployment.get(deployment.root()) else { panic!("not a struct") };
        let Type::Struct(spec) = deployment.get(root.fields["spec"].ty) else { panic!("not a struct") };
        assert_eq!(spec.name, "DeploymentSpec");
        assert!(matches!(deployment.get(spec.fields["replicas"].ty), Type::Scalar(Scalar::Int32)));
        let Type::Struct(metadata) = deployment.get(root.fields["metadata"].ty) else {
            panic!("not a struct")
        };
        let created = metadata.fields["creationTimestamp"].ty;
        assert!(matches!(deployment.get(created), Type::Scalar(Scalar::Time)));
    }
}
