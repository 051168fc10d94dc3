//! Encodings of OpenAPI documents.

/// The encoding of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Form {
    Json,
    /// Only for version 2.
    Protobuf,
}
