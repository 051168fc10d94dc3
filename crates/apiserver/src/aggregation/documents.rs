//! Discovery and OpenAPI documents of the servers behind APIServices.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Remote;

/// The documents of one group version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Documents {
    /// The resources, as aggregated discovery lists them.
    pub(crate) resources: Vec<Value>,
    /// Whether the last fetch succeeded.
    pub(crate) is_current: bool,
    /// The part of the OpenAPI v2 document for the group version.
    pub(crate) openapi_v2: Option<OldDocument>,
    /// The path of the OpenAPI v3 document.
    pub(crate) openapi_v3: Option<String>,
}

/// An OpenAPI v2 document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OldDocument {
    pub(crate) paths: Map<String, Value>,
    pub(crate) definitions: Map<String, Value>,
}

impl Documents {
    /// Returns a copy marked as stale.
    pub(super) fn stale(&self) -> Self {
        Self { is_current: false, ..self.clone() }
    }
}

/// A group version of an extension API server, as listed by discovery.
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
