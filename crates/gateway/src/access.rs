//! What the caller is allowed to do, decided by the cluster's authorizer.

use futures::future::try_join_all;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::{
    actions::{self, Action},
    answer::{self, Body},
    kinds::Kind,
    problem::{Problem, Result},
    request::RequestContext,
};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Queries the cluster for whether the caller may perform a verb.
pub(crate) async fn check(
    ctx: &RequestContext,
    kind: &Kind,
    verb: &str,
    subresource: &str,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<Value> {
    ask_cluster(
        ctx,
        &kind.group,
        &kind.plural,
        subresource,
        verb,
        namespace.filter(|_| kind.namespaced),
        name,
    )
    .await
}

async fn ask_cluster(
    ctx: &RequestContext,
    group: &str,
    resource: &str,
    subresource: &str,
    verb: &str,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<Value> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "group": group, "resource": resource, "subresource": subresource, "verb": verb,
            "namespace": namespace.unwrap_or_default(), "name": name.unwrap_or_default(),
        }},
    });
    let answer = ctx.caller.cluster.post(REVIEWS, &review).await?;
    let allowed = answer["status"]["allowed"] == true && answer["status"]["denied"] != true;
    let mut reason = answer["status"]["reason"].as_str().unwrap_or_default().to_owned();
    if allowed {
        reason.clear();
    } else if reason.is_empty() {
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let part = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
        let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        reason = format!("{} may not {verb} {resource}{part}{group}{place}", ctx.caller.user.name);
    }
    Ok(json!({"allowed": allowed, "reason": reason}))
}

/// Rejects callers that may not access a non-resource path of the API server, such as `/metrics`.
pub(crate) async fn require_path(ctx: &RequestContext, verb: &str, path: &str) -> Result<()> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"path": path, "verb": verb}},
    });
    let answer = ctx.caller.cluster.post(REVIEWS, &review).await?;
    if answer["status"]["allowed"] == true {
        return Ok(());
    }
    let detail = format!("{} may not {verb} {path}", ctx.caller.user.name);
    Err(Problem::new(StatusCode::FORBIDDEN, "Forbidden", detail))
}

pub(crate) async fn of_actions(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: Option<&str>,
    actions: &[Action],
) -> Result<Vec<Value>> {
    try_join_all(
        actions.iter().map(|action| check(ctx, kind, "patch", action.subresource(), namespace, name)),
    )
    .await
}

/// `GET /v1/kinds/{kind}/access`.
pub(crate) async fn of_kind(ctx: &RequestContext, kind: &Kind) -> Result<Response<Body>> {
    ctx.query.allow(&["namespace", "name", "version"])?;
    let (namespace, name) = (ctx.query.get("namespace"), ctx.query.get("name"));
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    // RBAC's resourceNames cannot match an object that is yet to be created, so no name is sent.
    let of = |verb: &'static str| check(ctx, kind, verb, "", namespace, name.filter(|_| verb != "create"));
    let allowed = try_join_all(verbs.map(of)).await?;
    let mut document: Value =
        verbs.iter().copied().zip(allowed).map(|(verb, allowed)| (verb.to_owned(), allowed)).collect();
    // The history is visible to callers that may get the object.
    document["history"] = document["get"].clone();
    document["logs"] = ask_cluster(ctx, "", "pods", "log", "get", namespace, None).await?;
    // The live object may offer actions that its kind's schema does not describe; a caller that may not get it sees only the
    // kind's.
    let object = match name {
        Some(name) => ctx.caller.cluster.get(&kind.path(namespace, Some(name))).await.ok(),
        None => None,
    };
    let actions = actions::of(kind, object.as_ref());
    let allowed = of_actions(ctx, kind, namespace, name, &actions).await?;
    let pairs = actions.iter().zip(allowed).map(|(action, allowed)| (action.name.clone(), allowed));
    document["actions"] = pairs.collect();
    Ok(answer::json(StatusCode::OK, &document))
}
