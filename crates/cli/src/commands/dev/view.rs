//! The objects of the cluster and their readiness, as `steer dev` shows them.

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

/// A watched object, or one that belongs to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::commands) struct Seen {
    /// Kind and name.
    pub(in crate::commands) title: String,
    /// Where the API server has it.
    pub(super) reference: Reference,
    /// How it stands, in a word or two.
    pub(in crate::commands) state: String,
    /// More about that.
    pub(super) detail: String,
    pub(in crate::commands) ready: bool,
    /// Where a watched object says how many replicas it asks for, and how many.
    pub(super) replicas: Option<(&'static str, i64)>,
    /// What was released for a watched object, if it has a release.
    pub(super) manifest: Option<String>,
    /// What belongs to it.
    pub(super) children: Vec<Seen>,
}

/// What names one object of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Empty for kinds without namespaces.
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Reference {
    /// Of an object with its API version and kind.
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

/// All that there is to see.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::commands) struct Scene {
    pub(in crate::commands) objects: Vec<Seen>,
    /// Oldest first.
    pub(super) events: Vec<EventLine>,
    /// What the operator's role does not allow it, though it tried.
    pub(super) denied: Vec<Denied>,
}

/// Something that an operator is not allowed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Denied {
    /// As kubectl would say it.
    pub(super) access: String,
    /// What would allow it.
    pub(super) remedy: &'static str,
}

/// What the runtime asks when it starts, to warn of definitions that are out of date; it does without an answer.
const DOCTOR: &str = "get customresourcedefinitions.apiextensions.k8s.io";

/// The type of Secrets that keep releases.
const RELEASE_RECORD: &str = "helm.sh/release.v1";

/// How deep the tree of an object is.
const DEPTH: usize = 6;

/// A kind whose objects are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchedKind {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Whether the operator says of every object when it is ready. If not, one without conditions is judged by what it owns.
    reports_ready: bool,
}

/// What is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct Watched {
    pub(super) kinds: Vec<WatchedKind>,
    /// Whom operators run as, with what gives them a permission that they lack. Administrators lack none.
    users: Vec<(String, &'static str)>,
}

impl Watched {
    /// Kinds, by API version and kind, of a program that may or may not report when objects are ready.
    pub(in crate::commands) fn of(kinds: Vec<(String, String)>) -> Self {
        let kinds = kinds.into_iter();
        let kinds = kinds.map(|(api_version, kind)| WatchedKind { api_version, kind, reports_ready: false });
        Self { kinds: kinds.collect(), users: Vec::new() }
    }

    /// The same kinds, of an operator of ours that reports when objects are ready.
    pub(in crate::commands) fn reporting(mut self) -> Self {
        self.kinds.iter_mut().for_each(|kind| kind.reports_ready = true);
        self
    }

    /// The same with whom the operator runs as.
    pub(super) fn user(mut self, account: Option<&Account>, remedy: &'static str) -> Self {
        self.users.extend(account.map(|account| (account.user().name, remedy)));
        self
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.kinds.extend(other.kinds.iter().cloned());
        self.users.extend(other.users.iter().cloned());
    }
}

/// The state of a cluster that a view depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Version {
    revision: u64,
    denied: Vec<Denied>,
    watched: Watched,
}

/// Looks at the watched kinds.
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

    /// Looks at other kinds from now on.
    pub(super) fn watch(&self, watched: Watched) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = watched;
        *self.owned.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Everything that is watched, with what belongs to it and what happened to it.
    pub(in crate::commands) async fn look(&self) -> Result<Scene> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let objects = self.objects(&watched).await?;
        let events = events::events(&self.client, &objects).await?;
        Ok(Scene { objects, events, denied: self.denied(&watched) })
    }

    /// What a view depends on: while this is the same, so is the view.
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
        // Objects of releases are known by their manifest, all others by their owner.
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
        let Standing { state, detail, ready } = standing(object, &children, watched.reports_ready);
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

    /// All objects that have an owner, by the owner's uid.
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
            // A definition may have gone since.
            let Ok(list) = api.list(&ListParams::default()).await else { continue };
            for object in list.items {
                // Records of releases come and go with them, and are shown as their revision.
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

/// The status of a release keeps what was released.
fn manifest(object: &Value) -> Option<&str> {
    object.pointer("/status/deployedRelease/manifest").and_then(Value::as_str)
}

/// The object with its own API version and kind, which lists leave out.
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
                // What a Deployment and the like keep between themselves and their pods is no news.
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

/// The kinds of which objects may have an owner that is shown.
async fn owned_resources(client: &Client) -> Result<Vec<ApiResource>> {
    const PRIVATE: [&str; 5] = ["Event", "Endpoints", "EndpointSlice", "Lease", "ComponentStatus"];
    let discovery = Discovery::new(client.clone()).run().await?;
    let listed = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
    let listed = listed.filter(|(resource, capabilities)| {
        capabilities.supports_operation(verbs::LIST) && !PRIVATE.contains(&resource.kind.as_str())
    });
    Ok(listed.map(|(resource, _)| resource).collect())
}

/// How an object stands.
struct Standing {
    state: String,
    detail: String,
    ready: bool,
}

/// How a watched object stands, by its conditions; where it has none and its operator need not report them, by what it owns.
fn standing(object: &Value, children: &[Seen], reports_ready: bool) -> Standing {
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
    let standing = |state: &str, detail: String, ready: bool| Standing { state: state.into(), detail, ready };
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
    // Of Ansible's operators: the last run.
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
        let detail = if seen { "the operator works on it" } else { "the operator has not seen it yet" };
        return standing("Pending", detail.to_owned(), false);
    }
    match has_status || !children.is_empty() {
        true => standing("Reconciled", String::new(), true),
        false => standing("Pending", "the operator has not seen it yet".to_owned(), false),
    }
}

/// Name and revision of the release in a status.
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

/// The field of an object's spec that says how many of something there are, and how many.
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
            let Standing { state, ready, .. } = standing(&object, &[role()], true);
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
        let Standing { state, detail, ready } = standing(&counted, &[waiting], false);
        assert_eq!((state.as_str(), detail.as_str(), ready), ("NotReady", "waits for Deployment/a", false));
        assert!(!standing(&json!({}), &[], false).ready);
    }
}
