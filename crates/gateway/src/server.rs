//! Serves a request: authentication, rate limits, routing and the response's headers.

use std::sync::Arc;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts,
};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value, json};
use steersman_listener::{Peer, RequestBody};

use crate::{
    Shared, access, actions,
    answer::{self, Body},
    audit, embed, history,
    identity::Via,
    instances, logs, openapi, operator, overview, portal,
    problem::{Problem, Result},
    request::{Part, Query, RequestContext, Route, embedded_action},
    session::{self, Unauthenticated},
    stream, tree,
};

/// The largest request body, the same as kube-apiserver's.
const LARGEST_BODY: usize = 3 << 20;

/// Serves a request.
pub(crate) async fn answer(shared: Arc<Shared>, request: Request<RequestBody>) -> Response<Body> {
    let id = request_id();
    let (parts, body) = request.into_parts();
    let origin = parts.headers.get(header::ORIGIN).cloned();
    let path = parts.uri.path();
    let is_embedded = embedded_action(path).is_some();
    let is_api = is_embedded || Route::parse(path).is_some();
    let answered = route(&shared, parts, body, &id).await;
    let mut response = answered.unwrap_or_else(|problem| problem.response(&id));
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    // The embedded page has its own policy on which sites may frame it.
    if !is_embedded {
        set(header::X_FRAME_OPTIONS, "DENY");
    }
    if is_api {
        set(header::CACHE_CONTROL, "no-store");
    }
    if let Some(origin) = origin.filter(|origin| is_allowed(&shared, origin)) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        // An embedded button acts with the visitor's own session, and needs its CSRF token like any page.
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        let exposed = "ETag, Location, X-Request-Id, Retry-After, Idempotency-Replayed";
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(exposed));
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert("x-request-id", id);
    }
    response
}

fn request_id() -> String {
    let mut bytes = [0_u8; 8];
    // The ID need not be random: should the call fail, zeros will do.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_allowed(shared: &Shared, origin: &HeaderValue) -> bool {
    let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
    shared.origins.contains(&origin)
}

/// Rejects requests from pages of other origins.
fn check_origin(shared: &Shared, parts: &Parts) -> Result<()> {
    let Some(origin) = parts.headers.get(header::ORIGIN) else { return Ok(()) };
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
    let own = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    if own.is_some_and(|own| host.is_some_and(|host| own.eq_ignore_ascii_case(host)))
        || is_allowed(shared, origin)
    {
        return Ok(());
    }
    let detail = "requests from this origin are not allowed; --allow-origin allows them";
    Err(Problem::new(StatusCode::FORBIDDEN, "CrossOrigin", detail))
}

async fn route(shared: &Arc<Shared>, parts: Parts, body: RequestBody, id: &str) -> Result<Response<Body>> {
    let remote = parts.extensions.get::<Peer>().map(|peer| peer.0.ip().to_string()).unwrap_or_default();
    let path = parts.uri.path().to_owned();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let Some(route) = Route::parse(&path) else {
        return page(&Unauthenticated { shared, parts: &parts, query: &query, remote: &remote, id }, &path)
            .await;
    };
    let route = route?;
    check_origin(shared, &parts)?;
    if parts.method == Method::OPTIONS {
        return Ok(preflight(&route));
    }
    if !route.methods().contains(&parts.method) {
        let allowed: Vec<&str> = route.methods().iter().map(Method::as_str).collect();
        let allowed = allowed.join(", ");
        let detail = format!("method {} is not allowed; use {allowed}", parts.method);
        let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", detail);
        let mut response = problem.response(id);
        if let Ok(allowed) = HeaderValue::from_str(&allowed) {
            response.headers_mut().insert(header::ALLOW, allowed);
        }
        return Ok(response);
    }
    let request = Unauthenticated { shared, parts: &parts, query: &query, remote: &remote, id };
    match route {
        Route::Session if parts.method == Method::GET => return request.ways(),
        Route::Session if parts.method == Method::POST => return request.by_token(body).await,
        Route::Oidc => return request.begin_oidc().await,
        Route::OidcCallback => return request.finish_oidc().await,
        _ => {}
    }
    let caller = match shared.identities.caller(&parts.method, &parts.headers, &shared.upstream).await {
        Ok(caller) => caller,
        Err(problem) => {
            // Failed sign-ins are limited by address, authenticated callers by user.
            shared.limits.request(&format!("address {remote}"))?;
            return Err(problem);
        }
    };
    shared.limits.request(&format!("user {}", caller.user.name))?;
    let body = read(&parts.headers, body).await?;
    let ctx = RequestContext {
        shared: Arc::clone(shared),
        caller,
        method: parts.method,
        path,
        headers: parts.headers,
        query,
        body,
        remote,
        id: id.to_owned(),
    };
    let head = ctx.method == Method::HEAD;
    let response = match ctx.header("idempotency-key").map(str::to_owned) {
        Some(key) if !matches!(ctx.method, Method::GET | Method::HEAD) => {
            let (replays, request) = (Arc::clone(shared), crate::idempotency::Request::of(&ctx, &key)?);
            replays.replays.once(request, dispatch(ctx, route)).await
        }
        _ => dispatch(ctx, route).await,
    }?;
    Ok(if head { response.map(|_| answer::empty(StatusCode::OK).into_body()) } else { response })
}

/// Responds to a CORS preflight; the allowed origin is in the headers of every response.
fn preflight(route: &Route) -> Response<Body> {
    let mut response = answer::empty(StatusCode::NO_CONTENT);
    let methods: Vec<&str> = route.methods().iter().map(Method::as_str).collect();
    let headers = response.headers_mut();
    if let Ok(methods) = HeaderValue::from_str(&methods.join(", ")) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    let allowed =
        "Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, Last-Event-ID, X-CSRF-Token";
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

pub(crate) async fn read(headers: &HeaderMap, body: RequestBody) -> Result<bytes::Bytes> {
    let too_large = || {
        let detail = format!("the body is larger than {LARGEST_BODY} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLarge", detail)
    };
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > LARGEST_BODY) {
        return Err(too_large());
    }
    match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "Timeout",
            "the request body was not received in time",
        )),
    }
}

/// Serves everything outside the API: the portal, pages with a button, and `/healthz`.
async fn page(request: &Unauthenticated<'_>, path: &str) -> Result<Response<Body>> {
    let Unauthenticated { shared, parts, query, remote, .. } = request;
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "pages support only GET and HEAD",
        ));
    }
    if path == "/healthz" {
        return Ok(answer::bytes(StatusCode::OK, "text/plain; charset=utf-8", "ok\n"));
    }
    if let Some(action) = embedded_action(path) {
        shared.limits.request(&format!("address {remote}"))?;
        return embed::page(shared, &action, query);
    }
    if let Some(code) = query.get("once").filter(|_| path == "/") {
        return request.by_link(code).await;
    }
    portal::serve(path, &parts.headers)
        .unwrap_or_else(|| Err(Problem::not_found(format!("{path} not found"))))
}

/// `GET /v1/me`.
pub(crate) async fn me(ctx: &RequestContext, status: StatusCode) -> Result<Response<Body>> {
    ctx.query.allow(&[])?;
    let version = ctx.caller.cluster.get("/version").await.map(|version| version["gitVersion"].clone());
    let mut document = json!({
        "username": ctx.caller.user.name, "groups": ctx.caller.user.groups,
        "cluster": {"name": ctx.shared.cluster_name, "version": version.unwrap_or_default()},
    });
    match &ctx.caller.via {
        Via::Bearer => document["via"] = "bearer".into(),
        Via::Session { csrf, expires_at, .. } => {
            document["via"] = "session".into();
            document["csrfToken"] = csrf.as_str().into();
            document["expiresAt"] = expires_at.to_string().into();
        }
    }
    Ok(answer::json(status, &document))
}

async fn dispatch(ctx: RequestContext, route: Route) -> Result<Response<Body>> {
    match route {
        Route::Me => me(&ctx, StatusCode::OK).await,
        Route::Session => Ok(session::end(&ctx)),
        // Served before authentication.
        Route::Oidc | Route::OidcCallback => Err(Problem::not_found("no such endpoint")),
        Route::Overview => overview::get(&ctx).await,
        Route::Audit => audit::list(&ctx).await,
        Route::Operator => operator::get(&ctx).await,
        Route::OpenApi => openapi::get(&ctx).await,
        Route::Kinds => {
            ctx.query.allow(&["builtin"])?;
            let builtin = ctx.query.flag("builtin")?;
            let catalog = ctx.shared.kinds.now().await?;
            let shown = catalog.iter().filter(|kind| (builtin || kind.custom) && kind.has_verb("list"));
            let items: Vec<_> = shown.map(|kind| kind.document(false)).collect();
            Ok(answer::json(StatusCode::OK, &json!({"items": items})))
        }
        Route::Kind(kind) => {
            ctx.query.allow(&["version"])?;
            let kind = ctx.kind(&kind).await?;
            let mut document = kind.document(true);
            let is_sample =
                |object: &&Value| object["apiVersion"] == kind.api_version() && object["kind"] == kind.kind;
            document["sample"] = ctx.shared.samples.iter().find(is_sample).cloned().unwrap_or_default();
            Ok(answer::json(StatusCode::OK, &document))
        }
        Route::Access(kind) => {
            let kind = ctx.kind(&kind).await?;
            access::of_kind(&ctx, &kind).await
        }
        Route::Instances { kind, namespace } => {
            let kind = ctx.kind(&kind).await?;
            let namespace = namespace.as_deref();
            if !kind.namespaced && namespace.is_some() {
                return Err(Problem::not_found(format!("{} are cluster-scoped", kind.plural)));
            }
            if ctx.method == Method::POST {
                return instances::create(&ctx, &kind, namespace).await;
            }
            ctx.query.allow(instances::SELECTION)?;
            if ctx.wants_stream() {
                return stream::instances(ctx, kind, namespace, None).await;
            }
            instances::get_list(&ctx, &kind, namespace).await
        }
        Route::Instance { kind, namespace, name, part } => instance(ctx, &kind, namespace, name, part).await,
    }
}

async fn instance(
    ctx: RequestContext,
    kind: &str,
    namespace: Option<String>,
    name: String,
    part: Part,
) -> Result<Response<Body>> {
    let kind = ctx.kind(kind).await?;
    if kind.namespaced != namespace.is_some() {
        let detail = if kind.namespaced {
            format!("{} are namespaced: …/namespaces/{{namespace}}/instances/{name}", kind.plural)
        } else {
            format!("{} are cluster-scoped", kind.plural)
        };
        return Err(Problem::not_found(detail));
    }
    let place = namespace.as_deref();
    match part {
        Part::Whole if matches!(ctx.method, Method::GET | Method::HEAD) => {
            if ctx.wants_stream() {
                ctx.query.allow(instances::SELECTION)?;
                return stream::instances(ctx, kind, place, Some(&name)).await;
            }
            instances::get_one(&ctx, &kind, place, &name).await
        }
        Part::Whole => instances::write_one(&ctx, &kind, place, &name).await,
        Part::Status => instances::status(&ctx, &kind, place, &name).await,
        Part::Events => tree::events(&ctx, &kind, place, &name).await,
        Part::Tree if ctx.wants_stream() => {
            ctx.query.allow(&["version", "lastEventId"])?;
            stream::tree(ctx, kind, namespace, name).await
        }
        Part::Tree => tree::get(&ctx, &kind, place, &name).await,
        Part::Logs => logs::get(ctx, &kind, place, &name).await,
        Part::Actions => actions::list_of(&ctx, &kind, place, &name).await,
        Part::Action(action) => actions::take(&ctx, &kind, place, &name, &action).await,
        Part::History => history::list(&ctx, &kind, place, &name).await,
        Part::Revision(revision) => history::one(&ctx, &kind, place, &name, &revision).await,
    }
}
