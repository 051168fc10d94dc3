//! The inventory of an instance: the objects that its plans applied.

use serde::{Deserialize, Serialize};

use super::{InstanceStatus, is_default};

/// An object that a plan applied, with the task that renders it.
///
/// A status is not to be trusted: for a repair the object is rendered from the package again, and an object is only pruned if it
/// has the instance's ownership labels and owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AppliedResource {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name. It is in the instance's namespace.
    pub name: String,
    /// The operator version that rendered it.
    pub operator_version: String,
    /// The plan that applied it last.
    pub plan: String,
    /// The phase of that plan.
    pub phase: String,
    /// The step of that phase.
    pub step: String,
    /// The task of that step.
    pub task: String,
    /// The run's UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Whether `deploy`, `update` or `upgrade` has applied it. Only then is it part of the instance's desired state.
    #[serde(skip_serializing_if = "is_default")]
    pub managed: bool,
    /// The digest of the applied object. Empty for a run with its own parameters, which must not be repeated.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

impl AppliedResource {
    /// Whether it is the object of that kind and name. Any version of the API group matches.
    #[must_use]
    pub fn is(&self, api_version: &str, kind: &str, name: &str) -> bool {
        let group = |version: &str| version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        self.kind == kind && self.name == name && group(&self.api_version) == group(api_version)
    }
}

impl InstanceStatus {
    /// Records an applied object. One that no lifecycle plan has applied is not recorded: the number of such names may be
    /// unbounded.
    pub fn note_applied(&mut self, mut resource: AppliedResource) {
        let known = self
            .resources
            .iter_mut()
            .find(|one| one.is(&resource.api_version, &resource.kind, &resource.name));
        match known {
            Some(known) => {
                resource.managed |= known.managed;
                *known = resource;
            }
            None if resource.managed => self.resources.push(resource),
            None => {}
        }
    }

    /// Records a deleted object.
    pub fn note_deleted(&mut self, api_version: &str, kind: &str, name: &str) {
        self.resources.retain(|one| !one.is(api_version, kind, name));
    }
}
