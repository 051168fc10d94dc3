//! The history of custom resources: a ControllerRevision for each change of their desired state.

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    answer::{self, Body},
    diff,
    kinds::{Kind, items, name_of, namespace_of},
    problem::{Problem, Result},
    redact,
    request::RequestContext,
    upstream::{Cluster, encode},
    writes::{self, Change},
};

/// The label with the UID of the object that a revision belongs to.
const OF: &str = "steersman.dev/history-of";
/// The annotation with the name of the user that made the change.
const BY: &str = "steersman.dev/changed-by";
/// The maximum number of revisions kept per object.
const KEPT: usize = 50;
/// The number of revision numbers tried when several changes are recorded concurrently.
const ATTEMPTS: u64 = 5;

/// Returns the part of an object that revisions keep: everything but metadata and status.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    if let Some(members) = content.as_object_mut() {
        members.retain(|name, _| name != "metadata" && name != "status");
    }
    content
}

fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

fn number(revision: &Value) -> u64 {
    revision["revision"].as_u64().unwrap_or_default()
}

fn by(revision: &Value) -> &str {
    revision
        .pointer("/metadata/annotations")
        .and_then(|all| all.get(BY))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the path of an object's revisions. Those of cluster-scoped objects are in the history namespace.
fn path(ctx: &RequestContext, object: &Value) -> String {
    let namespace = namespace_of(object).unwrap_or(&ctx.shared.history_namespace);
    format!("/apis/apps/v1/namespaces/{}/controllerrevisions", encode(namespace))
}

/// Returns the object's revisions, newest first. Only those that it owns count.
async fn revisions(own: &Cluster, path: &str, object: &Value) -> Result<Vec<Value>> {
    let uid = uid(object);
    let list = own.get(&format!("{path}?labelSelector={}", encode(&format!("{OF}={uid}")))).await?;
    let is_owned = |revision: &&Value| {
        let owners = revision.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        owners.into_iter().flatten().any(|owner| owner["uid"] == uid)
    };
    let mut revisions: Vec<Value> = items(&list).filter(is_owned).cloned().collect();
    revisions.sort_by_key(|revision| std::cmp::Reverse(number(revision)));
    Ok(revisions)
}

/// Records a change, and before it the previous state if the latest revision does not have it.
///
/// Best effort: a history that cannot be written does not fail the change; it is logged.
pub(crate) async fn record(ctx: &RequestContext, kind: &Kind, before: &Value, after: &Value) {
    if !kind.custom || content(before) == content(after) {
        return;
    }
    if let Err(problem) = try_record(ctx, kind, before, after).await {
        tracing::warn!(
            kind = kind.name(),
            name = name_of(after),
            reason = problem.reason,
            "failed to write the history"
        );
    }
}

async fn try_record(ctx: &RequestContext, kind: &Kind, before: &Value, after: &Value) -> Result<()> {
    let own = &ctx.shared.own;
    let path = path(ctx, after);
    let known = revisions(own, &path, after).await?;
    let mut latest = known.first().map(number).unwrap_or_default();
    let kept = |object: &Value| known.first().is_some_and(|revision| revision["data"] == content(object));
    if !before.is_null() && !kept(before) {
        latest = create(own, &path, kind, before, latest, "").await?;
    }
    create(own, &path, kind, after, latest, &ctx.caller.user.name).await?;
    for old in known.iter().skip(KEPT.saturating_sub(1)) {
        let path = format!("{path}/{}", encode(name_of(old)));
        let gone = own.write(Method::DELETE, &path, writes::JSON, b"{}".to_vec()).await;
        if gone.is_err_and(|problem| problem.status != StatusCode::NOT_FOUND) {
            break;
        }
    }
    Ok(())
}

async fn create(
    own: &Cluster,
    path: &str,
    kind: &Kind,
    object: &Value,
    latest: u64,
    by: &str,
) -> Result<u64> {
    let (uid, name) = (uid(object), name_of(object));
    let mut last = None;
    for number in latest + 1..=latest + ATTEMPTS {
        // The name is derived from object and number, so that two concurrent writers cannot record the same number.
        let digest = Sha256::digest(format!("{uid}/{number}").as_bytes());
        let suffix: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
        let stem: String = name.chars().take(200).collect();
        let revision = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {
                "name": format!("{}-{suffix}", stem.trim_end_matches(['-', '.'])), "labels": {OF: uid}, "annotations": {BY: by},
                "ownerReferences": [{"apiVersion": kind.api_version(), "kind": kind.kind, "name": name, "uid": uid}],
            },
            "revision": number, "data": content(object),
        });
        match own.post(path, &revision).await {
            Ok(_) => return Ok(number),
            Err(problem) if problem.reason == "AlreadyExists" => last = Some(problem),
            Err(problem) => return Err(problem),
        }
    }
    Err(last.unwrap_or_else(|| Problem::unreachable(&"no revision could be recorded")))
}

/// Returns the object and its revisions, provided that the caller may get the object.
async fn of(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<(Value, Vec<Value>)> {
    let live = ctx.caller.cluster.get(&kind.path(namespace, Some(name))).await?;
    let revisions = revisions(&ctx.shared.own, &path(ctx, &live), &live).await?;
    Ok((live, revisions))
}

fn at(revision: &Value) -> Value {
    revision.pointer("/metadata/creationTimestamp").cloned().unwrap_or_default()
}

/// `GET …/history`.
pub(crate) async fn list(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Response<Body>> {
    ctx.query.allow(&["version"])?;
    let (live, revisions) = of(ctx, kind, namespace, name).await?;
    let live = content(&live);
    let shown: Vec<Value> = revisions.iter().map(|revision| redact::hide(&revision["data"], kind)).collect();
    let current = revisions.iter().position(|revision| revision["data"] == live);
    let items: Vec<Value> = revisions
        .iter()
        .enumerate()
        .map(|(index, revision)| {
            let changes = shown.get(index + 1).map(|older| diff::changes(older, &shown[index])).unwrap_or_default();
            json!({
                "revision": number(revision), "name": name_of(revision), "at": at(revision), "by": by(revision),
                "current": current == Some(index), "changes": changes,
            })
        })
        .collect();
    Ok(answer::json(StatusCode::OK, &json!({"items": items})))
}

fn find(revisions: &[Value], wanted: u64) -> Result<&Value> {
    revisions.iter().find(|revision| number(revision) == wanted).ok_or_else(|| {
        let known: Vec<String> = revisions.iter().map(|revision| number(revision).to_string()).collect();
        Problem::not_found(format!("revision {wanted} not found; available: {}", known.join(", ")))
    })
}

/// `GET …/history/{revision}`, and `…/history/compare`.
pub(crate) async fn one(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
    revision: &str,
) -> Result<Response<Body>> {
    if revision == "compare" {
        return compare(ctx, kind, namespace, name).await;
    }
    ctx.query.allow(&["version"])?;
    let wanted =
        revision.parse().map_err(|_| Problem::not_found(format!("{revision:?} is not a revision number")))?;
    let (_, revisions) = of(ctx, kind, namespace, name).await?;
    let revision = find(&revisions, wanted)?;
    let document = json!({
        "revision": wanted, "at": at(revision), "by": by(revision), "object": redact::hide(&revision["data"], kind),
    });
    Ok(answer::json(StatusCode::OK, &document))
}

async fn compare(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Response<Body>> {
    ctx.query.allow(&["version", "from", "to"])?;
    let from = ctx.query.number("from", 1, u64::MAX)?;
    let from = from.ok_or_else(|| Problem::bad_request("parameter from: a revision number is required"))?;
    let to = ctx.query.number("to", 1, u64::MAX)?;
    let (live, revisions) = of(ctx, kind, namespace, name).await?;
    let old = redact::hide(&find(&revisions, from)?["data"], kind);
    let (new, title) = match to {
        Some(to) => (find(&revisions, to)?["data"].clone(), format!("revision {to}")),
        None => (content(&live), "live".to_owned()),
    };
    let new = redact::hide(&new, kind);
    let document = json!({
        "from": from, "to": to, "changes": diff::changes(&old, &new),
        "yaml": diff::yaml(&old, &new, &format!("revision {from}"), &title),
    });
    Ok(answer::json(StatusCode::OK, &document))
}

/// Builds the change that restores a revision; it is made as the caller, like any other write.
pub(crate) async fn restore(
    ctx: &RequestContext,
    kind: &Kind,
    live: &Value,
    value: &Value,
) -> Result<Change> {
    let wanted = value.as_u64().ok_or_else(|| Problem::invalid("value", "is not a revision number"))?;
    let revisions = revisions(&ctx.shared.own, &path(ctx, live), live).await?;
    let kept = &find(&revisions, wanted)?["data"];
    // Patches only what revisions keep, so that concurrent writes of status or finalizers do not conflict.
    let pointer = |name: &str| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    let members = |object: &Value| content(object).as_object().cloned().unwrap_or_default();
    let mut operations = Vec::new();
    for (name, value) in members(kept) {
        if name != "apiVersion" && name != "kind" {
            operations.push(json!({"op": "add", "path": pointer(&name), "value": value}));
        }
    }
    for (name, _) in members(live) {
        if kept.get(&name).is_none() {
            operations.push(json!({"op": "remove", "path": pointer(&name)}));
        }
    }
    let body = Value::from(operations);
    let path = kind.path(namespace_of(live), Some(name_of(live)));
    Ok(Change { method: Method::PATCH, path, content_type: writes::JSON_PATCH, body, behind: None })
}
