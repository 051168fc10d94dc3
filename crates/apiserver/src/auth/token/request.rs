//! `serviceaccounts/token`: issues service account tokens (TokenRequest).

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::SignedDuration;
use serde_json::{Value, json};

use steersman_api::{
    environment::{EnvironmentExt as _, seconds},
    fields::FieldError,
    http::{Body, json_response},
    object, schema,
    status::{ApiError, ApiResult, Reason},
};

use super::{Bound, Claims, ISSUER, Reference};
use crate::{
    admission::{self, Operation},
    apply::Detached,
    auth::account_user,
    call::Call,
    catalog::split_api_version,
    decode,
};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const TYPE: &str = "io.k8s.api.authentication.v1.TokenRequest";
/// Minimum lifetime of a token, in seconds.
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
/// The lifetime that kubelets request.
/// Such a pod token stays valid for a year, for programs that read it only once.
const WARN_ONLY: i64 = 3607;
const EXTENDED: i64 = 365 * 24 * 3600;

/// Answers a TokenRequest.
pub(crate) async fn answer(
    call: &Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    let document = decode::part(call, media, body, warnings)?;
    let schema = schema::definition(TYPE);
    let mut request = match &schema {
        Some(schema) => decode::typed(call, document, schema, KIND, "v1", warnings)?,
        None => document.value,
    };
    let spec = object::child(&mut request, "spec");
    if spec.get("expirationSeconds").is_none_or(Value::is_null) {
        spec.insert("expirationSeconds".into(), 3600.into());
    }
    if let Some(schema) = &schema {
        schema.encode(&mut request);
    }
    let mut request = Detached::new(call, "authentication.k8s.io/v1", TYPE).track_new(call, request);
    admission::mutate_part(call, Operation::Create, &mut request, warnings).await?;
    let invalid = |name: &str, error| Err(ApiError::invalid_kind(GROUP, KIND, name, vec![error]));
    for (field, expected) in [("name", &call.name), ("namespace", &call.namespace)] {
        let given = object::meta_text(&request, field);
        if !given.is_empty() && given != expected {
            let why = format!("must match the service account {field} if specified");
            return invalid(&call.name, FieldError::invalid(format!("metadata.{field}"), given, why));
        }
    }
    admission::validate_part(call, Operation::Create, &request, warnings).await?;
    let account = call.stored()?.value();
    let (uid, given) = (object::uid(&account), object::uid(&request));
    if !given.is_empty() && given != uid {
        return Err(conflict(
            GROUP,
            KIND,
            &call.name,
            &format!(
                "the UID in the token request ({given}) does not match the UID of the service account ({uid})"
            ),
        ));
    }
    let now = call.core.environment.now();
    let metadata = object::metadata(&mut request);
    metadata.insert("name".into(), call.name.as_str().into());
    metadata.insert("namespace".into(), call.namespace.as_str().into());
    metadata.insert("uid".into(), uid.into());
    metadata.insert("creationTimestamp".into(), seconds(now).into());
    let spec = object::child(&mut request, "spec");
    let mut audiences = texts(spec.get("audiences"));
    if audiences.is_empty() {
        audiences = vec![ISSUER.to_owned()];
        spec.insert("audiences".into(), json!(audiences));
    }
    let lifetime = spec.get("expirationSeconds").and_then(Value::as_i64).unwrap_or_default();
    let limit = match lifetime {
        ..SHORTEST => Some("may not specify a duration less than 10 minutes"),
        LONGEST.. if lifetime > LONGEST => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    if let Some(why) = limit {
        return invalid("", FieldError::invalid("spec.expirationSeconds", lifetime, why));
    }
    let mut bound = Bound {
        namespace: call.namespace.clone(),
        node: None,
        pod: None,
        secret: None,
        serviceaccount: Reference { name: call.name.clone(), uid: uid.to_owned() },
        warnafter: None,
    };
    bind(call, &request["spec"]["boundObjectRef"], &mut bound)?;
    let issued = now.as_second();
    let mut good_for = lifetime;
    if bound.pod.is_some() && lifetime == WARN_ONLY && audiences.iter().all(|a| a == ISSUER) {
        bound.warnafter = Some(issued + lifetime);
        good_for = EXTENDED;
    }
    let claims = Claims {
        aud: audiences,
        exp: issued + good_for,
        iat: issued,
        iss: ISSUER.into(),
        jti: call.core.environment.uid(),
        bound,
        nbf: issued,
        sub: account_user(&call.namespace, &call.name),
    };
    let token = call.core.tokens.key.sign(&claims).map_err(ApiError::internal)?;
    let until = now.saturating_add(SignedDuration::from_secs(lifetime)).unwrap_or(now);
    object::ensure(&mut request)
        .insert("status".into(), json!({"token": token, "expirationTimestamp": seconds(until)}));
    Ok(json_response(StatusCode::CREATED, Body::whole(request.to_string())))
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}

/// Binds a token to the referenced object.
fn bind(call: &Call, reference: &Value, bound: &mut Bound) -> ApiResult<()> {
    if !reference.is_object() {
        return Ok(());
    }
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    let (name, kind) = (text("name"), text("kind"));
    let (group, version) = split_api_version(text("apiVersion"));
    let (plural, namespace) = match (group, kind) {
        ("", "Pod") => ("pods", call.namespace.as_str()),
        ("", "Secret") => ("secrets", call.namespace.as_str()),
        ("", "Node") => ("nodes", ""),
        _ => {
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(why));
        }
    };
    let get = |plural: &str, namespace: &str, name: &str| {
        call.core.store.get(plural, &object::key(namespace, name)).map(|entry| entry.value())
    };
    let Some(found) = get(plural, namespace, name) else {
        let message = format!("{plural} {} not found", steersman_api::status::quote(name));
        return Err(ApiError::new(StatusCode::NOT_FOUND, Reason::NotFound, message).about("", plural, name));
    };
    let refer =
        |object: &Value| Reference { name: object::name(object).into(), uid: object::uid(object).into() };
    match kind {
        "Pod" => {
            if object::text(&found, &["spec", "serviceAccountName"]).unwrap_or_default() != call.name {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                    steersman_api::status::quote(&call.name)
                )));
            }
            let node = object::text(&found, &["spec", "nodeName"]).unwrap_or_default();
            if !node.is_empty() {
                let known = get("nodes", "", node).map(|node| refer(&node));
                bound.node = Some(known.unwrap_or(Reference { name: node.into(), uid: String::new() }));
            }
            bound.pod = Some(refer(&found));
        }
        "Secret" => bound.secret = Some(refer(&found)),
        _ => bound.node = Some(refer(&found)),
    }
    let given = text("uid");
    if !given.is_empty() && given != object::uid(&found) {
        return Err(conflict(
            "",
            kind,
            name,
            &format!(
                "the UID in the bound object reference ({given}) does not match the UID in record. The object might have been deleted and then recreated"
            ),
        ));
    }
    Ok(())
}

fn conflict(group: &str, kind: &str, name: &str, why: &str) -> ApiError {
    let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    let name_text = steersman_api::status::quote(name);
    let message = format!("Operation cannot be fulfilled on {qualified} {name_text}: {why}");
    ApiError::new(StatusCode::CONFLICT, Reason::Conflict, message).about(group, kind, name)
}
