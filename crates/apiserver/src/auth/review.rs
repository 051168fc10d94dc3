//! Questions to the server that look like objects and are never stored.

use serde_json::{Value, json};

use super::{Attributes, Decision, User};
use crate::{
    apply,
    call::Call,
    fields::FieldError,
    object,
    status::{ApiError, ApiResult},
};

/// Whether a resource holds questions.
pub(crate) fn is_review(group: &str, plural: &str) -> bool {
    matches!(group, "authorization.k8s.io" | "authentication.k8s.io") && plural.ends_with("reviews")
}

/// Answers a question, in the version of the request.
pub(crate) fn answer(call: &Call, mut review: Value) -> ApiResult<Value> {
    let plural = call.resource.plural.as_str();
    if !matches!(plural, "selfsubjectreviews" | "selfsubjectrulesreviews") {
        apply::track(call, None, &mut review);
    }
    let status = match plural {
        "selfsubjectreviews" => {
            object::metadata(&mut review).insert("creationTimestamp".into(), call.now().into());
            json!({"userInfo": user_info(&call.user)})
        }
        "tokenreviews" => {
            if object::text(&review, &["spec", "token"]).unwrap_or_default().is_empty() {
                return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
            }
            json!({"user": {}, "error": "invalid bearer token"})
        }
        "selfsubjectrulesreviews" => {
            object::ensure(&mut review).insert("spec".into(), json!({}));
            json!({"resourceRules": [], "nonResourceRules": [], "incomplete": true})
        }
        _ => access(call, &review)?,
    };
    object::ensure(&mut review).insert("status".into(), status);
    Ok(review)
}

fn user_info(user: &User) -> Value {
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

fn access(call: &Call, review: &Value) -> ApiResult<Value> {
    let refuse = |error: FieldError| Err(ApiError::invalid_kind("authorization.k8s.io", "", "", vec![error]));
    let spec = review.get("spec").cloned().unwrap_or_default();
    let (resource, path) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
    if resource.is_some() == path.is_some() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        return refuse(FieldError::invalid("spec.resourceAttributes", Value::Null, why));
    }
    let own = call.resource.plural.starts_with("self");
    let texts = |key: &str| -> Vec<String> {
        spec[key].as_array().into_iter().flatten().filter_map(|g| Some(g.as_str()?.to_owned())).collect()
    };
    let user = if own {
        call.user.clone()
    } else {
        User {
            name: spec["user"].as_str().unwrap_or_default().into(),
            groups: texts("groups"),
            ..User::default()
        }
    };
    if user.name.is_empty() && user.groups.is_empty() {
        return refuse(FieldError::invalid(
            "spec.user",
            "",
            "at least one of user or group must be specified",
        ));
    }
    let from = resource.or(path).cloned().unwrap_or_default();
    let text = |key: &str| from[key].as_str().unwrap_or_default();
    if call.resource.namespaced && text("namespace") != call.namespace {
        let field = "spec.resourceAttributes.namespace";
        return refuse(FieldError::invalid(field, text("namespace"), "must match metadata.namespace"));
    }
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
    Ok(match call.core.authorizer.authorize(&user, &attributes) {
        Decision::Allow => json!({"allowed": true}),
        Decision::Deny(reason) if reason.is_empty() => json!({"allowed": false}),
        Decision::Deny(reason) => json!({"allowed": false, "reason": reason}),
    })
}
