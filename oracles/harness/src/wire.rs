//! Go values as the oracles encode them in JSON.

use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use steersman_gotemplate::{FloatType, IntType, List, ListType, Map, MapType, Str, Type, UintType, Value};

/// Encodes a string of arbitrary bytes: as a JSON string if it is UTF-8.
pub fn text(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::from(text),
        Err(_) => json!({ "$b64": STANDARD.encode(bytes) }),
    }
}

/// Decodes the bytes of such a string; empty for anything else.
pub fn bytes(text: &Json) -> Vec<u8> {
    match text {
        Json::String(text) => text.clone().into_bytes(),
        other => {
            let encoded = other.get("$b64").and_then(Json::as_str).unwrap_or_default();
            STANDARD.decode(encoded).unwrap_or_default()
        }
    }
}

/// Concatenates all strings in an answer.
pub fn flat(json: &Json) -> Vec<u8> {
    match json {
        Json::Object(fields) if !fields.contains_key("$b64") => fields.values().flat_map(flat).collect(),
        Json::Array(items) => items.iter().flat_map(flat).collect(),
        Json::String(_) | Json::Object(_) => bytes(json),
        other => other.to_string().into_bytes(),
    }
}

/// Encodes a value with its Go type, which JSON cannot represent.
pub fn tagged(ty: &str, value: impl Into<Json>) -> Json {
    json!({ "$t": ty, "v": value.into() })
}

static LIST_INT64: ListType = ListType { name: "[]int64", elem: Type::Int64, methods: &[] };
static LIST_FLOAT: ListType = ListType { name: "[]float64", elem: Type::Float64, methods: &[] };
static LIST_BOOL: ListType = ListType { name: "[]bool", elem: Type::Bool, methods: &[] };
static MAP_INT: MapType = MapType { name: "map[string]int", elem: Type::Int, methods: &[] };
static MAP_BOOL: MapType = MapType { name: "map[string]bool", elem: Type::Bool, methods: &[] };

/// Decodes a value.
pub fn value(spelled: &Json) -> Result<Value, String> {
    match spelled {
        Json::Null => Ok(Value::Nil),
        Json::Bool(b) => Ok(Value::Bool(*b)),
        Json::Number(n) => n.as_f64().map(Value::float).ok_or_else(|| format!("number {n}")),
        Json::String(s) => Ok(Value::string(s.as_str())),
        Json::Array(items) => items.iter().map(value).collect::<Result<_, _>>().map(Value::list),
        Json::Object(fields) => {
            if let Some(ty) = fields.get("$t").and_then(Json::as_str) {
                return typed(ty, fields.get("v").unwrap_or(&Json::Null));
            }
            if fields.contains_key("$b64") {
                return Ok(Value::string(bytes(spelled)));
            }
            let entries = fields.iter().map(|(k, v)| Ok((k.as_str(), value(v)?)));
            Ok(Value::map(entries.collect::<Result<Vec<_>, String>>()?))
        }
    }
}

fn typed(ty: &str, v: &Json) -> Result<Value, String> {
    let int = |ty| Ok(Value::Int(parse(v)?, ty));
    let uint = |ty| Ok(Value::Uint(parse(v)?, ty));
    match ty {
        "int" => int(IntType::Int),
        "int8" => int(IntType::Int8),
        "int16" => int(IntType::Int16),
        "int32" => int(IntType::Int32),
        "int64" => int(IntType::Int64),
        "uint" => uint(UintType::Uint),
        "uint8" => uint(UintType::Uint8),
        "uint16" => uint(UintType::Uint16),
        "uint32" => uint(UintType::Uint32),
        "uint64" => uint(UintType::Uint64),
        "float64" => Ok(Value::float(parse(v)?)),
        "float32" => Ok(Value::Float(f64::from(parse::<f32>(v)?), FloatType::Float32)),
        "bytes" => Ok(Value::Bytes(Str::from(bytes(&json!({ "$b64": v }))))),
        "[]any" => list(ListType::ANY, v),
        "[]string" => list(ListType::STRING, v),
        "[]int" => list(ListType::INT, v),
        "[]int64" => list(&LIST_INT64, v),
        "[]float64" => list(&LIST_FLOAT, v),
        "[]bool" => list(&LIST_BOOL, v),
        "map" => map(MapType::ANY, v),
        "map[string]string" => map(MapType::STRING, v),
        "map[string]int" => map(&MAP_INT, v),
        "map[string]bool" => map(&MAP_BOOL, v),
        other => Err(format!("no such type here: {other}")),
    }
}

fn parse<T: std::str::FromStr>(v: &Json) -> Result<T, String> {
    let text = v.as_str().ok_or_else(|| format!("not a string: {v}"))?;
    text.parse().map_err(|_| format!("not a number: {text}"))
}

fn list(ty: &'static ListType, v: &Json) -> Result<Value, String> {
    let Some(items) = v.as_array() else { return Ok(Value::List(List::nil(ty))) };
    let items = items.iter().map(|item| element(ty.elem, item)).collect::<Result<_, _>>()?;
    Ok(Value::List(List::new(ty, items)))
}

fn map(ty: &'static MapType, v: &Json) -> Result<Value, String> {
    let Some(fields) = v.as_object() else { return Ok(Value::Map(Map::nil(ty))) };
    let entries = fields.iter().map(|(k, v)| Ok((Str::from(k.as_str()), element(ty.elem, v)?)));
    Ok(Value::Map(Map::with_type(ty, entries.collect::<Result<_, String>>()?)))
}

/// Decodes an element of a typed slice or map: plain JSON, read as that type.
fn element(ty: Type, v: &Json) -> Result<Value, String> {
    let whole = || v.as_i64().ok_or_else(|| format!("not whole: {v}"));
    match ty {
        Type::Int => Ok(Value::int(whole()?)),
        Type::Int64 => Ok(Value::int64(whole()?)),
        _ => value(v),
    }
}

/// Encodes a value so that its type survives.
pub fn spell(value: &Value) -> Json {
    match value {
        Value::Nil => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(n, ty) => tagged(&Value::Int(*n, *ty).type_name(), n.to_string()),
        Value::Uint(n, ty) => tagged(&Value::Uint(*n, *ty).type_name(), n.to_string()),
        Value::Float(n, FloatType::Float64) => float(*n),
        Value::String(s) => text(s.as_bytes()),
        Value::Bytes(b) => tagged("bytes", STANDARD.encode(b.as_bytes())),
        Value::List(items) => {
            let spelled = if items.is_nil() { Json::Null } else { items.iter().map(spell).collect() };
            match items.ty().name {
                "[]interface {}" if !items.is_nil() => spelled,
                "[]interface {}" => tagged("[]any", spelled),
                name => tagged(name, spelled),
            }
        }
        Value::Map(map) => {
            let entries = map.borrow();
            let spelled: Json =
                entries.iter().map(|(k, v)| (k.to_str_lossy().into_owned(), spell(v))).collect();
            let clash = entries.contains_key(&b"$t"[..]) || entries.contains_key(&b"$b64"[..]);
            match map.ty().name {
                _ if map.is_nil() => tagged("map", Json::Null),
                "map[string]interface {}" if clash => tagged("map", spelled),
                "map[string]interface {}" => spelled,
                "chartutil.Values" => tagged("values", spelled),
                name => tagged(name, spelled),
            }
        }
        Value::Float(n, FloatType::Float32) => tagged("float32", n.to_string()),
        Value::Complex(re, im) => tagged("complex128", format!("{re}+{im}i")),
        Value::Object(object) => tagged(Rc::as_ref(object).type_name(), object.display()),
    }
}

/// Encodes a `float64`. Integers become numbers, others Go's shortest string, so that no parser rounds them.
pub fn float(n: f64) -> Json {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if n.trunc() == n && n.abs() < EXACT && !(n == 0.0 && n.is_sign_negative()) {
        #[expect(clippy::cast_possible_truncation, reason = "checked just above")]
        return Json::from(n as i64);
    }
    tagged("float64", format!("{n:?}"))
}

/// Rewrites every tagged `float64` in the same notation, as Go and Rust print them differently. Also replaces
/// `chartutil.Values` by a plain map.
pub fn canonical(spelled: &mut Json) {
    match spelled {
        Json::Array(items) => items.iter_mut().for_each(canonical),
        Json::Object(fields) => {
            if fields.get("$t").is_some_and(|ty| ty == "values") {
                *spelled = fields.remove("v").unwrap_or_default();
                return canonical(spelled);
            }
            if fields.get("$t").is_some_and(|ty| ty == "float64") {
                let number: Option<f64> = fields.get("v").and_then(Json::as_str).and_then(|v| v.parse().ok());
                if let Some(number) = number {
                    fields.insert("v".into(), Json::from(format!("{number:?}")));
                }
            }
            fields.values_mut().for_each(canonical);
        }
        _ => {}
    }
}
