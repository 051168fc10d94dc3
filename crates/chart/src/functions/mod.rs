//! Every function that Helm offers to templates.

#![allow(dead_code, reason = "the engine that registers them comes next")]

mod args;
mod cast;
pub(crate) mod constraint;
mod decimal;
mod dicts;
mod encoding;
mod gofmt;
mod lists;
mod math;
mod merge;
mod pattern;
mod random;
mod reflect;
mod regexes;
pub(crate) mod semver;
mod text;
mod unicode;
mod version;
mod words;

use steersman_gotemplate::{CallError, Funcs};

use crate::environment::Environment;

/// What the functions need of the state that a render carries.
pub(crate) trait Host {
    /// The outside world of this render.
    fn environment(&mut self) -> &mut dyn Environment;
}

/// Adds sprig's functions and those of Helm's that need nothing but their arguments and the environment.
pub(crate) fn register<H: Host>(funcs: &mut Funcs<H>) {
    text::register(funcs);
    math::register(funcs);
    random::register(funcs);
    reflect::register(funcs);
    lists::register(funcs);
    dicts::register(funcs);
    encoding::register(funcs);
    version::register(funcs);
    regexes::register(funcs);
}

/// What Go's runtime says when a nil interface is asked for its type.
const NIL_DEREFERENCE: &str = "runtime error: invalid memory address or nil pointer dereference";

/// The most bytes that one call may make out of a count, such as `repeat`; Go would try and run out of memory.
const MAX_BYTES: usize = 64 << 20;

/// The most elements that one call may make out of a count, such as `until`.
const MAX_ELEMENTS: usize = 1 << 20;

/// The error of a call that asks for more than this engine makes at once.
fn too_large(what: &str, limit: usize) -> CallError {
    CallError::new(format!("{what} is more than the limit of {limit}"))
}
