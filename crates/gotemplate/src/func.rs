//! Functions that templates call, and their Go signatures.

use std::collections::HashMap;

use crate::budget::{Budget, Exceeded};
use crate::set::{ExecError, Set};
use crate::str::Str;
use crate::value::{FloatType, IntType, List, ListType, Map, MapType, UintType, Value};

/// Go types of parameters and elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in Go")]
pub enum Type {
    /// `interface {}`: anything, nil included.
    Any,
    Bool,
    Int,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float32,
    Float64,
    String,
    /// `[]byte`.
    Bytes,
    /// `[]interface {}`.
    ListAny,
    /// `[]string`.
    ListString,
    /// `[]int`.
    ListInt,
    /// `map[string]interface {}`.
    MapAny,
    /// `map[string]string`.
    MapString,
    /// A named type, by the name that `%T` prints.
    Named(&'static str),
}

impl Type {
    /// Returns the type's name in Go, as `%T` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint => "uint",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::String => "string",
            Self::Bytes => "[]uint8",
            Self::ListAny => "[]interface {}",
            Self::ListString => "[]string",
            Self::ListInt => "[]int",
            Self::MapAny => "map[string]interface {}",
            Self::MapString => "map[string]string",
            Self::Named(name) => name,
        }
    }

    /// Whether nil is assignable to it.
    pub(crate) fn can_be_nil(self) -> bool {
        match self {
            Self::Any | Self::Bytes | Self::ListAny | Self::ListString | Self::ListInt => true,
            Self::MapAny | Self::MapString => true,
            Self::Named(name) => name.starts_with(['*', '[']) || name.starts_with("map["),
            _ => false,
        }
    }

    /// The zero value, such as `0`, `""` or a nil map.
    pub fn zero(self) -> Value {
        match self {
            Self::Any | Self::Named(_) => Value::Nil,
            Self::Bool => Value::Bool(false),
            Self::Int => Value::Int(0, IntType::Int),
            Self::Int8 => Value::Int(0, IntType::Int8),
            Self::Int16 => Value::Int(0, IntType::Int16),
            Self::Int32 => Value::Int(0, IntType::Int32),
            Self::Int64 => Value::Int(0, IntType::Int64),
            Self::Uint => Value::Uint(0, UintType::Uint),
            Self::Uint8 => Value::Uint(0, UintType::Uint8),
            Self::Uint16 => Value::Uint(0, UintType::Uint16),
            Self::Uint32 => Value::Uint(0, UintType::Uint32),
            Self::Uint64 => Value::Uint(0, UintType::Uint64),
            Self::Float32 => Value::Float(0.0, FloatType::Float32),
            Self::Float64 => Value::Float(0.0, FloatType::Float64),
            Self::String => Value::String(Str::default()),
            Self::Bytes => Value::Bytes(Str::default()),
            Self::ListAny => Value::List(List::nil(ListType::ANY)),
            Self::ListString => Value::List(List::nil(ListType::STRING)),
            Self::ListInt => Value::List(List::nil(ListType::INT)),
            Self::MapAny => Value::Map(Map::nil(MapType::ANY)),
            Self::MapString => Value::Map(Map::nil(MapType::STRING)),
        }
    }
}

/// Parameter types of a function or method.
///
/// The executor checks and converts the arguments before the call, and fails with Go's error messages.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// The fixed parameters.
    pub params: &'static [Type],
    /// Type of each further argument, if the function is variadic.
    pub variadic: Option<Type>,
}

/// A function that templates can call.
///
/// `H` is the host: the state that the caller of [`crate::Set::execute`] passes in, such as a clock or a random source.
pub struct Func<H> {
    /// Its parameters.
    pub signature: Signature,
    /// Implementation, called with arguments that have been checked and converted.
    pub call: fn(&mut Call<'_, H>) -> Result<Value, CallError>,
}

impl<H> Clone for Func<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Func<H> {}

/// The functions that a template set can use, by name.
pub struct Funcs<H> {
    by_name: HashMap<Str, Func<H>>,
}

impl<H> Default for Funcs<H> {
    fn default() -> Self {
        Self { by_name: HashMap::new() }
    }
}

impl<H> Funcs<H> {
    /// Creates an empty table. Go's own functions (`and`, `printf`, `index`, ...) need not be added: every set has
    /// them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function. It replaces any function of the same name, built-in ones included.
    pub fn insert(
        &mut self,
        name: &'static str,
        params: &'static [Type],
        variadic: Option<Type>,
        call: fn(&mut Call<'_, H>) -> Result<Value, CallError>,
    ) {
        let signature = Signature { params, variadic };
        self.by_name.insert(name.into(), Func { signature, call });
    }

    /// Removes a function, so that templates calling it no longer parse.
    pub fn remove(&mut self, name: &str) {
        self.by_name.remove(name.as_bytes());
    }

    /// Returns the function of that name.
    pub fn get(&self, name: &[u8]) -> Option<Func<H>> {
        self.by_name.get(name).copied()
    }

    /// Returns all names, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &Str> {
        self.by_name.keys()
    }
}

/// One call of a function from a template.
pub struct Call<'a, H> {
    /// The arguments, checked against the signature and converted to the declared types.
    pub args: &'a [Value],
    /// The state handed to [`Set::execute`].
    pub host: &'a mut H,
    /// The set being executed, so that functions can execute other templates.
    pub set: &'a Set<H>,
    /// Budget of the execution. A function charges it for the memory of what it creates, and for work out of proportion
    /// to its arguments.
    pub budget: &'a Budget,
}

/// Error of a failed function. The message appears after `error calling NAME: `.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    message: String,
    #[source]
    source: Option<Box<ExecError>>,
    exceeded: Option<Exceeded>,
    oversized: bool,
}

/// What the caller of a failed function learns from its error.
pub(crate) struct CallFailure {
    pub(crate) message: String,
    pub(crate) inner: Option<Box<ExecError>>,
    pub(crate) exceeded: Option<Exceeded>,
}

impl CallError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None, exceeded: None, oversized: false }
    }

    pub(crate) fn exceeding(limit: Exceeded) -> Self {
        Self { exceeded: Some(limit.clone()), ..Self::new(limit.to_string()) }
    }

    /// Creates an error for printed output that exceeds its limit.
    pub(crate) fn oversized(message: impl Into<String>) -> Self {
        Self { oversized: true, ..Self::new(message) }
    }

    pub(crate) fn is_oversized(&self) -> bool {
        self.oversized
    }

    /// Returns the limit that was exceeded, if that is why the function failed.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        self.exceeded.as_ref().or_else(|| self.source.as_ref()?.exceeded.as_ref())
    }

    /// Returns the failed execution of another template that caused this error, if any.
    pub fn inner(&self) -> Option<&ExecError> {
        self.source.as_deref()
    }

    pub(crate) fn into_parts(self) -> CallFailure {
        CallFailure { message: self.message, inner: self.source, exceeded: self.exceeded }
    }
}

impl From<ExecError> for CallError {
    /// Wraps the failure of a template that the function executed; the message is that of the inner error.
    fn from(error: ExecError) -> Self {
        let message = error.to_string();
        Self { source: Some(Box::new(error)), ..Self::new(message) }
    }
}
