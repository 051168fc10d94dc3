//! Paths beside resources: health, version, discovery, OpenAPI.

use http::{HeaderValue, Method, Response, StatusCode, header, request::Parts};
use serde_json::json;
use steersman_api::{
    http::{
        Body, Discovery, OPENAPI_PROTOBUF, Route, json_response, no_such_form, text_response,
        wants_discovery, wants_openapi_protobuf,
    },
    status::ApiError,
};

use crate::{
    KUBERNETES_VERSION,
    auth::token::ISSUER,
    catalog::Catalog,
    core::Core,
    openapi,
    render::{error as error_response, not_found, unknown},
};

pub(crate) fn answer(core: &Core, route: &Route, parts: &Parts) -> Response<Body> {
    let catalog = core.catalog();
    let form = wants_discovery(&parts.headers);
    let document = match route {
        Route::CoreRoot | Route::GroupsRoot | Route::Group(_) | Route::GroupVersion(..)
            if form == Discovery::Unknown =>
        {
            return error_response(&no_such_form());
        }
        Route::CoreRoot | Route::GroupsRoot if form == Discovery::V2 => {
            let core_group = matches!(route, Route::CoreRoot);
            let mut response = json_response(StatusCode::OK, Body::whole(catalog.aggregated(core_group)));
            let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
            response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
            return response;
        }
        Route::CoreRoot => Some(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
        })),
        Route::GroupsRoot => Some(catalog.group_list()),
        Route::Group(group) => catalog.group_document(group),
        Route::GroupVersion(group, version) => match catalog.resource_list(group, version) {
            Some(_) if Catalog::is_builtin_group(group) && parts.method != Method::GET => {
                return error_response(&ApiError::method_not_allowed());
            }
            None if Catalog::is_builtin_group(group) => return error_response(&unknown()),
            document => document,
        },
        Route::Other(path) => return other(core, path, parts),
        Route::Resource(_) => None,
    };
    match document {
        Some(document) => json_response(StatusCode::OK, Body::whole(document.to_string())),
        None => not_found(),
    }
}

/// What others need to check tokens, which they may keep for an hour.
fn key_response(document: String, media: &'static str) -> Response<Body> {
    let mut response = json_response(StatusCode::OK, Body::whole(document));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    response
}

fn other(core: &Core, path: &str, parts: &Parts) -> Response<Body> {
    match path {
        path if is_health(path) => health(core, path),
        "/version" => json_response(
            StatusCode::OK,
            Body::whole(
                json!({
                    "major": "1",
                    "minor": "36",
                    "emulationMajor": "1",
                    "emulationMinor": "36",
                    "minCompatibilityMajor": "1",
                    "minCompatibilityMinor": "35",
                    "gitVersion": KUBERNETES_VERSION,
                    "gitCommit": "",
                    "gitTreeState": "clean",
                    "buildDate": "1970-01-01T00:00:00Z",
                    "goVersion": "",
                    "compiler": "",
                    "platform": "linux/amd64",
                })
                .to_string(),
            ),
        ),
        "" => {
            let paths = [
                "/api",
                "/api/v1",
                "/apis",
                "/healthz",
                "/livez",
                "/openapi/v2",
                "/openapi/v3",
                "/readyz",
                "/version",
            ];
            json_response(StatusCode::OK, Body::whole(json!({"paths": paths}).to_string()))
        }
        "/openid/v1/jwks" => key_response(core.tokens.key.public().to_string(), "application/jwk-set+json"),
        "/.well-known/openid-configuration" => {
            let document = json!({
                "issuer": ISSUER,
                "jwks_uri": format!("{ISSUER}/openid/v1/jwks"),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            });
            key_response(document.to_string(), "application/json")
        }
        path => match path.strip_prefix("/openapi/") {
            Some(name) => {
                let form = openapi_form(name, parts);
                match openapi::document(&core.catalog(), name, form) {
                    Some(document) => tagged(document, form, parts),
                    None if name.starts_with("v3/") => nothing(),
                    None => not_found(),
                }
            }
            None => not_found(),
        },
    }
}

/// Whether a path asks for the server's health, or for one of the checks that make it up.
fn is_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz") || is_check(path)
}

/// Fails while writes can't be kept, except for liveness: a restart would not help.
fn health(core: &Core, path: &str) -> Response<Body> {
    let (kind, check) =
        path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_start_matches('/'), ""));
    let concerned = kind != "livez" && matches!(check, "" | "etcd" | "etcd-readiness");
    match core.store.failure().filter(|_| concerned) {
        Some(why) => {
            let text = format!(
                "[-]etcd failed: read-only, because writes can't be kept: {why}\n{kind} check failed\n"
            );
            text_response(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
        None => text_response(StatusCode::OK, "ok"),
    }
}

/// Whether a path asks for one of the checks that make up the server's health.
fn is_check(path: &str) -> bool {
    let checks: &[&str] = match path.split('/').nth(1) {
        Some("readyz") => &["ping", "log", "etcd", "etcd-readiness", "informer-sync", "shutdown"],
        Some("healthz" | "livez") => &["ping", "log", "etcd"],
        _ => &[],
    };
    path.splitn(3, '/').nth(2).is_some_and(|check| checks.contains(&check))
}

/// 404 without a word: a group version that OpenAPI does not know.
fn nothing() -> Response<Body> {
    let mut response = text_response(StatusCode::NOT_FOUND, "");
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

/// In which form a client wants a document of OpenAPI.
fn openapi_form(name: &str, parts: &Parts) -> openapi::Form {
    match name.trim_matches('/') {
        "v2" if wants_openapi_protobuf(&parts.headers) => openapi::Form::Protobuf,
        _ => openapi::Form::Json,
    }
}

/// A document, or the news that the client has it already.
fn tagged(document: bytes::Bytes, form: openapi::Form, parts: &Parts) -> Response<Body> {
    let tag = openapi::tag(&document);
    let known =
        parts.headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if known {
        let mut response = Response::new(Body::whole(bytes::Bytes::new()));
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        json_response(StatusCode::OK, Body::whole(document))
    };
    if form == openapi::Form::Protobuf && !known {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(OPENAPI_PROTOBUF));
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
