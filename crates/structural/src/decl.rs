//! CEL types declared by schemas, with estimates of how large their values can be.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_cel::{ObjectType, Sizes, Type};

use crate::schema::Schema;

/// Maximum request size, in bytes.
const MAX_REQUEST: i64 = 3 * 1024 * 1024;

/// A CEL type with size estimates.
#[derive(Debug, Clone)]
pub(crate) struct Decl {
    pub(crate) ty: Type,
    pub(crate) fields: BTreeMap<String, Decl>,
    pub(crate) elem: Option<Box<Decl>>,
    is_map: bool,
    /// Maximum number of characters, items or entries.
    max: i64,
    /// Minimum size of a serialized value, in bytes.
    pub(crate) min_size: i64,
}

impl Decl {
    fn simple(ty: Type, max: i64, min_size: i64) -> Self {
        Self { ty, fields: BTreeMap::new(), elem: None, is_map: false, max, min_size }
    }

    /// Maximum number of values of this type in one object.
    pub(crate) fn max_cardinality(&self) -> u64 {
        (MAX_REQUEST / (self.min_size + 1)).unsigned_abs()
    }
}

impl Sizes for Decl {
    fn max_size(&self, path: &[String]) -> Option<u64> {
        let mut decl = self;
        for (i, part) in path.iter().enumerate().skip(1) {
            decl = match part.as_str() {
                "@items" | "@values" => decl.elem.as_deref()?,
                // Map keys are strings, which have no elements. The real server estimates their length as zero: rules
                // that iterate over a key cost as if it were empty.
                "@keys" => return (decl.is_map && i + 1 == path.len()).then_some(0),
                name => decl.fields.get(name)?,
            };
        }
        Some(decl.max.unsigned_abs())
    }
}

/// Returns the escaped field name used in CEL expressions; `None` for names that cannot be escaped.
pub(crate) fn escaped(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if steersman_cel::is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')) {
        return None;
    }
    Some(
        name.replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__"),
    )
}

/// Whether a resource's schema declares all the metadata fields that rules can access.
fn has_metadata(schema: &Schema) -> bool {
    let is =
        |schema: &Schema, name: &str, kind: &str| schema.properties.get(name).is_some_and(|f| f.kind == kind);
    is(schema, "kind", "string")
        && is(schema, "apiVersion", "string")
        && is(schema, "metadata", "object")
        && schema
            .properties
            .get("metadata")
            .is_some_and(|m| is(m, "name", "string") && is(m, "generateName", "string"))
}

/// The type and metadata fields added to a resource's schema if it does not declare them.
pub(crate) fn metadata_fields() -> BTreeMap<String, Schema> {
    let text = || Schema { kind: "string".to_owned(), ..Schema::default() };
    let names = BTreeMap::from([("name".to_owned(), text()), ("generateName".to_owned(), text())]);
    let metadata = Schema { kind: "object".to_owned(), properties: names, ..Schema::default() };
    BTreeMap::from([
        ("kind".to_owned(), text()),
        ("apiVersion".to_owned(), text()),
        ("metadata".to_owned(), metadata),
    ])
}

/// Returns the fields of an object that rules can access.
pub(crate) fn visible_fields(schema: &Schema, is_resource: bool) -> BTreeMap<String, Schema> {
    let mut fields = schema.properties.clone();
    if is_resource && !has_metadata(schema) {
        fields.extend(metadata_fields());
    }
    fields
}

/// Returns the CEL type of a schema; `None` if rules cannot access its values.
pub(crate) fn declare(schema: &Schema, name: &str, is_resource: bool) -> Option<Decl> {
    let text_length = |min_size: i64, ty: Type| {
        let max = match schema.max_length {
            Some(max) => max.max(0).saturating_mul(4),
            None if ty == Type::String && !schema.enumeration.is_empty() => {
                let lengths = schema.enumeration.iter().filter_map(|v| i64::try_from(v.as_str()?.len()).ok());
                lengths.max().unwrap_or_default()
            }
            None => MAX_REQUEST - 2,
        };
        Decl::simple(ty, max, min_size)
    };
    if schema.int_or_string {
        return Some(text_length(1, Type::Dyn));
    }
    Some(match (schema.kind.as_str(), schema.format.as_str()) {
        ("array", _) => {
            let item = schema.item()?;
            let item = declare(item, &format!("{name}.@idx"), item.embedded_resource)?;
            let max = match schema.max_items {
                Some(max) => max.max(0),
                None => (MAX_REQUEST - 2) / (item.min_size + 1),
            };
            let ty = Type::list(item.ty.clone());
            Decl { elem: Some(Box::new(item)), ..Decl::simple(ty, max, 2) }
        }
        ("object", _) => match schema.additional() {
            Some(values) => {
                let values = declare(values, &format!("{name}.@elem"), values.embedded_resource)?;
                let max = match schema.max_properties {
                    Some(max) => max.max(0),
                    None => (MAX_REQUEST - 2) / (values.min_size + 6),
                };
                let ty = Type::map(Type::String, values.ty.clone());
                Decl { elem: Some(Box::new(values)), is_map: true, ..Decl::simple(ty, max, 2) }
            }
            None => object(schema, name, is_resource),
        },
        ("string", "byte") => {
            Decl::simple(Type::Bytes, schema.max_length.map_or(MAX_REQUEST - 2, |max| max.max(0)), 2)
        }
        ("string", "duration") => Decl::simple(Type::Duration, 32, 3),
        ("string", "date") => Decl::simple(Type::Timestamp, 12, 12),
        ("string", "date-time") => Decl::simple(Type::Timestamp, 32, 21),
        ("string", _) => text_length(2, Type::String),
        ("boolean", _) => Decl::simple(Type::Bool, 0, 4),
        ("number", _) => Decl::simple(Type::Double, 0, 1),
        ("integer", _) => Decl::simple(Type::Int, 0, 1),
        _ => return None,
    })
}

fn object(schema: &Schema, name: &str, is_resource: bool) -> Decl {
    let mut min_size = 2;
    let mut fields = BTreeMap::new();
    for (field, property) in visible_fields(schema, is_resource) {
        let escaped = escaped(&field);
        let place = format!("{name}.{}", escaped.as_deref().unwrap_or(&field));
        let Some(decl) = declare(&property, &place, property.embedded_resource) else { continue };
        if schema.required.contains(&field) && property.default.is_none() {
            min_size += i64::try_from(field.len()).unwrap_or_default() + decl.min_size + 4;
        }
        if let Some(escaped) = escaped {
            fields.insert(escaped, decl);
        }
    }
    let types = fields.iter().map(|(name, decl)| (name.clone(), decl.ty.clone())).collect();
    let ty = Type::Object(Arc::new(ObjectType { name: name.to_owned(), fields: types, open: false }));
    Decl { fields, ..Decl::simple(ty, 0, min_size) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn declared(schema: &Value) -> Decl {
        declare(&Schema::parse(schema), "selfType", true).unwrap()
    }

    #[test]
    fn metadata_that_rules_may_ask_for_are_there_whatever_the_schema_says() {
        let text = || json!({"type": "string"});
        let with = |metadata: Value| json!({"type": "object", "properties": {"kind": text(), "apiVersion": text(), "metadata": metadata}});
        for metadata in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"name": text()}}),
            json!({"type": "object", "properties": {"generateName": text()}}),
            json!({"type": "object", "properties": {"name": text(), "generateName": text()}}),
        ] {
            let decl = declared(&with(metadata.clone()));
            let fields: Vec<&str> = decl.fields["metadata"].fields.keys().map(String::as_str).collect();
            assert_eq!(fields, ["generateName", "name"], "{metadata}");
        }
    }

    #[test]
    fn the_least_size_of_an_object_is_that_of_its_required_fields() {
        let schema = |required: Value| {
            json!({"type": "object", "required": required, "properties": {
                "flag": {"type": "boolean"}, "set": {"type": "boolean", "default": true},
            }})
        };
        let size =
            |required: Value| declare(&Schema::parse(&schema(required)), "selfType", false).unwrap().min_size;
        assert_eq!(size(json!([])), 2);
        // The name, the value, two quotes, a colon and a comma.
        assert_eq!(size(json!(["flag"])), 2 + 4 + 4 + 4);
        assert_eq!(size(json!(["flag", "set"])), 14, "a default may be left out");
    }
}
