//! Kubernetes patches as kube-apiserver applies them: server-side apply, strategic merge, merge, JSON.
//!
//! Everything here is a pure function of JSON values and schemas: no HTTP, no clock, no storage.
//!
//! ```
//! use serde_json::json;
//! use steersman_patch::{json_patch, merge_patch};
//!
//! let live = json!({"spec": {"replicas": 1, "paused": true}});
//! let merged = merge_patch(&live, &json!({"spec": {"paused": null}}))?;
//! assert_eq!(merged, json!({"spec": {"replicas": 1}}));
//!
//! let scaled = json_patch(&merged, br#"[{"op": "replace", "path": "/spec/replicas", "value": 3}]"#)?;
//! assert_eq!(scaled["spec"]["replicas"], 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The model
//! The four patch types differ in the information they need:
//!
//! - [`json_patch`] applies a list of operations (RFC 6902). It needs no schema, and a `test` operation makes it
//!   conditional.
//! - [`merge_patch`] merges one object into another (RFC 7386). Lists are replaced as a whole.
//! - [`strategic_merge_patch`] merges lists by their merge keys (`containers` by `name`), taken from the kind's
//!   OpenAPI schema. Available for built-in kinds only.
//! - [`apply`] merges by the schema of any kind, and records in `metadata.managedFields` which manager set which
//!   field. Fields that a manager applied before and omits now are removed; a change to a field of another manager is
//!   a [`apply::Conflict`] unless forced.
//!
//! Patches may be hostile: depth, number of operations and copied bytes are limited, and no input panics. Errors
//! carry the text of kube-apiserver; their documentation names the HTTP status.

pub mod apply;
mod json;
mod merge;
mod strategic;
mod value;

pub use json::{JsonPatchError, json_patch};
pub use merge::{MergePatchError, merge_patch};
pub use strategic::{StrategicError, strategic_merge_patch, strategic_remains};
