//! Writes: with preconditions and dry run, recorded in audit log and history afterwards.

use std::time::Duration;

use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::{
    answer::{self, Body},
    audit, diff,
    health::{Health, State},
    history, instances,
    kinds::{Kind, name_of, namespace_of},
    problem::{Problem, Result},
    redact,
    request::RequestContext,
    tree,
    watch::{Event, Watch},
};

/// The parameters of every write.
pub(crate) const PARAMETERS: &[&str] = &["version", "dryRun", "wait", "timeout", "propagation"];
pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
/// The default field manager.
const MANAGER: &str = "steer";
const DEFAULT_WAIT: Duration = Duration::from_secs(60);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The number of attempts to replace an object of any version, as in client-go's `RetryOnConflict`.
const ATTEMPTS: usize = 5;

/// A write to the cluster.
pub(crate) struct Change {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Value,
    /// For a write to a subresource: the equivalent merge patch of the object.
    pub(crate) behind: Option<Value>,
}

impl Change {
    /// Makes the write conditional on the resourceVersion that the caller has seen.
    fn only_if(&mut self, version: &str) {
        if self.method == Method::DELETE {
            self.body["preconditions"] = json!({"resourceVersion": version});
        } else if self.content_type == JSON_PATCH {
            let test = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version});
            if let Some(operations) = self.body.as_array_mut() {
                operations.push(test);
            }
        } else if self.body.is_object() {
            if !self.body["metadata"].is_object() {
                self.body["metadata"] = json!({});
            }
            self.body["metadata"]["resourceVersion"] = version.into();
        }
    }

    /// Whether this replaces the object whatever its version. Custom resources cannot be replaced without a resourceVersion,
    /// so the latest one is filled in, again if another write intervenes.
    fn is_unversioned(&self) -> bool {
        self.method == Method::PUT && version_of(&self.body).is_empty()
    }

    /// Turns the write into a dry run.
    fn only_try(&mut self) {
        // A deletion's options are in its body, and then the API server ignores those of the query.
        if self.method == Method::DELETE {
            self.body["dryRun"] = json!(["All"]);
        }
    }

    fn query(&self, dry_run: bool) -> String {
        let mut query = String::from(if dry_run { "?dryRun=All" } else { "?" });
        if self.method != Method::DELETE {
            let validation =
                if self.content_type == APPLY { "&force=true" } else { "&fieldValidation=Strict" };
            query += &format!("&fieldManager={MANAGER}{validation}");
        }
        query
    }
}

/// Returns how long the caller wants to wait for readiness.
fn wait(ctx: &RequestContext) -> Result<Option<Duration>> {
    let time = ctx.query.duration("timeout", LONGEST_WAIT)?;
    match ctx.query.get("wait") {
        None => Ok(None),
        Some("ready") => Ok(Some(time.unwrap_or(DEFAULT_WAIT))),
        Some(other) => {
            Err(Problem::bad_request(format!("parameter wait: {other:?} is not supported; use ready")))
        }
    }
}

/// Performs or dry-runs a write as the caller, and responds with the result.
pub(crate) async fn perform(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: Option<&str>,
    action: &str,
    mut change: Change,
    live: Option<Value>,
) -> Result<Response<Body>> {
    let (dry_run, wait) = (ctx.query.flag("dryRun")?, wait(ctx)?);
    redact::refuse_marks(&change.body)?;
    let if_match = ctx.if_match()?;
    if let Some(version) = &if_match {
        change.only_if(version);
    }
    if dry_run {
        change.only_try();
    }
    let cluster = &ctx.caller.cluster;
    let object_path = name.map(|name| kind.path(namespace, Some(name)));
    let unversioned = change.is_unversioned();
    let mut before = match (live, &object_path) {
        (Some(live), _) => live,
        (None, Some(path)) if unversioned => cluster.get(path).await?,
        // A caller that may write but not read gets no difference; that must not block the write.
        (None, Some(path)) => cluster.get(path).await.unwrap_or_default(),
        (None, None) => Value::Null,
    };
    let named = change.body.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    if let Some(version) = if_match.as_deref().or(named).filter(|version| !is_version(version)) {
        let problem = Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "PreconditionFailed",
            format!("{version:?} is not a resourceVersion"),
        );
        let current = if before.is_null() { Value::Null } else { instances::shown(ctx, kind, &before)? };
        return Err(problem.with("current", current));
    }
    let path = format!("{}{}", change.path, change.query(dry_run));
    let mut attempts = 0;
    let written = loop {
        if unversioned {
            change.only_if(version_of(&before));
        }
        let body = serde_json::to_vec(&change.body).unwrap_or_default();
        let written = cluster.write(change.method.clone(), &path, change.content_type, body).await;
        attempts += 1;
        match (&written, &object_path) {
            (Err(problem), Some(path)) if unversioned && attempts < ATTEMPTS && is_stale(problem) => {
                before = cluster.get(path).await?;
            }
            _ => break written,
        }
    };
    let (status, result) = match written {
        Ok(written) => written,
        Err(problem) => {
            if !dry_run {
                let place = (namespace, name.or(Some(name_of(&change.body))).filter(|name| !name.is_empty()));
                audit::refused(ctx, kind, place, action, &problem);
            }
            return Err(
                conflict(ctx, kind, &change, if_match.is_some(), object_path.as_deref(), problem).await
            );
        }
    };
    let deleted = change.method == Method::DELETE;
    let after = match (deleted, &change.behind, &object_path) {
        (true, _, _) => Value::Null,
        (false, Some(behind), _) if dry_run => {
            let mut after = before.clone();
            merge(&mut after, behind);
            after
        }
        (false, Some(_), Some(path)) => cluster.get(path).await?,
        _ => result.clone(),
    };
    let shown = |object: &Value| diff::comparable(&redact::hide(object, kind));
    let (old, new) = (shown(&before), shown(&after));
    if dry_run {
        let follow = if deleted { tree::owned(ctx, &before).await? } else { Vec::new() };
        let document = json!({
            "dryRun": true, "object": if after.is_null() { Value::Null } else { instances::shown(ctx, kind, &after)? },
            "changes": diff::changes(&old, &new), "yaml": diff::yaml(&old, &new, "live", "dry run"), "follow": follow,
        });
        return Ok(answer::json(StatusCode::OK, &document));
    }
    let place = name_of(if after.is_null() { &before } else { &after }).to_owned();
    let place = if place.is_empty() { name.unwrap_or_default().to_owned() } else { place };
    let namespace = namespace.or_else(|| namespace_of(&after)).map(str::to_owned);
    let namespace = namespace.as_deref();
    audit::accepted(ctx, kind, (namespace, Some(&place)), action, status, diff::changes(&old, &new));
    if !deleted {
        history::record(ctx, kind, &before, &after).await;
    }
    if deleted {
        return gone(ctx, kind, namespace, &place, &before, &result, wait).await;
    }
    let after = match wait {
        None => after,
        Some(time) => until_ready(ctx, kind, after, time).await?,
    };
    let yaml = ctx.accepts("application/yaml");
    let mut response = answer::object(status, &instances::shown(ctx, kind, &after)?, yaml);
    if status == StatusCode::CREATED
        && let Ok(location) = HeaderValue::from_str(&instances::address(kind, namespace, &place))
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Turns a conflict with the caller's resourceVersion into 412, together with the current object.
async fn conflict(
    ctx: &RequestContext,
    kind: &Kind,
    change: &Change,
    if_match: bool,
    path: Option<&str>,
    problem: Problem,
) -> Problem {
    let named = change.method == Method::PUT && change.content_type == JSON;
    let Some(path) = path.filter(|_| is_stale(&problem) && (if_match || named)) else { return problem };
    let current = match ctx.caller.cluster.get(path).await {
        Ok(current) => instances::shown(ctx, kind, &current).unwrap_or_default(),
        Err(_) => Value::Null,
    };
    problem.with_status(StatusCode::PRECONDITION_FAILED, "PreconditionFailed").with("current", current)
}

fn is_stale(problem: &Problem) -> bool {
    problem.status == StatusCode::CONFLICT && problem.reason == "Conflict"
}

/// Applies a merge patch (RFC 7386).
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        patch.clone_into(target);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in members {
        if value.is_null() {
            target.as_object_mut().and_then(|target| target.remove(key));
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

/// Responds to a delete: with the object while finalizers hold it, else that it is gone.
async fn gone(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
    before: &Value,
    result: &Value,
    wait: Option<Duration>,
) -> Result<Response<Body>> {
    let held = result["kind"] != "Status" && result.pointer("/metadata/finalizers").is_some();
    if let Some(time) = wait.filter(|_| held) {
        let deadline = Instant::now() + time;
        let mut watch = Watch::one(&ctx.caller.cluster, kind, namespace, name, version_of(result));
        loop {
            match timeout_at(deadline, watch.next()).await {
                Ok(Ok(Event::Changed { kind: "DELETED", .. })) => break,
                Ok(Ok(Event::Expired)) => return Err(Problem::unreachable(&"the watch expired")),
                Ok(Ok(_)) => {}
                Ok(Err(problem)) => return Err(problem),
                Err(_) => {
                    let detail =
                        format!("{name} was not deleted after {}s: finalizers block it", time.as_secs());
                    return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", detail));
                }
            }
        }
    }
    let status = if held && wait.is_none() { StatusCode::ACCEPTED } else { StatusCode::OK };
    let object = if result["kind"] == "Status" { before } else { result };
    Ok(answer::object(status, &instances::shown(ctx, kind, object)?, ctx.accepts("application/yaml")))
}

/// Whether the cluster can have issued this version; it reports others as an internal error. The empty string, which means no
/// version, is accepted.
fn is_version(text: &str) -> bool {
    text.is_empty() || text.parse::<u64>().is_ok()
}

fn version_of(object: &Value) -> &str {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default()
}

/// Waits until an object is ready, and responds with it.
async fn until_ready(ctx: &RequestContext, kind: &Kind, object: Value, time: Duration) -> Result<Value> {
    let deadline = Instant::now() + time;
    let name = name_of(&object).to_owned();
    let mut watch = Watch::one(&ctx.caller.cluster, kind, namespace_of(&object), &name, version_of(&object));
    let mut object = object;
    loop {
        let health = Health::of(&object, kind.custom);
        if health.state == State::Ready {
            return Ok(object);
        }
        match timeout_at(deadline, watch.next()).await {
            Ok(Ok(Event::Changed { kind: "DELETED", .. })) => {
                return Err(Problem::not_found(format!("{name} was deleted before it was ready")));
            }
            Ok(Ok(Event::Changed { object: changed, .. })) => object = changed,
            Ok(Ok(Event::Bookmark)) => {}
            Ok(Ok(Event::Expired)) => return Err(Problem::unreachable(&"the watch expired")),
            Ok(Err(problem)) => return Err(problem),
            Err(_) => {
                let detail =
                    format!("{name} was not ready after {}s; the change itself was made", time.as_secs());
                let problem = Problem::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", detail);
                return Err(problem.with("health", health.document()));
            }
        }
    }
}
