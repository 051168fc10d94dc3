//! The types of the built-in kinds, from the data file.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use serde_json::{Map, Value};

use super::{Field, Identity, Scalar, Schema, Struct, Type, TypeId};

struct Loaded {
    raw: Map<String, Value>,
    types: Vec<Type>,
    by_name: HashMap<String, u32>,
}

static LOADED: LazyLock<Loaded> = LazyLock::new(|| {
    // The file is part of the program; a test parses it.
    let raw: Map<String, Value> =
        serde_json::from_str(include_str!("../../data/schemas.json")).unwrap_or_default();
    let mut loader = Loader { types: vec![Type::Any; raw.len()], by_name: HashMap::new() };
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

/// All built-in types.
pub(crate) fn builtin() -> &'static [Type] {
    &LOADED.types
}

/// All built-in OpenAPI schemas by name, with `ref` for references.
pub(crate) fn definitions() -> &'static Map<String, Value> {
    &LOADED.raw
}

/// The type with this OpenAPI name.
pub(crate) fn definition(name: &str) -> Option<Arc<Schema>> {
    let root = TypeId::Builtin(*LOADED.by_name.get(name)?);
    static EMPTY: LazyLock<Arc<Vec<Type>>> = LazyLock::new(Arc::default);
    Some(Arc::new(Schema { arena: Arc::clone(&EMPTY), root }))
}

struct Loader {
    types: Vec<Type>,
    by_name: HashMap<String, u32>,
}

impl Loader {
    fn add(&mut self, ty: Type) -> TypeId {
        self.types.push(ty);
        TypeId::Builtin(u32::try_from(self.types.len() - 1).unwrap_or_default())
    }

    /// A property's or an item's type.
    fn inline(&mut self, schema: &Value) -> TypeId {
        if let Some(name) = schema.get("ref").and_then(Value::as_str) {
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
            None if schema.get("oneOf").is_some() => return Type::Scalar(Scalar::IntOrString),
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
                Type::List { items, identity: identity(schema) }
            }
            ("object", _) if schema.get("additionalProperties").is_some() => {
                let values = self.inline(&schema["additionalProperties"]);
                Type::Map { values, atomic: text("x-kubernetes-map-type") == "atomic" }
            }
            ("object", _) if schema.get("properties").is_some() || !name.is_empty() => {
                Type::Struct(self.structure(schema, name))
            }
            _ => Type::Any,
        }
    }

    fn structure(&mut self, schema: &Value, name: &str) -> Struct {
        let mut fields = std::collections::BTreeMap::new();
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let strategies = property["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
            let field = Field {
                ty: self.inline(property),
                patch_strategies: strategies.split(',').filter(|s| !s.is_empty()).map(Into::into).collect(),
                patch_merge_key: property["x-kubernetes-patch-merge-key"].as_str().map(Into::into),
            };
            fields.insert(key.clone(), field);
        }
        Struct {
            name: name.rsplit('.').next().unwrap_or_default().to_owned(),
            fields,
            open: false,
            atomic: schema["x-kubernetes-map-type"] == "atomic",
        }
    }
}

/// Types that OpenAPI describes loosely.
fn special(name: &str) -> Option<Type> {
    let short = name.strip_prefix("io.k8s.apimachinery.pkg.")?;
    Some(match short {
        "api.resource.Quantity" | "util.intstr.IntOrString" => Type::Scalar(Scalar::IntOrString),
        "apis.meta.v1.Time" | "apis.meta.v1.MicroTime" => Type::Scalar(Scalar::Time),
        "runtime.RawExtension" | "apis.meta.v1.FieldsV1" => Type::Any,
        _ => return None,
    })
}

fn identity(schema: &Value) -> Identity {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Identity::Set,
        Some("map") => Identity::Map(
            schema["x-kubernetes-list-map-keys"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|k| Some(k.as_str()?.to_owned()))
                .collect(),
        ),
        _ => Identity::Atomic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_parses() {
        assert!(definitions().len() > 500);
        let deployment = definition("io.k8s.api.apps.v1.Deployment").unwrap();
        let Type::Struct(root) = deployment.get(deployment.root()) else { panic!("not a struct") };
        let Type::Struct(spec) = deployment.get(root.fields["spec"].ty) else { panic!("not a struct") };
        assert_eq!(spec.name, "DeploymentSpec");
        assert!(matches!(deployment.get(spec.fields["replicas"].ty), Type::Scalar(Scalar::Int32)));
    }
}
