//! The tower service: one request in, one answer out.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use serde_json::Value;

use crate::{
    auth::{self, Attributes, User},
    call::Call,
    catalog::Catalog,
    connect, handlers,
    http::{self as wire, Body, FieldValidation, Options, Route, Target, json_response, text_response},
    names,
    selector::FieldSelector,
    server::Core,
    status::{ApiError, ApiResult},
    system,
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
    let (head, yaml) = (parts.method == Method::HEAD, wire::wants_yaml(&parts.headers));
    let mut response = handle(core, parts, body).await.unwrap_or_else(|error| error_response(&error));
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

async fn handle<B>(core: Arc<Core>, parts: Parts, body: B) -> ApiResult<Response<Body>>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let user = auth::authenticate(&core, &parts)?;
    let path = parts.uri.path();
    match Route::parse(path) {
        Route::Resource(target) => resource(core, user, target, parts, body).await,
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

/// What a request does to a resource.
fn verb(method: &Method, target: &Target, options: &Options) -> &'static str {
    // One object is watched by the old form of paths only.
    let watch = target.watch || (options.watch && target.name.is_empty());
    match (method.as_str(), target.name.is_empty()) {
        ("GET" | "HEAD", _) if watch && target.subresource.is_empty() => "watch",
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

async fn resource<B>(
    core: Arc<Core>,
    user: User,
    target: Target,
    parts: Parts,
    body: B,
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
    // A namespaced path of a resource without namespaces leads nowhere, and the other way round.
    if !target.namespace.is_empty() && !found.namespaced && found.plural != "namespaces" {
        return Ok(nowhere());
    }
    if found.namespaced && target.namespace.is_empty() && !target.name.is_empty() {
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
    let collection = target.name.is_empty();
    let everywhere = found.namespaced && target.namespace.is_empty();
    let fits = match verb {
        "create" => (collection || !target.subresource.is_empty()) && !everywhere,
        "update" | "patch" => !collection,
        "deletecollection" => !everywhere,
        _ => true,
    };
    if !fits || parts.method == Method::HEAD || !verbs.iter().any(|v| v == verb) {
        return Err(ApiError::method_not_allowed());
    }
    let output = wire::negotiate(&parts.headers)?;
    let user_agent = parts.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let mut call = Call {
        namespace: target.namespace.clone(),
        name: target.name.clone(),
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
        return connect::connect(&mut call, &parts, &target.rest).await;
    }
    let payload =
        if matches!(verb, "get" | "list" | "watch") { Bytes::new() } else { wire::collect(body).await? };
    let mut response = handlers::dispatch(&mut call, verb, wire::media_type(&parts.headers), payload)
        .await
        .unwrap_or_else(|error| error_response(&error));
    for (index, warning) in call.warnings.iter().enumerate() {
        if call.warnings.iter().take(index).any(|said| said == warning) {
            continue;
        }
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", crate::status::quote(warning))) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    Ok(response)
}

/// The plain answer for paths that lead nowhere.
pub(crate) fn not_found() -> Response<Body> {
    text_response(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// The answer of built-in groups for what they do not have.
pub(crate) fn unknown() -> ApiError {
    let message = "the server could not find the requested resource";
    ApiError::new(StatusCode::NOT_FOUND, "NotFound", message)
}
