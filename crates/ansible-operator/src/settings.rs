//! Annotations of an object that configure its runs.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use steersman::Snapshot;
use steersman_watches::duration;

/// The prefix of annotations that configure an object's runs, as in operator-sdk.
pub(crate) const PREFIX: &str = "ansible.sdk.operatorframework.io/";

steersman_core::vocabulary! {
    /// Annotations of a watched object that control its runs.
    pub const ANNOTATIONS = {
        /// Reconcile period of this object, such as `1h30m`. Default: the period of the watch.
        const RECONCILE_PERIOD = "ansible.sdk.operatorframework.io/reconcile-period";
        /// Ansible verbosity for runs of this object, from `0` to `7`.
        const VERBOSITY = "ansible.sdk.operatorframework.io/verbosity";
    };
}

/// The parsed annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) period: Option<Duration>,
    pub(crate) verbosity: Option<u8>,
}

impl Settings {
    /// Parses the annotations of an object.
    pub(crate) fn of(object: &DynamicObject) -> Result<Self, String> {
        let text = |name: &str| object.annotations().get(name).map(String::as_str);
        let period = text(RECONCILE_PERIOD).map(duration).transpose();
        Ok(Self {
            period: period.map_err(|error| format!("annotation {RECONCILE_PERIOD}: {error}"))?,
            verbosity: text(VERBOSITY).and_then(verbosity),
        })
    }
}

/// Parses a verbosity level of Ansible, 0 to 7.
pub(crate) fn verbosity(text: &str) -> Option<u8> {
    text.trim().parse().ok().filter(|level| *level <= 7)
}

/// Whether an annotation that configures runs has changed. Fixing an invalid one does not increase the
/// generation.
pub(crate) fn changed(old: &Snapshot, new: &Snapshot) -> bool {
    let of = |snapshot: &Snapshot| -> Vec<(String, String)> {
        let Ok(meta) = snapshot.meta() else { return Vec::new() };
        let annotations = meta.annotations.iter();
        annotations
            .filter(|(key, _)| key.starts_with(PREFIX))
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    };
    of(old) != of(new)
}
