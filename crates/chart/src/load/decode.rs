//! Decodes YAML into structs, with the rules and errors of sigs.k8s.io/yaml and `encoding/json`.
//!
//! serde is not used because its leniency (numbers into strings, case-insensitive keys) and its errors differ from
//! Go's, and Helm prints the errors.

use std::collections::BTreeMap;

use steersman_gostd::strconv;
use steersman_yaml::Node;

/// A Go struct, as error messages name it.
pub(crate) struct Struct {
    /// Unqualified name; empty for an anonymous struct.
    pub(crate) name: &'static str,
    /// Type as `%T` prints it.
    pub(crate) go_type: &'static str,
    /// Keys of its fields.
    pub(crate) fields: &'static [&'static str],
}

/// Decodes `data`. As in Go, decoding continues after an error, and the first one is returned.
pub(crate) fn run(data: &Node<'_>, decode: impl FnOnce(&mut Decoder, &Node<'_>)) -> Result<(), String> {
    let mut decoder = Decoder { strukt: "", path: Vec::new(), error: None };
    decode(&mut decoder, data);
    match decoder.error {
        None => Ok(()),
        Some(error) => Err(format!("error unmarshaling JSON: while decoding JSON: {error}")),
    }
}

/// Current position and first error of decoding.
pub(crate) struct Decoder {
    strukt: &'static str,
    path: Vec<&'static str>,
    error: Option<String>,
}

impl Decoder {
    /// Decodes a struct: calls `each` for the known keys in order of their names, ignoring case.
    pub(crate) fn object(
        &mut self,
        data: &Node<'_>,
        strukt: &Struct,
        mut each: impl FnMut(&mut Self, &'static str, &Node<'_>),
    ) {
        let table = match data {
            Node::Null => return,
            Node::Mapping(table) => table,
            other => return self.mismatch(other, strukt.go_type),
        };
        let outer = std::mem::replace(&mut self.strukt, strukt.name);
        let in_struct = self.path.len();
        for (key, value) in table.iter() {
            let mut fields = strukt.fields.iter();
            let field = fields.clone().find(|field| **field == key);
            let field = field.or_else(|| fields.find(|field| field.eq_ignore_ascii_case(key)));
            if let Some(field) = field {
                self.path.push(field);
                each(self, field, value);
                self.path.truncate(in_struct);
            }
        }
        self.strukt = outer;
    }

    /// Decodes a list of any type; `None` if it is null, with `None` for null items.
    pub(crate) fn list<T>(
        &mut self,
        data: &Node<'_>,
        go_type: &str,
        mut each: impl FnMut(&mut Self, &Node<'_>) -> T,
    ) -> Option<Vec<Option<T>>> {
        match data {
            Node::Null => None,
            Node::Sequence(items) => {
                let decoded = items.iter().map(|item| match item {
                    Node::Null => None,
                    item => Some(each(self, item)),
                });
                Some(decoded.collect())
            }
            other => {
                self.mismatch(other, go_type);
                None
            }
        }
    }

    /// Decodes a string; numbers and booleans are converted.
    pub(crate) fn string(&mut self, data: &Node<'_>, out: &mut String) {
        match data {
            Node::Null => {}
            Node::String(text) => *out = text.to_string(),
            Node::Bool(b) => *out = b.to_string(),
            Node::Int(n) => *out = n.to_string(),
            Node::Uint(n) => *out = n.to_string(),
            Node::Float(n) => *out = strconv::format_float(*n, b'g', None, false),
            Node::Sequence(_) | Node::Mapping(_) => self.mismatch(data, "string"),
        }
    }

    /// Decodes a boolean.
    pub(crate) fn bool(&mut self, data: &Node<'_>, out: &mut bool) {
        match data {
            Node::Null => {}
            Node::Bool(b) => *out = *b,
            other => self.mismatch(other, "bool"),
        }
    }

    /// Decodes a list of strings.
    pub(crate) fn strings(&mut self, data: &Node<'_>, out: &mut Vec<String>) {
        let items = self.list(data, "[]string", |decoder, item| {
            let mut text = String::new();
            decoder.string(item, &mut text);
            text
        });
        *out = items.unwrap_or_default().into_iter().map(Option::unwrap_or_default).collect();
    }

    /// Decodes a map of strings.
    pub(crate) fn string_map(&mut self, data: &Node<'_>, out: &mut BTreeMap<String, String>) {
        match data {
            Node::Null => out.clear(),
            Node::Mapping(table) => {
                for (key, value) in table.iter() {
                    let mut text = String::new();
                    self.string(value, &mut text);
                    out.insert(key.to_owned(), text);
                }
            }
            other => self.mismatch(other, "map[string]string"),
        }
    }

    /// Decodes a time, kept as written.
    pub(crate) fn time(&mut self, data: &Node<'_>, out: &mut String) {
        match data {
            Node::Null => {}
            Node::String(text) => *out = text.to_string(),
            _ => self.fail("Time.UnmarshalJSON: input is not a JSON string".into()),
        }
    }

    fn mismatch(&mut self, data: &Node<'_>, go_type: &str) {
        let found = match data {
            Node::Null => "null",
            Node::Bool(_) => "bool",
            Node::Int(_) | Node::Uint(_) | Node::Float(_) => "number",
            Node::String(_) => "string",
            Node::Sequence(_) => "array",
            Node::Mapping(_) => "object",
        };
        let place = if self.path.is_empty() {
            "value".to_owned()
        } else {
            format!("struct field {}.{}", self.strukt, self.path.join("."))
        };
        self.fail(format!("json: cannot unmarshal {found} into Go {place} of type {go_type}"));
    }

    fn fail(&mut self, message: String) {
        self.error.get_or_insert(message);
    }
}

/// Fails unless it is a mapping or null, as when decoding into a Go map.
pub(crate) fn check_mapping(data: &Node<'_>, go_type: &str) -> Result<(), String> {
    run(data, |decoder, data| match data {
        Node::Null | Node::Mapping(_) => {}
        other => decoder.mismatch(other, go_type),
    })
}
