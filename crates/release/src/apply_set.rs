//! Objects that are applied and pruned together without being a Helm release: Kubernetes' ApplySet.
//!
//! The parent is a ConfigMap that lists the kinds of the members. Each member has a label with the set's ID, by which
//! members that are no longer wanted are found. Labels and annotations are those of `kubectl apply --applyset`.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::error::{Error, Result, code};
use crate::kinds::{Kind, Kinds};
use crate::object::{Object, ObjectId, annotation, pods, resolve, set_metadata};
use crate::progress::{Progress, Reporter};
use crate::wait::{self, Backoff, typed};
use crate::write::Outcome;
use crate::{Readiness, pod_failure, readiness};

const ID: &str = "applyset.kubernetes.io/id";
const PART_OF: &str = "applyset.kubernetes.io/part-of";
const TOOLING: &str = "applyset.kubernetes.io/tooling";
const GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
const MANAGER: &str = "steer";
/// Maximum number of concurrent requests.
const REQUESTS: usize = 8;
/// Timeout for CRDs to be established.
const ESTABLISH: Duration = Duration::from_secs(60);

/// A set of objects that are applied, pruned and deleted together.
#[derive(Clone)]
pub struct ApplySet {
    client: Client,
    kinds: Kinds,
    name: String,
    namespace: String,
    force: bool,
    reporter: Reporter,
}

impl ApplySet {
    /// Creates a set whose parent is the ConfigMap of this name. Default namespace of objects: the parent's.
    pub fn new(client: Client, name: impl Into<String>, namespace: impl Into<String>) -> Self {
        let kinds = Kinds::new(client.clone());
        let reporter = Reporter::default();
        Self { client, kinds, name: name.into(), namespace: namespace.into(), force: false, reporter }
    }

    /// Takes over fields of other field managers. Default: a conflict is an error.
    #[must_use]
    pub fn force_conflicts(mut self, yes: bool) -> Self {
        self.force = yes;
        self
    }

    /// Calls a listener with each step.
    #[must_use]
    pub fn on_progress(mut self, listener: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.reporter = Reporter::new(listener);
        self
    }

    /// Returns the set's ID, as kubectl computes it.
    fn id(&self) -> String {
        let identity = format!("{}.{}.ConfigMap.", self.name, self.namespace);
        let digest = Sha256::digest(identity.as_bytes());
        let encoded = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, digest);
        format!("applyset-{encoded}-v1")
    }

    /// Applies objects as members of the set by server-side apply: CRDs and namespaces first. Then deletes the
    /// members that are not among them. Returns all applied objects.
    ///
    /// # Errors
    /// Fails if the API server refuses an object, or if CRDs are not established in time.
    pub fn apply(&self, objects: Vec<Value>) -> BoxFuture<'_, Result<Vec<Object>>> {
        Box::pin(async move {
            let id = self.id();
            let (first, rest): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(comes_first);
            let mut applied = self.apply_labelled(first, &id).await?;
            self.until_ready(&applied, ESTABLISH).await?;
            let before = self.parent_kinds().await?;
            let mut wanted: BTreeSet<String> = applied.iter().map(|object| group_kind(&object.id)).collect();
            wanted.extend(rest.iter().map(group_kind_of));
            // Recorded before the apply, so that an interrupted run leaves no object that can't be found.
            self.write_parent(&before.union(&wanted).cloned().collect(), &id).await?;
            applied.extend(self.apply_labelled(rest, &id).await?);
            let keep: BTreeSet<ObjectId> = applied.iter().map(|object| object.id.clone()).collect();
            for member in
                self.members(&before, &id).await?.into_iter().filter(|member| !keep.contains(&member.id))
            {
                self.delete(&member).await?;
            }
            self.write_parent(&wanted, &id).await?;
            Ok(applied)
        })
    }

    /// Applies objects without making them members of the set: nothing is pruned. Returns all applied objects.
    ///
    /// # Errors
    /// As [`ApplySet::apply`].
    pub fn apply_only(&self, objects: Vec<Value>) -> BoxFuture<'_, Result<Vec<Object>>> {
        Box::pin(async move {
            let applied = self.apply_all(objects).await?;
            let definitions: Vec<Object> =
                applied.iter().filter(|object| comes_first(&object.content)).cloned().collect();
            self.until_ready(&definitions, ESTABLISH).await?;
            Ok(applied)
        })
    }

    async fn apply_labelled(&self, mut objects: Vec<Value>, id: &str) -> Result<Vec<Object>> {
        for object in &mut objects {
            set_metadata(object, "labels", &[(PART_OF, id)]);
        }
        self.apply_all(objects).await
    }

    async fn apply_all(&self, objects: Vec<Value>) -> Result<Vec<Object>> {
        let mut applied = Vec::new();
        for content in objects {
            let object = resolve(content, &self.namespace, &self.kinds).await?;
            let outcome = self.write(&object).await?;
            self.reporter.report(&Progress::Written { id: object.id.clone(), outcome });
            applied.push(object);
        }
        Ok(applied)
    }

    async fn write(&self, object: &Object) -> Result<Outcome> {
        let api = object.api(&self.client);
        let name = &object.id.name;
        let before = api.get_opt(name).await.map_err(Error::object(&object.id))?;
        let mut params = PatchParams::apply(MANAGER);
        params.force = self.force;
        let after = api
            .patch(name, &params, &Patch::Apply(&object.content))
            .await
            .map_err(Error::object(&object.id))?;
        Ok(match before {
            None => Outcome::Created,
            Some(before) if before.metadata.resource_version == after.metadata.resource_version => {
                Outcome::Unchanged
            }
            Some(_) => Outcome::Changed,
        })
    }

    fn parents(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Returns the kinds that the parent lists; none if there is no parent.
    async fn parent_kinds(&self) -> Result<BTreeSet<String>> {
        let parent = match self.parents().get_opt(&self.name).await {
            Ok(parent) => parent,
            Err(error) => return Err(Error::object(format!("ConfigMap/{}", self.name))(error)),
        };
        let Some(parent) = parent else { return Ok(BTreeSet::new()) };
        let content = json!(parent);
        let kinds = annotation(&content, GROUP_KINDS).unwrap_or_default();
        Ok(kinds.split(',').filter(|kind| !kind.is_empty()).map(str::to_owned).collect())
    }

    async fn write_parent(&self, kinds: &BTreeSet<String>, id: &str) -> Result<()> {
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let parent = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": self.name, "namespace": self.namespace, "labels": {ID: id},
                "annotations": {TOOLING: concat!("steer/v", env!("CARGO_PKG_VERSION")), GROUP_KINDS: kinds.join(",")},
            },
        });
        let failed = Error::object(format!("ConfigMap/{} in namespace {}", self.name, self.namespace));
        let params = PatchParams::apply(MANAGER).force();
        self.parents().patch(&self.name, &params, &Patch::Apply(&parent)).await.map(drop).map_err(failed)
    }

    /// Returns the live objects of these kinds that have the set's label.
    async fn members(&self, kinds: &BTreeSet<String>, id: &str) -> Result<Vec<Object>> {
        let params = ListParams::default().labels(&format!("{PART_OF}={id}"));
        let mut members = Vec::new();
        for group_kind in kinds {
            let (kind, group) = group_kind.split_once('.').unwrap_or((group_kind, ""));
            // A removed kind has no objects.
            let Some(kind) = self.kinds.find_in_group(group, kind).await? else { continue };
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind.resource);
            let found = match api.list(&params).await {
                // It was removed after discovery.
                Err(error) if code(&error) == Some(404) => continue,
                found => found.map_err(Error::object(group_kind))?,
            };
            members.extend(found.items.into_iter().map(|item| member(&kind, &item)));
        }
        Ok(members)
    }

    async fn delete(&self, object: &Object) -> Result<()> {
        let result = object.api(&self.client).delete(&object.id.name, &DeleteParams::background()).await;
        match result {
            Ok(_) => self.reporter.report(&Progress::Deleted { id: object.id.clone() }),
            Err(error) if code(&error) == Some(404) => {}
            Err(error) => return Err(Error::object(&object.id)(error)),
        }
        Ok(())
    }

    /// Returns the live object; `None` if it or its kind is gone.
    async fn live(&self, object: &Object) -> Result<Option<DynamicObject>> {
        match object.api(&self.client).get_opt(&object.id.name).await {
            Err(error) if code(&error) == Some(404) => Ok(None),
            found => found.map_err(Error::object(&object.id)),
        }
    }

    /// Deletes objects and all members of the set, and waits until they are gone. Returns their number. CRDs are deleted
    /// first, so that a running operator handles the finalizers of its objects. With `keep_definitions` they stay.
    ///
    /// # Errors
    /// Fails if an object cannot be deleted, or is not gone in time; the error names the finalizers in the way.
    pub fn delete_all(
        &self,
        objects: Vec<Value>,
        keep_definitions: bool,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async move {
            let deadline = Instant::now() + timeout;
            let id = self.id();
            let kinds = self.parent_kinds().await?;
            let mut all = self.members(&kinds, &id).await?;
            for content in objects {
                let (api_version, kind) = (text(&content, "apiVersion"), text(&content, "kind"));
                if self.kinds.find_opt(&api_version, &kind).await?.is_none() {
                    continue;
                }
                let object = resolve(content, &self.namespace, &self.kinds).await?;
                if !all.iter().any(|known| known.id == object.id) {
                    all.push(object);
                }
            }
            if keep_definitions {
                all.retain(|object| !is_definition(&object.content));
            }
            let (definitions, rest): (Vec<Object>, Vec<Object>) =
                all.into_iter().partition(|object| is_definition(&object.content));
            let count = self.delete_each(&definitions, deadline).await?;
            let (last, first): (Vec<Object>, Vec<Object>) = rest
                .into_iter()
                .partition(|object| object.id.kind == "Namespace" && object.id.group.is_empty());
            let mut count = count + self.delete_each(&first, deadline).await?;
            if !last.iter().any(|object| object.id.name == self.namespace) && !kinds.is_empty() {
                let parent = self.parents().delete(&self.name, &DeleteParams::default()).await;
                parent.map(drop).map_err(Error::object(format!("ConfigMap/{}", self.name)))?;
            }
            count += self.delete_each(&last, deadline).await?;
            Ok(count)
        })
    }

    async fn delete_each(&self, objects: &[Object], deadline: Instant) -> Result<usize> {
        let mut live = Vec::new();
        for object in objects {
            if self.live(object).await?.is_some() {
                self.delete(object).await?;
                live.push(object);
            }
        }
        let count = live.len();
        let mut backoff = Backoff::new();
        loop {
            let asked: Vec<_> = live.into_iter().map(|object| self.still_there(object)).collect();
            let answers: Vec<_> = stream::iter(asked).buffered(REQUESTS).try_collect().await?;
            let mut waiting = Vec::new();
            live = Vec::new();
            for (object, left) in answers.into_iter().flatten() {
                waiting.extend(left);
                live.push(object);
            }
            if live.is_empty() {
                return Ok(count);
            }
            if Instant::now() >= deadline {
                return Err(Error::Timeout { what: waiting });
            }
            self.reporter.report(&Progress::Waiting { left: waiting, total: count });
            backoff.wait().await;
        }
    }

    /// Returns what holds up the deletion of an object; `None` if it is gone.
    async fn still_there<'a>(&self, object: &'a Object) -> Result<Option<(&'a Object, Vec<String>)>> {
        let Some(live) = self.live(object).await? else { return Ok(None) };
        let mut left = vec![held_by(&object.id.to_string(), &live)];
        if is_definition(&object.content) {
            // A CRD is gone when its last object is.
            let live = json!(live);
            let served = live.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
            let version = served.filter_map(|version| version["name"].as_str()).next();
            let group = live.pointer("/spec/group").and_then(Value::as_str);
            let kind = live.pointer("/spec/names/kind").and_then(Value::as_str);
            let plural = live.pointer("/spec/names/plural").and_then(Value::as_str);
            if let (Some(group), Some(version), Some(kind), Some(plural)) = (group, version, kind, plural) {
                let resource = ApiResource {
                    group: group.into(),
                    version: version.into(),
                    api_version: format!("{group}/{version}"),
                    kind: kind.into(),
                    plural: plural.into(),
                };
                let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
                let objects =
                    api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
                if !objects.is_empty() {
                    left = objects
                        .iter()
                        .map(|one| {
                            held_by(
                                &member(&Kind { resource: resource.clone(), namespaced: true }, one)
                                    .id
                                    .to_string(),
                                one,
                            )
                        })
                        .collect();
                }
            }
        }
        Ok(Some((object, left)))
    }

    /// Waits until objects are ready, and reports what it waits for.
    ///
    /// # Errors
    /// Fails if an object will not become ready, or is not ready in time.
    pub fn until_ready<'a>(&'a self, objects: &'a [Object], timeout: Duration) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            wait::until(objects, timeout, &self.reporter, |object| self.readiness(object)).await
        })
    }

    /// Returns the readiness of an object, with the reason why its pods fail.
    async fn readiness(&self, object: &Object) -> Result<Readiness> {
        let Some(live) = self.live(object).await? else {
            return Ok(Readiness::Waiting("not found".into()));
        };
        let content = typed(json!(live), object);
        let mut standing = readiness(&content, false);
        if let Readiness::Waiting(what) = &mut standing
            && let Some(labels) = content.pointer("/spec/selector/matchLabels").and_then(Value::as_object)
        {
            // The reason of its pods says more.
            let labels: Vec<String> = labels
                .iter()
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
                .collect();
            let pods = pods(self.client.clone(), &object.id.namespace);
            let found = pods.list(&ListParams::default().labels(&labels.join(","))).await;
            let failure =
                found.into_iter().flat_map(|list| list.items).find_map(|pod| pod_failure(&pod.data));
            if let Some(failure) = failure {
                *what = format!("{what}: {failure}");
            }
        }
        Ok(standing)
    }
}

fn held_by(name: &str, live: &DynamicObject) -> String {
    match live.metadata.finalizers.as_deref() {
        Some(finalizers @ [_, ..]) => format!("{name} waits for its finalizer {}", finalizers.join(", ")),
        _ => format!("{name} is being deleted"),
    }
}

fn text(content: &Value, key: &str) -> String {
    content.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn is_definition(content: &Value) -> bool {
    text(content, "kind") == "CustomResourceDefinition"
        && text(content, "apiVersion").starts_with("apiextensions.k8s.io/")
}

/// Whether other objects depend on it: namespaces and CRDs.
fn comes_first(content: &Value) -> bool {
    is_definition(content) || (text(content, "kind") == "Namespace" && text(content, "apiVersion") == "v1")
}

fn group_kind(id: &ObjectId) -> String {
    if id.group.is_empty() { id.kind.clone() } else { format!("{}.{}", id.kind, id.group) }
}

fn group_kind_of(content: &Value) -> String {
    let (api_version, kind) = (text(content, "apiVersion"), text(content, "kind"));
    match api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}"),
        None => kind,
    }
}

fn member(kind: &Kind, item: &DynamicObject) -> Object {
    let id = ObjectId {
        group: kind.resource.group.clone(),
        kind: kind.resource.kind.clone(),
        namespace: item.metadata.namespace.clone().unwrap_or_default(),
        name: item.metadata.name.clone().unwrap_or_default(),
    };
    let kind = Kind { resource: kind.resource.clone(), namespaced: !id.namespace.is_empty() };
    let content = json!({
        "apiVersion": kind.resource.api_version, "kind": kind.resource.kind,
        "metadata": {"name": id.name, "namespace": id.namespace},
    });
    Object { kind, id, content }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_those_of_the_api_server() {
        let object = |api_version: &str, kind: &str| json!({ "apiVersion": api_version, "kind": kind });
        let definition = object("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        assert!(is_definition(&definition) && comes_first(&definition));
        for other in
            [object("example.com/v1", "CustomResourceDefinition"), object("apiextensions.k8s.io/v1", "Other")]
        {
            assert!(!is_definition(&other) && !comes_first(&other), "{other}");
        }
        assert!(comes_first(&object("v1", "Namespace")) && !is_definition(&object("v1", "Namespace")));
        assert!(
            !comes_first(&object("example.com/v1", "Namespace")) && !comes_first(&object("v1", "ConfigMap"))
        );
    }

    #[test]
    fn kinds_are_named_with_their_group() {
        let object = |api_version: &str| group_kind_of(&json!({ "apiVersion": api_version, "kind": "A" }));
        assert_eq!((object("v1"), object("example.com/v1")), ("A".to_owned(), "A.example.com".to_owned()));
        let id = |group: &str| ObjectId {
            group: group.into(),
            kind: "A".into(),
            namespace: "".into(),
            name: "a".into(),
        };
        assert_eq!(
            (group_kind(&id("")), group_kind(&id("example.com"))),
            ("A".to_owned(), "A.example.com".to_owned())
        );
    }

    #[test]
    fn what_has_finalizers_waits_for_them() {
        let held = |finalizers: Value| {
            let object = json!({ "metadata": { "finalizers": finalizers } });
            held_by("A/a", &serde_json::from_value(object).unwrap())
        };
        assert_eq!(held(json!(["x", "y"])), "A/a waits for its finalizer x, y");
        assert_eq!(held(json!([])), "A/a is being deleted");
        assert_eq!(held(json!(null)), "A/a is being deleted");
    }

    #[test]
    fn a_member_is_in_a_namespace_if_it_says_one() {
        let resource = ApiResource::erase::<ConfigMap>(&());
        let found = |namespace: Value| {
            let item = json!({ "metadata": { "name": "a", "namespace": namespace } });
            member(
                &Kind { resource: resource.clone(), namespaced: true },
                &serde_json::from_value(item).unwrap(),
            )
        };
        assert!(found(json!("lab")).kind.namespaced && !found(json!(null)).kind.namespaced);
        assert_eq!(found(json!("lab")).id.to_string(), "ConfigMap/a in namespace lab");
        assert_eq!(text(&found(json!("lab")).content, "kind"), "ConfigMap");
    }
}
