//! Predicates: which changes trigger a reconcile. For [`crate::Watch::when`] and [`crate::Controller::when`].
//!
//! Predicates filter updates only: the creation of an object, the start of its deletion and its end always pass.

use crate::cache::{Meta, Snapshot};

/// Passes changes of the spec, labels, annotations and finalizers; ignores those of the status. Kinds without a
/// generation always pass.
#[must_use]
pub fn spec_changed(old: &Snapshot, new: &Snapshot) -> bool {
    compare(old, new, |old, new| {
        old.generation != new.generation
            || new.generation == 0
            || old.labels != new.labels
            || old.annotations != new.annotations
            || old.finalizers != new.finalizers
    })
}

/// Passes changes of the generation, which counts those of the spec. Kinds without a generation always pass.
#[must_use]
pub fn generation_changed(old: &Snapshot, new: &Snapshot) -> bool {
    compare(old, new, |old, new| old.generation != new.generation || new.generation == 0)
}

/// Passes changes of the labels.
#[must_use]
pub fn labels_changed(old: &Snapshot, new: &Snapshot) -> bool {
    compare(old, new, |old, new| old.labels != new.labels)
}

/// Passes changes of the annotations.
#[must_use]
pub fn annotations_changed(old: &Snapshot, new: &Snapshot) -> bool {
    compare(old, new, |old, new| old.annotations != new.annotations)
}

/// Passes changes of the resourceVersion: a list that repeats a known state does not pass.
#[must_use]
pub fn version_changed(old: &Snapshot, new: &Snapshot) -> bool {
    compare(old, new, |old, new| old.resource_version != new.resource_version)
}

/// Compares metadata. Malformed metadata pass: a change must not be lost.
fn compare(old: &Snapshot, new: &Snapshot, differ: impl Fn(&Meta<'_>, &Meta<'_>) -> bool) -> bool {
    match (old.meta(), new.meta()) {
        (Ok(old), Ok(new)) => differ(&old, &new),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::cache::Incoming;

    fn snapshot(generation: i64, version: &str, metadata: Value) -> Snapshot {
        let mut object = json!({"metadata": {
            "name": "a", "uid": "u", "generation": generation, "resourceVersion": version,
            "labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["f"],
        }});
        for (name, value) in metadata.as_object().into_iter().flatten() {
            object["metadata"][name] = value.clone();
        }
        serde_json::from_value::<Incoming>(object).unwrap().snapshot("test", Arc::from)
    }

    #[test]
    fn each_predicate_sees_its_own_changes() {
        let before = snapshot(1, "1", json!({}));
        // Which predicates pass, in the order below.
        for (what, after, passes) in [
            ("nothing", snapshot(1, "1", json!({})), [false, false, false, false, false]),
            ("the status", snapshot(1, "2", json!({})), [false, false, false, false, true]),
            ("the spec", snapshot(2, "2", json!({})), [true, true, false, false, true]),
            ("a label", snapshot(1, "2", json!({"labels": {"l": "2"}})), [true, false, true, false, true]),
            ("an annotation", snapshot(1, "2", json!({"annotations": {}})), [true, false, false, true, true]),
            ("a finalizer", snapshot(1, "2", json!({"finalizers": []})), [true, false, false, false, true]),
        ] {
            let found =
                [spec_changed, generation_changed, labels_changed, annotations_changed, version_changed]
                    .map(|changed| changed(&before, &after));
            assert_eq!(found, passes, "{what}");
        }
    }

    #[test]
    fn kinds_that_do_not_count_generations_pass() {
        let (before, after) = (snapshot(0, "1", json!({})), snapshot(0, "2", json!({})));
        assert!(spec_changed(&before, &after) && generation_changed(&before, &after));
        assert!(!labels_changed(&before, &after) && !annotations_changed(&before, &after));
    }
}
