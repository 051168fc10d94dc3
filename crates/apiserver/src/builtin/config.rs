//! ConfigMaps and Secrets.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::Rules;
use crate::{fields::FieldError, object, status::ApiResult, strategy::Hook};

/// Largest total size of a Secret's or a ConfigMap's data.
const MAX_SIZE: usize = 1024 * 1024;

pub(super) struct ConfigMap;

impl Rules for ConfigMap {
    fn validate(&self, object: &Value, errors: &mut Vec<FieldError>) {
        let mut size = 0;
        for field in ["data", "binaryData"] {
            for (key, value) in object.get(field).and_then(Value::as_object).into_iter().flatten() {
                check_key(field, key, errors);
                size += value.as_str().map_or(0, str::len);
                if field == "binaryData" && object::get(object, &["data", key]).is_some() {
                    errors.push(FieldError::invalid(
                        format!("binaryData[{key}]"),
                        key.as_str(),
                        "duplicate of key present in data",
                    ));
                }
            }
        }
        if size > MAX_SIZE {
            errors.push(FieldError::too_long("", MAX_SIZE));
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        immutable(object, old, &["data", "binaryData"], errors);
    }
}

pub(super) struct Secret;

impl Rules for Secret {
    fn default(&self, _: &str, object: &mut Value) {
        let root = object::ensure(object);
        if let Some(Value::Object(plain)) = root.remove("stringData") {
            let data = object::ensure(root.entry("data").or_insert(Value::Null));
            for (key, value) in plain {
                data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
            }
        }
        if root.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
            root.insert("type".into(), "Opaque".into());
        }
    }

    fn prepare_update(&self, _: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if object.get("type").is_none() {
            object::carry(old, object, "type");
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Vec<FieldError>) {
        let empty = Map::new();
        let data = object.get("data").and_then(Value::as_object).unwrap_or(&empty);
        let mut size = 0;
        for (key, value) in data {
            check_key("data", key, errors);
            size += value.as_str().map_or(0, |v| v.len() / 4 * 3);
        }
        if size > MAX_SIZE {
            errors.push(FieldError::too_long("data", MAX_SIZE));
        }
        let needed: &[&str] = match object::text(object, &["type"]).unwrap_or_default() {
            "kubernetes.io/tls" => &["tls.crt", "tls.key"],
            "kubernetes.io/dockercfg" => &[".dockercfg"],
            "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
            "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
            _ => &[],
        };
        for key in needed {
            if !data.contains_key(*key) {
                errors.push(FieldError::required(format!("data[{key}]"), ""));
            }
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        if object.get("type") != old.get("type") {
            errors.push(FieldError::invalid(
                "type",
                object.get("type").cloned().unwrap_or_default(),
                "field is immutable",
            ));
        }
        immutable(object, old, &["data"], errors);
    }
}

fn check_key(field: &str, key: &str, errors: &mut Vec<FieldError>) {
    let path = format!("{field}[{key}]");
    if key.len() > 253 {
        errors.push(FieldError::invalid(path.clone(), key, "must be no more than 253 characters"));
    }
    let shape =
        !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'));
    if !shape {
        let rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        errors.push(FieldError::invalid(path, key, rule));
    } else if key == "." || key == ".." {
        errors.push(FieldError::invalid(path, key, format!("must not be '{key}'")));
    } else if key.starts_with("..") {
        errors.push(FieldError::invalid(path, key, "must not start with '..'"));
    }
}

fn immutable(object: &Value, old: &Value, fields: &[&str], errors: &mut Vec<FieldError>) {
    let flag = |v: &Value| v.get("immutable").and_then(Value::as_bool) == Some(true);
    if !flag(old) {
        return;
    }
    if !flag(object) {
        errors.push(FieldError::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for field in fields {
        let content =
            |v: &Value| v.get(field).filter(|f| f.as_object().is_some_and(|m| !m.is_empty())).cloned();
        if content(object) != content(old) {
            errors.push(FieldError::forbidden(*field, "field is immutable when `immutable` is set"));
        }
    }
}
