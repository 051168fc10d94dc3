//! Caches complete responses of the cluster, to serve reads of unchanged objects.
//!
//! The operator's caches have the current version of each watched object, including a run's own writes, but without
//! managedFields and the last-applied annotation, which Ansible's modules compare. So the complete response is kept here, and
//! served while the operator's cache says that its resourceVersion is current.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use steersman::{Key, Kind};

/// The maximum total size in bytes. When it is exceeded, the cache is cleared.
const MOST_BYTES: usize = 64 << 20;

/// Responses by object, each with the object's resourceVersion.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Answers>);

#[derive(Debug, Default)]
struct Answers {
    objects: HashMap<(Kind, Key), (String, Bytes)>,
    bytes: usize,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

impl Recent {
    /// Stores a response, if it is an object with a resourceVersion.
    pub(crate) fn keep(&self, kind: &Kind, key: &Key, content: &Bytes) {
        let Ok(Object { metadata }) = serde_json::from_slice(content) else { return };
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.bytes + content.len() > MOST_BYTES {
            *answers = Answers::default();
        }
        answers.bytes += content.len();
        let kept = (metadata.resource_version, content.clone());
        if let Some((_, old)) = answers.objects.insert((kind.clone(), key.clone()), kept) {
            answers.bytes -= old.len();
        }
    }

    /// Returns the response for a resourceVersion.
    pub(crate) fn get(&self, kind: &Kind, key: &Key, version: &str) -> Option<Bytes> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, content) = answers.objects.get(&(kind.clone(), key.clone()))?;
        (kept == version).then(|| content.clone())
    }

    /// Removes an object that is deleted.
    pub(crate) fn forget(&self, kind: &Kind, key: &Key) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, old)) = answers.objects.remove(&(kind.clone(), key.clone())) {
            answers.bytes -= old.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn an_answer_is_given_again_for_its_version_alone() {
        let recent = Recent::default();
        let (kind, key) = (Kind::of::<ConfigMap>(), Key::new(Some("lab"), "one"));
        let content = Bytes::from_static(br#"{"metadata":{"resourceVersion":"7"},"data":{}}"#);
        recent.keep(&kind, &key, &Bytes::from_static(b"[]"));
        recent.keep(&kind, &key, &content);
        recent.keep(&kind, &key, &content);
        assert_eq!(recent.get(&kind, &key, "7"), Some(content.clone()));
        assert_eq!(recent.get(&kind, &key, "8"), None);
        assert_eq!(recent.get(&kind, &Key::new(Some("other"), "one"), "7"), None);
        assert_eq!(recent.0.lock().unwrap().bytes, content.len());
        recent.forget(&kind, &key);
        assert_eq!(recent.get(&kind, &key, "7"), None);
        assert_eq!(recent.0.lock().unwrap().bytes, 0);
    }
}
