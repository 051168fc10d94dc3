//! To which release an object of the cluster belongs.
//!
//! Helm writes a label and two annotations on what it installs. They decide what may be taken over and what may be
//! deleted: a record is only a claim, while a mark on an object can be made only by those who may write the object.

use std::sync::Arc;

use serde_json::Value;

use crate::object::{HELM, MANAGED_BY, RELEASE_NAME, RELEASE_NAMESPACE, metadata};
use crate::releases::Releases;

/// Says of a live object that it belongs to another owner, whatever its marks say.
pub(crate) type IsForeign = Arc<dyn Fn(&Value) -> bool + Send + Sync>;

/// What about an object says that it is not the release's, in Helm's words; nothing if it is.
pub(crate) fn ownership_errors(live: &Value, release: &str, namespace: &str) -> Vec<String> {
    let wanted = [
        ("label", "labels", MANAGED_BY, HELM),
        ("annotation", "annotations", RELEASE_NAME, release),
        ("annotation", "annotations", RELEASE_NAMESPACE, namespace),
    ];
    let check = |(what, map, key, value): (&str, &str, &str, &str)| match metadata(live, map, key) {
        None => Some(format!("{what} validation error: missing key {key:?}: must be set to {value:?}")),
        Some(actual) if actual != value => Some(format!(
            "{what} validation error: key {key:?} must equal {value:?}: current value is {actual:?}"
        )),
        Some(_) => None,
    };
    wanted.into_iter().filter_map(check).collect()
}

/// Whether a live object carries Helm's marks of a release.
pub fn is_owned(live: &Value, release: &str, namespace: &str) -> bool {
    ownership_errors(live, release, namespace).is_empty()
}

impl Releases {
    /// Whether a live object may be deleted as part of a release of this namespace.
    pub(crate) fn may_delete(&self, live: &Value, release: &str) -> bool {
        is_owned(live, release, &self.namespace)
            && self.is_foreign.as_ref().is_none_or(|is_foreign| !is_foreign(live))
    }
}
