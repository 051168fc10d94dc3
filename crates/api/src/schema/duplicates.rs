//! JSON parsing that reports duplicate and unknown fields, for field validation.
//!
//! The last of duplicate fields wins and unknown ones are dropped, as in any other decoder.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, map::Entry};

use super::{Schema, Type, TypeId};
use crate::object;

/// The expected type at a path in a document.
#[derive(Clone, Copy)]
pub enum Shape<'s> {
    /// Any value.
    Any,
    /// A value of this type.
    Type(&'s Schema, TypeId),
    /// The operations of a JSON patch.
    Operations,
    /// One operation of a JSON patch.
    Operation,
}

impl<'s> Shape<'s> {
    /// Returns the root of a schema.
    pub fn of(schema: &'s Schema) -> Self {
        Self::Type(schema, schema.root())
    }

    /// Returns the shape of the items of a list.
    fn items(self) -> Self {
        match self {
            Self::Type(schema, id) => match schema.get(id) {
                Type::List(items) => Self::Type(schema, *items),
                _ => Self::Any,
            },
            Self::Operations => Self::Operation,
            Self::Any | Self::Operation => Self::Any,
        }
    }

    /// Returns the shape of an object's field, or `None` if the field is unknown.
    fn field(self, key: &str) -> Option<Self> {
        match self {
            Self::Type(schema, id) => match schema.get(id) {
                Type::Struct(fields) => match fields.fields.get(key) {
                    Some(field) => Some(Self::Type(schema, field.ty)),
                    None => fields.open.then_some(Self::Any),
                },
                Type::Map(values) => Some(Self::Type(schema, *values)),
                _ => Some(Self::Any),
            },
            Self::Operation => matches!(key, "op" | "path" | "from" | "value").then_some(Self::Any),
            Self::Any | Self::Operations => Some(Self::Any),
        }
    }
}

/// Parses JSON, and reports duplicate and unknown fields in document order.
///
/// Unknown fields are dropped, and numbers are normalised by [`object::normal_number`].
pub fn parse(bytes: &[u8], shape: Shape<'_>) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Seed { found: &mut found, shape }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    let complaints = found
        .into_iter()
        .map(|(what, path)| format!("{what} field {}", crate::status::quote(path.trim_start_matches('.'))))
        .collect();
    Ok((value, complaints))
}

/// Collects duplicate and unknown fields. Paths are built while unwinding, so they cost nothing if there are none.
struct Seed<'a, 's> {
    found: &'a mut Vec<(&'static str, String)>,
    shape: Shape<'s>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(object::normal_number(v))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let shape = self.shape.items();
        let mut out = Vec::new();
        loop {
            let start = self.found.len();
            let Some(item) = seq.next_element_seed(Seed { found: self.found, shape })? else { break };
            for (_, path) in self.found.iter_mut().skip(start) {
                path.insert_str(0, &format!("[{}]", out.len()));
            }
            out.push(item);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let Some(shape) = self.shape.field(&key) else {
                access.next_value::<IgnoredAny>()?;
                self.found.push(("unknown", format!(".{key}")));
                continue;
            };
            let start = self.found.len();
            let entry = out.entry(key);
            if matches!(entry, Entry::Occupied(_)) {
                self.found.push(("duplicate", String::new()));
            }
            let value = access.next_value_seed(Seed { found: self.found, shape })?;
            for (_, path) in self.found.iter_mut().skip(start) {
                path.insert_str(0, &format!(".{}", entry.key()));
            }
            match entry {
                Entry::Vacant(entry) => drop(entry.insert(value)),
                Entry::Occupied(mut entry) => drop(entry.insert(value)),
            }
        }
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_keys_are_listed_with_their_paths() {
        let text = br#"{"a":{"b":1,"b":2},"l":[{"x":1},{"x":1,"x":2}],"a":3}"#;
        let (value, found) = parse(text, Shape::Any).unwrap();
        assert_eq!(value["a"], 3);
        assert_eq!(found, ["duplicate field \"a.b\"", "duplicate field \"l[1].x\"", "duplicate field \"a\""]);
        assert!(parse(b"{} x", Shape::Any).is_err());
    }

    #[test]
    fn operations_of_a_patch_have_four_fields() {
        let text = br#"[{"op":"add","path":"/a","value":{"b":1,"b":2},"extra":1,"op":"add"}]"#;
        let (value, found) = parse(text, Shape::Operations).unwrap();
        assert_eq!(value[0].get("extra"), None);
        assert_eq!(
            found,
            ["duplicate field \"[0].value.b\"", "unknown field \"[0].extra\"", "duplicate field \"[0].op\""]
        );
    }
}
