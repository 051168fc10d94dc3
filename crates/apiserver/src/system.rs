//! Non-resource paths: health, version, discovery, OpenAPI.

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
    health, openapi,
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

/// Returns a document for token verification (OIDC), cacheable for an hour.
fn key_response(document: String, media: &'static str) -> Response<Body> {
    let mut response = json_response(StatusCode::OK, Body::whole(document));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    response
}

fn other(core: &Core, path: &str, parts: &Parts) -> Response<Body> {
    if let Some(answer) = health::answer(core, path, parts.uri.query().unwrap_or_default()) {
        return answer;
    }
    match path {
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
            json_response(StatusCode::OK, Body::whole(json!({"paths": paths(&core.catalog())}).to_string()))
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
                let lasting = match by_hash(core, name, parts) {
                    Some(Err(redirect)) => return redirect,
                    other => other.is_some(),
                };
                match openapi::document(&core.catalog(), name, form) {
                    Some(document) if lasting => immutable(tagged(document, form, parts), core),
                    Some(document) => tagged(document, form, parts),
                    None if name.starts_with("v3/") => nothing(),
                    None => not_found(),
                }
            }
            None => not_found(),
        },
    }
}

/// Returns the paths that the root lists.
fn paths(catalog: &Catalog) -> Vec<String> {
    let fixed = [
        "/.well-known/openid-configuration",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/flagz",
        "/metrics",
        "/metrics/slis",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/openid/v1/jwks",
        "/statusz",
        "/version",
    ];
    let mut paths: Vec<String> = fixed.map(str::to_owned).to_vec();
    for (group, served) in catalog.groups().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(served.versions.iter().map(|version| format!("/apis/{group}/{}", version.name)));
    }
    for endpoint in ["healthz", "livez", "readyz"] {
        paths.push(format!("/{endpoint}"));
        paths.extend(health::checks(endpoint).iter().map(|check| format!("/{endpoint}/{check}")));
    }
    paths.sort();
    paths
}

/// Handles a request for a document by its hash.
/// An outdated hash is redirected to the current document.
fn by_hash(core: &Core, name: &str, parts: &Parts) -> Option<Result<(), Response<Body>>> {
    let path = name.strip_prefix("v3/")?.trim_end_matches('/');
    let query = parts.uri.query().unwrap_or_default();
    let (_, given) = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "hash")?;
    let present = openapi::hash(&core.catalog(), path)?;
    if given == present {
        return Some(Ok(()));
    }
    let place = format!("/openapi/v3/{path}?hash={present}");
    let text = format!("<a href=\"{place}\">Moved Permanently</a>.\n\n");
    let mut response = text_response(StatusCode::MOVED_PERMANENTLY, text);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::LOCATION, HeaderValue::from_str(&place).ok()?);
    Some(Err(response))
}

/// Marks a document as cacheable for a year: a changed document has another hash.
fn immutable(mut response: Response<Body>, core: &Core) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    let year = jiff::SignedDuration::from_hours(365 * 24);
    let expires = core.environment.now().checked_add(year).ok();
    let expires = expires.map(|at| at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
    if let Some(expires) = expires.and_then(|text| HeaderValue::from_str(&text).ok()) {
        headers.insert(header::EXPIRES, expires);
    }
    response
}

/// Returns an empty 404 response for an unknown group version of OpenAPI.
fn nothing() -> Response<Body> {
    let mut response = text_response(StatusCode::NOT_FOUND, "");
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

/// Returns the requested encoding of an OpenAPI document.
fn openapi_form(name: &str, parts: &Parts) -> openapi::Form {
    match name.trim_matches('/') {
        "v2" if wants_openapi_protobuf(&parts.headers) => openapi::Form::Protobuf,
        _ => openapi::Form::Json,
    }
}

/// Returns a document, or 304 if the client already has it.
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
