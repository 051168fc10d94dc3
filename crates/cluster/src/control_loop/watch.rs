//! The watches behind the caches.

use std::{iter, sync::Arc};

use futures::{
    Stream, StreamExt as _, future,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client, ResourceExt as _,
    core::{ApiResource, DynamicObject, PartialObjectMeta},
    discovery::{Discovery, Scope, verbs},
};
use steersman_api::store::{Entry, Event as LogEvent, EventKind};
use steersman_watcher::{self as watcher, Config, Event, InitialList, WatchStreamExt as _};

use super::{
    ControlLoop, Controller, Kind, ResourceInfo,
    log::{LogUpdate, decode, list_and_follow},
};

/// A watch event, as a change to apply to the control loop.
pub(super) type Change = Box<dyn FnOnce(&mut ControlLoop) + Send>;
/// The changes of one watch.
pub(super) type Changes = BoxStream<'static, Change>;
/// The metadata of an object, all that is decoded of kinds without a cache.
type Metadata = PartialObjectMeta<DynamicObject>;
type MetadataResult = watcher::Result<Event<Metadata>>;

/// Annotation of a token Secret: the name of its service account.
pub(crate) const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// ConfigMap with the root certificate, in every namespace. It is restored when deleted or changed.
pub(crate) const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";

impl ControlLoop {
    /// Watches a kind that has a cache. With `known`, the cache is current up to that revision.
    pub(super) fn watch<K: Kind>(&mut self, known: Option<u64>) {
        self.watched_name(&super::qualified(&K::group(&()), &K::plural(&())));
        let catalog = self.server.catalog();
        let Some(resource) = catalog.find(&K::group(&()), &K::version(&()), &K::plural(&())) else { return };
        let mut synced = known.is_some();
        self.unsynced += usize::from(!synced);
        let updates = list_and_follow(self.server.store().clone(), &resource.storage, known);
        let changes = updates.map(move |update| {
            let first = !std::mem::replace(&mut synced, true);
            let change: Change = Box::new(move |control| {
                control.unsynced -= usize::from(first);
                match update {
                    LogUpdate::Listed(entries) => control.relist::<K>(&entries),
                    LogUpdate::Changed(event) => control.handle_event::<K>(&event),
                }
            });
            change
        });
        self.changes.push(changes.boxed());
    }

    fn relist<K: Kind>(&mut self, entries: &[Arc<Entry>]) {
        let name_of = |entry: &Entry| (entry.namespace().to_owned(), entry.name().to_owned());
        let listed = entries.iter().map(|entry| name_of(entry)).collect();
        for entry in entries {
            if let Some(object) = read::<K>(entry) {
                self.put_object(object);
            }
        }
        for name in K::cache_mut(&mut self.caches).relisted(&listed) {
            self.remove_object::<K>(&name, None, true);
        }
    }

    /// Applies a log event. The object is decoded only if it is new: most events are the controllers' own writes.
    fn handle_event<K: Kind>(&mut self, event: &LogEvent) {
        let entry = &event.entry;
        let name = (entry.namespace().to_owned(), entry.name().to_owned());
        if event.kind == EventKind::Deleted {
            self.remove_object::<K>(&name, Some(&entry.uid()), true);
        } else if !K::cache(&self.caches).is_current(&name, event.revision)
            && let Some(object) = read::<K>(entry)
        {
            self.put_object(object);
        }
    }

    /// Watches the metadata of a kind without a cache. With `known`, the graph is current up to that revision.
    pub(super) fn watch_metadata(&mut self, resource: &ResourceInfo, known: Option<u64>) {
        // The resource may be served by another API server, or not be served any more: the response to a request tells
        // which.
        let remote = listing(Api::all_with(self.watch_client.clone(), &resource.api));
        let ApiResource { group, version, plural, .. } = &resource.api;
        let catalog = self.server.catalog();
        let Some(stored) = catalog.find(group, version, plural) else {
            return self.push_metadata(resource, false, remote);
        };
        let updates = list_and_follow(self.server.store().clone(), &stored.storage, known);
        let local = updates.flat_map(|update| stream::iter(metadata_events(&update)).map(Ok));
        self.push_metadata(resource, known.is_some(), local.chain(remote));
    }

    /// Adds a watch of a kind's metadata, which may have synced already.
    fn push_metadata<S>(&mut self, resource: &ResourceInfo, is_synced: bool, watch: S)
    where
        S: Stream<Item = MetadataResult> + Send + 'static,
    {
        self.unsynced += usize::from(!is_synced);
        let name = self.watched_name(&resource.qualified());
        let changes = watch.scan((is_synced, false), move |(synced, withdrawn), event| {
            if *withdrawn {
                return future::ready(None);
            }
            *withdrawn = is_withdrawn(&event);
            // A kind that can't be listed must not block the others.
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

    /// Removes a resource that is no longer served, with all its objects.
    fn unwatch(&mut self, resource: &str) {
        self.watched.remove(resource);
        let dirty = self.graph.remove_resource(resource);
        self.enqueue_garbage(dirty);
        // The resource may already be served again under the same name.
        self.push(Controller::Discovery, "", "");
    }

    fn handle_metadata_event(&mut self, resource: &Arc<str>, event: MetadataResult) {
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
            Err(error) => tracing::debug!(%error, "watch failed: restarting it"),
        }
    }

    /// Enqueues what a change concerns beyond ownership.
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

    /// Discovers the served resources, and watches the new ones.
    pub(crate) async fn discover(&mut self) -> kube::Result<()> {
        self.resources = served_resources(&self.client).await?;
        let new: Vec<Arc<ResourceInfo>> = self
            .resources
            .iter()
            .filter(|(name, info)| info.collectable && !self.watched.contains_key(*name))
            .map(|(_, info)| Arc::clone(info))
            .collect();
        for info in new {
            self.watch_metadata(&info, None);
        }
        Ok(())
    }
}

/// Decodes an object without managedFields, which no controller reads.
fn read<K: Kind>(entry: &Entry) -> Option<K> {
    let mut object: K = decode(entry.outline())?;
    object.meta_mut().resource_version = Some(entry.revision().to_string());
    Some(object)
}

/// Lists and watches metadata.
fn listing(api: Api<Metadata>) -> impl Stream<Item = MetadataResult> + Send {
    let config = Config { initial_list: InitialList::Streaming, ..Config::default() };
    watcher::watcher(api, config).default_backoff()
}

/// Returns the events that a watch of metadata would yield.
fn metadata_events(update: &LogUpdate) -> Vec<Event<Metadata>> {
    let decode = |entry: &Entry| decode::<Metadata>(entry.outline());
    match update {
        LogUpdate::Listed(entries) => {
            let objects = entries.iter().filter_map(|entry| decode(entry)).map(Event::InitApply);
            iter::once(Event::Init).chain(objects).chain([Event::InitDone]).collect()
        }
        LogUpdate::Changed(event) => {
            let of_kind = if event.kind == EventKind::Deleted { Event::Delete } else { Event::Apply };
            decode(&event.entry).map(of_kind).into_iter().collect()
        }
    }
}

/// Whether an event shows that the resource is no longer served.
fn is_withdrawn(event: &MetadataResult) -> bool {
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
            // Events have no owners and own nothing, and there are many of them.
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

#[cfg(test)]
mod tests {
    use steersman_apiserver::Server;

    #[test]
    fn every_kind_with_a_cache_is_stored_in_its_version() {
        let server = Server::builder().build();
        for [group, version, plural] in super::super::kinds::cached_kinds() {
            let catalog = server.catalog();
            let resource = catalog.find(&group, &version, &plural).unwrap();
            assert!(resource.is_storage_version(), "{plural}.{group} in {version} is not what the log has");
        }
    }
}
