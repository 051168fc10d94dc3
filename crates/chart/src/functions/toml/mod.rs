//! TOML as BurntSushi/toml v1.6 writes and reads it.
//!
//! Hand-written because the `toml` crate lays out documents differently, keeps keys in insertion order, has its own
//! error messages and does not distinguish arrays of tables from arrays of inline tables.

mod decode;
mod encode;
mod scan;

/// Zone names of times that were written without a zone.
const LOCAL_DATETIME: &str = "datetime-local";
const LOCAL_DATE: &str = "date-local";
const LOCAL_TIME: &str = "time-local";

pub(super) use decode::{decode, reading_memory};
pub(super) use encode::encode;
