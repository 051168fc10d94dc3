//! The inventory of an instance: what its plans applied.

use serde::{Deserialize, Serialize};

use super::{InstanceStatus, is_default};

/// An object that a plan applied, with the task that renders it.
///
/// It is a claim, as it is in a status: what is repaired is rendered from the package again, and what is pruned has to carry
/// the instance's ownership.
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
    /// The run of that plan.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Whether `deploy`, `update` or `upgrade` has applied it: only then it is part of what the instance is.
    #[serde(skip_serializing_if = "is_default")]
    pub managed: bool,
    /// The digest of what was applied. Empty for a run with parameters of its own, which is not to be repeated.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

impl AppliedResource {
    /// Whether it is the object of that kind and name. Versions of a kind show the same objects.
    #[must_use]
    pub fn is(&self, api_version: &str, kind: &str, name: &str) -> bool {
        let group = |version: &str| version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        self.kind == kind && self.name == name && group(&self.api_version) == group(api_version)
    }
}

impl InstanceStatus {
    /// Notes that an object was applied. What no plan of the instance's life has applied is not kept: its names may have no end.
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

    /// Notes that an object was deleted.
    pub fn note_deleted(&mut self, api_version: &str, kind: &str, name: &str) {
        self.resources.retain(|one| !one.is(api_version, kind, name));
    }
}
