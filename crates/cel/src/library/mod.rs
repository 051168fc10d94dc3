//! The functions available to expressions in Kubernetes.

pub(crate) mod authz;
mod declarations;
pub(crate) mod format;
pub(crate) mod formats;
mod lists;
pub(crate) mod net;
mod numbers;
mod optional;
pub(crate) mod patch;
pub(crate) mod quantity;
pub(crate) mod semver;
pub(crate) mod strings;
pub(crate) mod time;
mod url;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use declarations::{A, B, Call, Library, Overload, unfit};

/// Returns all functions by name.
pub(crate) fn functions() -> &'static HashMap<&'static str, Vec<Overload>> {
    static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
        let mut library = Library::default();
        numbers::add(&mut library);
        strings::add(&mut library);
        lists::add(&mut library);
        time::add(&mut library);
        optional::add(&mut library);
        quantity::add(&mut library);
        net::add(&mut library);
        url::add(&mut library);
        format::add(&mut library);
        formats::add(&mut library);
        semver::add(&mut library);
        authz::add(&mut library);
        library.in_order()
    });
    &FUNCTIONS
}
