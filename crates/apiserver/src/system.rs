//! Paths beside resources: health, version, discovery, OpenAPI.

use http::{HeaderValue, Response, StatusCode, header, request::Parts};
use serde_json::json;

use crate::{
    auth::token::ISSUER,
    http::{Body, Discovery, Route, json_response, text_response, wants_discovery},
    openapi,
    server::Core,
    service::not_found,
};

/// The Kubernetes version that this server behaves like.
pub const KUBERNETES_VERSION: &str = "v1.36.3";

pub(crate) fn answer(core: &Core, route: &Route, parts: &Parts) -> Response<Body> {
    let catalog = core.catalog();
    let aggregated = wants_discovery(&parts.headers) == Discovery::V2;
    let document = match route {
        Route::CoreRoot | Route::GroupsRoot if aggregated => {
            let core_group = matches!(route, Route::CoreRoot);
            let mut response = json_response(StatusCode::OK, Body::whole(catalog.aggregated(core_group)));
            let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
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
        Route::GroupVersion(group, version) => catalog.resource_list(group, version),
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
        "/healthz" | "/livez" | "/readyz" => text_response(StatusCode::OK, "ok"),
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
        path => match path.strip_prefix("/openapi/").and_then(|p| openapi::document(&core.catalog(), p)) {
            Some(document) => tagged(document, parts),
            None => not_found(),
        },
    }
}

/// A document, or the news that the client has it already.
fn tagged(document: bytes::Bytes, parts: &Parts) -> Response<Body> {
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
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
