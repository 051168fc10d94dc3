//! Custom resource definitions and structural schemas, as functions of JSON values: no HTTP, no clock, no store.
//!
//! [`definition`] judges definitions. [`CustomSchema`] is one version's schema, made ready to prune, complete and judge
//! objects; its rules (`x-kubernetes-validations`) run on `steersman-cel`.

mod correlate;
mod custom;
mod decl;
mod default;
mod defaults;
pub mod definition;
mod field_path;
pub mod fields;
pub mod go;
mod lists;
pub mod meta;
mod path;
mod prune;
mod rules;
mod schema;
mod structural;
mod validate;

pub use custom::{CustomSchema, Judged};
pub use fields::{FieldError, FieldErrorKind};
pub use schema::Schema;
