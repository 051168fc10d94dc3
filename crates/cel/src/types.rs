//! CEL types.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression or a variable. Displayed in CEL syntax, such as `map(string, dyn)`.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Determined at runtime.
    Dyn,
    /// The type of an erroneous expression. Assignable to everything, so that one error is reported once.
    Error,
    /// `null_type`.
    Null,
    /// `bool`.
    Bool,
    /// `int`, 64 bits.
    Int,
    /// `uint`, 64 bits.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// `timestamp`.
    Timestamp,
    /// `duration`.
    Duration,
    /// A list of elements of one type.
    List(Box<Type>),
    /// A map from keys of one type to values of one type.
    Map(Box<Type>, Box<Type>),
    /// An object with declared fields.
    Object(Arc<ObjectType>),
    /// An optional value.
    Optional(Box<Type>),
    /// The type of types.
    Type(Box<Type>),
    /// An opaque library type, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A type parameter, resolved for each call.
    Param(Param),
}

/// An object type: a name and fields. Types with the same name are equal.
#[derive(Debug)]
pub struct ObjectType {
    /// A name that is unique within an environment.
    pub name: String,
    /// The fields by name, as expressions write them.
    pub fields: BTreeMap<String, Type>,
    /// Whether undeclared fields are allowed, with any type.
    pub open: bool,
}

/// Reserved words of the language.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a word is reserved: fields with that name are escaped as `__NAME__`.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

impl ObjectType {
    /// Returns the type of a field. Fields with a reserved name may be written unescaped.
    pub(crate) fn field(&self, name: &str) -> Option<&Type> {
        self.fields
            .get(name)
            .or_else(|| is_reserved(name).then(|| self.fields.get(&format!("__{name}__"))).flatten())
            .or(self.open.then_some(&Type::Dyn))
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// A type parameter of a declared function, or one made while checking a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Param {
    /// A parameter of a declaration.
    Declared(&'static str),
    /// Created by the checker.
    Fresh(u32),
}

impl Type {
    /// Returns the type of lists with this element type.
    pub fn list(elem: Type) -> Self {
        Self::List(Box::new(elem))
    }

    /// Returns the type of maps with these key and value types.
    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Box::new(key), Box::new(value))
    }

    /// Returns the type of optionals of this type.
    pub fn optional(inner: Type) -> Self {
        Self::Optional(Box::new(inner))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Returns the wrapped type of an optional, or the type itself, and whether it was optional.
    pub(crate) fn unwrapped(&self) -> (&Self, bool) {
        match self {
            Self::Optional(inner) => (inner, true),
            other => (other, false),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(elem) => write!(f, "list({elem})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Param(Param::Declared(name)) => f.write_str(name),
            Self::Param(Param::Fresh(id)) => write!(f, "_var{id}"),
        }
    }
}
