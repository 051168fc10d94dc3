//! What annotations on an object say about how it is dealt with.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use steersman::Snapshot;
use steersman_watches::duration;

/// The prefix of annotations that are about an object's runs; operator-sdk's.
pub(crate) const PREFIX: &str = "ansible.sdk.operatorframework.io/";

steersman_core::vocabulary! {
    /// Annotations of an object that direct its runs.
    pub const ANNOTATIONS = {
        /// Resync period of this object, such as `1h30m`, in place of the watch's.
        const RECONCILE_PERIOD = "ansible.sdk.operatorframework.io/reconcile-period";
        /// Ansible's verbosity in runs for this object, from `0` to `7`.
        const VERBOSITY = "ansible.sdk.operatorframework.io/verbosity";
    };
}

/// What annotations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) period: Option<Duration>,
    pub(crate) verbosity: Option<u8>,
}

impl Settings {
    /// Reads the annotations of an object.
    pub(crate) fn of(object: &DynamicObject) -> Result<Self, String> {
        let text = |name: &str| object.annotations().get(name).map(String::as_str);
        let period = text(RECONCILE_PERIOD).map(duration).transpose();
        Ok(Self {
            period: period.map_err(|error| format!("annotation {RECONCILE_PERIOD}: {error}"))?,
            verbosity: text(VERBOSITY).and_then(verbosity),
        })
    }
}

/// A level of Ansible's verbosity, 0 to 7.
pub(crate) fn verbosity(text: &str) -> Option<u8> {
    text.trim().parse().ok().filter(|level| *level <= 7)
}

/// Whether an annotation that is about runs changed. One that was wrong is mended so, without a new generation.
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
