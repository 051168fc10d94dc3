//! What servers behind APIServices say of themselves: discovery and OpenAPI.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Remote;

/// What a server says of one group version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Documents {
    /// The resources, as aggregated discovery lists them.
    pub(crate) resources: Vec<Value>,
    /// Whether the server said so when it was asked last.
    pub(crate) is_current: bool,
    /// The part of the document of version 2 that is about the group version.
    pub(crate) openapi_v2: Option<OldDocument>,
    /// Where the document of version 3 is.
    pub(crate) openapi_v3: Option<String>,
}

/// A document of OpenAPI version 2.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OldDocument {
    pub(crate) paths: Map<String, Value>,
    pub(crate) definitions: Map<String, Value>,
}

impl Documents {
    /// The same, of a server that no longer says so.
    pub(super) fn stale(&self) -> Self {
        Self { is_current: false, ..self.clone() }
    }
}

/// A group version of another server, as discovery lists it.
#[derive(Debug, Clone)]
pub(crate) struct RemoteVersion {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    pub(crate) documents: Arc<Documents>,
}

impl RemoteVersion {
    pub(super) fn new(remote: &Remote, documents: Option<&Arc<Documents>>) -> Self {
        Self {
            group: remote.group.clone(),
            version: remote.version.clone(),
            group_priority: remote.group_priority,
            version_priority: remote.version_priority,
            documents: documents.cloned().unwrap_or_default(),
        }
    }
}
