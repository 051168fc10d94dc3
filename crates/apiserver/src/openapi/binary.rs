//! The OpenAPI v2 document in protobuf, the only format in which `kubectl` reads it.
//! `kubectl` does so to validate a `List` before it creates the items.

use serde_json::Value;

/// The encoding of a value.
enum Kind {
    Text,
    Bool,
    Integer,
    Number,
    /// Any value, as a string.
    Any,
    Message(&'static Message),
    /// Elements, each in a separate field.
    Repeated(&'static Kind),
    /// A message with the value as its only field, which has this number.
    Wrapped(u32, &'static Kind),
    /// A message with name-value pairs in fields of this number.
    Pairs(u32, &'static Kind),
    /// One of several encodings, selected by the value.
    Either(fn(&Value) -> &'static Kind),
}

/// The fields of an object, and the field number of extensions.
struct Message {
    fields: &'static [(&'static str, u32, Kind)],
    extensions: u32,
}

use Kind::{Any, Bool, Either, Integer, Number, Pairs, Repeated, Text, Wrapped};

const TEXTS: Kind = Repeated(&Text);

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, Kind::Message(&INFO)),
        ("host", 3, Text),
        ("basePath", 4, Text),
        ("schemes", 5, TEXTS),
        ("consumes", 6, TEXTS),
        ("produces", 7, TEXTS),
        ("paths", 8, Pairs(2, &Kind::Message(&PATH))),
        ("definitions", 9, Pairs(1, &Kind::Message(&SCHEMA))),
        ("security", 12, Repeated(&Pairs(1, &Wrapped(1, &TEXTS)))),
        ("securityDefinitions", 13, Pairs(1, &Wrapped(2, &Kind::Message(&KEY)))),
    ],
    extensions: 16,
};

static INFO: Message =
    Message { fields: &[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)], extensions: 7 };

static KEY: Message = Message {
    fields: &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)],
    extensions: 5,
};

static PATH: Message = Message {
    fields: &[
        ("get", 2, Kind::Message(&OPERATION)),
        ("put", 3, Kind::Message(&OPERATION)),
        ("post", 4, Kind::Message(&OPERATION)),
        ("delete", 5, Kind::Message(&OPERATION)),
        ("options", 6, Kind::Message(&OPERATION)),
        ("head", 7, Kind::Message(&OPERATION)),
        ("patch", 8, Kind::Message(&OPERATION)),
        ("parameters", 9, Repeated(&Either(parameter))),
    ],
    extensions: 10,
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, TEXTS),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, TEXTS),
        ("consumes", 7, TEXTS),
        ("parameters", 8, Repeated(&Either(parameter))),
        ("responses", 9, Pairs(1, &Wrapped(1, &Kind::Message(&RESPONSE)))),
        ("schemes", 10, TEXTS),
        ("deprecated", 11, Bool),
    ],
    extensions: 13,
};

static RESPONSE: Message = Message {
    fields: &[("description", 1, Text), ("schema", 2, Wrapped(1, &Kind::Message(&SCHEMA)))],
    extensions: 5,
};

/// Selects the message for a parameter, by its location.
fn parameter(value: &Value) -> &'static Kind {
    static IN_BODY: Kind = Wrapped(1, &Wrapped(1, &Kind::Message(&BODY)));
    static IN_HEADER: Kind = Wrapped(1, &Wrapped(2, &Wrapped(1, &Kind::Message(&PLACED))));
    static IN_PATH: Kind = Wrapped(1, &Wrapped(2, &Wrapped(4, &Kind::Message(&PLACED))));
    static IN_QUERY: Kind = Wrapped(1, &Wrapped(2, &Wrapped(3, &Kind::Message(&QUERY))));
    match value["in"].as_str() {
        Some("body") => &IN_BODY,
        Some("header") => &IN_HEADER,
        Some("path") => &IN_PATH,
        _ => &IN_QUERY,
    }
}

static BODY: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Bool),
        ("schema", 5, Kind::Message(&SCHEMA)),
    ],
    extensions: 6,
};

/// A header or path parameter.
static PLACED: Message = Message {
    fields: &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Bool),
    ],
    extensions: 22,
};

static QUERY: Message = Message {
    fields: &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Bool),
    ],
    extensions: 23,
};

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Number),
        ("maximum", 7, Number),
        ("exclusiveMaximum", 8, Bool),
        ("minimum", 9, Number),
        ("exclusiveMinimum", 10, Bool),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Bool),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, TEXTS),
        ("enum", 20, Repeated(&Any)),
        ("additionalProperties", 21, Either(additional)),
        ("type", 22, Wrapped(1, &Text)),
        ("items", 23, Wrapped(1, &Kind::Message(&SCHEMA))),
        ("allOf", 24, Repeated(&Kind::Message(&SCHEMA))),
        ("properties", 25, Pairs(1, &Kind::Message(&SCHEMA))),
        ("readOnly", 27, Bool),
        ("example", 30, Any),
    ],
    extensions: 31,
};

/// Selects the encoding of `additionalProperties`: a schema or a boolean.
fn additional(value: &Value) -> &'static Kind {
    static WHETHER: Kind = Wrapped(2, &Bool);
    static WHAT: Kind = Wrapped(1, &Kind::Message(&SCHEMA));
    if value.is_boolean() { &WHETHER } else { &WHAT }
}

/// Encodes a document as protobuf.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    fields(&mut out, &DOCUMENT, document);
    out
}

/// Encodes the fields of an object. Fields without a number in the format are omitted.
fn fields(out: &mut Vec<u8>, message: &Message, object: &Value) {
    for (name, value) in object.as_object().into_iter().flatten() {
        match message.fields.iter().find(|(known, ..)| known == name) {
            Some((_, number, kind)) => field(out, *number, kind, value),
            None if name.starts_with("x-") => pair(out, message.extensions, name, &Any, value),
            None => {}
        }
    }
}

/// Encodes a value; values of the wrong type are omitted.
fn field(out: &mut Vec<u8>, number: u32, kind: &Kind, value: &Value) {
    match kind {
        Text => {
            if let Some(text) = value.as_str() {
                bytes(out, number, text.as_bytes());
            }
        }
        Bool => {
            if let Some(truth) = value.as_bool() {
                tag(out, number, 0);
                varint(out, truth.into());
            }
        }
        Integer => {
            if let Some(amount) = value.as_i64() {
                tag(out, number, 0);
                varint(out, amount.cast_unsigned());
            }
        }
        Number => {
            if let Some(amount) = value.as_f64() {
                tag(out, number, 1);
                out.extend(amount.to_le_bytes());
            }
        }
        Any => nested(out, number, |inner| bytes(inner, 2, value.to_string().as_bytes())),
        Kind::Message(message) => nested(out, number, |inner| fields(inner, message, value)),
        Repeated(kind) => {
            for value in value.as_array().into_iter().flatten() {
                field(out, number, kind, value);
            }
        }
        Wrapped(inside, kind) => nested(out, number, |inner| field(inner, *inside, kind, value)),
        Pairs(inside, kind) => nested(out, number, |inner| {
            for (name, value) in value.as_object().into_iter().flatten() {
                pair(inner, *inside, name, kind, value);
            }
        }),
        Either(choose) => field(out, number, choose(value), value),
    }
}

fn pair(out: &mut Vec<u8>, number: u32, name: &str, kind: &Kind, value: &Value) {
    nested(out, number, |inner| {
        bytes(inner, 1, name.as_bytes());
        field(inner, 2, kind, value);
    });
}

/// Encodes a nested message.
fn nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    bytes(out, number, &inner);
}

fn bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    tag(out, number, 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn tag(out: &mut Vec<u8>, number: u32, wire: u64) {
    varint(out, u64::from(number) << 3 | wire);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_written_as_the_format_has_them() {
        let schema = json!({"maxLength": 300, "type": "object", "unheard": "of", "x-b": [1]});
        let document = json!({"definitions": {"A": schema}, "swagger": "2.0"});
        let expected = [
            &[0x4a, 36, 0x0a, 34, 0x0a, 1][..],
            b"A",
            &[0x12, 29, 0x58, 0xac, 0x02, 0xb2, 0x01, 8, 0x0a, 6],
            b"object",
            &[0xfa, 0x01, 12, 0x0a, 3],
            b"x-b",
            &[0x12, 5, 0x12, 3],
            b"[1]",
            &[0x0a, 3],
            b"2.0",
        ];
        assert_eq!(encode(&document), expected.concat());
    }
}
