//! Types of custom resources, from structural schemas.

use std::sync::Arc;

use serde_json::Value;

use super::{Field, Presence, Scalar, Schema, Struct, Type, TypeId, definition};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Schemas nested deeper than this are taken for anything.
const MAX_DEPTH: usize = 100;

pub(super) fn build(schema: &Value) -> Schema {
    let mut builder = Builder { types: Vec::new() };
    let root = builder.node(schema, true, 0);
    Schema { arena: Arc::new(builder.types), root }
}

struct Builder {
    types: Vec<Type>,
}

impl Builder {
    fn add(&mut self, ty: Type) -> TypeId {
        self.types.push(ty);
        TypeId::Own(u32::try_from(self.types.len() - 1).unwrap_or_default())
    }

    fn node(&mut self, schema: &Value, resource: bool, depth: usize) -> TypeId {
        if depth > MAX_DEPTH {
            return self.add(Type::Any);
        }
        let flag = |key: &str| schema[key].as_bool() == Some(true);
        let text = |key: &str| schema[key].as_str().unwrap_or_default();
        let resource = resource || flag("x-kubernetes-embedded-resource");
        if flag("x-kubernetes-int-or-string") {
            return self.add(Type::Scalar(Scalar::IntOrString));
        }
        let ty = match text("type") {
            "string" => Type::Scalar(Scalar::String),
            "integer" => Type::Scalar(Scalar::Int64),
            "number" => Type::Scalar(Scalar::Number),
            "boolean" => Type::Scalar(Scalar::Boolean),
            "array" => {
                let items = self.node(&schema["items"], false, depth + 1);
                Type::List(items)
            }
            "object" => self.object(schema, resource, depth),
            _ => Type::Any,
        };
        self.add(ty)
    }

    fn object(&mut self, schema: &Value, resource: bool, depth: usize) -> Type {
        let open = schema["x-kubernetes-preserve-unknown-fields"].as_bool() == Some(true);
        match &schema["additionalProperties"] {
            Value::Object(_) => {
                let values = self.node(&schema["additionalProperties"], false, depth + 1);
                return Type::Map(values);
            }
            Value::Bool(true) => {
                let values = self.add(Type::Any);
                return Type::Map(values);
            }
            _ => {}
        }
        let mut result = Struct { open, ..Struct::default() };
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let ty = self.node(property, false, depth + 1);
            result.fields.insert(key.clone(), field(ty));
        }
        if resource {
            for key in ["apiVersion", "kind"] {
                let ty = self.add(Type::Scalar(Scalar::String));
                result.fields.insert(key.into(), field(ty));
            }
            if let Some(meta) = definition(META) {
                result.fields.insert("metadata".into(), field(meta.root()));
            }
        }
        Type::Struct(result)
    }
}

fn field(ty: TypeId) -> Field {
    Field { ty, presence: Presence::Pointer }
}
