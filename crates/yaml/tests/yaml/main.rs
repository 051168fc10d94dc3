//! YAML as Go's readers and writers have it.

mod charts;
mod json;
mod properties;
mod reading;
mod recorded;
mod types;
mod writing;
