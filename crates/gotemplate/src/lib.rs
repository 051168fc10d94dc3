//! Go's `text/template` and `fmt`, exactly, with no knowledge of Helm or Kubernetes.
//!
//! Templates are parsed once into a [`Set`] that can be shared between threads, and executed as often as wanted with
//! [`Value`]s, which behave as Go values do seen through an `interface{}`: numbers have Go types, maps are shared and
//! changed in place, native objects have fields and methods.

mod ast;
mod builtins;
mod exec;
pub mod fmt;
mod func;
mod json;
mod parse;
mod set;
mod stack;
mod str;
pub mod strconv;
mod unicode;
mod value;

pub use builtins::{deep_equal, equal, less};
pub use exec::Limits;
pub use func::{Call, CallError, Func, Funcs, Signature, Type};
pub use set::{ExecError, Frame, MissingKey, ParseError, Parsed, Set};
pub use str::Str;
pub use value::{FloatType, IntType, Kind, List, ListType, Map, MapType, Method, Object, UintType, Value};
