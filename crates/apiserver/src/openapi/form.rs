//! Forms of OpenAPI documents.

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Form {
    Json,
    /// Version 2 has this one besides.
    Protobuf,
}
