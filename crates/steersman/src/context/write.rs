//! Writes. Each sends nothing if nothing would change, and puts its response into the cache.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use futures::future::BoxFuture;
use kube::{
    api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions},
    core::{DynamicObject, PartialObjectMeta, Request},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Context, Primary, difference::would_change};
use crate::{
    cache::{Incoming, Snapshot},
    error::{Error, Result, describe},
    kind::{Key, Kind, Object},
};

impl Context {
    /// Applies an object, with the object being reconciled as its controller. Fields that an earlier apply set and this
    /// one leaves out are removed; fields of other managers are left alone. Nothing is sent if the cache shows that
    /// nothing would change; of a kind that the controller neither owns nor watches, only the server can tell. Default
    /// namespace: that of the object being reconciled.
    ///
    /// Returns the live object.
    ///
    /// ```
    /// use std::{collections::BTreeMap, sync::Arc};
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kube::core::ObjectMeta;
    /// use steersman::{Action, Context};
    ///
    /// async fn reconcile(secret: Arc<Secret>, ctx: Context) -> steersman::Result<Action> {
    ///     let keys = secret.data.iter().flatten().count();
    ///     let summary = ConfigMap {
    ///         metadata: ObjectMeta { name: Some(format!("{}-summary", ctx.name())), ..Default::default() },
    ///         data: Some(BTreeMap::from([("keys".to_owned(), keys.to_string())])),
    ///         ..ConfigMap::default()
    ///     };
    ///     ctx.apply(summary).await?;
    ///     Ok(Action::await_change())
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails if the API server refuses, if the object is being deleted, or if Kubernetes does not allow the
    /// ownership.
    pub async fn apply<K: Object>(&self, desired: K) -> Result<K> {
        let kind = Kind::of::<K>();
        let desired = to_value(&kind, &desired)?;
        self.apply_value(&kind, desired, true).await?.parse()
    }

    /// As [`Context::apply`], but recreates the object where the API server refuses to change a field. Examples are the
    /// `roleRef` of a binding and the selector of a Deployment. Only an object that the object being reconciled owns is
    /// deleted, and only if the API server would accept the new one.
    ///
    /// # Errors
    /// As [`Context::apply`]. An object that is not gone at once, because it has finalizers, is an
    /// [`Error::Terminating`]: the reconciler runs again, and creates the new one when the old one is gone.
    pub async fn apply_or_replace<K: Object>(&self, desired: K) -> Result<K> {
        let kind = Kind::of::<K>();
        let desired = to_value(&kind, &desired)?;
        self.apply_or_replace_value(&kind, desired).await?.parse()
    }

    /// As [`Context::apply`], for an object that is to outlive this one, or that it can't own.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kube::core::ObjectMeta;
    /// use steersman::Context;
    ///
    /// async fn make_namespace(ctx: &Context, name: &str) -> steersman::Result<()> {
    ///     let metadata = ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
    ///     ctx.apply_unowned(Namespace { metadata, ..Default::default() }).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails if the API server refuses, or if the object is being deleted.
    pub async fn apply_unowned<K: Object>(&self, desired: K) -> Result<K> {
        let kind = Kind::of::<K>();
        let desired = to_value(&kind, &desired)?;
        self.apply_value(&kind, desired, false).await?.parse()
    }

    /// As [`Context::apply`], for a kind that is known at run time.
    ///
    /// # Errors
    /// As [`Context::apply`].
    pub async fn apply_dynamic(&self, kind: &Kind, desired: &DynamicObject) -> Result<DynamicObject> {
        let desired = to_value(kind, desired)?;
        self.apply_value(kind, desired, true).await?.dynamic(kind)
    }

    /// As [`Context::apply_unowned`], for a kind that is known at run time.
    ///
    /// # Errors
    /// As [`Context::apply_unowned`].
    pub async fn apply_dynamic_unowned(&self, kind: &Kind, desired: &DynamicObject) -> Result<DynamicObject> {
        let desired = to_value(kind, desired)?;
        self.apply_value(kind, desired, false).await?.dynamic(kind)
    }

    pub(crate) fn apply_value<'a>(
        &'a self,
        kind: &'a Kind,
        mut desired: Value,
        owned: bool,
    ) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            let key = self.complete(kind, &mut desired, owned)?;
            let caches = self.caches(kind);
            let fingerprint = fingerprint(&desired);
            if let Some((store, live)) = caches.get(&key) {
                if live.meta()?.deleting() {
                    return Err(Error::Terminating { kind: kind.to_string(), key });
                }
                if store.applied(&key) == Some((fingerprint, live.version)) {
                    return Ok(live);
                }
                if !would_change(&desired, &live.parse()?, &managed(&live, "")) {
                    store.note_applied(&key, (fingerprint, live.version));
                    return Ok(live);
                }
            }
            desired["apiVersion"] = kind.resource().api_version.as_str().into();
            desired["kind"] = kind.resource().kind.as_str().into();
            let request = Request::new(kind.url(key.namespace()))
                .patch(key.name(), &self.apply_params(), &Patch::Apply(&desired))
                .map_err(kube::Error::BuildRequest)?;
            // Marked until there is a response: there may never be one, and this future may be dropped while it
            // waits.
            let covering = caches.covering(&key);
            let is_new = covering.is_some_and(|store| store.doubt(&key));
            let answer = self.primary.client.request::<Incoming>(request).await;
            if let Some(store) = covering.filter(|_| is_told(&answer, is_new)) {
                store.settle(&key);
            }
            let answer = answer?;
            let version = answer.version();
            let snapshot = caches.written(answer, &self.author(), &self.shared.name);
            if let Some((store, _)) = caches.get(&key) {
                store.note_applied(&key, (fingerprint, version));
            }
            Ok(snapshot)
        })
    }

    pub(super) fn apply_or_replace_value<'a>(
        &'a self,
        kind: &'a Kind,
        desired: Value,
    ) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            let refusal = match self.apply_value(kind, desired.clone(), true).await {
                Err(Error::Kube(kube::Error::Api(status))) if status.code == 422 => kube::Error::Api(status),
                other => return other,
            };
            let mut complete = desired.clone();
            let key = self.complete(kind, &mut complete, true)?;
            let owned = match self.fetch(kind, &key).await? {
                Some(live) if live.meta()?.is_owned_by(&self.primary.uid) => live,
                _ => return Err(refusal.into()),
            };
            if !self.would_be_created(kind, &key, complete).await? {
                return Err(refusal.into());
            }
            tracing::info!(%kind, %key, reason = describe(&refusal), "recreating the object: update refused");
            self.delete_owned(kind, &key, &owned).await?;
            if self.fetch(kind, &key).await?.is_some() {
                return Err(Error::Terminating { kind: kind.to_string(), key });
            }
            self.apply_value(kind, desired, true).await
        })
    }

    /// Whether the API server would accept an object if none of its name existed. It validates a new object before it
    /// checks whether the name is taken.
    async fn would_be_created(&self, kind: &Kind, key: &Key, mut object: Value) -> Result<bool> {
        object["apiVersion"] = kind.resource().api_version.as_str().into();
        object["kind"] = kind.resource().kind.as_str().into();
        let body = serde_json::to_vec(&object)
            .map_err(|source| Error::Convert { what: kind.to_string(), source })?;
        let request = Request::new(kind.url(key.namespace()))
            .create(&PostParams { dry_run: true, ..PostParams::default() }, body)
            .map_err(kube::Error::BuildRequest)?;
        match self.primary.client.request::<Value>(request).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 422 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Fetches an object from the API server.
    pub(super) fn fetch<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<Option<Snapshot>>> {
        Box::pin(async move {
            let request = Request::new(kind.url(key.namespace()))
                .get(key.name(), &GetParams::default())
                .map_err(kube::Error::BuildRequest)?;
            match self.primary.client.request::<Incoming>(request).await {
                Ok(found) => Ok(Some(found.snapshot(&self.shared.name, std::sync::Arc::from))),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Whether the API server still has the object being reconciled, and it is not being deleted. If it is gone, the cache
    /// is updated. Operators without permission to read it rely on their cache.
    pub(crate) async fn is_current(&self) -> Result<bool> {
        let Primary { kind, key, uid, .. } = &*self.primary;
        let request = Request::new(kind.url(key.namespace()))
            .get_metadata(key.name(), &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        let live: PartialObjectMeta<DynamicObject> = match self.primary.client.request(request).await {
            Ok(live) => live,
            Err(kube::Error::Api(status)) if status.is_forbidden() => return Ok(true),
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                self.caches(kind).deleted(key, uid, &self.author());
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        if live.metadata.uid.as_ref() != Some(uid) {
            self.caches(kind).deleted(key, uid, &self.author());
            return Ok(false);
        }
        Ok(live.metadata.deletion_timestamp.is_none())
    }

    /// Deletes an object that the object being reconciled owns, if it is unchanged since it was seen.
    pub(super) async fn delete_owned(&self, kind: &Kind, key: &Key, seen: &Snapshot) -> Result<()> {
        let meta = seen.meta()?;
        if meta.deleting() {
            return Ok(());
        }
        // The resourceVersion as well: another owner may have adopted the object in between.
        let seen = Preconditions {
            uid: Some(meta.uid.to_string()),
            resource_version: Some(meta.resource_version.to_string()),
        };
        self.send_delete(kind, key, Some(seen)).await
    }

    /// Fills in what the operator decides, and removes what the server decides.
    pub(super) fn complete(&self, kind: &Kind, desired: &mut Value, owned: bool) -> Result<Key> {
        let Value::Object(fields) = desired else { return Err(Error::Nameless(kind.to_string())) };
        fields.remove("apiVersion");
        fields.remove("kind");
        fields.remove("status");
        let meta = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(meta) = meta else { return Err(Error::Nameless(kind.to_string())) };
        for decided in
            ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"]
        {
            meta.remove(decided);
        }
        let name = meta.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(Error::Nameless(kind.to_string()));
        }
        let key = if kind.namespaced() {
            let own = self.primary.key.namespace().unwrap_or_else(|| self.primary.client.default_namespace());
            let namespace = meta.entry("namespace").or_insert_with(|| own.into());
            Key::namespaced(namespace.as_str().unwrap_or(own), &name)
        } else {
            meta.remove("namespace");
            Key::cluster(&name)
        };
        if owned {
            self.check_ownership(kind, &key)?;
            let reference = to_value(&self.primary.kind, &self.owner_reference())?;
            let references = meta.entry("ownerReferences").or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(references) = references {
                references.retain(|other| other["uid"] != reference["uid"]);
                references.push(reference);
            }
        }
        Ok(key)
    }

    fn check_ownership(&self, kind: &Kind, key: &Key) -> Result<()> {
        let owner = &self.primary.key;
        let reason = match (owner.namespace(), key.namespace()) {
            (Some(_), None) => "a namespaced object can't own a cluster-scoped one",
            (Some(one), Some(two)) if one != two => "they are in different namespaces",
            _ => return Ok(()),
        };
        Err(Error::Ownership {
            child: format!("{kind} {key}"),
            owner: format!("{} {owner}", self.primary.kind),
            reason,
        })
    }

    fn apply_params(&self) -> PatchParams {
        PatchParams::apply(&self.shared.name).force()
    }

    /// Applies the status of the object being reconciled, by the status subresource. Nothing is sent if nothing would
    /// change. Fields that an earlier status of this operator had and this one leaves out are removed.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use serde_json::json;
    /// use steersman::{Action, Conditions as _, Context};
    ///
    /// async fn reconcile(app: Arc<Deployment>, ctx: Context) -> steersman::Result<Action> {
    ///     let mut conditions = Vec::new();
    ///     conditions.set(ctx.condition("Checked", true, "Reconciled", "all is well"));
    ///     ctx.update_status(&json!({"conditions": conditions})).await?;
    ///     Ok(Action::await_change())
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails if the API server refuses. An object that is gone is not an error.
    pub async fn update_status(&self, status: &impl Serialize) -> Result<()> {
        self.write_status(to_value(&self.primary.kind, status)?).await
    }

    fn write_status(&self, status: Value) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let kind = &self.primary.kind;
            let key = &self.primary.key;
            let store = &self.engine.store()?;
            let Some(live) = store.get(key) else { return Ok(()) };
            let current: Value = live.parse()?;
            let desired = json!({ "status": status });
            let same = current.get("status").is_some_and(|current| *current == status);
            if same || !would_change(&desired, &current, &managed(&live, "status")) {
                return Ok(());
            }
            let mut meta = json!({ "name": key.name() });
            if let Some(namespace) = key.namespace() {
                meta["namespace"] = namespace.into();
            }
            let body = json!({
                "apiVersion": kind.resource().api_version,
                "kind": kind.resource().kind,
                "metadata": meta,
                "status": status,
            });
            let request = Request::new(kind.url(key.namespace()))
                .patch_subresource("status", key.name(), &self.apply_params(), &Patch::Apply(&body))
                .map_err(kube::Error::BuildRequest)?;
            match self.primary.client.request::<Incoming>(request).await {
                Ok(answer) => {
                    self.caches(kind).written(answer, &self.author(), &self.shared.name);
                    Ok(())
                }
                Err(kube::Error::Api(status))
                    if status.is_not_found() && status.message.contains(key.name()) =>
                {
                    Ok(())
                }
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Deletes an object in the object's namespace, with its dependents in the background. Nothing is sent if the
    /// cache shows that it is gone, which it can't if a write of it got no response.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use steersman::Context;
    ///
    /// async fn clean_up(ctx: &Context) -> steersman::Result<()> {
    ///     ctx.delete::<ConfigMap>(&format!("{}-cache", ctx.name())).await
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails if the API server refuses.
    pub async fn delete<K: Object>(&self, name: &str) -> Result<()> {
        let kind = Kind::of::<K>();
        let namespace = self.primary.key.namespace().filter(|_| kind.namespaced());
        self.delete_key(&kind, &Key::new(namespace, name)).await
    }

    /// As [`Context::delete`], for an object in any namespace.
    ///
    /// # Errors
    /// As [`Context::delete`].
    pub fn delete_key<'a>(&'a self, kind: &'a Kind, key: &'a Key) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let caches = self.caches(kind);
            let mut seen = None;
            match (caches.get(key), caches.covering(key)) {
                (Some((store, live)), _) if store.progress.borrow().synced => {
                    let meta = live.meta()?;
                    if meta.deleting() {
                        return Ok(());
                    }
                    seen = Some(Preconditions { uid: Some(meta.uid.to_string()), resource_version: None });
                }
                (None, Some(store)) if store.progress.borrow().synced && !store.is_doubtful(key) => {
                    return Ok(());
                }
                _ => {}
            }
            self.send_delete(kind, key, seen).await
        })
    }

    async fn send_delete(&self, kind: &Kind, key: &Key, seen: Option<Preconditions>) -> Result<()> {
        let caches = self.caches(kind);
        let uid = seen.as_ref().and_then(|seen| seen.uid.clone()).unwrap_or_default();
        let params = DeleteParams { preconditions: seen, ..DeleteParams::background() };
        let request = Request::new(kind.url(key.namespace()))
            .delete(key.name(), &params)
            .map_err(kube::Error::BuildRequest)?;
        let answer = match self.primary.client.request::<Value>(request).await {
            Ok(answer) => Some(answer),
            Err(kube::Error::Api(status)) if status.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(store) = caches.covering(key) {
            store.settle(key);
        }
        // For an object that the cache has not seen yet, the watch will report the outcome.
        let Some(answer) = answer.filter(|_| !uid.is_empty()) else { return Ok(()) };
        let lingers = answer.pointer("/metadata/deletionTimestamp").is_some();
        if lingers && answer["kind"] != "Status" {
            let answer: Incoming = from_value(kind, answer)?;
            caches.written(answer, &self.author(), &self.shared.name);
        } else {
            caches.deleted(key, &uid, &self.author());
        }
        Ok(())
    }

    /// Stores an object that was written by other means in the cache, so that the next read sees it.
    ///
    /// # Errors
    /// Fails if the object can't be converted.
    pub fn observe<K: Object>(&self, object: &K) -> Result<()> {
        let kind = Kind::of::<K>();
        let object = from_value(&kind, to_value(&kind, object)?)?;
        self.caches(&kind).written(object, &self.author(), &self.shared.name);
        Ok(())
    }

    /// As [`Context::observe`], for a kind that is known at run time.
    ///
    /// # Errors
    /// As [`Context::observe`].
    pub fn observe_dynamic(&self, kind: &Kind, object: &DynamicObject) -> Result<()> {
        let object = from_value(kind, to_value(kind, object)?)?;
        self.caches(kind).written(object, &self.author(), &self.shared.name);
        Ok(())
    }

    /// Records in the cache that an object was deleted by other means. Its deletion then triggers no reconcile.
    pub fn observe_deleted(&self, kind: &Kind, key: &Key, uid: &str) {
        self.caches(kind).deleted(key, uid, &self.author());
    }

    /// Sets the finalizers of an object, if it is unchanged since it was seen.
    pub(crate) async fn set_finalizers(
        &self,
        kind: &Kind,
        live: &Snapshot,
        finalizers: &[String],
    ) -> Result<Snapshot> {
        let meta = live.meta()?;
        let key = meta.key();
        let patch = json!({
            "metadata": {"finalizers": finalizers, "resourceVersion": *meta.resource_version, "uid": *meta.uid},
        });
        let request = Request::new(kind.url(key.namespace()))
            .patch(
                key.name(),
                &PatchParams { field_manager: Some(self.shared.name.to_string()), ..PatchParams::default() },
                &Patch::Merge(&patch),
            )
            .map_err(kube::Error::BuildRequest)?;
        let answer: Incoming = self.primary.client.request(request).await?;
        let caches = self.caches(kind);
        if meta.deleting() && finalizers.is_empty() {
            // The last finalizer is removed: the object is gone with this response.
            let snapshot = answer.snapshot(&self.shared.name, std::sync::Arc::from);
            caches.deleted(&key, &meta.uid, &self.author());
            return Ok(snapshot);
        }
        Ok(caches.written(answer, &self.author(), &self.shared.name))
    }
}

/// Whether a response settles whether an object exists. A refusal does so for the first write only: an earlier one without
/// a response may have created the object. After a server error the write may still happen.
fn is_told<T>(answer: &kube::Result<T>, is_first: bool) -> bool {
    match answer {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => is_first && status.code < 500,
        Err(_) => false,
    }
}

/// Returns the fields of an object that this operator owns.
fn managed(live: &Snapshot, subresource: &str) -> Value {
    let all: Option<Value> = live.managed.as_deref().and_then(|bytes| serde_json::from_slice(bytes).ok());
    all.and_then(|mut all| all.get_mut(subresource).map(Value::take)).unwrap_or_else(|| json!({}))
}

pub(super) fn to_value(kind: &Kind, value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|source| Error::Convert { what: kind.to_string(), source })
}

fn from_value(kind: &Kind, value: Value) -> Result<Incoming> {
    serde_json::from_value(value).map_err(|source| Error::Convert { what: kind.to_string(), source })
}

fn fingerprint(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_refusal_tells_of_the_first_write_alone() {
        let refused =
            |code| Err::<(), _>(kube::Error::Api(Box::new(Status::failure("no", "No").with_code(code))));
        assert!(is_told(&Ok(()), true) && is_told(&Ok(()), false));
        assert!(is_told(&refused(422), true));
        assert!(!is_told(&refused(422), false));
        assert!(!is_told(&refused(500), true));
        assert!(!is_told(&Err::<(), _>(kube::Error::TlsRequired), true));
    }
}
