//! Types of objects, for decoding and encoding.
//! A [`Schema`] is a root in the arena of types. There is one arena per process.

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

/// Reference to a type in an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TypeId {
    /// In the arena of built-in types.
    Builtin(u32),
}

/// A type with all types that it refers to.
#[derive(Debug, Clone)]
pub struct Schema {
    root: TypeId,
}

/// A type.
#[derive(Debug, Clone)]
pub enum Type {
    /// Any value, kept unchanged.
    Any,
    /// A leaf.
    Scalar(Scalar),
    /// A list of values of one type.
    List(TypeId),
    /// A map from strings to values of one type.
    Map(TypeId),
    /// An object with known fields.
    Struct(Struct),
    /// An object of this type, or any other value, kept unchanged.
    Or(TypeId),
}

/// Type of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A string.
    String,
    /// A base64 string.
    Bytes,
    /// `metav1.Time`: a timestamp with a precision of seconds.
    Time,
    /// `metav1.MicroTime`: a timestamp with a precision of microseconds.
    MicroTime,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A float.
    Number,
    /// A boolean.
    Boolean,
    /// `intstr.IntOrString`: a port or percentage.
    IntOrString,
    /// `resource.Quantity`: an amount such as `100m` or `2Gi`.
    Quantity,
}

/// An object with known fields.
#[derive(Debug, Clone, Default)]
pub struct Struct {
    /// Name of the type in error messages; empty for custom resources.
    pub name: String,
    /// Name of the type in the OpenAPI document; empty for custom resources.
    pub full: String,
    /// Known fields. Looked up for every field of every object decoded or encoded, so the hash is a fast one.
    pub fields: HashMap<String, Field, RandomState>,
    /// Fields that are written even if the client did not set them, sorted by name.
    pub always: Vec<(String, Field)>,
    /// Whether unknown fields are kept.
    pub open: bool,
}

/// One field of a [`Struct`].
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Type of its value.
    pub ty: TypeId,
    /// How it is encoded when empty.
    pub presence: Presence,
}

/// Encoding of an empty field by typed encoders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Presence {
    /// Omitted.
    #[default]
    Omitted,
    /// Written even if unset, as a struct with the fields that are always written.
    Struct,
    /// Written as 0, "" or false; lists and maps as null.
    Zero,
    /// Written as null if unset.
    Null,
    /// Written if set, even to an empty value.
    Pointer,
}

impl Presence {
    /// Whether the field is written even if unset.
    #[inline]
    pub fn always(self) -> bool {
        matches!(self, Self::Struct | Self::Zero | Self::Null)
    }
}

impl Schema {
    /// Returns the root type.
    #[inline]
    pub fn root(&self) -> TypeId {
        self.root
    }

    /// Returns the type with this id.
    #[inline]
    pub fn get(&self, id: TypeId) -> &Type {
        let TypeId::Builtin(i) = id;
        builtin().get(i as usize).unwrap_or(&Type::Any)
    }

    /// Decodes JSON in place like a typed Go decoder, and returns its findings besides the object.
    /// Fails with Go's error message for values of the wrong type, rewrites quantities and times in canonical form, and
    /// drops null, empty and unknown fields. On error, the value is left partly decoded.
    pub fn decode(&self, value: &mut Value, decoder: Decoder) -> Result<Decoded, String> {
        check::decode(self, value, decoder, check::Unknown::Dropped)
    }

    /// Like [`Schema::decode`], for an applied object that was validated already: unknown fields are kept.
    pub fn convert(&self, value: &mut Value) -> Result<Decoded, String> {
        check::decode(self, value, Decoder::Conversion, check::Unknown::Kept)
    }

    /// Adds and omits empty fields like a typed encoder.
    pub fn encode(&self, value: &mut Value) {
        canonical::fill(self, self.root, value, false);
    }

    /// Like [`Schema::encode`], for an object about to be stored.
    pub fn encode_stored(&self, value: &mut Value) {
        canonical::fill(self, self.root, value, true);
    }
}

/// Returns the error message of Go's decoder for a body that is not JSON.
pub fn syntax(body: &[u8], error: &serde_json::Error) -> String {
    steersman_yaml::json::from_slice(body).map_or_else(|e| e.to_string(), |_| error.to_string())
}
