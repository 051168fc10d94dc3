//! Deserializer: documents to types, by the rules of `json.Unmarshal` and `sigs.k8s.io/yaml`.
//!
//! Numbers and booleans become strings where strings are expected, `null` leaves a zero value, and field names are
//! case-insensitive.

use std::{borrow::Cow, fmt};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{
    Deserialize,
    de::{self, DeserializeSeed, IntoDeserializer, Visitor, value},
    forward_to_deserialize_any,
};

use crate::{Error, Mapping, Node, go, node::json_number};

/// Deserializes a node. `strict` rejects fields that a struct does not have.
pub(crate) fn from_node<'de, T: Deserialize<'de>>(node: Node<'de>, strict: bool) -> Result<T, Error> {
    T::deserialize(NodeDeserializer { node, path: &Path { parent: None, structure: "", field: "", strict } })
}

/// Path to the field being read, for error messages.
struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    structure: &'static str,
    field: &'p str,
    strict: bool,
}

impl Path<'_> {
    fn fields(&self) -> String {
        match self.parent.map(Path::fields) {
            Some(parent) if !parent.is_empty() => format!("{parent}.{}", self.field),
            _ => self.field.to_owned(),
        }
    }

    /// Builds Go's error for a value of the wrong type. Lists and maps are assumed to hold strings.
    fn mismatch(&self, found: &Node<'_>, wanted: &str) -> Error {
        let found = match found {
            Node::Null => "null".to_owned(),
            Node::Bool(_) => "bool".to_owned(),
            Node::Int(_) | Node::Uint(_) | Node::Float(_) if wanted.starts_with(['i', 'u']) => number(found),
            Node::Int(_) | Node::Uint(_) | Node::Float(_) => "number".to_owned(),
            Node::String(_) => "string".to_owned(),
            Node::Sequence(_) => "array".to_owned(),
            Node::Mapping(_) => "object".to_owned(),
        };
        let place = if self.structure.is_empty() {
            "Go value".to_owned()
        } else {
            // Here Go prints the type without its package, unlike elsewhere.
            let structure = self.structure.rsplit('.').next().unwrap_or_default();
            format!("Go struct field {structure}.{}", self.fields())
        };
        Error::Type(format!("json: cannot unmarshal {found} into {place} of type {wanted}"))
    }
}

fn number(node: &Node<'_>) -> String {
    let text = match node {
        Node::Int(value) => value.to_string(),
        Node::Uint(value) => value.to_string(),
        Node::Float(value) => go::float_json(*value).unwrap_or_default(),
        _ => String::new(),
    };
    format!("number {text}")
}

struct NodeDeserializer<'de, 'p> {
    node: Node<'de>,
    path: &'p Path<'p>,
}

impl<'de> NodeDeserializer<'de, '_> {
    fn integer<V: Visitor<'de>>(self, kind: &str, visitor: V) -> Result<V::Value, Error> {
        let whole = match self.node {
            Node::Float(value) => json_number(value),
            ref other => other.clone(),
        };
        match whole {
            Node::Null => visitor.visit_i64(0),
            Node::Int(value) => visitor.visit_i64(value),
            Node::Uint(value) => visitor.visit_u64(value),
            other => Err(self.path.mismatch(&other, kind)),
        }
    }

    fn float<V: Visitor<'de>>(self, kind: &str, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => visitor.visit_f64(0.0),
            Node::Int(value) => visitor.visit_f64(value as f64),
            Node::Uint(value) => visitor.visit_f64(value as f64),
            Node::Float(value) => visitor.visit_f64(value),
            ref other => Err(self.path.mismatch(other, kind)),
        }
    }
}

macro_rules! numbers {
    ($($method:ident: $reader:ident, $kind:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.$reader($kind, visitor)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for NodeDeserializer<'de, '_> {
    type Error = Error;

    numbers! {
        deserialize_i8: integer, "int8";
        deserialize_i16: integer, "int16";
        deserialize_i32: integer, "int32";
        deserialize_i64: integer, "int";
        deserialize_u8: integer, "uint8";
        deserialize_u16: integer, "uint16";
        deserialize_u32: integer, "uint32";
        deserialize_u64: integer, "uint";
        deserialize_f32: float, "float32";
        deserialize_f64: float, "float64";
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let node = match self.node {
            Node::Float(value) => json_number(value),
            other => other,
        };
        match node {
            Node::Null => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(value),
            Node::Int(value) => visitor.visit_i64(value),
            Node::Uint(value) => visitor.visit_u64(value),
            Node::Float(value) => visitor.visit_f64(value),
            Node::String(text) => visit_string(text, visitor),
            Node::Sequence(items) => visitor.visit_seq(Items { items: items.into_iter(), path: self.path }),
            Node::Mapping(mapping) => visitor.visit_map(Pairs::new(mapping.into_iter(), "", self.path)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => visitor.visit_bool(false),
            Node::Bool(value) => visitor.visit_bool(value),
            ref other => Err(self.path.mismatch(other, "bool")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => visitor.visit_borrowed_str(""),
            Node::Bool(value) => visitor.visit_borrowed_str(if value { "true" } else { "false" }),
            Node::Int(value) => visitor.visit_string(value.to_string()),
            Node::Uint(value) => visitor.visit_string(value.to_string()),
            Node::Float(value) => visitor.visit_string(go::float_general_32(value)),
            Node::String(text) => visit_string(text, visitor),
            ref other => Err(self.path.mismatch(other, "string")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }

    /// As in Go, bytes are in base64.
    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => visitor.visit_bytes(&[]),
            Node::String(ref text) => match BASE64_STANDARD.decode(text.as_bytes()) {
                Ok(bytes) => visitor.visit_byte_buf(bytes),
                Err(_) => Err(self.path.mismatch(&self.node, "[]uint8")),
            },
            ref other => Err(self.path.mismatch(other, "[]uint8")),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_byte_buf(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let items = match self.node {
            Node::Null => Vec::new(),
            Node::Sequence(items) => items,
            ref other => return Err(self.path.mismatch(other, "[]string")),
        };
        visitor.visit_seq(Items { items: items.into_iter(), path: self.path })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mapping = match self.node {
            Node::Null => Mapping::default(),
            Node::Mapping(mapping) => mapping,
            ref other => return Err(self.path.mismatch(other, "map[string]string")),
        };
        visitor.visit_map(Pairs::new(mapping.into_iter(), "", self.path))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mapping = match self.node {
            Node::Null => Mapping::default(),
            Node::Mapping(mapping) => mapping,
            ref other => return Err(self.path.mismatch(other, name)),
        };
        let mut pairs: Vec<(Cow<'de, str>, Node<'de>)> = Vec::with_capacity(mapping.len());
        for (key, value) in mapping {
            let exact = fields.iter().find(|field| **field == key);
            let Some(field) = exact.or_else(|| fields.iter().find(|field| field.eq_ignore_ascii_case(&key)))
            else {
                if self.path.strict {
                    return Err(Error::Type(format!("json: unknown field {}", go::quote(&key))));
                }
                continue;
            };
            // The field keeps its zero value, or the value of a key that differs only in case.
            if value == Node::Null {
                continue;
            }
            pairs.retain(|(known, _)| known != field);
            pairs.push((Cow::Borrowed(field), value));
        }
        visitor.visit_map(Pairs::new(pairs.into_iter(), name, self.path))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.node {
            Node::Mapping(mapping) if mapping.len() == 1 => visitor.visit_enum(
                value::MapAccessDeserializer::new(Pairs::new(mapping.into_iter(), "", self.path)),
            ),
            Node::Mapping(_) | Node::Sequence(_) => Err(self.path.mismatch(&self.node, name)),
            _ => self.deserialize_string(VariantVisitor(visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

fn visit_string<'de, V: Visitor<'de>>(text: Cow<'de, str>, visitor: V) -> Result<V::Value, Error> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

/// Deserializes a variant's name.
struct VariantVisitor<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for VariantVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(formatter)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<V::Value, E> {
        self.0.visit_enum(name.into_deserializer())
    }
}

struct Items<'de, 'p> {
    items: std::vec::IntoIter<Node<'de>>,
    path: &'p Path<'p>,
}

impl<'de> de::SeqAccess<'de> for Items<'de, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(node) = self.items.next() else {
            return Ok(None);
        };
        seed.deserialize(NodeDeserializer { node, path: self.path }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Pairs<'de, 'p> {
    pairs: std::vec::IntoIter<(Cow<'de, str>, Node<'de>)>,
    value: Option<(Cow<'de, str>, Node<'de>)>,
    /// Struct that the fields belong to; empty for a map.
    structure: &'static str,
    path: &'p Path<'p>,
}

impl<'de, 'p> Pairs<'de, 'p> {
    fn new(
        pairs: std::vec::IntoIter<(Cow<'de, str>, Node<'de>)>,
        structure: &'static str,
        path: &'p Path<'p>,
    ) -> Self {
        Pairs { pairs, value: None, structure, path }
    }
}

impl<'de> de::MapAccess<'de> for Pairs<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.pairs.next() else {
            return Ok(None);
        };
        // Error messages only name the fields of structs, which are borrowed; other keys need not be kept.
        let name = if self.structure.is_empty() { Cow::Borrowed("") } else { key.clone() };
        self.value = Some((name, value));
        seed.deserialize(KeyDeserializer(key)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let (name, node) = self.value.take().unwrap_or_default();
        if self.structure.is_empty() {
            return seed.deserialize(NodeDeserializer { node, path: self.path });
        }
        let path = Path {
            parent: Some(self.path),
            structure: self.structure,
            field: &name,
            strict: self.path.strict,
        };
        seed.deserialize(NodeDeserializer { node, path: &path })
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.pairs.len())
    }
}

/// A key: a string, or a number if one is expected and the key parses as one.
struct KeyDeserializer<'de>(Cow<'de, str>);

macro_rules! number_keys {
    ($($method:ident: $visit:ident;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.parse() {
                Ok(number) => visitor.$visit(number),
                Err(_) => visit_string(self.0, visitor),
            }
        }
    )*};
}

impl<'de> de::Deserializer<'de> for KeyDeserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visit_string(self.0, visitor)
    }

    number_keys! {
        deserialize_bool: visit_bool;
        deserialize_i8: visit_i8;
        deserialize_i16: visit_i16;
        deserialize_i32: visit_i32;
        deserialize_i64: visit_i64;
        deserialize_u8: visit_u8;
        deserialize_u16: visit_u16;
        deserialize_u32: visit_u32;
        deserialize_u64: visit_u64;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    forward_to_deserialize_any! {
        f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use crate::{from_slice_as, from_slice_as_strict};

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Metadata {
        name: String,
        app_version: String,
        keywords: Vec<String>,
        annotations: BTreeMap<String, String>,
        maintainers: Vec<Maintainer>,
        deprecated: bool,
        replicas: i64,
        parent: Option<Box<Metadata>>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Maintainer {
        name: String,
    }

    fn read(text: &str) -> Metadata {
        from_slice_as(text.as_bytes()).unwrap()
    }

    fn problem(text: &str) -> String {
        from_slice_as::<Metadata>(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn scalars_become_strings_where_strings_are_wanted() {
        let read = read("appVersion: 1.10\nname: yes\nkeywords: [1, 0x10, 1e6, true]\nannotations: {a: 1.0}");
        assert_eq!(read.app_version, "1.1");
        assert_eq!(read.name, "true");
        assert_eq!(read.keywords, ["1", "16", "1e+06", "true"]);
        assert_eq!(read.annotations["a"], "1");
    }

    #[test]
    fn null_leaves_zero_values_and_case_does_not_matter() {
        assert_eq!(read(""), Metadata::default());
        assert_eq!(read("name: ~\nkeywords:\ndeprecated:\nreplicas:\nparent:\n"), Metadata::default());
        assert_eq!(read("NAME: a\nAppversion: b").app_version, "b");
        assert_eq!(read("Name: a\nname: b").name, "b");
        assert_eq!(read("annotations: {a: }").annotations["a"], "");
        assert_eq!(read("unknown: 1\nreplicas: 2.0").replicas, 2);
    }

    #[test]
    fn misfits_are_named_as_go_names_them() {
        let prefix = "error unmarshaling JSON: while decoding JSON: json: ";
        for (text, message) in [
            ("[]", "cannot unmarshal array into Go value of type Metadata"),
            ("name: []", "cannot unmarshal array into Go struct field Metadata.name of type string"),
            (
                "keywords: a",
                "cannot unmarshal string into Go struct field Metadata.keywords of type []string",
            ),
            (
                "deprecated: x",
                "cannot unmarshal string into Go struct field Metadata.deprecated of type bool",
            ),
            (
                "replicas: 1.5",
                "cannot unmarshal number 1.5 into Go struct field Metadata.replicas of type int",
            ),
            (
                "maintainers: [{name: {}}]",
                "cannot unmarshal object into Go struct field Maintainer.maintainers.name of type string",
            ),
        ] {
            assert_eq!(problem(text), format!("{prefix}{message}"));
        }
        assert_eq!(
            from_slice_as_strict::<Metadata>(b"nam: x").unwrap_err().to_string(),
            format!("{prefix}unknown field \"nam\"")
        );
        assert_eq!(
            from_slice_as_strict::<Metadata>(b"name: x\nname: y").unwrap_err().to_string(),
            "error converting YAML to JSON: yaml: unmarshal errors:\n  line 2: key \"name\" already set in map"
        );
        assert_eq!(
            problem("a: b: c"),
            "error converting YAML to JSON: yaml: mapping values are not allowed in this context"
        );
    }
}
