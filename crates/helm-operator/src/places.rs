//! Where the releases of an object are.
//!
//! A release has its place by the object's name and namespace, or by what [`ReleaseController::place`] says of the
//! object. In the latter case it may move, and what has to be taken down at the old place is found by a label on the
//! records. The label is only a hint: a place counts if a record there is signed for this very object. The status
//! says where a release is, and is never asked.
//!
//! [`ReleaseController::place`]: crate::ReleaseController::place

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use steersman::Context;
use steersman_release::Release;

use crate::controller::{Place, Refusal};
use crate::reconcile::{Reconciler, Trouble};
use crate::settings::Settings;

/// The label of records with the identity of the object that a release is for.
pub(crate) const OWNER_UID: &str = "helm.steersman.dev/owner-uid";

impl Reconciler {
    /// Where the release of an object should be.
    pub(crate) fn place(&self, object: &DynamicObject) -> Result<Place, Refusal> {
        match &self.locate {
            Some(locate) => locate(object),
            None => Ok(Place {
                name: object.name_any(),
                namespace: object.namespace().unwrap_or_else(|| "default".into()),
            }),
        }
    }

    /// Whether a release is elsewhere than its object.
    pub(crate) fn is_elsewhere(object: &DynamicObject, place: &Place) -> bool {
        object.namespace().as_deref() != Some(&place.namespace)
    }

    /// Where releases of an object are, apart from one place.
    pub(crate) async fn other_places(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        settings: &Settings,
        but: Option<&Place>,
    ) -> Result<Vec<Place>, Trouble> {
        let (true, Some(uid)) = (self.locate.is_some(), object.uid()) else { return Ok(Vec::new()) };
        let records: Api<Secret> = Api::all(context.client());
        let selected = ListParams::default().labels(&format!("owner=helm,{OWNER_UID}={uid}"));
        let found = match records.list_metadata(&selected).await {
            Ok(found) => found,
            Err(kube::Error::Api(status)) if status.code == 403 => {
                tracing::warn!(reason = status.message, "cannot look for releases that moved");
                return Ok(Vec::new());
            }
            Err(error) => return Err(Trouble::Other(error.to_string())),
        };
        let candidates: BTreeSet<(String, String)> = found
            .items
            .iter()
            .filter_map(|record| Some((record.namespace()?, record.labels().get("name")?.clone())))
            .collect();
        let mut places = Vec::new();
        for (namespace, name) in candidates {
            let place = Place { name, namespace };
            if Some(&place) != but && self.is_signed(object, context, settings, &place).await? {
                places.push(place);
            }
        }
        Ok(places)
    }

    /// Whether a release at a place is this object's: it comes from the same chart, or a record there is signed for it.
    pub(crate) async fn is_ours(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        settings: &Settings,
        place: &Place,
        release: &Release,
    ) -> Result<bool, Trouble> {
        let is_of = release.is_of(&self.chart.name());
        Ok(is_of || (release.unverified && self.is_signed(object, context, settings, place).await?))
    }

    /// Whether a record at a place is signed for this object.
    async fn is_signed(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        settings: &Settings,
        place: &Place,
    ) -> Result<bool, Trouble> {
        let releases = self.releases(object, context, place, settings).await?;
        for revision in releases.revisions(&place.name).await? {
            if !releases.get(&place.name, Some(revision.version)).await?.unverified {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
