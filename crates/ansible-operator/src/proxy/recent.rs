//! Objects as the cluster last sent them, so that reads of what did not change are answered without asking it again.
//!
//! The operator's caches know the current version of each watched object, a run's own writes included, but not all of it: they
//! leave out managedFields and the last applied configuration, which modules compare. So an answer is kept whole here, and given
//! again while the caches say that its version is the current one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use steersman::{Key, Kind};

/// Limit on what is kept, in bytes. Beyond it, all is forgotten and kept anew.
const MOST_BYTES: usize = 64 << 20;

/// Answers by object, each with the version that it has.
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
    /// Keeps an answer, if it is an object with a version.
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

    /// The answer of a version.
    pub(crate) fn get(&self, kind: &Kind, key: &Key, version: &str) -> Option<Bytes> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, content) = answers.objects.get(&(kind.clone(), key.clone()))?;
        (kept == version).then(|| content.clone())
    }

    /// Forgets an object that is deleted.
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
