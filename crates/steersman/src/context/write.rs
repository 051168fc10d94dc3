//! Writes. Each sends nothing if nothing would change, and puts its answer into the cache.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use kube::{
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::{DynamicObject, Request},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Context, difference::would_change};
use crate::{
    cache::{Incoming, Snapshot},
    error::{Error, Result},
    kind::{Key, Kind, Object},
};

impl Context {
    /// Brings an object about: creates it or changes it so that it has everything given here, with the object that is
    /// reconciled as its controller. What an earlier apply set and this one leaves out is removed; what others set is
    /// left alone. Nothing is sent if nothing would change, which the cache tells: of a kind that the controller neither
    /// owns nor watches the server has to find out. Without a namespace it goes into the object's own.
    ///
    /// Returns the object as it is now.
    ///
    /// # Errors
    /// Fails if the API server refuses, if the object is being deleted, or if the rules of Kubernetes forbid the
    /// ownership.
    pub async fn apply<K: Object>(&self, desired: K) -> Result<K> {
        let kind = Kind::of::<K>();
        let desired = to_value(&kind, &desired)?;
        self.apply_value(&kind, desired, true).await?.parse()
    }

    /// As [`Context::apply`], for an object that is to outlive this one, or that Kubernetes does not let it own.
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

    pub(crate) async fn apply_value(&self, kind: &Kind, mut desired: Value, owned: bool) -> Result<Snapshot> {
        let key = self.complete(kind, &mut desired, owned)?;
        let store = self.known(kind);
        let live = store.as_ref().and_then(|store| store.get(&key));
        let fingerprint = fingerprint(&desired);
        if let (Some(store), Some(live)) = (&store, &live) {
            if live.meta()?.deleting() {
                return Err(Error::Terminating { kind: kind.to_string(), key });
            }
            if store.applied(&key) == Some((fingerprint, live.version)) {
                return Ok(live.clone());
            }
            if !would_change(&desired, &live.parse()?, &managed(live, "")) {
                store.note_applied(&key, (fingerprint, live.version));
                return Ok(live.clone());
            }
        }
        desired["apiVersion"] = kind.resource().api_version.as_str().into();
        desired["kind"] = kind.resource().kind.as_str().into();
        let request = Request::new(kind.url(key.namespace()))
            .patch(key.name(), &self.apply_params(), &Patch::Apply(&desired))
            .map_err(kube::Error::BuildRequest)?;
        // Until there is an answer: there may never be one, and this may be dropped while it waits.
        let is_new = store.as_ref().is_some_and(|store| store.doubt(&key));
        let answer = self.primary.client.request::<Incoming>(request).await;
        let is_told = match &answer {
            Ok(_) => true,
            Err(kube::Error::Api(status)) => is_new && status.code < 500,
            Err(_) => false,
        };
        if let Some(store) = store.as_ref().filter(|_| is_told) {
            store.settle(&key);
        }
        let answer = answer?;
        Ok(match store {
            Some(store) => {
                let version = answer.version();
                let snapshot = store.written(answer, Some(self.author()));
                store.note_applied(&key, (fingerprint, version));
                snapshot
            }
            None => answer.snapshot(&self.shared.name, std::sync::Arc::from),
        })
    }

    /// Fills in what the operator decides, and leaves out what the server decides.
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
            (Some(_), None) => "an object in a namespace can't own one outside",
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

    /// Writes the status of the object that is reconciled, by the status subresource. Nothing is sent if nothing would
    /// change. What an earlier status of this operator had and this one leaves out is removed.
    ///
    /// # Errors
    /// Fails if the API server refuses. An object that is gone is no failure.
    pub async fn update_status(&self, status: &impl Serialize) -> Result<()> {
        let kind = &self.primary.kind;
        let key = &self.primary.key;
        let status = to_value(kind, status)?;
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
                store.written(answer, Some(self.author()));
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() && status.message.contains(key.name()) => {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes an object in the object's namespace, with everything that belongs to it. Nothing is sent if the cache
    /// knows that it is gone: it does not if a write of it was left without an answer.
    ///
    /// # Errors
    /// Fails if the API server refuses.
    pub async fn delete<K: Object>(&self, name: &str) -> Result<()> {
        let kind = Kind::of::<K>();
        let namespace = self.primary.key.namespace().filter(|_| kind.namespaced());
        self.delete_key(&kind, &Key::new(namespace, name)).await
    }

    /// Deletes an object anywhere, as [`Context::delete`].
    ///
    /// # Errors
    /// As [`Context::delete`].
    pub async fn delete_key(&self, kind: &Kind, key: &Key) -> Result<()> {
        let store = self.known(kind).filter(|store| store.progress.borrow().synced);
        let mut params = DeleteParams::background();
        let mut uid = String::new();
        if let Some(store) = &store {
            match store.get(key) {
                None if store.is_doubtful(key) => {}
                None => return Ok(()),
                Some(live) => {
                    let meta = live.meta()?;
                    if meta.deleting() {
                        return Ok(());
                    }
                    uid = meta.uid.to_string();
                    params.preconditions =
                        Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
                }
            }
        }
        let request = Request::new(kind.url(key.namespace()))
            .delete(key.name(), &params)
            .map_err(kube::Error::BuildRequest)?;
        let answer = match self.primary.client.request::<Value>(request).await {
            Ok(answer) => Some(answer),
            Err(kube::Error::Api(status)) if status.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(store) = &store {
            store.settle(key);
        }
        let Some(answer) = answer else { return Ok(()) };
        // Of an object that the cache has not seen yet, it will hear what became.
        let Some(store) = store.filter(|_| !uid.is_empty()) else { return Ok(()) };
        let lingers = answer.pointer("/metadata/deletionTimestamp").is_some();
        if lingers && answer["kind"] != "Status" {
            let answer: Incoming = from_value(kind, answer)?;
            store.written(answer, Some(self.author()));
        } else {
            store.deleted(key, &uid, self.author());
        }
        Ok(())
    }

    /// Tells the cache of an object that was written by other means, so that the next read sees it.
    ///
    /// # Errors
    /// Fails if the object can't be converted.
    pub fn observe<K: Object>(&self, object: &K) -> Result<()> {
        let kind = Kind::of::<K>();
        if let Some(store) = self.known(&kind) {
            store.written(from_value(&kind, to_value(&kind, object)?)?, Some(self.author()));
        }
        Ok(())
    }

    /// Sets the finalizers of an object, if it is still as it was seen.
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
        let author = Some(self.author());
        let Some(store) = self.known(kind) else {
            return Ok(answer.snapshot(&self.shared.name, std::sync::Arc::from));
        };
        if meta.deleting() && finalizers.is_empty() {
            // The last one: the object is gone with this answer.
            let uid = meta.uid.to_string();
            let snapshot = answer.snapshot(&self.shared.name, std::sync::Arc::from);
            store.deleted(&key, &uid, self.author());
            return Ok(snapshot);
        }
        Ok(store.written(answer, author))
    }
}

/// The fields of an object that this operator owns.
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
