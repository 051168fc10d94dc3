//! Which changes are worth a look. For [`crate::Watch::when`] and [`crate::Controller::when`].
//!
//! Predicates are asked about changes alone: that an object appears, is to be deleted, or is gone is never filtered out.

use crate::cache::{Meta, Snapshot};

/// The desired state changed, or the labels, annotations or finalizers did. Leaves out changes of the status.
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

/// The desired state changed. Kinds that do not count generations pass.
#[must_use]
pub fn generation_changed(old: &Snapshot, new: &Snapshot) -> bool {
    compare(old, new, |old, new| old.generation != new.generation || new.generation == 0)
}

/// The labels changed.
#[must_use]
pub fn labels_changed(old: &Snapshot, new: &Snapshot) -> bool {
    compare(old, new, |old, new| old.labels != new.labels)
}

/// The annotations changed.
#[must_use]
pub fn annotations_changed(old: &Snapshot, new: &Snapshot) -> bool {
    compare(old, new, |old, new| old.annotations != new.annotations)
}

/// Anything changed; a list that repeats a known state does not pass.
#[must_use]
pub fn version_changed(old: &Snapshot, new: &Snapshot) -> bool {
    compare(old, new, |old, new| old.resource_version != new.resource_version)
}

/// Compares metadata. What can't be read passes: a change must not be lost.
fn compare(old: &Snapshot, new: &Snapshot, differ: impl Fn(&Meta<'_>, &Meta<'_>) -> bool) -> bool {
    match (old.meta(), new.meta()) {
        (Ok(old), Ok(new)) => differ(&old, &new),
        _ => true,
    }
}
