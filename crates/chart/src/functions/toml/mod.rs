//! TOML as BurntSushi/toml v1.6 writes and reads it.
//!
//! Both by hand: the `toml` crate lays documents out otherwise, orders keys as they come, has its own error texts and
//! does not tell arrays of tables from arrays of inline tables.

mod decode;
mod encode;
mod scan;

/// The zones of times that were written without one.
const LOCAL_DATETIME: &str = "datetime-local";
const LOCAL_DATE: &str = "date-local";
const LOCAL_TIME: &str = "time-local";

pub(super) use decode::{decode, reading_memory};
pub(super) use encode::encode;
