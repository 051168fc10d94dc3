//! Additional functions for mutating expressions.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{Library, unfit};
use crate::library::Overload;
use crate::types::Type;
use crate::value::Value;

/// Returns the functions by name.
pub(crate) fn functions() -> &'static HashMap<&'static str, Vec<Overload>> {
    static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
        let mut library = Library::default();
        library.global("jsonpatch.escapeKey", [Type::String], Type::String, |args| match args {
            [Value::String(key)] => Ok(Value::string(key.replace('~', "~0").replace('/', "~1"))),
            _ => unfit(),
        });
        library.in_order()
    });
    &FUNCTIONS
}
