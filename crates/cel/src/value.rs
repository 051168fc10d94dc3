//! CEL values.

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use steersman_formats::Url;
use steersman_formats::quantity::Quantity;
use steersman_gostd::strconv::{self, NumError};

use crate::library::authz::Authorization;
use crate::library::net::Cidr;
use crate::library::semver::Semver;
use crate::library::time::Time;
use crate::object::Object;

/// A runtime value of an expression. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`.
    Null,
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `uint`.
    Uint(u64),
    /// `double`.
    Double(f64),
    /// `string`.
    String(Arc<str>),
    /// `bytes`.
    Bytes(Arc<[u8]>),
    /// A timestamp.
    Timestamp(Time),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A list.
    List(Arc<List>),
    /// A map, or an object with its fields under their CEL names.
    Map(Arc<Vec<(Value, Value)>>),
    /// A schemaless object created by an expression.
    Object(Arc<Object>),
    /// An optional.
    Optional(Option<Arc<Value>>),
    /// A type name.
    Type(Arc<str>),
    /// `kubernetes.Quantity`.
    Quantity(Quantity),
    /// `kubernetes.URL`.
    Url(Arc<Url>),
    /// `net.IP`.
    Ip(IpAddr),
    /// `net.CIDR`.
    Cidr(Cidr),
    /// `kubernetes.NamedFormat`.
    Format(&'static str),
    /// `kubernetes.Semver`.
    Semver(Arc<Semver>),
    /// An authorization check or its decision.
    Authorization(Arc<Authorization>),
    /// An error in place of a value: evaluating it fails.
    Invalid(EvalError),
}

/// A list and how two lists are compared.
#[derive(Clone, Debug, Default)]
pub struct List {
    items: Vec<Value>,
    identity: Identity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Identity {
    /// Equal if the items are equal in order.
    #[default]
    Order,
    /// Equal if the same items are present; items are unique.
    Set,
    /// Equal if the same items are present; items are identified by these fields.
    Keys(Vec<String>),
}

impl Deref for List {
    type Target = Vec<Value>;

    fn deref(&self) -> &Self::Target {
        &self.items
    }
}

impl List {
    fn key<'v>(item: &'v Value, names: &[String]) -> Vec<Option<&'v Value>> {
        names.iter().map(|name| item.field(name)).collect()
    }

    fn same_key(a: &Value, b: &Value, names: &[String]) -> bool {
        Self::key(a, names).iter().zip(Self::key(b, names)).all(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => equal(a, b),
            (None, None) => true,
            _ => false,
        })
    }

    fn same(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        match &self.identity {
            Identity::Order => self.iter().zip(other.iter()).all(|(a, b)| equal(a, b)),
            Identity::Set => other.iter().all(|b| self.iter().any(|a| equal(a, b))),
            Identity::Keys(names) => other
                .iter()
                .all(|b| self.iter().rfind(|a| Self::same_key(a, b, names)).is_some_and(|a| equal(a, b))),
        }
    }

    /// Concatenates two lists: sets drop duplicates, keyed lists replace items with the same keys.
    pub(crate) fn joined(&self, other: &Self) -> Self {
        let mut items = self.items.clone();
        match &self.identity {
            Identity::Order => items.extend(other.iter().cloned()),
            Identity::Set => {
                for item in other.iter() {
                    if !items.iter().any(|known| equal(known, item)) {
                        items.push(item.clone());
                    }
                }
            }
            Identity::Keys(names) => {
                for item in other.iter() {
                    let place =
                        items.iter().take(self.len()).rposition(|known| Self::same_key(known, item, names));
                    match place.and_then(|at| items.get_mut(at)) {
                        Some(known) => *known = item.clone(),
                        None => items.push(item.clone()),
                    }
                }
            }
        }
        Self { items, identity: self.identity.clone() }
    }
}

/// The reasons an evaluation fails, with the text of cel-go.
///
/// ```
/// use steersman_cel::{Environment, EvalError, Program, Type, Value};
///
/// let environment = Environment::new().with("items", Type::list(Type::Int));
/// let program = Program::compile(&environment, "items[3] == 1").unwrap();
/// let (value, _) = program.run([("items", Value::list(vec![]))], 1_000);
/// assert!(matches!(value, Err(EvalError::Failed(message)) if &*message == "index out of bounds: 3"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// No overload of an operator, or of the named function, takes the arguments.
    #[error("no such overload{}", .0.as_ref().map(|name| format!(": {name}")).unwrap_or_default())]
    NoSuchOverload(Option<Arc<str>>),
    /// The evaluation exceeded its cost limit.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimitExceeded,
    /// A number in a string is invalid.
    #[error(transparent)]
    Number(Arc<NumError>),
    /// An operation failed on these values, for example an index is out of bounds.
    #[error("{0}")]
    Failed(Arc<str>),
}

impl From<String> for EvalError {
    fn from(message: String) -> Self {
        Self::Failed(message.into())
    }
}

impl From<&str> for EvalError {
    fn from(message: &str) -> Self {
        Self::Failed(message.into())
    }
}

impl From<NumError> for EvalError {
    fn from(error: NumError) -> Self {
        Self::Number(Arc::new(error))
    }
}

/// A value, or the error that prevents it.
pub type Evaluated = Result<Value, EvalError>;

pub(crate) fn fail<T>(message: impl Into<EvalError>) -> Result<T, EvalError> {
    Err(message.into())
}

impl Value {
    /// Creates a string.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    /// Creates a list.
    pub fn list(items: Vec<Value>) -> Self {
        Self::List(Arc::new(List { items, identity: Identity::Order }))
    }

    /// Creates a list with set semantics: order is irrelevant, and concatenation drops duplicates.
    pub fn set(items: Vec<Value>) -> Self {
        Self::List(Arc::new(List { items, identity: Identity::Set }))
    }

    /// Creates a list with map semantics: items are identified by these fields.
    pub fn keyed(items: Vec<Value>, keys: Vec<String>) -> Self {
        Self::List(Arc::new(List { items, identity: Identity::Keys(keys) }))
    }

    /// Returns the value, or the error if it is `Invalid`.
    pub(crate) fn checked(self) -> Evaluated {
        match self {
            Self::Invalid(error) => Err(error),
            value => Ok(value),
        }
    }

    /// Creates a map.
    pub fn map(entries: Vec<(Value, Value)>) -> Self {
        Self::Map(Arc::new(entries))
    }

    /// Returns the value of a map key.
    pub(crate) fn get(&self, key: &Value) -> Option<&Value> {
        match self {
            Self::Map(entries) => entries.iter().find(|(k, _)| equal(k, key)).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Returns the value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Map(entries) => {
                entries.iter().find(|(k, _)| matches!(k, Self::String(k) if &**k == name)).map(|(_, v)| v)
            }
            Self::Object(object) => object.field(name),
            _ => None,
        }
    }

    /// Returns the name of the value's type.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Object(object) => &object.name,
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Authorization(authorization) => authorization.type_name(),
            Self::Invalid(_) => "error",
        }
    }

    /// The number of elements, entries, characters or bytes; one for other values.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(items) => items.len(),
            Self::Map(entries) => entries.len(),
            Self::Optional(Some(inner)) => return inner.size(),
            _ => 1,
        };
        u64::try_from(size).unwrap_or(u64::MAX)
    }
}

/// Whether two values are equal; numbers are compared across types.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::List(a), Value::List(b)) => a.same(b),
        (Value::Map(a), Value::Map(_)) => {
            a.len() as u64 == b.size() && a.iter().all(|(k, v)| b.get(k).is_some_and(|other| equal(v, other)))
        }
        (Value::Object(a), Value::Object(b)) => a.same(b),
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => equal(a, b),
            _ => false,
        },
        (Value::Quantity(a), Value::Quantity(b)) => a.cmp(b) == Ordering::Equal,
        (Value::Url(a), Value::Url(b)) => a == b,
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a), Value::Cidr(b)) => a == b,
        (Value::Format(a), Value::Format(b)) => a == b,
        (Value::Semver(a), Value::Semver(b)) => a.cmp(b) == Ordering::Equal,
        (a, b) => compare_numbers(a, b) == Some(Ordering::Equal),
    }
}

/// Compares two values; `None` if they have no order.
pub(crate) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        (a, b) => compare_numbers(a, b),
    }
}

fn compare_numbers(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        // Conversion to a double may lose digits.
        (Value::Double(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Double(a), Value::Uint(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Int(_) | Value::Uint(_), Value::Double(_)) => compare_numbers(b, a).map(Ordering::reverse),
        _ => None,
    }
}

/// Formats a number with the shortest digits, with an exponent if it is large or small.
pub(crate) fn print_double(number: f64) -> String {
    strconv::format_float(number, b'g', None, false)
}

impl fmt::Display for Value {
    /// Formats the value for messages: strings quoted, others as literals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::Double(value) => f.write_str(&print_double(*value)),
            Self::String(text) => f.write_str(text),
            other => f.write_str(other.type_name()),
        }
    }
}
