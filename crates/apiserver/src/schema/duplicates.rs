//! JSON with an eye on keys that occur twice in one object. The last one wins, as everywhere, but strict clients want to know.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses JSON and lists repeated keys as `duplicate field "path"`.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Seed(&mut found).deserialize(&mut deserializer)?;
    deserializer.end()?;
    let complaints = found
        .into_iter()
        .map(|path| format!("duplicate field {}", crate::status::quote(path.trim_start_matches('.'))))
        .collect();
    Ok((value, complaints))
}

/// Collects repeated keys. Paths are put together on the way out, so that nothing is paid where none is found.
struct Seed<'a>(&'a mut Vec<String>);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
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
        let mut out = Vec::new();
        loop {
            let start = self.0.len();
            let Some(item) = seq.next_element_seed(Seed(self.0))? else { break };
            for path in self.0.iter_mut().skip(start) {
                path.insert_str(0, &format!("[{}]", out.len()));
            }
            out.push(item);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let start = self.0.len();
            let value = access.next_value_seed(Seed(self.0))?;
            for path in self.0.iter_mut().skip(start) {
                path.insert_str(0, &format!(".{key}"));
            }
            if out.contains_key(&key) {
                self.0.push(format!(".{key}"));
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
        let (value, found) = parse(text).unwrap();
        assert_eq!(value["a"], 3);
        assert_eq!(found, ["duplicate field \"a.b\"", "duplicate field \"l[1].x\"", "duplicate field \"a\""]);
        assert!(parse(b"{} x").is_err());
    }
}
