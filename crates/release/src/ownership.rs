//! Ownership: the release that a live object belongs to.
//!
//! Helm sets a label and two annotations on the objects that it installs. They decide what may be adopted and what
//! may be deleted: a record is only a claim, while the metadata of an object can be set only by those who may write
//! the object.

use std::sync::Arc;

use serde_json::Value;

use crate::object::{HELM, MANAGED_BY, RELEASE_NAME, RELEASE_NAMESPACE, metadata};
use crate::releases::Releases;

/// Whether a live object belongs to another owner, whatever its ownership metadata.
pub(crate) type IsForeign = Arc<dyn Fn(&Value) -> bool + Send + Sync>;

/// Returns why an object does not belong to the release, in Helm's words; nothing if it does.
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

/// Whether a live object has Helm's ownership metadata of a release.
pub fn is_owned(live: &Value, release: &str, namespace: &str) -> bool {
    ownership_errors(live, release, namespace).is_empty()
}

impl Releases {
    /// Whether a live object may be deleted as part of a release in this namespace.
    pub(crate) fn may_delete(&self, live: &Value, release: &str) -> bool {
        is_owned(live, release, &self.namespace)
            && self.is_foreign.as_ref().is_none_or(|is_foreign| !is_foreign(live))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_mark_counts() {
        let marked = |label: &str, name: &str, namespace: &str| {
            json!({ "metadata": {
                "labels": { MANAGED_BY: label }, "annotations": { RELEASE_NAME: name, RELEASE_NAMESPACE: namespace },
            } })
        };
        let errors = |live: &Value| ownership_errors(live, "shop", "lab");
        assert!(
            errors(&marked("Helm", "shop", "lab")).is_empty()
                && is_owned(&marked("Helm", "shop", "lab"), "shop", "lab")
        );
        for (live, expected) in [
            (
                marked("other", "shop", "lab"),
                "label validation error: key \"app.kubernetes.io/managed-by\" must equal \"Helm\": current value is \"other\"",
            ),
            (
                marked("Helm", "other", "lab"),
                "annotation validation error: key \"meta.helm.sh/release-name\" must equal \"shop\": current value is \"other\"",
            ),
            (
                marked("Helm", "shop", "den"),
                "annotation validation error: key \"meta.helm.sh/release-namespace\" must equal \"lab\": current value is \"den\"",
            ),
        ] {
            assert_eq!(errors(&live), [expected]);
            assert!(!is_owned(&live, "shop", "lab"));
        }
        let missing = errors(&json!({}));
        assert_eq!(missing.len(), 3);
        assert_eq!(
            missing[0],
            "label validation error: missing key \"app.kubernetes.io/managed-by\": must be set to \"Helm\""
        );
    }
}
