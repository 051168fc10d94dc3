//! State derived from the stored definitions.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::catalog::Resource;

/// The resources of a definition, one per version, with the generation they were built from.
pub(super) type Served = (i64, Vec<Arc<Resource>>);

/// Served resources by definition name.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub(super) served: Mutex<BTreeMap<String, Served>>,
}

impl Definitions {
    /// Copies the definitions for another server, except those with a conversion webhook.
    /// A conversion webhook is called by one server only. Returns whether none was left out.
    pub(crate) fn fork(&self) -> (Self, bool) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let all = served.len();
        served.retain(|_, (_, resources)| resources.iter().all(|r| r.strategy.converter().is_none()));
        let is_whole = served.len() == all;
        (Self { served: Mutex::new(served) }, is_whole)
    }
}
