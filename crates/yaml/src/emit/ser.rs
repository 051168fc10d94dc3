//! The serde `Serializer` of the emitter.

use std::fmt::{Display, Write as _};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::ser::{self, Serialize};
use steersman_gostd::unicode;

use super::{Block, Dialect, Emitter};
use crate::{Error, go, json};

pub(crate) fn to_string<T: Serialize + ?Sized>(
    value: &T,
    dialect: Dialect,
    limit: usize,
) -> Result<String, Error> {
    let mut emitter = Emitter::new(dialect, limit);
    value.serialize(&mut emitter).map_err(|error| match error {
        // Errors of encoding/json keep their message; sigs.k8s.io/yaml adds the context.
        Error::Type(problem) if dialect == Dialect::Sigs && problem.starts_with("json: ") => {
            Error::NotJson(format!("error marshaling into JSON: {problem}"))
        }
        other => other,
    })?;
    if dialect == Dialect::Sigs && emitter.changed_by_json() {
        return through_json(value, limit);
    }
    emitter.finish()
}

/// Writes a value exactly as Go does: as JSON, which is then read as YAML and written.
fn through_json<T: Serialize + ?Sized>(value: &T, limit: usize) -> Result<String, Error> {
    let json = json::to_string_with(value, json::Options { limit, ..json::Options::default() })?;
    if crate::reading_memory(json.as_bytes()) > limit {
        return Err(Error::TooLarge { limit });
    }
    let node = crate::parse(json.as_bytes())?;
    let mut emitter = Emitter::new(Dialect::Sigs, limit);
    node.serialize(&mut emitter)?;
    emitter.finish()
}

/// A sequence or mapping that is being written.
pub(crate) struct Compound<'e> {
    emitter: &'e mut Emitter,
    block: Block,
    /// Whether entries are sorted by key at the end.
    sort: bool,
    /// The mapping around an enum variant's content.
    outer: Option<Block>,
}

impl<'e> Compound<'e> {
    fn new(emitter: &'e mut Emitter) -> Result<Self, Error> {
        let block = emitter.begin()?;
        Ok(Compound { emitter, block, sort: true, outer: None })
    }

    /// Begins the content of `{variant: ...}`.
    fn variant(emitter: &'e mut Emitter, variant: &str) -> Result<Self, Error> {
        let mut outer = emitter.begin()?;
        begin_named(emitter, &mut outer, variant);
        let block = emitter.begin()?;
        Ok(Compound { emitter, block, sort: true, outer: Some(outer) })
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.emitter.begin_item(&mut self.block);
        value.serialize(&mut *self.emitter)?;
        self.emitter.end_item()
    }

    fn named<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), Error> {
        begin_named(self.emitter, &mut self.block, key);
        value.serialize(&mut *self.emitter)?;
        self.emitter.end_entry()
    }

    fn end_outer(&mut self) -> Result<(), Error> {
        if let Some(outer) = self.outer.take() {
            self.emitter.end_entry()?;
            self.emitter.end_mapping(&outer, false);
        }
        Ok(())
    }

    fn end_as_sequence(mut self) -> Result<(), Error> {
        self.emitter.end_sequence(&self.block);
        self.end_outer()
    }

    fn end_as_mapping(mut self) -> Result<(), Error> {
        self.emitter.end_mapping(&self.block, self.sort);
        self.end_outer()
    }
}

fn begin_named(emitter: &mut Emitter, block: &mut Block, key: &str) {
    let at = emitter.keys().len();
    emitter.keys().push_str(key);
    emitter.begin_entry(block, at);
}

impl<'e> ser::Serializer for &'e mut Emitter {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Compound<'e>;
    type SerializeTuple = Compound<'e>;
    type SerializeTupleStruct = Compound<'e>;
    type SerializeTupleVariant = Compound<'e>;
    type SerializeMap = Compound<'e>;
    type SerializeStruct = Compound<'e>;
    type SerializeStructVariant = Compound<'e>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.literal(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.literal(itoa::Buffer::new().format(value));
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.literal(itoa::Buffer::new().format(value));
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        match self.dialect {
            Dialect::Sigs => self.json_float(go::float_json_32(value)),
            Dialect::Pretty => {
                self.literal(&plain_float(&go::float_general_32(value.into())));
                Ok(())
            }
        }
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        match self.dialect {
            Dialect::Sigs => self.json_float(go::float_json(value)),
            Dialect::Pretty => {
                self.literal(&plain_float(&go::float_general(value)));
                Ok(())
            }
        }
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.string(value);
        Ok(())
    }

    /// Bytes are written in base64, as in Go's JSON.
    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.string(&BASE64_STANDARD.encode(value));
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.literal("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let mut compound = Compound::new(self)?;
        compound.named(variant, value)?;
        compound.end_as_mapping()
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Compound<'e>, Error> {
        Compound::new(self)
    }

    fn serialize_tuple(self, _len: usize) -> Result<Compound<'e>, Error> {
        Compound::new(self)
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Compound<'e>, Error> {
        Compound::new(self)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Compound<'e>, Error> {
        Compound::variant(self, variant)
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Compound<'e>, Error> {
        Compound::new(self)
    }

    /// Keeps the order of fields for goyaml v3; sigs.k8s.io/yaml converts structs to sorted maps.
    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Compound<'e>, Error> {
        let sort = self.dialect == Dialect::Sigs;
        Ok(Compound { sort, ..Compound::new(self)? })
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Compound<'e>, Error> {
        let sort = self.dialect == Dialect::Sigs;
        Ok(Compound { sort, ..Compound::variant(self, variant)? })
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.string(&value.to_string());
        Ok(())
    }
}

impl Emitter {
    /// Writes a number as goyaml does after reading it from JSON: as an integer if its JSON text is one.
    fn json_float(&mut self, json: Result<String, String>) -> Result<(), Error> {
        let json = json.map_err(|name| {
            Error::NotJson(format!("error marshaling into JSON: json: unsupported value: {name}"))
        })?;
        match go::parse_int(&json) {
            Some(value) => self.literal(itoa::Buffer::new().format(value)),
            None if go::parse_uint(&json).is_some() => self.literal(&json),
            None => self.literal(&go::float_general(json.parse().unwrap_or_default())),
        }
        Ok(())
    }
}

fn plain_float(text: &str) -> String {
    match text {
        "+Inf" => ".inf".to_owned(),
        "-Inf" => "-.inf".to_owned(),
        "NaN" => ".nan".to_owned(),
        _ => text.to_owned(),
    }
}

macro_rules! compound {
    ($($trait:ident :: $method:ident),*) => {$(
        impl ser::$trait for Compound<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.end_as_sequence()
            }
        }
    )*};
    ($($trait:ident),*) => {$(
        impl ser::$trait for Compound<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
                self.named(key, value)
            }

            fn end(self) -> Result<(), Error> {
                self.end_as_mapping()
            }
        }
    )*};
}

compound!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);
compound!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let at = self.emitter.keys().len();
        key.serialize(KeySerializer(self.emitter.keys()))?;
        self.emitter.begin_entry(&mut self.block, at);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.emitter)?;
        self.emitter.end_entry()
    }

    fn end(self) -> Result<(), Error> {
        self.end_as_mapping()
    }
}

/// Serializes keys as strings; integers and booleans are converted.
pub(crate) struct KeySerializer<'o>(pub(crate) &'o mut String);

impl KeySerializer<'_> {
    fn display(self, key: impl Display) -> Result<(), Error> {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{key}");
        Ok(())
    }

    fn refuse(kind: &str) -> Result<ser::Impossible<(), Error>, Error> {
        Err(Self::refusal(kind))
    }

    fn refusal(kind: &str) -> Error {
        Error::Type(format!("error marshaling into JSON: json: unsupported type: map[{kind}]interface {{}}"))
    }
}

macro_rules! display_keys {
    ($($method:ident: $type:ty),*) => {$(
        fn $method(self, key: $type) -> Result<(), Error> {
            self.display(key)
        }
    )*};
}

impl ser::Serializer for KeySerializer<'_> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = ser::Impossible<(), Error>;
    type SerializeTuple = ser::Impossible<(), Error>;
    type SerializeTupleStruct = ser::Impossible<(), Error>;
    type SerializeTupleVariant = ser::Impossible<(), Error>;
    type SerializeMap = ser::Impossible<(), Error>;
    type SerializeStruct = ser::Impossible<(), Error>;
    type SerializeStructVariant = ser::Impossible<(), Error>;

    display_keys!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_char: char
    );

    fn serialize_str(self, key: &str) -> Result<(), Error> {
        self.0.push_str(key);
        Ok(())
    }

    fn serialize_f32(self, _key: f32) -> Result<(), Error> {
        Err(Self::refusal("float32"))
    }

    fn serialize_f64(self, _key: f64) -> Result<(), Error> {
        Err(Self::refusal("float64"))
    }

    fn serialize_bytes(self, key: &[u8]) -> Result<(), Error> {
        self.0.push_str(&unicode::to_utf8_lossy(key));
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Error> {
        Err(Self::refusal("interface {}"))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, key: &T) -> Result<(), Error> {
        key.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Err(Self::refusal("interface {}"))
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        Err(Self::refusal("struct {}"))
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        key: &T,
    ) -> Result<(), Error> {
        key.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<(), Error> {
        Err(Self::refusal("struct {}"))
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Self::SerializeSeq, Error> {
        Self::refuse("[]interface {}")
    }

    fn serialize_tuple(self, _len: usize) -> Result<Self::SerializeTuple, Error> {
        Self::refuse("[]interface {}")
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleStruct, Error> {
        Self::refuse("struct {}")
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Self::refuse("struct {}")
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap, Error> {
        Self::refuse("map[string]interface {}")
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Self::SerializeStruct, Error> {
        Self::refuse("struct {}")
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Self::refuse("struct {}")
    }
}
