//! The tower service: one request in, one answer out.

use std::{
    collections::HashSet,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use serde_json::Value;
use steersman_api::{
    http::{self as wire, Body, FieldValidation, Options, Route, Target, json_response, text_response},
    names,
    selector::FieldSelector,
    status::{ApiError, ApiResult, Reason},
};

use crate::{
    auth::{self, Attributes, User},
    call::Call,
    catalog::{Catalog, Resource},
    connect,
    core::Core,
    handlers, system,
};

/// The API server as a tower service, in the shape that `kube::Client::new` and hyper take.
#[derive(Debug, Clone)]
pub struct Service {
    core: Arc<Core>,
}

impl Service {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }
}

impl<B> tower_service::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let core = Arc::clone(&self.core);
        Box::pin(async move { Ok(answer(core, request).await) })
    }
}

async fn answer<B>(core: Arc<Core>, request: Request<B>) -> Response<Body>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let (head, mut yaml) = (parts.method == Method::HEAD, wire::wants_yaml(&parts.headers));
    let mut response =
        handle(core, parts, body, &mut yaml).await.unwrap_or_else(|error| error_response(&error));
    if yaml {
        response = to_yaml(response);
    }
    if head {
        *response.body_mut() = Body::whole(Bytes::new());
    }
    response
}

/// An answer of JSON as YAML; other answers stay what they are.
fn to_yaml(response: Response<Body>) -> Response<Body> {
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !is_json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = match body.into_whole() {
        Ok(bytes) => bytes,
        Err(stream) => return Response::from_parts(parts, stream),
    };
    let text = serde_json::from_slice::<Value>(&bytes).ok().and_then(|v| steersman_yaml::to_string(&v).ok());
    match text {
        Some(text) => {
            let kind = HeaderValue::from_static("application/yaml");
            parts.headers.insert(header::CONTENT_TYPE, kind);
            Response::from_parts(parts, Body::whole(text))
        }
        None => Response::from_parts(parts, Body::whole(bytes)),
    }
}

/// A refusal as an answer.
pub(crate) fn error_response(error: &ApiError) -> Response<Body> {
    let mut response = json_response(error.code, Body::whole(error.to_value().to_string()));
    if let Some(wait) = error.retry_after_seconds
        && matches!(error.code.as_u16(), 429 | 503 | 504)
    {
        response.headers_mut().insert(header::RETRY_AFTER, wait.into());
    }
    response
}

/// Answers a request; `yaml` says whether the answer is to be YAML, as far as that is known beforehand.
async fn handle<B>(core: Arc<Core>, parts: Parts, body: B, yaml: &mut bool) -> ApiResult<Response<Body>>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let user = auth::authenticate(&core, &parts)?;
    let path = parts.uri.path();
    match Route::parse(path) {
        Route::Resource(target) => resource(core, user, target, parts, body, yaml).await,
        route => {
            let verb = parts.method.as_str().to_lowercase();
            admit(&core, user, &parts, &Attributes { verb: &verb, path, ..Attributes::default() })?;
            Ok(system::answer(&core, &route, &parts))
        }
    }
}

/// As whom a request acts, if they may.
fn admit(core: &Core, user: User, parts: &Parts, attributes: &Attributes<'_>) -> ApiResult<User> {
    let user = auth::impersonate(core, user, &parts.headers, attributes)?;
    auth::authorize(core, &user, attributes)?;
    Ok(user)
}

/// The name that a request to a collection is about nevertheless: the one that its field selector requires.
fn selected_name(verb: &str, options: &Options) -> Option<String> {
    if options.field_selector.is_empty() || !matches!(verb, "list" | "watch") {
        return None;
    }
    let selector = FieldSelector::parse(&options.field_selector).ok()?;
    let name = selector.exact_name()?;
    names::check(names::NameRule::PathSegment, name, false).is_empty().then(|| name.to_owned())
}

/// Whether a path can be one of the resource's. Rights were asked for as the path says, so a path that puts a resource where it
/// is not must not reach it: `namespaces/mine/namespaces/yours` is granted by rights within `mine`.
fn leads_somewhere(target: &Target, resource: &Resource) -> bool {
    let place =
        if target.namespaced { resource.namespaced } else { !resource.namespaced || target.name.is_empty() };
    // Only proxies have something behind the part, and parts are not watched.
    let part = (target.rest.is_empty() || target.subresource == "proxy")
        && (target.subresource.is_empty() || !target.watch);
    place && part
}

/// What a request does to a resource.
fn verb(method: &Method, target: &Target, options: &Options) -> &'static str {
    // The old form of paths names the verb itself, whatever the method; one object is watched by it only.
    if target.watch {
        return "watch";
    }
    match (method.as_str(), target.name.is_empty()) {
        ("GET" | "HEAD", true) if options.watch => "watch",
        ("GET" | "HEAD", true) => "list",
        ("GET" | "HEAD", false) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "deletecollection",
        ("DELETE", false) => "delete",
        _ => "",
    }
}

/// Whether a built-in resource has a route for a method: one per verb, for the collection or for an object of it.
fn has_route(method: &Method, verb: &str, target: &Target, resource: &Resource) -> bool {
    let collection = target.name.is_empty();
    let everywhere = resource.namespaced && target.namespace.is_empty();
    let fits = match verb {
        "create" => (collection || !target.subresource.is_empty()) && !everywhere,
        "update" | "patch" => !collection,
        "deletecollection" => !everywhere,
        "watch" => method == Method::GET,
        _ => true,
    };
    fits && method != Method::HEAD
}

async fn resource<B>(
    core: Arc<Core>,
    user: User,
    target: Target,
    parts: Parts,
    body: B,
    yaml: &mut bool,
) -> ApiResult<Response<Body>>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let options = Options::parse(parts.uri.query().unwrap_or_default())?;
    let verb = verb(&parts.method, &target, &options);
    let selected = selected_name(verb, &options);
    let user = admit(
        &core,
        user,
        &parts,
        &Attributes {
            verb,
            group: &target.group,
            version: &target.version,
            resource: &target.plural,
            subresource: &target.subresource,
            namespace: &target.namespace,
            name: selected.as_deref().unwrap_or(&target.name),
            path: parts.uri.path(),
        },
    )?;
    let catalog = core.catalog();
    let nowhere = || {
        // Built-in groups answer for everything below them; other paths lead nowhere at all.
        if Catalog::is_builtin_group(&target.group) { error_response(&unknown()) } else { not_found() }
    };
    let Some(found) = catalog.find(&target.group, &target.version, &target.plural) else {
        return Ok(nowhere());
    };
    let found = Arc::clone(found);
    if !leads_somewhere(&target, &found) {
        return Ok(nowhere());
    }
    let verbs = match target.subresource.as_str() {
        // What is only ever posted has no objects.
        "" if !target.name.is_empty() && found.verbs.iter().all(|v| v == "create") => return Ok(nowhere()),
        "" => &found.verbs,
        name => match found.subresource(name) {
            Some(sub) => &sub.verbs,
            // Custom resources look for the object before they look for the part.
            None if found.custom => return Err(ApiError::not_found(&found, &target.name)),
            None => return Ok(nowhere()),
        },
    };
    let offered = verbs.iter().any(|v| v == verb);
    if found.custom {
        // One handler serves all paths of a custom resource and goes by the verb alone: HEAD reads, and a POST to a name creates
        // the object in the body. Writes across namespaces have no route.
        if found.namespaced && target.namespace.is_empty() && !matches!(verb, "list" | "watch") {
            return Ok(not_found());
        }
        if !offered || (verb == "watch" && parts.method != Method::GET) {
            return Err(ApiError::method_not_supported(&found.group, &found.plural, verb));
        }
        if target.name.is_empty() {
            handlers::check_named(verb, wire::media_type(&parts.headers))?;
        }
    } else if !offered || !has_route(&parts.method, verb, &target, &found) {
        return Err(ApiError::method_not_allowed());
    }
    let output;
    (output, *yaml) = wire::negotiate(&parts.headers)?;
    let user_agent = parts.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let creates_whole = verb == "create" && target.subresource.is_empty();
    let mut call = Call {
        namespace: target.namespace.clone(),
        name: if creates_whole { String::new() } else { target.name.clone() },
        subresource: Some(target.subresource.clone()).filter(|s| !s.is_empty()),
        user,
        output,
        user_agent: user_agent.to_owned(),
        dry_run: false,
        field_validation: FieldValidation::default(),
        complaints: Vec::new(),
        named_here: false,
        of_many: verb == "deletecollection",
        emptied: Vec::new(),
        reads_options: verb.starts_with("delete"),
        admitted: false,
        warnings: found.deprecation().map(str::to_owned).into_iter().collect(),
        options_object: Value::Null,
        core,
        resource: found,
        options,
    };
    if !matches!(verb, "get" | "list" | "watch") {
        handlers::check_write_options(&mut call, verb)?;
    }
    if connect::is_connection(call.subresource_name()) {
        return connect::connect(&mut call, verb, &parts, &target.rest).await;
    }
    let payload =
        if matches!(verb, "get" | "list" | "watch") { Bytes::new() } else { wire::collect(body).await? };
    let mut response = handlers::dispatch(&mut call, verb, wire::media_type(&parts.headers), payload)
        .await
        .unwrap_or_else(|error| error_response(&error));
    for value in warning_headers(&call.warnings) {
        response.headers_mut().append(header::WARNING, value);
    }
    Ok(response)
}

/// All warnings of an answer together have so many characters; if they would have more, each is cut.
const WARNINGS_LIMIT: usize = 4 * 1024;
/// What is left of a warning that is cut.
const WARNING_LIMIT: usize = 256;

/// The headers for warnings, each said once, and as many as there is room for.
fn warning_headers(warnings: &[String]) -> Vec<HeaderValue> {
    let mut heard = HashSet::new();
    let mut fresh = warnings.iter().filter(|text| !text.is_empty() && heard.insert(text.as_str()));
    let (mut whole, mut length) = (Vec::new(), 0);
    for text in fresh.by_ref() {
        let header = warning_header(text);
        length += header.as_ref().map_or(0, |_| text.chars().count());
        whole.push((text, header));
        if length > WARNINGS_LIMIT {
            break;
        }
    }
    if length <= WARNINGS_LIMIT {
        return whole.into_iter().filter_map(|(_, header)| header).collect();
    }
    // Those that were found before it was known that there are too many are all told.
    let told = whole.len();
    let mut headers = Vec::new();
    let mut length = 0;
    for (index, text) in whole.into_iter().map(|(text, _)| text).chain(fresh).enumerate() {
        if index >= told && length >= WARNINGS_LIMIT {
            break;
        }
        let end = text.char_indices().nth(WARNING_LIMIT).map_or(text.len(), |(end, _)| end);
        let text = &text[..end];
        if let Some(header) = warning_header(text) {
            length += text.chars().count();
            headers.push(header);
        }
    }
    headers
}

fn warning_header(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("299 - {}", steersman_api::status::quote(text))).ok()
}

/// The plain answer for paths that lead nowhere.
pub(crate) fn not_found() -> Response<Body> {
    text_response(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// The answer of built-in groups for what they do not have.
pub(crate) fn unknown() -> ApiError {
    let message = "the server could not find the requested resource";
    ApiError::new(StatusCode::NOT_FOUND, Reason::NotFound, message)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tower_service::Service as _;

    use super::*;
    use crate::Server;

    /// The media type and the text of an answer.
    async fn ask(server: &Server, request: Request<String>) -> (String, String) {
        let answer = server.service().call(request).await.unwrap();
        let media = answer.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (media, String::from_utf8_lossy(&bytes).into_owned())
    }

    #[tokio::test]
    async fn answers_are_written_as_the_form_that_was_chosen() {
        let server = Server::default();
        for (accept, expected) in [
            ("application/yaml;as=Unknown, application/json", "application/json"),
            ("application/json;as=Unknown, application/yaml", "application/yaml"),
        ] {
            let request = Request::builder().uri("/api/v1/namespaces/default").header(header::ACCEPT, accept);
            let (media, text) = ask(&server, request.body(String::new()).unwrap()).await;
            assert_eq!(media, expected, "{text}");
        }
    }

    #[tokio::test]
    async fn refusals_quote_what_a_patch_makes() {
        let server = Server::default();
        let path = "/api/v1/namespaces/default";
        for (media, expected) in [
            (
                "merge-patch+json",
                r#"Invalid value: \"{\\\"apiVersion\\\":\\\"v1\\\",\\\"kind\\\":\\\"Namespace\\\""#,
            ),
            ("strategic-merge-patch+json", r#"Invalid value: \"map[kind: odd:1]\""#),
        ] {
            let request = Request::builder()
                .method("PATCH")
                .uri(format!("{path}?fieldValidation=Strict"))
                .header(header::CONTENT_TYPE, format!("application/{media}"));
            let (_, text) = ask(&server, request.body(r#"{"kind":"","odd":1}"#.into()).unwrap()).await;
            assert!(text.contains(expected), "{text}");
            assert!(text.contains("strict decoding error: unknown field"), "{text}");
        }
    }

    #[test]
    fn warnings_are_said_once_and_cut_if_they_are_too_many() {
        let said = |warnings: &[String]| -> Vec<usize> {
            // Without `299 - ""`.
            warning_headers(warnings).iter().map(|header| header.len() - 8).collect()
        };
        let long = |start: char| format!("{start}{}", "x".repeat(2047));
        assert_eq!(said(&["a".into(), String::new(), "a".into(), "b".into()]), [1, 1]);
        assert_eq!(said(&[long('a'), long('b')]), [2048, 2048]);
        assert_eq!(said(&[long('a'), long('b'), "c".into(), "c".into()]), [256, 256, 1]);
        let many: Vec<String> = (0..300_000).map(|index| format!("unknown field \"{index:08}\"")).collect();
        let headers = warning_headers(&many);
        assert_eq!(headers.len(), 4096 / 24 + 1);
        assert_eq!(headers[170], r#"299 - "unknown field \"00000170\"""#);
    }
}
