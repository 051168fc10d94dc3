//! Access and token reviews: resources that are answered and never stored.

use serde_json::{Value, json};

use steersman_api::{
    fields::FieldError,
    object,
    status::{ApiError, ApiResult, aggregate},
};

use super::{Attributes, User, explain, rbac};
use crate::{
    apply,
    call::{Call, Decoded},
};

/// Whether a resource is a review.
pub(crate) fn is_review(group: &str, plural: &str) -> bool {
    matches!(group, "authorization.k8s.io" | "authentication.k8s.io") && plural.ends_with("reviews")
}

/// Answers a review, in the version of the request.
pub(crate) fn answer(call: &Call, question: Decoded) -> ApiResult<Value> {
    let Decoded { object: mut review, emptied } = question;
    let plural = call.resource.plural.as_str();
    if !matches!(plural, "selfsubjectreviews" | "selfsubjectrulesreviews") {
        apply::track_now(call, None, &mut review, &emptied);
    }
    let status = match plural {
        "selfsubjectreviews" => {
            let metadata = object::metadata(&mut review);
            metadata.clear();
            metadata.insert("creationTimestamp".into(), call.now().into());
            json!({"userInfo": user_info(&call.user)})
        }
        "tokenreviews" => review_token(call, &review)?,
        "selfsubjectrulesreviews" => {
            let status = rules(call, &review)?;
            let root = object::ensure(&mut review);
            root.insert("metadata".into(), json!({}));
            root.insert("spec".into(), json!({}));
            status
        }
        _ => access(call, &review)?,
    };
    object::ensure(&mut review).insert("status".into(), status);
    Ok(review)
}

/// Returns a user in the `UserInfo` format of reviews.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// Answers a TokenReview.
fn review_token(call: &Call, review: &Value) -> ApiResult<Value> {
    let given = object::text(review, &["spec", "token"]).unwrap_or_default();
    if given.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let (core, audiences) = (&call.core, texts(&review["spec"]["audiences"]));
    Ok(match core.tokens.review(&core.store, core.environment.now(), given, &audiences) {
        Ok(found) => json!({
            "authenticated": true,
            "user": user_info(&found.user),
            "audiences": found.audiences,
        }),
        Err(error) => json!({"user": {}, "error": error.to_string()}),
    })
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}

/// Answers a SelfSubjectRulesReview: the rules of the caller in a namespace.
fn rules(call: &Call, review: &Value) -> ApiResult<Value> {
    let namespace = object::text(review, &["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (rules, errors) = call.core.rbac.rules_of(&call.user, namespace);
    let mut status = json!({"incomplete": false});
    status["resourceRules"] = rules
        .iter()
        .filter(|rule| !rule.resources.is_empty())
        .map(|rule| json!(rbac::Rule { paths: Vec::new(), ..rule.clone() }))
        .collect();
    status["nonResourceRules"] = rules
        .iter()
        .filter(|rule| !rule.paths.is_empty())
        .map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths}))
        .collect();
    if !errors.is_empty() {
        status["evaluationError"] = aggregate(&errors).into();
    }
    Ok(status)
}

/// Answers an access review.
fn access(call: &Call, review: &Value) -> ApiResult<Value> {
    let spec = review.get("spec").cloned().unwrap_or_default();
    let own = call.resource.plural.starts_with("self");
    check(call, review, &spec, own)?;
    let user = if own { call.user.clone() } else { user_of(&spec) };
    let resource = spec.get("resourceAttributes").filter(|r| r.is_object());
    let from = resource.or(spec.get("nonResourceAttributes")).cloned().unwrap_or_default();
    let text = |key: &str| from[key].as_str().unwrap_or_default();
    let attributes = Attributes {
        verb: text("verb"),
        group: text("group"),
        version: text("version"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        path: text("path"),
    };
    let (allowed, reason) = explain(&call.core, &user, &attributes);
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    Ok(status)
}

fn user_of(spec: &Value) -> User {
    User {
        name: spec["user"].as_str().unwrap_or_default().into(),
        uid: spec["uid"].as_str().unwrap_or_default().into(),
        groups: texts(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, values)| (key.clone(), texts(values)))
            .collect(),
    }
}

/// Validates a review: it must name one action and a user.
fn check(call: &Call, review: &Value, spec: &Value, own: bool) -> ApiResult<()> {
    let mut errors = Vec::new();
    let (resource, path) = (
        spec.get("resourceAttributes").filter(|r| r.is_object()),
        spec.get("nonResourceAttributes").filter(|r| r.is_object()),
    );
    // The attributes as the server's internal Go type is printed, whose fields have no JSON names.
    let internal = |path: &Value| json!({"Path": path["path"].as_str().unwrap_or_default(), "Verb": path["verb"].as_str().unwrap_or_default()});
    match (resource, path) {
        (Some(_), Some(path)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", internal(path), why));
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(FieldError::invalid("spec.resourceAttributes", Value::Null, why));
        }
        _ => {}
    }
    let user = user_of(spec);
    if !own && user.name.is_empty() && user.groups.is_empty() {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", "", why));
    }
    let local = call.resource.namespaced;
    let metadata = review.get("metadata").cloned().unwrap_or_default();
    let says_more = metadata.as_object().into_iter().flatten().any(|(key, value)| {
        let allowed = key == "managedFields" || (local && key == "namespace");
        !allowed && !value.is_null()
    });
    if says_more {
        let why = if local { "must be empty except for namespace" } else { "must be empty" };
        errors.push(FieldError::invalid("metadata", metadata, why));
    }
    if local {
        let own_namespace = object::namespace(review);
        if let Some(resource) = resource {
            let given = resource["namespace"].as_str().unwrap_or_default();
            if given != own_namespace {
                let field = "spec.resourceAttributes.namespace";
                errors.push(FieldError::invalid(field, given, "must match metadata.namespace"));
            }
        }
        if let Some(path) = path {
            let why = "disallowed on this kind of request";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", internal(path), why));
        }
    }
    if !errors.is_empty() {
        // The real server omits the kind too.
        return Err(ApiError::invalid_kind("authorization.k8s.io", "", "", errors));
    }
    if local && object::namespace(review) != call.namespace {
        return Err(ApiError::bad_request(format!(
            "spec.resourceAttributes.namespace must match namespace: {}",
            call.namespace
        )));
    }
    Ok(())
}
