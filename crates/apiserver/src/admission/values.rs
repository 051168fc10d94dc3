//! Converts between JSON and CEL values.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};
use steersman_cel::Value as Cel;

/// Converts JSON to CEL.
pub(super) fn cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Cel::Int(integer),
            None => Cel::Double(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Cel::string(text.as_str()),
        Value::Array(items) => Cel::list(items.iter().map(cel).collect()),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| (Cel::string(key.as_str()), cel(value))).collect();
            Cel::Map(std::sync::Arc::new(pairs))
        }
    }
}

/// Larger integers lose precision in JavaScript and are written as strings.
const LARGEST: u64 = (1 << 53) - 1;

/// Converts CEL to JSON.
///
/// # Errors
/// If the value has no JSON representation.
pub(super) fn json(value: &Cel) -> Result<Value, String> {
    Ok(match value {
        Cel::Null => Value::Null,
        Cel::Bool(value) => Value::Bool(*value),
        Cel::Int(number) if number.unsigned_abs() > LARGEST => number.to_string().into(),
        Cel::Int(number) => (*number).into(),
        Cel::Uint(number) if *number > LARGEST => number.to_string().into(),
        Cel::Uint(number) => (*number).into(),
        Cel::Double(number) => (*number).into(),
        Cel::String(text) => (**text).into(),
        Cel::Bytes(bytes) => STANDARD.encode(bytes).into(),
        Cel::Timestamp(time) => time.to_string().into(),
        Cel::List(items) => Value::Array(items.iter().map(json).collect::<Result<_, _>>()?),
        Cel::Map(entries) => {
            let entry = |(key, value): &(Cel, Cel)| match key {
                Cel::String(key) => Ok((key.to_string(), json(value)?)),
                other => Err(format!("map key {other} is of type {}, not string", other.type_name())),
            };
            Value::Object(entries.iter().map(entry).collect::<Result<Map<_, _>, _>>()?)
        }
        Cel::Object(object) => {
            let field = |(key, value): &(std::sync::Arc<str>, Cel)| Ok((key.to_string(), json(value)?));
            Value::Object(object.fields.iter().map(field).collect::<Result<Map<_, _>, String>>()?)
        }
        other => return Err(format!("a value of type {} cannot be converted to JSON", other.type_name())),
    })
}
