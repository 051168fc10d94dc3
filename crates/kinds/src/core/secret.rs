//! Secret.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{
    fields::FieldError,
    object,
    schema::{self},
    table::Cell,
};

use crate::{
    cells::{length, text},
    check::{self, Errors, FieldErrors, FieldPath, IMMUTABLE, Read},
    core::config_data::{MAX_SIZE, decoded_length, immutable},
    kind::{Change, Column, Kind, Rules, Selectable},
    pem,
};

pub(super) const KIND: Kind = Kind {
    rules: &Secret,
    selectable: &[Selectable::new("type", &["type"])],
    columns: &[Column::NAME, Column::string("Type"), Column::string("Data"), Column::AGE],
    cell,
    ..Kind::new("", "secrets")
};

struct Secret;

impl Rules for Secret {
    fn default(&self, _: &str, object: &mut Value) {
        let root = object::ensure(object);
        if let Some(Value::Object(plain)) = root.remove("stringData") {
            let data = object::ensure(root.entry("data").or_insert(Value::Null));
            for (key, value) in plain {
                data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
            }
        }
        check::default_zero(root, "type", "Opaque");
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let at = FieldPath::root("data");
        let mut size = 0;
        for (key, value) in object.pairs("data") {
            errors.all(&at.key(key), key, check::config_key(key));
            size += decoded_length(value);
        }
        if size > MAX_SIZE {
            errors.push(FieldError::too_long(at, MAX_SIZE));
        }
        let data = object.at("data");
        let has = |key: &str| data.get(key).is_some();
        match object.str("type") {
            "kubernetes.io/service-account-token" => {
                let key = "kubernetes.io/service-account.name";
                if object.path(&["metadata", "annotations"]).str(key).is_empty() {
                    errors.required(format!("metadata.annotations[{key}]"), "");
                }
            }
            "kubernetes.io/dockercfg" => docker_file(at.key(".dockercfg"), data.at(".dockercfg"), errors),
            "kubernetes.io/dockerconfigjson" => {
                docker_file(at.key(".dockerconfigjson"), data.at(".dockerconfigjson"), errors);
            }
            "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
                errors.required(at.key("username"), "");
                errors.required(at.key("password"), "");
            }
            "kubernetes.io/ssh-auth" if data.str("ssh-privatekey").is_empty() => {
                errors.required(at.key("ssh-privatekey"), "");
            }
            "kubernetes.io/tls" => {
                for key in ["tls.crt", "tls.key"] {
                    if !has(key) {
                        errors.required(at.key(key), "");
                    }
                }
            }
            _ => {}
        }
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        certificate(object).into_iter().collect()
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.object.str("type") != change.old.str("type") {
            errors.invalid("type", change.object.str("type"), IMMUTABLE);
        }
        immutable(change, &["data"], errors);
        change.whole_metadata(errors);
        self.validate(change.object, errors);
    }
}

/// Returns the warning about the certificate of a TLS Secret, if any.
fn certificate(object: &Value) -> Option<String> {
    let file = |key: &str| STANDARD.decode(object.at("data").str(key)).unwrap_or_default();
    let is_tls = object.str("type") == "kubernetes.io/tls";
    is_tls.then(|| pem::check_pair(&file("tls.crt"), &file("tls.key"))).flatten()
}

fn docker_file(at: FieldPath<'_>, content: &Value, errors: &mut Errors) {
    let Some(text) = content.as_str() else { return errors.required(at, "") };
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let why = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            let kind = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Number(_) => "number",
                _ => "bool",
            };
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
        Err(error) => schema::syntax(&bytes, &error),
    };
    errors.invalid(at, "<secret contents redacted>", why);
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    match column {
        "Type" => Some(text(object, &["type"])),
        "Data" => Some(length(object, &["data"]).into()),
        _ => None,
    }
}
