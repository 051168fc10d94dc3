//! Location of an object's releases.
//!
//! A release has the object's name and namespace, or those returned by [`ReleaseController::release_name`]. In the latter
//! case it may move; its former location, where it has to be uninstalled, is then found by a label on the records. The
//! label is only a hint: a location counts if a record there is signed for this very object. The status reports the
//! location of a release, and is never read for it.
//!
//! [`ReleaseController::release_name`]: crate::ReleaseController::release_name

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use steersman::Context;
use steersman_release::Release;

use crate::controller::{NamespacedName, Refusal};
use crate::reconcile::{ReconcileError, Reconciler};
use crate::settings::Settings;

/// Label of records with the uid of the object that a release is for.
pub(crate) const OWNER_UID: &str = "helm.steersman.dev/owner-uid";

impl Reconciler {
    /// Returns the name and namespace that the release of an object should have.
    pub(crate) fn release_name(&self, object: &DynamicObject) -> Result<NamespacedName, Refusal> {
        match &self.name_release {
            Some(name_release) => name_release(object),
            None => Ok(NamespacedName {
                name: object.name_any(),
                namespace: object.namespace().unwrap_or_else(|| "default".into()),
            }),
        }
    }

    /// Whether a release is in a different namespace than its object.
    pub(crate) fn is_other_namespace(object: &DynamicObject, location: &NamespacedName) -> bool {
        object.namespace().as_deref() != Some(&location.namespace)
    }

    /// Returns the locations of an object's releases, except one.
    pub(crate) async fn other_releases(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        settings: &Settings,
        but: Option<&NamespacedName>,
    ) -> Result<Vec<NamespacedName>, ReconcileError> {
        let (true, Some(uid)) = (self.name_release.is_some(), object.uid()) else { return Ok(Vec::new()) };
        let records: Api<Secret> = Api::all(context.client());
        let selected = ListParams::default().labels(&format!("owner=helm,{OWNER_UID}={uid}"));
        let found = match records.list_metadata(&selected).await {
            Ok(found) => found,
            Err(kube::Error::Api(status)) if status.code == 403 => {
                tracing::warn!(reason = status.message, "cannot list releases that moved");
                return Ok(Vec::new());
            }
            Err(error) => return Err(ReconcileError::Other(error.to_string())),
        };
        let candidates: BTreeSet<(String, String)> = found
            .items
            .iter()
            .filter_map(|record| Some((record.namespace()?, record.labels().get("name")?.clone())))
            .collect();
        let mut releases = Vec::new();
        for (namespace, name) in candidates {
            let location = NamespacedName { name, namespace };
            if Some(&location) != but && self.is_signed(object, context, settings, &location).await? {
                releases.push(location);
            }
        }
        Ok(releases)
    }

    /// Whether a release is this object's: same chart, or a record that is signed for the object.
    pub(crate) async fn is_ours(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        settings: &Settings,
        location: &NamespacedName,
        release: &Release,
    ) -> Result<bool, ReconcileError> {
        let is_of = release.is_of(&self.chart.name());
        Ok(is_of || (release.unverified && self.is_signed(object, context, settings, location).await?))
    }

    /// Whether a record at a location is signed for this object.
    async fn is_signed(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        settings: &Settings,
        location: &NamespacedName,
    ) -> Result<bool, ReconcileError> {
        let releases = self.releases(object, context, location, settings).await?;
        for revision in releases.revisions(&location.name).await? {
            if !releases.get(&location.name, Some(revision.version)).await?.unverified {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
