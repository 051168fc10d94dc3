//! Values as Go's `encoding/json` sees them.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt::{self, Write};

use serde::ser::{Error, SerializeMap, SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::budget::Budget;
use crate::value::{FloatType, Value};
use steersman_gostd::strconv;
use steersman_gostd::unicode::RUNE_ERROR;

/// Depth from which Go checks for cycles, and so does this.
const SAFE_DEPTH: usize = 1000;

/// Limit on the parts of one value. A map that holds the same map under two keys, level by level, doubles them each
/// time.
const MAX_PARTS: u64 = 50_000_000;

impl Serialize for Value {
    /// Serializes maps sorted by key, `[]byte` as base64 and objects by [`crate::Object::json`].
    ///
    /// Strings have U+FFFD for bytes that are not UTF-8. Fails with Go's message on NaN, infinities, complex numbers
    /// and cycles.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let trail = Trail { parts: Cell::new(0), above: RefCell::default(), budget: None };
        Part { value: self, depth: 0, trail: &trail }.serialize(serializer)
    }
}

impl Value {
    /// Returns a value that serializes as this one does, and charges a cost of 1 for each part.
    ///
    /// Shared parts are written more often than they are stored: a list that holds the same list twice, level by level,
    /// doubles them each time.
    pub fn within<'a>(&'a self, budget: &'a Budget) -> impl Serialize + 'a {
        Within { value: self, budget }
    }
}

struct Within<'a> {
    value: &'a Value,
    budget: &'a Budget,
}

impl Serialize for Within<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let trail = Trail { parts: Cell::new(0), above: RefCell::default(), budget: Some(self.budget) };
        Part { value: self.value, depth: 0, trail: &trail }.serialize(serializer)
    }
}

/// State shared by all parts of one serialization.
struct Trail<'a> {
    parts: Cell<u64>,
    /// Addresses of the enclosing maps and lists, tracked from [`SAFE_DEPTH`] on.
    above: RefCell<HashSet<usize>>,
    budget: Option<&'a Budget>,
}

/// A value inside another.
struct Part<'a> {
    value: &'a Value,
    depth: usize,
    trail: &'a Trail<'a>,
}

impl Part<'_> {
    fn inner<'b>(&'b self, value: &'b Value) -> Part<'b> {
        Part { value, depth: self.depth + 1, trail: self.trail }
    }

    /// Writes a map or list; fails on a cycle.
    fn guarded<T, E: Error>(&self, address: usize, write: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let watched = self.depth >= SAFE_DEPTH;
        if watched && !self.trail.above.borrow_mut().insert(address) {
            let ty = self.value.type_str();
            return Err(E::custom(format_args!("json: unsupported value: encountered a cycle via {ty}")));
        }
        let written = crate::stack::grow(write);
        if watched {
            self.trail.above.borrow_mut().remove(&address);
        }
        written
    }
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.trail.budget {
            Some(budget) => budget.charge_cost(1).map_err(S::Error::custom)?,
            None => {
                let parts = self.trail.parts.get() + 1;
                self.trail.parts.set(parts);
                if parts > MAX_PARTS {
                    return Err(S::Error::custom(format_args!(
                        "json: value has more than {MAX_PARTS} parts"
                    )));
                }
            }
        }
        match self.value {
            Value::Nil => serializer.serialize_unit(),
            Value::Bool(b) => serializer.serialize_bool(*b),
            Value::Int(n, _) => serializer.serialize_i64(*n),
            Value::Uint(n, _) => serializer.serialize_u64(*n),
            Value::Float(n, ty) if !n.is_finite() => {
                let shown = strconv::format_float(*n, b'g', None, *ty == FloatType::Float32);
                Err(S::Error::custom(format_args!("json: unsupported value: {shown}")))
            }
            #[expect(clippy::cast_possible_truncation, reason = "the value came from a float32")]
            Value::Float(n, FloatType::Float32) => serializer.serialize_f32(*n as f32),
            Value::Float(n, FloatType::Float64) => serializer.serialize_f64(*n),
            Value::Complex(..) => Err(S::Error::custom("json: unsupported type: complex128")),
            Value::String(text) => Text(text).serialize(serializer),
            Value::Bytes(bytes) => serializer.serialize_str(&base64(bytes)),
            Value::List(list) if list.is_nil() => serializer.serialize_unit(),
            Value::Map(map) if map.is_nil() => serializer.serialize_unit(),
            Value::List(list) => self.guarded(list.address(), || {
                let mut seq = serializer.serialize_seq(Some(list.len()))?;
                for item in list.iter() {
                    seq.serialize_element(&self.inner(item))?;
                }
                seq.end()
            }),
            Value::Map(map) => self.guarded(map.address(), || {
                let entries = map.borrow();
                let mut out = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries.iter() {
                    out.serialize_entry(&Text(key), &self.inner(value))?;
                }
                out.end()
            }),
            Value::Object(object) => crate::stack::grow(|| match object.json_fields() {
                None => self.inner(&object.json()).serialize(serializer),
                Some(fields) => {
                    let mut out = serializer.serialize_struct("", fields.len())?;
                    for (name, value) in &fields {
                        out.serialize_field(name, &self.inner(value))?;
                    }
                    out.end()
                }
            }),
        }
    }
}

/// A string, with a U+FFFD for each byte that is not UTF-8.
///
/// Go's encoder writes such a byte as the escape `\ufffd`, but a genuine U+FFFD verbatim. A serializer can distinguish
/// them in [`Serializer::collect_str`]: invalid bytes arrive by `write_char`, everything else by `write_str`.
struct Text<'a>(&'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_str(self),
        }
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            if !chunk.valid().is_empty() {
                f.write_str(chunk.valid())?;
            }
            for _ in chunk.invalid() {
                f.write_char(RUNE_ERROR)?;
            }
        }
        Ok(())
    }
}

/// Standard base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) & 63;
            let letter = ALPHABET.get(digit as usize).copied().unwrap_or(b'=');
            out.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}
