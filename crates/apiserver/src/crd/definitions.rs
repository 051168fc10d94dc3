//! What definitions have come to.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::catalog::Resource;

/// The resources of a definition, one per version, with the generation that they come from.
pub(super) type Served = (i64, Vec<Arc<Resource>>);

/// What has been derived from the stored definitions, by their names.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub(super) served: Mutex<BTreeMap<String, Served>>,
}

impl Definitions {
    /// The same definitions for another server, without those whose objects a webhook converts: it is asked by one server. Says
    /// whether these are all.
    pub(crate) fn fork(&self) -> (Self, bool) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let all = served.len();
        served.retain(|_, (_, resources)| resources.iter().all(|r| r.strategy.converter().is_none()));
        let is_whole = served.len() == all;
        (Self { served: Mutex::new(served) }, is_whole)
    }
}
