//! The watches behind the caches.

use std::{fmt, sync::Arc};

use futures::{Stream, StreamExt as _, future, stream::BoxStream};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    core::{DynamicObject, PartialObjectMeta},
    discovery::{Discovery, Scope, verbs},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Config, Event},
    },
};

use serde::de::DeserializeOwned;

use super::{ControlLoop, Controller, Kind, ResourceInfo, name_of};

/// A watch event as a change of the control loop.
pub(super) type Change = Box<dyn FnOnce(&mut ControlLoop) + Send>;
/// One watch.
pub(super) type Changes = BoxStream<'static, Change>;

/// Names the service account whose token a Secret is to hold.
pub(crate) const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// The root certificate of a namespace, which is restored when it is deleted or changed.
pub(crate) const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";

impl ControlLoop {
    /// Watches a kind that has a cache.
    pub(super) fn watch<K: Kind>(&mut self) {
        self.unsynced += 1;
        let api: Api<K> = Api::all(self.watch_client.clone());
        let name = super::qualified(&K::group(&()), &K::plural(&()));
        self.watched_name(&name);
        let mut first = true;
        let changes = listing(api).map(move |event| {
            let synced = first && matches!(event, Ok(Event::InitDone));
            first &= !synced;
            let change: Change = Box::new(move |control| {
                control.unsynced -= usize::from(synced);
                control.handle_event::<K>(event);
            });
            change
        });
        self.changes.push(changes.boxed());
    }

    pub(super) fn handle_event<K: Kind>(&mut self, event: watcher::Result<Event<K>>) {
        match event {
            Ok(Event::Init) => K::cache_mut(&mut self.caches).start_listing(),
            Ok(Event::InitApply(object) | Event::Apply(object)) => self.put_object(object),
            Ok(Event::InitDone) => {
                for name in K::cache_mut(&mut self.caches).end_listing() {
                    self.remove_object::<K>(&name, None, true);
                }
            }
            Ok(Event::Delete(object)) => {
                self.remove_object::<K>(&name_of(&object), object.meta().uid.as_deref(), true);
            }
            Err(error) => tracing::debug!(%error, "a watch starts over"),
        }
    }

    /// Watches the metadata of a kind that has no cache.
    fn watch_metadata(&mut self, resource: &ResourceInfo) {
        self.unsynced += 1;
        let api: Api<PartialObjectMeta<DynamicObject>> =
            Api::all_with(self.watch_client.clone(), &resource.api);
        self.push_metadata(resource, false, listing(api));
    }

    /// Takes the metadata of a kind from a watch, which may be synced already.
    pub(super) fn push_metadata<S>(&mut self, resource: &ResourceInfo, is_synced: bool, watch: S)
    where
        S: Stream<Item = watcher::Result<Event<PartialObjectMeta<DynamicObject>>>> + Send + 'static,
    {
        let name = self.watched_name(&resource.qualified());
        let changes = watch.scan((is_synced, false), move |(synced, withdrawn), event| {
            if *withdrawn {
                return future::ready(None);
            }
            *withdrawn = is_withdrawn(&event);
            // A kind that can't be listed must not hold up the others.
            let first = !*synced && matches!(event, Ok(Event::InitDone) | Err(_));
            *synced |= first;
            let (name, withdrawn) = (Arc::clone(&name), *withdrawn);
            let change: Change = Box::new(move |control| {
                control.unsynced -= usize::from(first);
                control.handle_metadata_event(&name, event);
                if withdrawn {
                    control.unwatch(&name);
                }
            });
            future::ready(Some(change))
        });
        self.changes.push(changes.boxed());
    }

    /// A resource is gone with all its objects.
    fn unwatch(&mut self, resource: &str) {
        self.watched.remove(resource);
        let dirty = self.graph.remove_resource(resource);
        self.enqueue_garbage(dirty);
        // It may be back under the same name already.
        self.push(Controller::Discovery, "", "");
    }

    fn handle_metadata_event(
        &mut self,
        resource: &Arc<str>,
        event: watcher::Result<Event<PartialObjectMeta<DynamicObject>>>,
    ) {
        match event {
            Ok(Event::Init | Event::InitDone) => {}
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                self.put_metadata(resource, &object);
                self.metadata_changed(resource, &object);
            }
            Ok(Event::Delete(object)) => {
                if let Some(uid) = &object.metadata.uid {
                    let dirty = self.graph.remove(uid);
                    self.enqueue_garbage(dirty);
                }
                self.enqueue_quotas(object.metadata.namespace.as_deref());
                self.metadata_changed(resource, &object);
            }
            Err(error) => tracing::debug!(%error, "a watch starts over"),
        }
    }

    /// Changes that mean something beyond ownership.
    fn metadata_changed(&mut self, resource: &str, object: &PartialObjectMeta<DynamicObject>) {
        match resource {
            "customresourcedefinitions.apiextensions.k8s.io" | "apiservices.apiregistration.k8s.io" => {
                self.push(Controller::Discovery, "", "");
            }
            "certificatesigningrequests.certificates.k8s.io" => {
                self.push(Controller::Certificate, "", &object.name_any());
            }
            "validatingadmissionpolicies.admissionregistration.k8s.io" => {
                self.push(Controller::AdmissionPolicy, "", &object.name_any());
            }
            "clusterroles.rbac.authorization.k8s.io" => self.push(Controller::ClusterRoles, "", ""),
            "configmaps" if object.metadata.name.as_deref() == Some(ROOT_CERTIFICATE) => {
                let namespace = object.metadata.namespace.clone().unwrap_or_default();
                self.push(Controller::Accounts, "", &namespace);
            }
            "secrets"
                if object.metadata.deletion_timestamp.is_none()
                    && object.annotations().contains_key(ACCOUNT_NAME) =>
            {
                let namespace = object.metadata.namespace.clone().unwrap_or_default();
                self.push(Controller::TokenSecret, &namespace, &object.name_any());
            }
            _ => {}
        }
    }

    /// Finds out what is served, and watches what is new.
    pub(crate) async fn discover(&mut self) -> kube::Result<()> {
        self.resources = served_resources(&self.client).await?;
        let new: Vec<Arc<ResourceInfo>> = self
            .resources
            .iter()
            .filter(|(name, info)| info.collectable && !self.watched.contains_key(*name))
            .map(|(_, info)| Arc::clone(info))
            .collect();
        for info in new {
            self.watch_metadata(&info);
        }
        Ok(())
    }
}

/// All objects, and what happens to them.
pub(super) fn listing<K>(api: Api<K>) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug + Send + 'static,
{
    watcher::watcher(api, Config::default().streaming_lists()).default_backoff()
}

/// The resource is no longer served.
fn is_withdrawn<K>(event: &watcher::Result<Event<K>>) -> bool {
    match event {
        Err(watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) => {
            super::is_not_found(error)
        }
        _ => false,
    }
}

async fn served_resources(
    client: &Client,
) -> kube::Result<std::collections::BTreeMap<String, Arc<ResourceInfo>>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let mut resources = std::collections::BTreeMap::new();
    for group in discovery.groups_alphabetical() {
        for (api, capabilities) in group.resources_by_stability() {
            // Events neither own nor are owned, and there are many.
            let collectable = api.plural != "events"
                && [verbs::LIST, verbs::WATCH, verbs::DELETE]
                    .iter()
                    .all(|v| capabilities.supports_operation(v));
            let namespaced = capabilities.scope == Scope::Namespaced;
            let info = ResourceInfo { api, namespaced, collectable };
            resources.insert(info.qualified(), Arc::new(info));
        }
    }
    Ok(resources)
}
