//! Types of objects: what decoding and encoding need to know of a schema.
//!
//! A [`Schema`] is a root in the arena of types, of which there is one per process.

mod builtin;
mod canonical;
mod check;
pub mod duplicates;
mod time;

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde_json::Value;

pub use steersman_formats::quantity::Quantity;

pub use builtin::{PREFIX, builtin, definition, definition_name, definitions, go_type, reference};
pub use check::{Decoded, Decoder};
pub use steersman_formats::quantity;

/// A type somewhere in an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TypeId {
    /// In the arena of built-in types.
    Builtin(u32),
}

/// A type and everything that it is made of.
#[derive(Debug, Clone)]
pub struct Schema {
    root: TypeId,
}

/// One type.
#[derive(Debug, Clone)]
pub enum Type {
    /// Anything at all, kept as it is.
    Any,
    /// A leaf.
    Scalar(Scalar),
    /// A list of elements of one type.
    List(TypeId),
    /// A map from names to values of one type.
    Map(TypeId),
    /// An object with known fields.
    Struct(Struct),
    /// An object of this type, or anything else, kept as it is.
    Or(TypeId),
}

/// A leaf's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// Base64 text.
    Bytes,
    /// A moment, to the second.
    Time,
    /// A moment, to the microsecond.
    MicroTime,
    /// 32 bits.
    Int32,
    /// 64 bits.
    Int64,
    /// A float.
    Number,
    /// Yes or no.
    Boolean,
    /// A number or text: ports and percentages.
    IntOrString,
    /// An amount such as `100m` or `2Gi`.
    Quantity,
}

/// An object with known fields.
#[derive(Debug, Clone, Default)]
pub struct Struct {
    /// Name of the type, as error messages have it; empty for custom resources.
    pub name: String,
    /// Name of the type in the OpenAPI document; empty for custom resources.
    pub full: String,
    /// Known fields. Asked for every field of every object on each of its ways through here, so the hash is a fast one.
    pub fields: HashMap<String, Field, RandomState>,
    /// Those of them that are written though the client said nothing, by name.
    pub always: Vec<(String, Field)>,
    /// Whether unknown fields are kept.
    pub open: bool,
}

/// One field of a [`Struct`].
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its type.
    pub ty: TypeId,
    /// Its encoding when it is empty.
    pub presence: Presence,
}

/// How typed encoders write an empty field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Presence {
    /// Left out.
    #[default]
    Omitted,
    /// Written with whatever its own fields need, though the client said nothing.
    Struct,
    /// Written as 0, "" or false; lists and maps as null.
    Zero,
    /// Written as null when the client said nothing.
    Null,
    /// Written when the client said something, empty or not.
    Pointer,
}

impl Presence {
    /// Whether the field is written though the client said nothing.
    #[inline]
    pub fn always(self) -> bool {
        matches!(self, Self::Struct | Self::Zero | Self::Null)
    }
}

impl Schema {
    /// The root type.
    #[inline]
    pub fn root(&self) -> TypeId {
        self.root
    }

    /// Looks a type up.
    #[inline]
    pub fn get(&self, id: TypeId) -> &Type {
        let TypeId::Builtin(i) = id;
        builtin().get(i as usize).unwrap_or(&Type::Any)
    }

    /// Does to JSON what a typed decoder does: refuses what it would not take, in its words, writes amounts and times as it
    /// understands them, and drops what it takes for nothing and what it does not know. Says what that is; a value that is
    /// refused is left half done.
    pub fn decode(&self, value: &mut Value, decoder: Decoder) -> Result<Decoded, String> {
        check::decode(self, value, decoder, check::Unknown::Dropped)
    }

    /// The same for an applied object, whose fields have been compared with their types before: what is not known stays.
    pub fn convert(&self, value: &mut Value) -> Result<Decoded, String> {
        check::decode(self, value, Decoder::Conversion, check::Unknown::Kept)
    }

    /// Writes out what a typed encoder writes although it is empty, and leaves out what it leaves out.
    pub fn encode(&self, value: &mut Value) {
        canonical::fill(self, self.root, value, false);
    }

    /// The same for an object that is about to rest.
    pub fn encode_stored(&self, value: &mut Value) {
        canonical::fill(self, self.root, value, true);
    }
}

/// The words of Go's decoder for bytes that are not JSON.
pub fn syntax(body: &[u8], error: &serde_json::Error) -> String {
    steersman_yaml::json::from_slice(body).map_or_else(|e| e.to_string(), |_| error.to_string())
}
