//! Go's `text/template` and `fmt`, exactly, with no knowledge of Helm or Kubernetes.
//!
//! Templates are parsed once into a [`Set`] that can be shared between threads, and executed as often as wanted with
//! [`Value`]s, which behave as Go values do seen through an `interface{}`: numbers have Go types, maps are shared and
//! changed in place, native objects have fields and methods.

mod func;
mod set;
mod str;
mod value;

pub use func::{Call, CallError, Func, Funcs, Signature, Type};
pub use set::{ExecError, Frame, MissingKey, ParseError, Set};
pub use str::Str;
pub use value::{FloatType, IntType, Kind, List, ListType, Map, MapType, Method, Object, UintType, Value};
