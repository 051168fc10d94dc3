//! Go's `text/template` and `fmt`, exactly, with no knowledge of Helm or Kubernetes.
//!
//! Templates are parsed once into a [`Set`] that can be shared between threads, and executed any number of times on
//! [`Value`]s. These behave as Go values seen through an `interface{}`: numbers have Go types, maps are shared and
//! modified in place, native objects have fields and methods.
//!
//! ```
//! use std::sync::Arc;
//! use steersman_gotemplate::{CallError, Funcs, Set, Type, Value};
//!
//! let mut funcs: Funcs<()> = Funcs::new();
//! funcs.insert("upper", &[Type::String], None, |call| match call.args {
//!     [Value::String(text)] => Ok(Value::string(text.to_ascii_uppercase())),
//!     _ => Err(CallError::new("upper takes a string")),
//! });
//! let mut set = Set::new(Arc::new(funcs));
//! set.parse("hello", b"{{ range .names -}} Hello, {{ . | upper }}! {{ end }}")?;
//!
//! let data = Value::map([("names", Value::strings(["Ada", "Grace"]))]);
//! let mut out = Vec::new();
//! set.execute(&mut (), "hello", data, &mut out)?;
//! assert_eq!(out, b"Hello, ADA! Hello, GRACE! ");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Differences from Go 1.26
//!
//! Output, errors and the positions in them are those of Go's own packages. The following differ on purpose:
//! - [`Limits`] end executions that would run, recurse or grow without bound, and an [`Interrupt`] ends them from
//!   another thread. Control structures nest at most 10,000 levels deep. Where Go overflows its stack, as when printing
//!   a map that contains itself, an error is returned.
//! - Channels, iterator functions, arrays and custom delimiters are not supported; `call` has no functions to call.
//! - A slice has no spare capacity, so `slice` never reaches beyond its length.
//! - `%p` prints addresses of this process.

mod ast;
mod budget;
mod builtins;
mod exec;
pub mod fmt;
mod func;
mod json;
mod parse;
mod set;
mod stack;
mod str;
mod value;

pub use budget::{Budget, Exceeded, Interrupt, Limits};
pub use builtins::{deep_equal, deep_equal_within, equal, less};
pub use func::{Call, CallError, Func, Funcs, Signature, Type};
pub use set::{ExecError, Frame, MissingKey, ParseError, Parsed, Set};
pub use str::Str;
pub use value::{FloatType, IntType, Kind, List, ListType, Map, MapType, Method, Object, UintType, Value};
