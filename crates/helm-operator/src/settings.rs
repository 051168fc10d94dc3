//! Settings from an object's annotations.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DynamicObject;

use steersman_watches::duration;

steersman_core::vocabulary! {
    /// Annotations of a watched object that control the operator. Switches are on if they are `true`, `t` or
    /// `1`.
    pub const ANNOTATIONS = {
        /// Switch: pauses reconciliation of the object until the annotation is removed, and sets the
        /// condition `Paused`.
        const PAUSED = "helm.steersman.dev/paused";
        /// Reconcile period of this object, such as `1h30m`. Default: the period of the watch.
        const RECONCILE_PERIOD = "helm.sdk.operatorframework.io/reconcile-period";
        /// Switch: upgrades replace objects instead of patching them, as `helm upgrade --force`.
        const UPGRADE_FORCE = "helm.sdk.operatorframework.io/upgrade-force";
        /// Switch: rollbacks after a failed upgrade replace objects instead of patching them, as `helm
        /// rollback --force`.
        const ROLLBACK_FORCE = "helm.sdk.operatorframework.io/rollback-force";
        /// Switch: an uninstall waits until all objects of the release are deleted.
        const UNINSTALL_WAIT = "helm.sdk.operatorframework.io/uninstall-wait";
        /// Switch: disables hooks on install.
        const INSTALL_DISABLE_HOOKS = "helm.sdk.operatorframework.io/install-disable-hooks";
        /// Switch: disables hooks on upgrade.
        const UPGRADE_DISABLE_HOOKS = "helm.sdk.operatorframework.io/upgrade-disable-hooks";
        /// Switch: disables hooks on uninstall.
        const UNINSTALL_DISABLE_HOOKS = "helm.sdk.operatorframework.io/uninstall-disable-hooks";
        /// Description of the revision that an install creates.
        const INSTALL_DESCRIPTION = "helm.sdk.operatorframework.io/install-description";
        /// Description of the revision that an upgrade creates.
        const UPGRADE_DESCRIPTION = "helm.sdk.operatorframework.io/upgrade-description";
        /// Description of the uninstall.
        const UNINSTALL_DESCRIPTION = "helm.sdk.operatorframework.io/uninstall-description";
    };
}

/// Settings of an object.
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
        let text = |name: &str| object.annotations().get(name).map(String::as_str);
        // As Go's ParseBool; an invalid value counts as false, as in operator-sdk.
        let flag = |name: &str| text(name).is_some_and(is_true);
        let period = text(RECONCILE_PERIOD).map(duration).transpose();
        Ok(Self {
            paused: flag(PAUSED),
            upgrade_force: flag(UPGRADE_FORCE),
            rollback_force: flag(ROLLBACK_FORCE),
            uninstall_wait: flag(UNINSTALL_WAIT),
            period: period.map_err(|error| format!("annotation {RECONCILE_PERIOD}: {error}"))?,
            install_disable_hooks: flag(INSTALL_DISABLE_HOOKS),
            upgrade_disable_hooks: flag(UPGRADE_DISABLE_HOOKS),
            uninstall_disable_hooks: flag(UNINSTALL_DISABLE_HOOKS),
            install_description: text(INSTALL_DESCRIPTION).map(str::to_owned),
            upgrade_description: text(UPGRADE_DESCRIPTION).map(str::to_owned),
            uninstall_description: text(UNINSTALL_DESCRIPTION).map(str::to_owned),
        })
    }
}

fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(annotations: serde_json::Value) -> Result<Settings, String> {
        let object = json!({ "metadata": { "name": "a", "annotations": annotations } });
        Settings::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn switches_are_on_as_in_go() {
        for on in ["1", "t", "T", "true", "TRUE", "True"] {
            assert!(of(json!({ PAUSED: on })).unwrap().paused, "{on}");
        }
        for off in ["0", "f", "false", "yes", "on", "", "tRUE"] {
            assert_eq!(of(json!({ PAUSED: off })), Ok(Settings::default()), "{off}");
        }
    }

    #[test]
    fn each_annotation_has_its_setting() {
        let none = Settings::default();
        let text = || Some("x".to_owned());
        for (annotation, value, expected) in [
            (PAUSED, "true", Settings { paused: true, ..none.clone() }),
            (UPGRADE_FORCE, "true", Settings { upgrade_force: true, ..none.clone() }),
            (ROLLBACK_FORCE, "true", Settings { rollback_force: true, ..none.clone() }),
            (UNINSTALL_WAIT, "true", Settings { uninstall_wait: true, ..none.clone() }),
            (RECONCILE_PERIOD, "1h30m", Settings { period: Some(Duration::from_secs(5400)), ..none.clone() }),
            (INSTALL_DISABLE_HOOKS, "true", Settings { install_disable_hooks: true, ..none.clone() }),
            (UPGRADE_DISABLE_HOOKS, "true", Settings { upgrade_disable_hooks: true, ..none.clone() }),
            (UNINSTALL_DISABLE_HOOKS, "true", Settings { uninstall_disable_hooks: true, ..none.clone() }),
            (INSTALL_DESCRIPTION, "x", Settings { install_description: text(), ..none.clone() }),
            (UPGRADE_DESCRIPTION, "x", Settings { upgrade_description: text(), ..none.clone() }),
            (UNINSTALL_DESCRIPTION, "x", Settings { uninstall_description: text(), ..none.clone() }),
        ] {
            assert_eq!(of(json!({ annotation: value })), Ok(expected), "{annotation}");
        }
        let error = of(json!({ RECONCILE_PERIOD: "soon" })).unwrap_err();
        assert!(error.starts_with("annotation helm.sdk.operatorframework.io/reconcile-period: "), "{error}");
    }
}
