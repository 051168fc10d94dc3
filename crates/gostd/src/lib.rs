//! Parts of Go's standard library, with Go's results and Go's error texts.

pub mod fmt;
pub mod json;
pub mod strconv;
pub mod time;
pub mod unicode;
