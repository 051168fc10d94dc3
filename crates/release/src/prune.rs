//! Pruning: deleting objects that are no longer part of a release.
//!
//! An object that a record lists is deleted only if the live object has the release's ownership metadata: a record is
//! only a claim. What cannot be deleted is kept in the record of the new revision until it is gone.

use std::collections::HashSet;

use futures::future::BoxFuture;
use kube::api::PropagationPolicy;
use serde_json::json;

use crate::error::{Error, Result};
use crate::object::{self, Object, ObjectId};
use crate::progress::Progress;
use crate::record::{Release, Undeleted};
use crate::releases::Releases;
use crate::write::Writer;

/// Maximum number of objects that are read of a record that does not verify.
const MAX_UNVERIFIED_OBJECTS: usize = 2_000;

impl Undeleted {
    fn new(object: &Object, error: &Error) -> Self {
        Self {
            api_version: object.kind.resource.api_version.clone(),
            kind: object.id.kind.clone(),
            namespace: object.id.namespace.clone(),
            name: object.id.name.clone(),
            reason: error.to_string(),
        }
    }
}

impl Releases {
    /// Returns the objects that a record lists, of kinds that the cluster serves and the release may have.
    pub(crate) async fn listed(&self, release: &Release) -> Result<Vec<Object>> {
        let parsed = object::parse_known(&release.manifest, &self.namespace, &self.kinds).await;
        let mut objects = match parsed {
            Err(Error::Manifest(reason)) if release.unverified => {
                tracing::warn!(
                    release = release.name,
                    reason,
                    "ignoring the objects listed in a release record"
                );
                Vec::new()
            }
            parsed => parsed?,
        };
        if release.unverified {
            objects.truncate(MAX_UNVERIFIED_OBJECTS);
        }
        self.admitted(&mut objects);
        Ok(objects)
    }

    /// Returns the objects that a revision still has to delete.
    pub(crate) async fn undeleted(&self, release: &Release) -> Result<Vec<Object>> {
        let mut objects = Vec::new();
        for Undeleted { api_version, kind, namespace, name, .. } in &release.undeleted {
            let content = json!({
                "apiVersion": api_version, "kind": kind, "metadata": { "name": name, "namespace": namespace },
            });
            match object::resolve(content, &self.namespace, &self.kinds).await {
                Ok(object) => objects.push(object),
                // All objects of a removed kind are gone.
                Err(Error::UnknownKind { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.admitted(&mut objects);
        Ok(objects)
    }

    /// Removes objects that a confined release may not have.
    fn admitted(&self, objects: &mut Vec<Object>) {
        if let Some(confinement) = &self.confinement {
            objects.retain(|object| confinement.admits_object(object, &self.namespace));
        }
    }

    /// Deletes the objects of earlier revisions that are no longer desired. Returns those that could not be deleted.
    pub(crate) async fn prune(
        &self,
        release: &str,
        originals: &[Object],
        targets: &[Object],
    ) -> Vec<Undeleted> {
        let wanted: HashSet<&ObjectId> = targets.iter().map(|object| &object.id).collect();
        let mut seen = HashSet::new();
        let mut left = Vec::new();
        let writer = self.writer();
        for object in originals {
            if wanted.contains(&object.id) || !seen.insert(&object.id) {
                continue;
            }
            match self.prune_one(&writer, release, object).await {
                Ok(true) => self.reporter.report(&Progress::Deleted { id: object.id.clone() }),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot delete an object that is no longer part of the release");
                    left.push(Undeleted::new(object, &error));
                }
            }
        }
        left
    }

    async fn prune_one(&self, writer: &Writer, release: &str, object: &Object) -> Result<bool> {
        let Some(live) = writer.live(object).await? else { return Ok(false) };
        let content = json!(live);
        if !self.may_delete(&content, release) {
            tracing::warn!(object = %object.id, release, "not deleted: it does not carry the release's ownership");
            return Ok(false);
        }
        if (Object { content, ..object.clone() }).is_kept() {
            return Ok(false);
        }
        writer.delete_seen(object, &live, PropagationPolicy::Background).await
    }

    /// Retries the deletion of objects that a revision could not delete, and records the rest.
    ///
    /// # Errors
    /// Fails if the cluster cannot be queried. An object that still cannot be deleted is not an error.
    pub fn delete_leftovers<'a>(&'a self, release: &'a mut Release) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if release.undeleted.is_empty() {
                return Ok(());
            }
            let objects = self.undeleted(release).await?;
            let left = self.prune(&release.name, &objects, &[]).await;
            if left != release.undeleted {
                release.undeleted = left;
                self.storage.update(release).await?;
            }
            Ok(())
        })
    }

    /// Returns the objects of a release that still exist, except those with the resource policy `keep`.
    ///
    /// # Errors
    /// Fails if the manifest does not parse, or the cluster cannot be queried.
    pub fn remaining<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<Vec<ObjectId>>> {
        Box::pin(async move {
            let mut objects = self.listed(release).await?;
            objects.retain(|object| !object.is_kept());
            let live = self.live(&objects).await?;
            let left = objects.into_iter().zip(live).filter(|(_, live)| {
                live.as_ref().is_some_and(|live| self.may_delete(&json!(live), &release.name))
            });
            Ok(left.map(|(object, _)| object.id).collect())
        })
    }
}
