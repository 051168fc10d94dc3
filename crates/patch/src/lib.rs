//! How Kubernetes objects change: server-side apply, strategic, merge and JSON patches, exactly as the real API server
//! makes them.
//!
//! Everything here is a pure function of JSON values and schemas.

pub mod apply;
mod json;
mod merge;
mod strategic;
mod value;

pub use json::{JsonPatchError, json_patch};
pub use merge::{MergePatchError, merge_patch};
pub use strategic::{StrategicError, strategic_merge_patch, strategic_remains};
