//! Paths of fields and list items within an object.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use crate::value;

/// One step of a path.
/// Names and values are borrowed from the object or its types, because every write enumerates all fields of its
/// object.
#[derive(Clone, Debug)]
pub enum PathElement<'a> {
    /// A field of a map.
    Field(Cow<'a, str>),
    /// The list item with these key field values, sorted by field name.
    Key(Vec<(Cow<'a, str>, Cow<'a, Value>)>),
    /// The set item with this value.
    Value(Cow<'a, Value>),
    /// The list item at this index.
    Index(i64),
}

impl<'a> PathElement<'a> {
    /// A field of a map.
    pub(super) fn field(name: &'a str) -> Self {
        Self::Field(Cow::Borrowed(name))
    }

    /// Returns an owned copy with no borrowed data.
    pub fn into_owned(self) -> PathElement<'static> {
        match self {
            Self::Field(name) => PathElement::Field(Cow::Owned(name.into_owned())),
            Self::Key(fields) => {
                let own = |(name, value): (Cow<'_, str>, Cow<'_, Value>)| {
                    (Cow::Owned(name.into_owned()), Cow::Owned(value.into_owned()))
                };
                PathElement::Key(fields.into_iter().map(own).collect())
            }
            Self::Value(value) => PathElement::Value(Cow::Owned(value.into_owned())),
            Self::Index(index) => PathElement::Index(index),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }

    /// Returns the element in `fieldsV1` format, such as `f:spec` or `k:{"name":"web"}`.
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => ["f:", &**name].concat(),
            Self::Key(fields) => {
                let mut out = String::with_capacity(64);
                out.push_str("k:{");
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    out.push_str(comma);
                    value::write_go_text(&mut out, name);
                    out.push(':');
                    value::write_go_json(&mut out, value);
                }
                out.push('}');
                out
            }
            Self::Value(value) => {
                let mut out = String::from("v:");
                value::write_go_json(&mut out, value);
                out
            }
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Appends the element in `fieldsV1` format as a JSON string.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Field(name) if value::is_plain(name) => {
                out.reserve(name.len() + 4);
                out.push_str("\"f:");
                out.push_str(name);
                out.push('"');
            }
            other => value::write_text(out, &other.encode()),
        }
    }

    /// Parses an element from `fieldsV1` format; `Ok(None)` if its kind is unknown.
    pub(super) fn decode(text: &'a str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = text.split_at_checked(2) else {
            return Err("key must be 2 characters long:".into());
        };
        if !kind.ends_with(':') {
            return Err(format!("missing colon: {text}"));
        }
        Ok(Some(match kind {
            "f:" => Self::field(rest),
            "k:" => {
                let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|e| e.to_string())?;
                let mut fields: Vec<(Cow<'a, str>, Cow<'a, Value>)> =
                    fields.into_iter().map(|(name, value)| (name.into(), Cow::Owned(value))).collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Self::Key(fields)
            }
            "v:" => Self::Value(Cow::Owned(serde_json::from_str(rest).map_err(|e| e.to_string())?)),
            "i:" => Self::Index(rest.parse().map_err(|e: std::num::ParseIntError| e.to_string())?),
            _ => return Ok(None),
        }))
    }
}

impl Ord for PathElement<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                for ((an, av), (bn, bv)) in a.iter().zip(b) {
                    let order = an.cmp(bn).then_with(|| value::compare(av, bv));
                    if order != Ordering::Equal {
                        return order;
                    }
                }
                a.len().cmp(&b.len())
            }
            (Self::Value(a), Self::Value(b)) => value::compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for PathElement<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement<'_> {}

impl fmt::Display for PathElement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_char('[')?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", value::readable(value))?;
                }
                f.write_char(']')
            }
            Self::Value(value) => write!(f, "[={}]", value::readable(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A path within an object, displayed as `.spec.containers[name="web"].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<PathElement<'static>>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}
