//! Collects the cluster's objects and their readiness for `steer dev`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::discovery::{Discovery, verbs};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use steersman_cluster::Cluster;
use steersman_release::{Kinds, Readiness, pod_failure, readiness};

use super::events::{self, EventLine};
use super::project::Account;
use crate::failure::Result;

/// A watched object or one of its descendants.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::commands) struct Seen {
    /// Kind and name.
    pub(in crate::commands) title: String,
    /// Identifies it in the API.
    pub(super) reference: Reference,
    /// Its state in a word or two.
    pub(in crate::commands) state: String,
    /// Details of the state.
    pub(super) detail: String,
    pub(in crate::commands) ready: bool,
    /// For a watched object, the field with the desired number of replicas, and its value.
    pub(super) replicas: Option<(&'static str, i64)>,
    /// The manifest of a watched object's release, if it has one.
    pub(super) manifest: Option<String>,
    /// The objects that belong to it.
    pub(super) children: Vec<Seen>,
}

/// A reference to an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Empty for cluster-scoped kinds.
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Reference {
    /// Returns the reference to an object that has its API version and kind set.
    fn of(object: &Value) -> Self {
        let part =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            api_version: part("/apiVersion"),
            kind: part("/kind"),
            namespace: part("/metadata/namespace"),
            name: part("/metadata/name"),
        }
    }
}

/// Everything that is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::commands) struct Scene {
    pub(in crate::commands) objects: Vec<Seen>,
    /// Oldest first.
    pub(super) events: Vec<EventLine>,
    /// Requests of the operator that its role does not allow.
    pub(super) denied: Vec<Denied>,
}

/// A denied request of an operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Denied {
    /// The request in kubectl's notation.
    pub(super) access: String,
    /// How to allow it.
    pub(super) remedy: &'static str,
}

/// The runtime's request at startup, to warn of outdated definitions. It does not need to be allowed.
const DOCTOR: &str = "get customresourcedefinitions.apiextensions.k8s.io";

/// The type of Secrets that store releases.
const RELEASE_RECORD: &str = "helm.sh/release.v1";

/// Maximum depth of an object's tree.
const DEPTH: usize = 6;

/// A watched kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchedKind {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Whether the operator reports the readiness of every object.
    ///
    /// If not, an object without conditions is judged by the objects that it owns.
    reports_ready: bool,
}

/// The watched kinds and users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct Watched {
    pub(super) kinds: Vec<WatchedKind>,
    /// The operators' users, each with how to grant a missing permission. Administrators are not listed.
    users: Vec<(String, &'static str)>,
}

impl Watched {
    /// Watches kinds of a program that may not report the readiness of objects.
    pub(in crate::commands) fn of(kinds: Vec<(String, String)>) -> Self {
        let kinds = kinds.into_iter();
        let kinds = kinds.map(|(api_version, kind)| WatchedKind { api_version, kind, reports_ready: false });
        Self { kinds: kinds.collect(), users: Vec::new() }
    }

    /// Declares that the operator reports the readiness of all objects.
    pub(in crate::commands) fn reporting(mut self) -> Self {
        self.kinds.iter_mut().for_each(|kind| kind.reports_ready = true);
        self
    }

    /// Adds the operator's user.
    pub(super) fn user(mut self, account: Option<&Account>, remedy: &'static str) -> Self {
        self.users.extend(account.map(|account| (account.user().name, remedy)));
        self
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.kinds.extend(other.kinds.iter().cloned());
        self.users.extend(other.users.iter().cloned());
    }
}

/// The version of the state that a view depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Version {
    revision: u64,
    denied: Vec<Denied>,
    watched: Watched,
}

/// Reads the objects of the watched kinds.
pub(in crate::commands) struct View {
    client: Client,
    kinds: Kinds,
    cluster: Cluster,
    watched: Mutex<Watched>,
    owned: Mutex<Option<Arc<Vec<ApiResource>>>>,
}

impl View {
    pub(in crate::commands) fn new(cluster: Cluster, watched: Watched) -> Self {
        let client = cluster.client();
        let kinds = Kinds::new(client.clone());
        Self { client, kinds, cluster, watched: Mutex::new(watched), owned: Mutex::new(None) }
    }

    /// Replaces the watched kinds.
    pub(super) fn watch(&self, watched: Watched) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = watched;
        *self.owned.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Reads all watched objects with their descendants and events.
    pub(in crate::commands) async fn look(&self) -> Result<Scene> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let objects = self.objects(&watched).await?;
        let events = events::events(&self.client, &objects).await?;
        Ok(Scene { objects, events, denied: self.denied(&watched) })
    }

    /// Returns the current version: while it is unchanged, so is the view.
    pub(super) fn version(&self) -> Version {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let revision = self.cluster.server().store().revision();
        Version { revision, denied: self.denied(&watched), watched }
    }

    fn denied(&self, watched: &Watched) -> Vec<Denied> {
        let of_user = |(user, remedy): &(String, &'static str)| {
            let remedy = *remedy;
            let denied = events::denied(&self.cluster, user).into_iter();
            let needed = denied.filter(|access| access != DOCTOR);
            needed.map(move |access| Denied { access, remedy }).collect::<Vec<_>>()
        };
        watched.users.iter().flat_map(of_user).collect()
    }

    async fn objects(&self, watched: &Watched) -> Result<Vec<Seen>> {
        let mut found = Vec::new();
        for watched in &watched.kinds {
            let resource = self.kinds.find(&watched.api_version, &watched.kind).await?.resource;
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
            let list = api.list(&ListParams::default()).await?;
            found.extend(list.items.into_iter().map(|object| (watched, typed(object, &resource))));
        }
        // Objects of a release are listed in its manifest, all others are found by owner references.
        let needs_owners = found.iter().any(|(_, object)| manifest(object).is_none());
        let owned = if needs_owners { self.owned().await? } else { Owned::default() };
        let mut seen = Vec::new();
        for (watched, object) in &found {
            seen.push(self.look_at(watched, object, &owned).await?);
        }
        Ok(seen)
    }

    async fn look_at(&self, watched: &WatchedKind, object: &Value, owned: &Owned) -> Result<Seen> {
        let part = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let title = format!("{}/{}", part("/kind"), part("/metadata/name"));
        let children = match manifest(object) {
            Some(manifest) => {
                let namespace = [part("/status/deployedRelease/namespace"), part("/metadata/namespace")];
                let namespace = namespace.into_iter().find(|name| !name.is_empty()).unwrap_or("default");
                self.children(manifest, namespace).await?
            }
            None => owned.children(part("/metadata/uid"), DEPTH),
        };
        let ObjectState { state, detail, ready } = standing(object, &children, watched.reports_ready);
        Ok(Seen {
            title,
            reference: Reference::of(object),
            state,
            detail,
            ready,
            replicas: replicas(object),
            manifest: manifest(object).map(str::to_owned),
            children,
        })
    }

    /// Lists all objects with owner references, by the owner's uid.
    async fn owned(&self) -> Result<Owned> {
        let known = self.owned.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let resources = match known {
            Some(known) => known,
            None => {
                let found = Arc::new(owned_resources(&self.client).await?);
                *self.owned.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&found));
                found
            }
        };
        let mut owned = Owned::default();
        for resource in resources.iter() {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
            // The definition may have been deleted since.
            let Ok(list) = api.list(&ListParams::default()).await else { continue };
            for object in list.items {
                // Release records are shown as the revision of their release.
                if object.data.get("type").and_then(Value::as_str) == Some(RELEASE_RECORD) {
                    continue;
                }
                let owners: Vec<String> =
                    object.owner_references().iter().map(|owner| owner.uid.clone()).collect();
                let object = typed(object, resource);
                for owner in owners {
                    owned.0.entry(owner).or_default().push(object.clone());
                }
            }
        }
        Ok(owned)
    }

    async fn children(&self, manifest: &str, namespace: &str) -> Result<Vec<Seen>> {
        let mut seen = Vec::new();
        for object in steersman_release::parse_known(manifest, namespace, &self.kinds).await? {
            let title = format!("{}/{}", object.id.kind, object.id.name);
            let live = object.api(&self.client).get_opt(&object.id.name).await?;
            let Some(live) = live else {
                let state = "gone".to_owned();
                seen.push(Seen { title, state, ..Seen::default() });
                continue;
            };
            let mut live = json!(live);
            live["apiVersion"] = json!(object.kind.resource.api_version);
            live["kind"] = json!(object.id.kind);
            let standing = readiness(&live, true);
            let (state, detail) = describe(&live, &standing);
            let children = self.pods(&live, &object.id.namespace).await?;
            let (reference, ready) = (Reference::of(&live), standing.is_ready());
            seen.push(Seen { title, reference, state, detail, ready, children, ..Seen::default() });
        }
        Ok(seen)
    }

    async fn pods(&self, owner: &Value, namespace: &str) -> Result<Vec<Seen>> {
        let Some(labels) = owner.pointer("/spec/template/metadata/labels").and_then(Value::as_object) else {
            return Ok(Vec::new());
        };
        let labels: Vec<String> =
            labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let found = api.list(&ListParams::default().labels(&labels.join(","))).await?;
        let typed = found.items.iter().map(|pod| {
            let mut pod = json!(pod);
            pod["apiVersion"] = json!("v1");
            pod["kind"] = json!("Pod");
            pod
        });
        Ok(typed.map(|pod| of_pod(&pod)).collect())
    }
}

/// Returns the released manifest in an object's status.
fn manifest(object: &Value) -> Option<&str> {
    object.pointer("/status/deployedRelease/manifest").and_then(Value::as_str)
}

/// Adds API version and kind to a list item, which lacks them.
fn typed(object: DynamicObject, resource: &ApiResource) -> Value {
    let mut value = json!(object);
    value["apiVersion"] = resource.api_version.as_str().into();
    value["kind"] = resource.kind.as_str().into();
    value
}

/// Objects by the uid of their owner.
#[derive(Default)]
struct Owned(BTreeMap<String, Vec<Value>>);

impl Owned {
    fn children(&self, uid: &str, depth: usize) -> Vec<Seen> {
        let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
        let objects = self.0.get(uid).into_iter().flatten();
        let mut seen = Vec::new();
        for object in objects {
            let part = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let children = self.children(part("/metadata/uid"), depth);
            match part("/kind") {
                "Pod" => seen.push(of_pod(object)),
                // Intermediate objects between a workload and its pods are skipped.
                "ReplicaSet" | "ControllerRevision" if depth + 1 < DEPTH => seen.extend(children),
                kind => {
                    let standing = readiness(object, true);
                    let (state, detail) = describe(object, &standing);
                    let title = format!("{kind}/{}", part("/metadata/name"));
                    let (reference, ready) = (Reference::of(object), standing.is_ready());
                    seen.push(Seen { title, reference, state, detail, ready, children, ..Seen::default() });
                }
            }
        }
        seen
    }
}

/// Returns the resources whose objects may be owned by a shown object.
async fn owned_resources(client: &Client) -> Result<Vec<ApiResource>> {
    const PRIVATE: [&str; 5] = ["Event", "Endpoints", "EndpointSlice", "Lease", "ComponentStatus"];
    let discovery = Discovery::new(client.clone()).run().await?;
    let listed = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
    let listed = listed.filter(|(resource, capabilities)| {
        capabilities.supports_operation(verbs::LIST) && !PRIVATE.contains(&resource.kind.as_str())
    });
    Ok(listed.map(|(resource, _)| resource).collect())
}

/// The state of an object.
struct ObjectState {
    state: String,
    detail: String,
    ready: bool,
}

/// Returns the state of a watched object from its conditions.
///
/// Without conditions, if its operator need not report them, it is judged by the objects that it owns.
fn standing(object: &Value, children: &[Seen], reports_ready: bool) -> ObjectState {
    let status = object.get("status").cloned().unwrap_or_default();
    let condition = |kind: &str| {
        let conditions = status.get("conditions").and_then(Value::as_array)?;
        conditions.iter().find(|one| one.get("type").and_then(Value::as_str) == Some(kind))
    };
    let is = |kind: &str| condition(kind).and_then(|one| one.get("status")).and_then(Value::as_str);
    let message = |kind: &str| {
        let text = |key: &str| {
            condition(kind).and_then(|one| one.get(key)).and_then(Value::as_str).unwrap_or_default()
        };
        format!("{}: {}", text("reason"), text("message"))
    };
    let standing =
        |state: &str, detail: String, ready: bool| ObjectState { state: state.into(), detail, ready };
    for failed in ["ReleaseFailed", "Irreconcilable", "Failure", "Failed", "Degraded"] {
        if is(failed) == Some("True") {
            return standing(if failed == "Failure" { "Failed" } else { failed }, message(failed), false);
        }
    }
    for good in ["Ready", "Available"] {
        match is(good) {
            Some("True") => return standing(good, release(&status), true),
            Some(_) => return standing(&format!("Not{good}"), message(good), false),
            None => {}
        }
    }
    let waiting: Vec<&str> =
        children.iter().filter(|child| !child.ready).map(|child| child.title.as_str()).collect();
    // Condition of Ansible operators: the result of the last run.
    if is("Successful") == Some("True") && waiting.is_empty() {
        return standing("Successful", String::new(), true);
    }
    if condition("Running").is_some() && waiting.is_empty() {
        return standing("Running", message("Running"), false);
    }
    if !waiting.is_empty() {
        return standing("NotReady", format!("waits for {}", waiting.join(", ")), false);
    }
    let has_conditions =
        status.get("conditions").and_then(Value::as_array).is_some_and(|conditions| !conditions.is_empty());
    let has_status = status.as_object().is_some_and(|status| !status.is_empty());
    if reports_ready || has_conditions {
        let seen = has_status || !children.is_empty();
        let detail =
            if seen { "the operator is working on it" } else { "the operator has not reconciled it yet" };
        return standing("Pending", detail.to_owned(), false);
    }
    match has_status || !children.is_empty() {
        true => standing("Reconciled", String::new(), true),
        false => standing("Pending", "the operator has not reconciled it yet".to_owned(), false),
    }
}

/// Returns name and revision of the release in a status.
fn release(status: &Value) -> String {
    let revision = status.get("history").and_then(Value::as_array).and_then(|history| {
        let deployed =
            history.iter().rfind(|entry| entry.get("status").and_then(Value::as_str) == Some("deployed"));
        deployed.and_then(|entry| entry.get("revision")).and_then(Value::as_i64)
    });
    let name = status.pointer("/deployedRelease/name").and_then(Value::as_str);
    match (name, revision) {
        (Some(name), Some(revision)) => format!("release {name}, revision {revision}"),
        (Some(name), None) => format!("release {name}"),
        _ => String::new(),
    }
}

/// Returns the spec field with the number of replicas, and its value.
fn replicas(object: &Value) -> Option<(&'static str, i64)> {
    ["replicaCount", "replicas", "size"].into_iter().find_map(|field| {
        Some((field, object.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_i64)?))
    })
}

fn of_pod(pod: &Value) -> Seen {
    let part = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let going = pod.pointer("/metadata/deletionTimestamp").is_some();
    let state = if going { "Terminating".to_owned() } else { part("/status/phase") };
    let node = part("/spec/nodeName");
    let place = if node.is_empty() { String::new() } else { format!("on {node}") };
    Seen {
        title: format!("Pod/{}", part("/metadata/name")),
        reference: Reference::of(pod),
        ready: state == "Running" || state == "Succeeded",
        state,
        detail: pod_failure(pod).unwrap_or(place),
        ..Seen::default()
    }
}

fn describe(live: &Value, standing: &Readiness) -> (String, String) {
    let number = |pointer: &str| live.pointer(pointer).and_then(Value::as_i64);
    let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let detail = match standing {
        Readiness::Ready => String::new(),
        Readiness::Waiting(what) | Readiness::Failed(what) => what.clone(),
    };
    match text("/kind") {
        "Deployment" | "StatefulSet" | "ReplicaSet" => {
            let ready = number("/status/readyReplicas").unwrap_or(0);
            (format!("{ready}/{}", number("/spec/replicas").unwrap_or(1)), detail)
        }
        "Service" => {
            let ports = live.pointer("/spec/ports").and_then(Value::as_array);
            let port = |port: &Value| {
                let own = port.get("port").and_then(Value::as_i64).unwrap_or(0);
                match port.get("nodePort").and_then(Value::as_i64) {
                    Some(node) => format!("{own}:{node}"),
                    None => own.to_string(),
                }
            };
            let ports: Vec<String> = ports.into_iter().flatten().map(port).collect();
            (text("/spec/type").to_owned(), ports.join(" "))
        }
        _ => (String::new(), detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role() -> Seen {
        Seen { title: "Role/a".into(), ready: true, ..Seen::default() }
    }

    #[test]
    fn what_exists_of_a_release_does_not_make_it_ready() {
        let begun = json!({"status": {"conditions": [{"type": "Initialized", "status": "True"}]}});
        for object in [json!({}), begun.clone()] {
            let ObjectState { state, ready, .. } = standing(&object, &[role()], true);
            assert_eq!((state.as_str(), ready), ("Pending", false), "{object}");
        }
        let unknown = standing(&begun, &[role()], false);
        assert!(!unknown.ready, "conditions say more than what is owned");
    }

    #[test]
    fn without_conditions_an_object_is_judged_by_what_it_owns() {
        let counted = json!({"status": {"availableReplicas": 1}});
        assert!(standing(&counted, &[role()], false).ready);
        let waiting = Seen { title: "Deployment/a".into(), ..Seen::default() };
        let ObjectState { state, detail, ready } = standing(&counted, &[waiting], false);
        assert_eq!((state.as_str(), detail.as_str(), ready), ("NotReady", "waits for Deployment/a", false));
        assert!(!standing(&json!({}), &[], false).ready);
    }
}
