//! Named formats (`format.named` and `format.<name>()`).

use std::sync::Arc;

use steersman_formats::Url;
use steersman_formats::names::{self, NameRule};
use steersman_gostd::strconv::quote;

use super::{Library, unfit};
use crate::types::Type;
use crate::value::Value;

const FORMAT: Type = Type::Opaque("kubernetes.NamedFormat");

/// The formats available to rules, with the nominal length of their patterns.
const FORMATS: [(&str, u64); 13] = [
    ("dns1123Label", 30),
    ("dns1123Subdomain", 60),
    ("dns1035Label", 30),
    ("qualifiedName", 60),
    ("dns1123LabelPrefix", 30),
    ("dns1123SubdomainPrefix", 60),
    ("dns1035LabelPrefix", 30),
    ("labelValue", 40),
    ("uri", 1103),
    ("uuid", 70),
    ("byte", 84),
    ("date", 71),
    ("datetime", 71),
];

/// Returns the nominal pattern length of a format, used for its cost.
pub(crate) fn pattern_length(format: &str) -> u64 {
    FORMATS.iter().find(|(name, _)| *name == format).map_or(0, |(_, length)| *length)
}

/// Returns the violations of a format.
fn complaints(format: &str, text: &str) -> Vec<String> {
    let by_format = |format: &str, complaint: &str| {
        let follows = steersman_formats::follows(format, text) == Some(true);
        if follows { Vec::new() } else { vec![complaint.to_owned()] }
    };
    match format {
        "dns1123Label" => names::check(NameRule::Label, text, false),
        "dns1123Subdomain" => names::check(NameRule::Subdomain, text, false),
        "dns1035Label" => names::label_1035(text),
        "dns1123LabelPrefix" => names::check(NameRule::Label, text, true),
        "dns1123SubdomainPrefix" => names::check(NameRule::Subdomain, text, true),
        "dns1035LabelPrefix" => match text.strip_suffix('-') {
            // A trailing dash is valid in a prefix because the suffix follows it.
            Some(rest) if !rest.is_empty() => names::label_1035(&format!("{rest}a")),
            _ => names::label_1035(text),
        },
        "qualifiedName" => names::qualified(text),
        "labelValue" => names::label_value(text),
        "uri" => match Url::read(text) {
            Ok(_) => Vec::new(),
            Err(why) => vec![format!("parse {}: {why}", quote(text))],
        },
        "uuid" => by_format("uuid", "does not match the UUID format"),
        "byte" => by_format("byte", "invalid base64"),
        "date" => by_format("date", "invalid date"),
        "datetime" => by_format("datetime", "invalid datetime"),
        _ => Vec::new(),
    }
}

pub(super) fn add(library: &mut Library) {
    macro_rules! formats {
        ($($name:literal),*) => {$(
            library.global(concat!("format.", $name), [], FORMAT, |_| Ok(Value::Format($name)));
        )*};
    }
    formats!(
        "dns1123Label",
        "dns1123Subdomain",
        "dns1035Label",
        "qualifiedName",
        "dns1123LabelPrefix",
        "dns1123SubdomainPrefix",
        "dns1035LabelPrefix",
        "labelValue",
        "uri",
        "uuid",
        "byte",
        "date",
        "datetime"
    );
    library.global("format.named", [Type::String], Type::optional(FORMAT), |args| match args {
        [Value::String(name)] => {
            let known = FORMATS.iter().find(|(known, _)| *known == &**name);
            Ok(Value::Optional(known.map(|(name, _)| Arc::new(Value::Format(name)))))
        }
        _ => unfit(),
    });
    library.member("validate", [FORMAT, Type::String], Type::optional(Type::list(Type::String)), |args| {
        match args {
            [Value::Format(name), Value::String(text)] => {
                let complaints: Vec<Value> = complaints(name, text).into_iter().map(Value::string).collect();
                let found = (!complaints.is_empty()).then(|| Arc::new(Value::list(complaints)));
                Ok(Value::Optional(found))
            }
            _ => unfit(),
        }
    });
}
