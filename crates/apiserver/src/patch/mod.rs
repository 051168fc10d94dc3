//! The patch formats, as functions from a document and a patch to a document.

mod json;
mod merge;
mod strategic;

pub(crate) use json::{JsonPatch, JsonPatchError};
pub(crate) use merge::merge;
pub(crate) use strategic::strategic;
