//! Settings that can be changed at runtime.

use std::{collections::BTreeSet, time::Duration};

/// Lifetime of an event after its last write.
const EVENT_TTL: Duration = Duration::from_secs(3600);

/// Runtime settings of a server. Changes apply to requests that start afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Disabled admission plugins, by Kubernetes' names such as `ServiceAccount`. Default: none.
    pub disabled_plugins: BTreeSet<String>,
    /// Whether all authenticated requests are allowed, as with `--authorization-mode=AlwaysAllow`.
    /// Default: false.
    pub allow_all: bool,
    /// Lifetime of an event after its last write. Default: one hour.
    pub event_ttl: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { disabled_plugins: BTreeSet::new(), allow_all: false, event_ttl: EVENT_TTL }
    }
}
