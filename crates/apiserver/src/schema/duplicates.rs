//! JSON with an eye on keys that occur twice in one object or that the schema does not know. The last one of the former wins,
//! the latter are dropped, as everywhere, but strict clients want to know.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Schema, Type, TypeId};

/// Parses JSON, leaves out what `schema` does not know, and lists repeated and unknown fields in the order in which they are met.
pub(crate) fn parse(
    bytes: &[u8],
    schema: Option<&Schema>,
) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let ty = schema.map(|s| (s, s.root()));
    let value = Seed { found: &mut found, ty }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    let complaints = found
        .into_iter()
        .map(|(what, path)| format!("{what} field {}", crate::status::quote(path.trim_start_matches('.'))))
        .collect();
    Ok((value, complaints))
}

/// Collects odd fields. Paths are put together on the way out, so that nothing is paid where none is found.
struct Seed<'a, 's> {
    found: &'a mut Vec<(&'static str, String)>,
    ty: Option<(&'s Schema, TypeId)>,
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
        Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
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
        let ty = self.ty.and_then(|(schema, id)| match schema.get(id) {
            Type::List(items) => Some((schema, *items)),
            _ => None,
        });
        let mut out = Vec::new();
        loop {
            let start = self.found.len();
            let Some(item) = seq.next_element_seed(Seed { found: self.found, ty })? else { break };
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
            let ty = match self.ty.map(|(schema, id)| (schema, schema.get(id))) {
                Some((schema, Type::Struct(fields))) => match fields.fields.get(&key) {
                    Some(field) => Some((schema, field.ty)),
                    None if fields.open => None,
                    None => {
                        access.next_value::<IgnoredAny>()?;
                        self.found.push(("unknown", format!(".{key}")));
                        continue;
                    }
                },
                Some((schema, Type::Map(values))) => Some((schema, *values)),
                _ => None,
            };
            let start = self.found.len();
            let repeated = out.contains_key(&key);
            if repeated {
                self.found.push(("duplicate", String::new()));
            }
            let value = access.next_value_seed(Seed { found: self.found, ty })?;
            for (_, path) in self.found.iter_mut().skip(start) {
                path.insert_str(0, &format!(".{key}"));
            }
            out.insert(key, value);
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
        let (value, found) = parse(text, None).unwrap();
        assert_eq!(value["a"], 3);
        assert_eq!(found, ["duplicate field \"a.b\"", "duplicate field \"l[1].x\"", "duplicate field \"a\""]);
        assert!(parse(b"{} x", None).is_err());
    }
}
