//! Helm charts: load, dependencies, values, schema, templates, functions, render and sort, exactly as Helm does.
//!
//! **Invariant:** this crate knows no cluster, no clock and no random source: they come in through one [`Environment`].

mod environment;
mod functions;

pub use environment::Environment;
