//! Kubernetes patches: server-side apply, strategic merge, merge and JSON patches, exactly as kube-apiserver makes them.
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
//! The four patch types differ in what they need to know:
//!
//! - [`json_patch`] is a list of operations (RFC 6902). It knows no types, and a `test` operation makes it conditional.
//! - [`merge_patch`] is an object to put over another one (RFC 7386). Lists are replaced as a whole.
//! - [`strategic_merge_patch`] merges lists by their keys (`containers` by `name`), which it finds in the OpenAPI schema of the
//!   kind. Built-in kinds alone have one.
//! - [`apply`] merges by the schema of any kind, and records in `metadata.managedFields` who set which field. What a manager
//!   applied before and leaves out now is removed; what another manager owns is a [`apply::Conflict`] unless forced.
//!
//! Patches may be hostile: depth, operations and copies are limited, and no input panics. Errors have the text and, in their
//! documentation, the HTTP status of the real server.

pub mod apply;
mod json;
mod merge;
mod strategic;
mod value;

pub use json::{JsonPatchError, json_patch};
pub use merge::{MergePatchError, merge_patch};
pub use strategic::{StrategicError, strategic_merge_patch, strategic_remains};
