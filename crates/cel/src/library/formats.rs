//! Named formats of names and values.

use std::sync::Arc;

use super::{Library, unfit};
use crate::types::Type;
use crate::value::Value;

const FORMAT: Type = Type::Opaque("kubernetes.NamedFormat");

/// The formats that rules can name.
const NAMES: [&str; 7] =
    ["dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "labelValue", "uuid", "date"];

/// What is wrong with a value by the format, if anything.
fn complaint(format: &str, text: &str) -> Option<&'static str> {
    let is_label = |text: &str, first_digit: bool| {
        let bytes = text.as_bytes();
        let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        !bytes.is_empty()
            && bytes.len() <= 63
            && bytes.iter().all(|b| alphanumeric(*b) || *b == b'-')
            && bytes
                .first()
                .is_some_and(|b| if first_digit { alphanumeric(*b) } else { b.is_ascii_lowercase() })
            && bytes.last().is_some_and(|b| alphanumeric(*b))
    };
    let is_name = |text: &str| {
        let bytes = text.as_bytes();
        !bytes.is_empty()
            && bytes.len() <= 63
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
    };
    let is_subdomain = |text: &str| text.len() <= 253 && text.split('.').all(|part| is_label(part, true));
    let is_fine = match format {
        "dns1123Label" => is_label(text, true),
        "dns1035Label" => is_label(text, false),
        "dns1123Subdomain" => is_subdomain(text),
        "labelValue" => text.is_empty() || is_name(text),
        "qualifiedName" => match text.split_once('/') {
            Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
            None => is_name(text),
        },
        "uuid" => {
            let parts: Vec<usize> = text.split('-').map(str::len).collect();
            parts == [8, 4, 4, 4, 12] && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
        }
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        _ => true,
    };
    (!is_fine).then_some("does not match the format")
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
        "labelValue",
        "uuid",
        "date"
    );
    library.global("format.named", [Type::String], Type::optional(FORMAT), |args| match args {
        [Value::String(name)] => {
            let known = NAMES.iter().find(|known| **known == &**name);
            Ok(Value::Optional(known.map(|name| Arc::new(Value::Format(name)))))
        }
        _ => unfit(),
    });
    library.member("validate", [FORMAT, Type::String], Type::optional(Type::list(Type::String)), |args| {
        match args {
            [Value::Format(name), Value::String(text)] => {
                let complaint = complaint(name, text).map(|c| Arc::new(Value::list(vec![Value::string(c)])));
                Ok(Value::Optional(complaint))
            }
            _ => unfit(),
        }
    });
}
