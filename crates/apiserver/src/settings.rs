//! What can be changed of a server while it runs.

use std::{collections::BTreeSet, time::Duration};

/// Lifetime of an event after its last write.
const EVENT_TTL: Duration = Duration::from_secs(3600);

/// Settings that a server takes up while it runs, for requests that begin afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Admission plugins that are left out, by Kubernetes' names such as `ServiceAccount`. Default: none.
    pub disabled_plugins: BTreeSet<String>,
    /// Whether every authenticated request is allowed, as `--authorization-mode=AlwaysAllow` has it. Default: no.
    pub allow_all: bool,
    /// Lifetime of an event after its last write. Default: one hour.
    pub event_ttl: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { disabled_plugins: BTreeSet::new(), allow_all: false, event_ttl: EVENT_TTL }
    }
}
