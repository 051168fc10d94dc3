//! JSON writer. As in the YAML emitter, an object's members are written in their original order and sorted at its end.

use std::fmt::{self, Display, Write as _};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::ser::{self, Serialize};
use steersman_gostd::json;

use super::Options;
use crate::{Error, compose::MAX_DEPTH, emit::ser::KeySerializer, go};

pub(super) fn to_string<T: Serialize + ?Sized>(value: &T, options: Options) -> Result<String, Error> {
    let mut writer = Writer {
        out: String::new(),
        options,
        depth: 0,
        keys: String::new(),
        members: Vec::new(),
        scratch: String::new(),
    };
    value.serialize(&mut writer)?;
    writer.check_size()?;
    Ok(writer.out)
}

struct Writer {
    out: String,
    options: Options,
    depth: usize,
    keys: String,
    members: Vec<Member>,
    scratch: String,
}

/// A member of an object: ranges of its key in `Writer::keys` and of its text in `Writer::out`.
#[derive(Clone, Copy)]
struct Member {
    key: (usize, usize),
    text: (usize, usize),
}

/// Writes the content of a string piece by piece.
struct Pieces<'w>(&'w mut Writer);

impl fmt::Write for Pieces<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.escaped(text);
        Ok(())
    }

    fn write_char(&mut self, character: char) -> fmt::Result {
        match character {
            '\u{FFFD}' => self.0.out.push_str("\\ufffd"),
            other => self.0.escaped(other.encode_utf8(&mut [0; 4])),
        }
        Ok(())
    }
}

impl Writer {
    fn check_size(&self) -> Result<(), Error> {
        let limit = self.options.limit;
        if self.out.len() > limit { Err(Error::TooLarge { limit }) } else { Ok(()) }
    }

    fn new_line(&mut self) {
        if self.options.pretty {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n("  ", self.depth));
        }
    }

    fn string(&mut self, text: &str) {
        json::append_string(&mut self.out, text, self.options.escape_html);
    }

    fn escaped(&mut self, text: &str) {
        json::append_escaped(&mut self.out, text, self.options.escape_html);
    }

    fn number(&mut self, json: Result<String, String>) -> Result<(), Error> {
        let json = json.map_err(|name| Error::NotJson(format!("json: unsupported value: {name}")))?;
        self.out.push_str(&json);
        Ok(())
    }

    fn key_of(&self, member: &Member) -> &str {
        self.keys.get(member.key.0..member.key.1).unwrap_or_default()
    }

    /// Sorts the members from `first` on by key.
    fn sort_members(&mut self, first: usize) {
        let members = self.members.get(first..).unwrap_or_default();
        if members.is_sorted_by(|a, b| self.key_of(a) < self.key_of(b)) {
            return;
        }
        let mut members = members.to_vec();
        let start = members.first().map_or(self.out.len(), |member| member.text.0);
        members.sort_by(|a, b| self.key_of(a).cmp(self.key_of(b)));
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        for (at, member) in members.iter().enumerate() {
            if members.get(at + 1).is_some_and(|next| self.key_of(next) == self.key_of(member)) {
                continue;
            }
            if !scratch.is_empty() {
                scratch.push(',');
            }
            scratch.push_str(self.out.get(member.text.0..member.text.1).unwrap_or_default());
        }
        self.out.truncate(start);
        self.out.push_str(&scratch);
        self.scratch = scratch;
    }
}

/// An array or object that is being written.
struct Compound<'w> {
    writer: &'w mut Writer,
    empty: bool,
    /// Whether members are sorted by key at the end.
    sort: bool,
    members: usize,
    keys: usize,
    close: char,
    /// Whether this is inside `{"variant":...}`.
    variant: bool,
}

impl<'w> Compound<'w> {
    fn new(writer: &'w mut Writer, open: char, close: char) -> Result<Self, Error> {
        writer.depth += 1;
        if writer.depth > MAX_DEPTH {
            return Err(Error::Type("json: exceeded max depth".to_owned()));
        }
        writer.out.push(open);
        let (members, keys) = (writer.members.len(), writer.keys.len());
        Ok(Compound { writer, empty: true, sort: true, members, keys, close, variant: false })
    }

    fn variant(writer: &'w mut Writer, variant: &str, open: char, close: char) -> Result<Self, Error> {
        let mut outer = Compound::new(writer, '{', '}')?;
        outer.begin();
        outer.key_text(variant);
        Ok(Compound { variant: true, ..Compound::new(outer.writer, open, close)? })
    }

    fn begin(&mut self) {
        if !self.empty {
            self.writer.out.push(',');
        }
        self.empty = false;
        self.writer.new_line();
    }

    fn key_text(&mut self, key: &str) {
        self.writer.string(key);
        self.writer.out.push_str(if self.writer.options.pretty { ": " } else { ":" });
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.begin();
        value.serialize(&mut *self.writer)?;
        self.writer.check_size()
    }

    /// Begins a member; its key is the end of the writer's keys, from `key` on.
    fn begin_member(&mut self, key: usize) {
        if !self.empty {
            self.writer.out.push(',');
        }
        self.empty = false;
        let start = self.writer.out.len();
        self.writer.new_line();
        let keys = std::mem::take(&mut self.writer.keys);
        self.key_text(keys.get(key..).unwrap_or_default());
        self.writer.keys = keys;
        self.writer.members.push(Member { key: (key, self.writer.keys.len()), text: (start, start) });
    }

    fn end_member(&mut self) -> Result<(), Error> {
        let end = self.writer.out.len();
        if let Some(member) = self.writer.members.last_mut() {
            member.text.1 = end;
        }
        self.writer.check_size()
    }

    fn member<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), Error> {
        let at = self.writer.keys.len();
        self.writer.keys.push_str(key);
        self.begin_member(at);
        value.serialize(&mut *self.writer)?;
        self.end_member()
    }

    fn finish(self) -> Result<(), Error> {
        if self.sort {
            self.writer.sort_members(self.members);
        }
        self.writer.members.truncate(self.members);
        self.writer.keys.truncate(self.keys);
        self.writer.depth -= 1;
        if !self.empty {
            self.writer.new_line();
        }
        self.writer.out.push(self.close);
        if self.variant {
            self.writer.depth -= 1;
            self.writer.new_line();
            self.writer.out.push('}');
        }
        Ok(())
    }
}

macro_rules! integers {
    ($($method:ident: $type:ty),*) => {$(
        fn $method(self, value: $type) -> Result<(), Error> {
            self.out.push_str(itoa::Buffer::new().format(value));
            Ok(())
        }
    )*};
}

impl<'w> ser::Serializer for &'w mut Writer {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Compound<'w>;
    type SerializeTuple = Compound<'w>;
    type SerializeTupleStruct = Compound<'w>;
    type SerializeTupleVariant = Compound<'w>;
    type SerializeMap = Compound<'w>;
    type SerializeStruct = Compound<'w>;
    type SerializeStructVariant = Compound<'w>;

    integers!(
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64
    );

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.out.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.number(go::float_json_32(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.number(go::float_json(value))
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.string(value);
        Ok(())
    }

    /// Bytes are written in base64, as in Go.
    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.serialize_str(&BASE64_STANDARD.encode(value))
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.push_str("null");
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
        let mut compound = Compound::new(self, '{', '}')?;
        compound.member(variant, value)?;
        compound.finish()
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Compound<'w>, Error> {
        Compound::new(self, '[', ']')
    }

    fn serialize_tuple(self, _len: usize) -> Result<Compound<'w>, Error> {
        Compound::new(self, '[', ']')
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Compound<'w>, Error> {
        Compound::new(self, '[', ']')
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Compound<'w>, Error> {
        Compound::variant(self, variant, '[', ']')
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Compound<'w>, Error> {
        Compound::new(self, '{', '}')
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Compound<'w>, Error> {
        Ok(Compound { sort: false, ..Compound::new(self, '{', '}')? })
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Compound<'w>, Error> {
        Ok(Compound { sort: false, ..Compound::variant(self, variant, '{', '}')? })
    }

    /// Writes a string piece by piece. A lone U+FFFD represents a byte that is not UTF-8, which Go escapes.
    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.out.push('"');
        // Writing to a string cannot fail.
        let _ = write!(Pieces(self), "{value}");
        self.out.push('"');
        Ok(())
    }
}

macro_rules! arrays {
    ($($trait:ident :: $method:ident),*) => {$(
        impl ser::$trait for Compound<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.finish()
            }
        }
    )*};
}

arrays!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! structs {
    ($($trait:ident),*) => {$(
        impl ser::$trait for Compound<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
                self.member(key, value)
            }

            fn end(self) -> Result<(), Error> {
                self.finish()
            }
        }
    )*};
}

structs!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let at = self.writer.keys.len();
        key.serialize(KeySerializer(&mut self.writer.keys))?;
        self.begin_member(at);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.writer)?;
        self.end_member()
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}
