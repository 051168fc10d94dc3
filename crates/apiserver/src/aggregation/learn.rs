//! Indexes stored APIServices, and triggers checks when their services change.

use std::sync::{Arc, PoisonError};

use super::{RESOURCE, Remote, lock};
use crate::{
    cluster_service::{ENDPOINT_SLICES, SERVICES},
    core::Core,
    crd,
};

/// Updates the index from the object currently stored at a key.
pub(crate) fn learn(core: &Core, storage: &str, key: &str) {
    let aggregator = &core.aggregator;
    match storage {
        RESOURCE if take_over(core, key) => crd::rebuild(core),
        SERVICES | ENDPOINT_SLICES => {
            let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
            for remote in aggregator.remotes().values().filter(|remote| remote.namespace == namespace) {
                aggregator.mark_dirty(&remote.name);
            }
        }
        _ => {}
    }
}

/// Rebuilds the whole index from the store.
pub(crate) fn learn_all(core: &Core) {
    let mut found = false;
    for entry in core.store.snapshot(RESOURCE, "", None).entries {
        found |= take_over(core, entry.key());
    }
    if found {
        crd::rebuild(core);
    }
}

/// Updates the index for one APIService. Returns whether that changes what is served.
fn take_over(core: &Core, name: &str) -> bool {
    let aggregator = &core.aggregator;
    let mut remotes = aggregator.remotes.write().unwrap_or_else(PoisonError::into_inner);
    // Read under the lock, so that the last of concurrent writers sees the latest state.
    let new = core.store.get(RESOURCE, name).and_then(|entry| Remote::new(&entry.value()));
    let old = remotes.get(name);
    if old.map(|old| &**old) == new.as_ref() {
        return false;
    }
    let is_other = old.zip(new.as_ref()).is_none_or(|(old, new)| old.is_other(new));
    let mut next = (**remotes).clone();
    match new {
        Some(remote) => next.insert(name.to_owned(), Arc::new(remote)),
        None => next.remove(name),
    };
    *remotes = Arc::new(next);
    drop(remotes);
    if is_other {
        // The documents belong to the previous server.
        lock(&aggregator.documents).remove(name);
        aggregator.mark_dirty(name);
    }
    true
}
