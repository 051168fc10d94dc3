//! YAML and JSON compared with Go's.

mod charts;
mod json;
mod properties;
mod reading;
mod recorded;
mod types;
mod writing;
