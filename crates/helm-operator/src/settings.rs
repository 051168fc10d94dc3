//! What annotations on an object say about how it is dealt with.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DynamicObject;

use steersman_watches::duration;

const PREFIX: &str = "helm.sdk.operatorframework.io/";
const PAUSED: &str = "helm.steersman.dev/paused";

/// What annotations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) paused: bool,
    pub(crate) upgrade_force: bool,
    pub(crate) rollback_force: bool,
    pub(crate) uninstall_wait: bool,
    pub(crate) period: Option<Duration>,
    pub(crate) install_disable_hooks: bool,
    pub(crate) upgrade_disable_hooks: bool,
    pub(crate) uninstall_disable_hooks: bool,
    pub(crate) install_description: Option<String>,
    pub(crate) upgrade_description: Option<String>,
    pub(crate) uninstall_description: Option<String>,
}

impl Settings {
    /// Reads the annotations of an object.
    pub(crate) fn of(object: &DynamicObject) -> Result<Self, String> {
        let text = |name: &str| object.annotations().get(&format!("{PREFIX}{name}")).map(String::as_str);
        // As Go's ParseBool; what is no boolean counts as false, as in operator-sdk.
        let flag = |name: &str| text(name).is_some_and(is_true);
        let period = text("reconcile-period").map(duration).transpose();
        Ok(Self {
            paused: object.annotations().get(PAUSED).is_some_and(|text| is_true(text)),
            upgrade_force: flag("upgrade-force"),
            rollback_force: flag("rollback-force"),
            uninstall_wait: flag("uninstall-wait"),
            period: period.map_err(|error| format!("annotation {PREFIX}reconcile-period: {error}"))?,
            install_disable_hooks: flag("install-disable-hooks"),
            upgrade_disable_hooks: flag("upgrade-disable-hooks"),
            uninstall_disable_hooks: flag("uninstall-disable-hooks"),
            install_description: text("install-description").map(str::to_owned),
            upgrade_description: text("upgrade-description").map(str::to_owned),
            uninstall_description: text("uninstall-description").map(str::to_owned),
        })
    }
}

fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}
