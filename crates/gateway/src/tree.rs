//! The ownership tree of an object, down to pods, and the events of everything in it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures::{
    StreamExt as _,
    stream::{self, BoxStream, SelectAll},
};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::{
    answer::{self, Body},
    health::{self, Health},
    kinds::{Catalog, Kind, items, list, name_of, namespace_of},
    problem::{Problem, Result},
    request::RequestContext,
    shared_watch::{Change, Changes, Next},
    watch::Target,
};

/// Built-in kinds that operators create; custom kinds are always included.
const MADE: [&str; 20] = [
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "replicasets.apps",
    "jobs.batch",
    "cronjobs.batch",
    "pods",
    "services",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "persistentvolumeclaims",
    "ingresses.networking.k8s.io",
    "networkpolicies.networking.k8s.io",
    "horizontalpodautoscalers.autoscaling",
    "poddisruptionbudgets.policy",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
];
/// Kinds listed with metadata only: a tree needs, and should read, none of their content.
const METADATA_ONLY: [&str; 3] = ["configmaps", "secrets", "serviceaccounts"];
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// The number of concurrent lists.
const AT_ONCE: usize = 8;
/// The maximum depth of a tree.
const DEEPEST: usize = 16;

/// An object of the tree, with its kind.
type Found = (Arc<Kind>, Value);

/// Returns the reference by which a client addresses an object.
pub(crate) fn reference(kind: Option<&Kind>, object: &Value) -> Value {
    let kind_name = kind.map(Kind::name);
    json!({
        "kind": kind_name,
        "apiVersion": kind.map_or_else(|| object["apiVersion"].clone(), |kind| kind.api_version().into()),
        "kindName": kind.map_or_else(|| object["kind"].clone(), |kind| kind.kind.clone().into()),
        "namespace": namespace_of(object), "name": name_of(object),
        "uid": object.pointer("/metadata/uid"),
    })
}

/// The objects that may be in a tree, by their owner's UID, and the kinds that the caller may not list.
struct Candidates {
    by_owner: HashMap<String, Vec<Found>>,
    denied: Vec<String>,
    /// The paths of the lists that were read, with their resourceVersions.
    lists: Vec<(String, String)>,
}

async fn candidates(ctx: &RequestContext, root: &Value) -> Result<Candidates> {
    let catalog: Arc<Catalog> = ctx.shared.kinds.all().await?;
    let namespace = namespace_of(root);
    let is_candidate = |kind: &&Arc<Kind>| {
        (kind.custom || MADE.contains(&kind.name().as_str()) || is_kind_of(kind, root))
            && kind.has_verb("list")
            // Namespaced objects can only own objects of their own namespace.
            && (namespace.is_none() || kind.namespaced)
    };
    let kinds: Vec<Arc<Kind>> = catalog.iter().filter(is_candidate).cloned().collect();
    let lists = stream::iter(kinds).map(|kind| async move {
        let path = kind.path(namespace, None);
        let accept =
            if METADATA_ONLY.contains(&kind.name().as_str()) { METADATA } else { "application/json" };
        let found = ctx.caller.cluster.get_as(&path, accept).await;
        (kind, found)
    });
    let lists: Vec<(Arc<Kind>, Result<Value>)> = lists.buffer_unordered(AT_ONCE).collect().await;
    let mut candidates = Candidates { by_owner: HashMap::new(), denied: Vec::new(), lists: Vec::new() };
    for (kind, found) in lists {
        match found {
            Ok(found) => {
                let version = found.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                candidates.lists.push((kind.path(namespace, None), version.unwrap_or_default().to_owned()));
                for object in items(&found) {
                    let owners = object.pointer("/metadata/ownerReferences").map(list).unwrap_or_default();
                    for owner in owners {
                        let uid = owner["uid"].as_str().unwrap_or_default().to_owned();
                        let mut object = object.clone();
                        object["apiVersion"] = kind.api_version().into();
                        object["kind"] = kind.kind.clone().into();
                        candidates.by_owner.entry(uid).or_default().push((Arc::clone(&kind), object));
                    }
                }
            }
            Err(problem) if problem.status == StatusCode::FORBIDDEN => candidates.denied.push(kind.name()),
            // A kind that was removed in the meantime has no objects.
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {}
            Err(problem) => return Err(problem),
        }
    }
    candidates.denied.sort();
    for found in candidates.by_owner.values_mut() {
        found.sort_by(|(one, object), (other, another)| {
            (&one.kind, name_of(object)).cmp(&(&other.kind, name_of(another)))
        });
    }
    Ok(candidates)
}

fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

fn node(kind: &Kind, object: &Value, candidates: &Candidates, above: &mut HashSet<String>) -> Value {
    let mut children = Vec::new();
    // A cycle of owners ends where it closes.
    if above.len() < DEEPEST && above.insert(uid(object).to_owned()) {
        for (kind, child) in candidates.by_owner.get(uid(object)).into_iter().flatten() {
            children.push(node(kind, child, candidates, above));
        }
        above.remove(uid(object));
    }
    json!({
        "ref": reference(Some(kind), object), "health": Health::of(object, kind.custom).document(),
        "summary": health::summary(object), "createdAt": object.pointer("/metadata/creationTimestamp"),
        "children": children,
    })
}

fn is_kind_of(kind: &Kind, object: &Value) -> bool {
    object["kind"] == kind.kind && object["apiVersion"] == kind.api_version()
}

/// The tree of an object, limited to what the caller may see.
pub(crate) struct Tree {
    /// The response of `GET …/tree`.
    pub(crate) document: Value,
    /// The UIDs of the objects in it.
    uids: HashSet<String>,
    /// The paths of the lists that it was built from, with their resourceVersions.
    lists: Vec<(String, String)>,
}

impl Tree {
    pub(crate) async fn look(
        ctx: &RequestContext,
        kind: &Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Self> {
        let root = ctx.caller.cluster.get(&kind.path(namespace, Some(name))).await?;
        let candidates = candidates(ctx, &root).await?;
        let root = node(kind, &root, &candidates, &mut HashSet::new());
        let mut uids = HashSet::new();
        collect_uids(&root, &mut uids);
        let document = json!({"root": root, "denied": candidates.denied});
        Ok(Self { document, uids, lists: candidates.lists })
    }

    /// Watches everything that may be in the tree, from the state it was built from. Metadata is enough to notice a change.
    pub(crate) fn watch(&self, ctx: &RequestContext) -> TreeWatch {
        let changes = self.lists.iter().map(|(path, version)| {
            let target = Target::metadata(path.as_str());
            let changes = Changes::after(&ctx.shared.watches, &ctx.caller.cluster, target, version);
            stream::unfold(Some(changes), next_change).boxed()
        });
        TreeWatch(stream::select_all(changes))
    }

    /// Whether a changed object is in the tree, or owned by one that is.
    pub(crate) fn concerns(&self, change: &Change) -> bool {
        let owners = change.object.pointer("/metadata/ownerReferences").map(list).unwrap_or_default();
        let owners = owners.iter().filter_map(|owner| owner["uid"].as_str());
        owners.chain([uid(&change.object)]).any(|uid| self.uids.contains(uid))
    }
}

fn collect_uids(node: &Value, uids: &mut HashSet<String>) {
    uids.extend(node.pointer("/ref/uid").and_then(Value::as_str).map(str::to_owned));
    for child in list(&node["children"]) {
        collect_uids(child, uids);
    }
}

/// Changes to objects that may be in a tree.
pub(crate) struct TreeWatch(SelectAll<BoxStream<'static, Option<Arc<Change>>>>);

impl TreeWatch {
    /// Returns the next change; None if one of the watches has ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Arc<Change>> {
        match self.0.next().await {
            Some(change) => change,
            None => std::future::pending().await,
        }
    }
}

/// Returns the next change of one kind. The end of the watch is reported once.
async fn next_change(changes: Option<Changes>) -> Option<(Option<Arc<Change>>, Option<Changes>)> {
    let mut changes = changes?;
    loop {
        match changes.next().await {
            Ok(Next::Changed(change)) => return Some((Some(change), Some(changes))),
            Ok(Next::Bookmark) => {}
            Ok(Next::Expired) | Err(_) => return Some((None, None)),
        }
    }
}

/// `GET …/tree`.
pub(crate) async fn get(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Response<Body>> {
    ctx.query.allow(&["version"])?;
    Ok(answer::json(StatusCode::OK, &Tree::look(ctx, kind, namespace, name).await?.document))
}

/// Returns the dependents of an object, at any depth, without the object.
pub(crate) async fn below(ctx: &RequestContext, root: &Value) -> Result<Vec<Found>> {
    let candidates = candidates(ctx, root).await?;
    let mut found: Vec<Found> = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    let mut next = vec![uid(root).to_owned()];
    while let Some(owner) = next.pop() {
        for (kind, object) in candidates.by_owner.get(&owner).into_iter().flatten() {
            if seen.insert(uid(object).to_owned()) {
                next.push(uid(object).to_owned());
                found.push((Arc::clone(kind), object.clone()));
            }
        }
    }
    Ok(found)
}

/// Returns references to the objects that would be garbage collected with an object.
pub(crate) async fn owned(ctx: &RequestContext, root: &Value) -> Result<Vec<Value>> {
    if root.is_null() {
        return Ok(Vec::new());
    }
    Ok(below(ctx, root).await?.iter().map(|(kind, object)| reference(Some(kind), object)).collect())
}

/// `GET …/events`.
pub(crate) async fn events(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Response<Body>> {
    ctx.query.allow(&["version", "tree"])?;
    let root = ctx.caller.cluster.get(&kind.path(namespace, Some(name))).await?;
    let mut of: HashMap<String, Value> = HashMap::new();
    of.insert(uid(&root).to_owned(), reference(Some(kind), &root));
    if ctx.query.flag("tree")? {
        for (kind, object) in below(ctx, &root).await? {
            of.insert(uid(&object).to_owned(), reference(Some(&kind), &object));
        }
    }
    let events = ctx.shared.kinds.find("events", None).await?;
    // Events about cluster-scoped objects are in the namespace `default`.
    let path = events.path(Some(namespace_of(&root).unwrap_or("default")), None);
    let path = match of.len() {
        1 => format!(
            "{path}?fieldSelector={}",
            crate::upstream::encode(&format!("involvedObject.uid={}", uid(&root)))
        ),
        _ => path,
    };
    let found = ctx.caller.cluster.get(&path).await?;
    let mut shown: Vec<Value> = items(&found).filter_map(|event| shown_event(event, &of)).collect();
    shown.sort_by(|one, other| text(&other["lastSeen"]).cmp(text(&one["lastSeen"])));
    Ok(answer::json(StatusCode::OK, &json!({"items": shown})))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn shown_event(event: &Value, of: &HashMap<String, Value>) -> Option<Value> {
    let reference = of.get(event.pointer("/involvedObject/uid")?.as_str()?)?;
    let time = |names: &[&str]| {
        names
            .iter()
            .filter_map(|name| event.pointer(name))
            .find(|time| time.is_string())
            .cloned()
            .unwrap_or_default()
    };
    let first = ["/firstTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    let last = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    let count =
        event.pointer("/series/count").or_else(|| event.get("count")).and_then(Value::as_u64).unwrap_or(1);
    let source =
        [event["reportingComponent"].as_str(), event.pointer("/source/component").and_then(Value::as_str)];
    let source = source.into_iter().flatten().find(|source| !source.is_empty()).unwrap_or_default();
    Some(json!({
        "type": text(&event["type"]), "reason": text(&event["reason"]), "message": text(&event["message"]),
        "count": count, "firstSeen": time(&first), "lastSeen": time(&last), "source": source, "ref": reference,
    }))
}

/// Returns the pods of an object's tree, or the object itself if it is a pod.
pub(crate) async fn pods(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Vec<Value>> {
    let root = ctx.caller.cluster.get(&kind.path(namespace, Some(name))).await?;
    if kind.name() == "pods" {
        return Ok(vec![root]);
    }
    let found = below(ctx, &root).await?;
    let pods: Vec<Value> =
        found.into_iter().filter(|(kind, _)| kind.name() == "pods").map(|(_, pod)| pod).collect();
    if pods.is_empty() {
        return Err(Problem::not_found(format!("{name} has no pods that you may see")));
    }
    Ok(pods)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_other_objects_do_not_concern_a_tree() {
        let uids = HashSet::from(["shop".to_owned(), "pod".to_owned()]);
        let tree = Tree { document: Value::Null, uids, lists: Vec::new() };
        let concerns = |object: Value| tree.concerns(&Change::new("MODIFIED", object));
        assert!(concerns(json!({"metadata": {"uid": "pod"}})));
        assert!(concerns(
            json!({"metadata": {"uid": "new", "ownerReferences": [{"uid": "x"}, {"uid": "shop"}]}})
        ));
        assert!(!concerns(json!({"metadata": {"uid": "other", "ownerReferences": [{"uid": "x"}]}})));
        assert!(!concerns(json!({})));
    }
}
