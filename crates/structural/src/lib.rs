//! Custom resource definitions and structural schemas, as functions of JSON values: no HTTP, no clock, no store.
//!
//! ```
//! use serde_json::json;
//! use steersman_structural::CustomSchema;
//!
//! let schema = CustomSchema::new(&json!({"type": "object", "properties": {"spec": {
//!     "type": "object",
//!     "properties": {"min": {"type": "integer", "default": 1}, "max": {"type": "integer"}},
//!     "x-kubernetes-validations": [{"rule": "self.min <= self.max", "message": "min is above max"}],
//! }}}));
//! let mut object = json!({"spec": {"max": 0, "typo": true}});
//! assert_eq!(schema.decode(&mut object)?, ["spec.typo"]);
//! schema.default(&mut object);
//! assert_eq!(object, json!({"spec": {"min": 1, "max": 0}}));
//! assert_eq!(schema.check(&object)[0].to_string(), "spec: Invalid value: min is above max");
//! # Ok::<(), String>(())
//! ```
//!
//! # The model
//! [`definition`] validates definitions: names, versions, schemas, and the cost of their rules. [`CustomSchema`] is the schema of
//! one version, ready for objects. An API server calls it in this order:
//!
//! 1. [`CustomSchema::decode`]: metadata is normalized, unknown fields are pruned and reported.
//! 2. [`CustomSchema::default`]: defaults are applied, on writes and on reads.
//! 3. [`CustomSchema::check`], [`check_update`](CustomSchema::check_update) or
//!    [`check_status`](CustomSchema::check_status): types, formats, list keys and rules (`x-kubernetes-validations`),
//!    which run on `steersman-cel` within a cost budget. On updates, unchanged fields need not be valid (ratcheting).
//!
//! Violations are [`FieldError`]s with the path, the kind and the text of the real server.

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

pub use custom::{CustomSchema, UpdateErrors};
pub use fields::{FieldError, FieldErrorKind};
pub use schema::Schema;
