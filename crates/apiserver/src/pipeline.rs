//! The request pipeline: authenticate, authorize, decode, default, admit, validate, store, encode.
//!
//! [`handle`] implements the first two steps for all requests, and [`create`] the others for a create; the other
//! verbs are in [`handlers`]. `fieldsV1` is packed throughout, except in admission.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode, header, request::Parts};
use serde_json::Value;
use steersman_api::{
    environment::EnvironmentExt as _,
    http::{self as wire, Body, Encoding, Options, Output, Route, Target},
    metadata, object,
    status::{ApiError, ApiResult, Reason},
};

use crate::{
    admission::{self, Attempt, Operation},
    aggregation, apply,
    auth::{self, Attributes, Unrestricted, User, rbac, review},
    call::{Call, Decoded, WriteOptions},
    catalog::{Catalog, Verb},
    commit::{self, Written},
    connect,
    core::Core,
    decode,
    flow_control::Flow,
    handlers,
    render::{self, answer, answer_value},
    route, system,
    write::{self, Mode},
};

/// What is known about a response in advance.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) encoding: Encoding,
    /// The classification of the request, once its user is known.
    pub(crate) flow: Option<Flow>,
}

/// Handles a request.
pub(crate) async fn handle<B>(
    core: Arc<Core>,
    request: Parts,
    body: B,
    outcome: &mut Outcome,
) -> ApiResult<Response<Body>>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let user = auth::authenticate(&core, &request)?;
    let path = request.uri.path();
    match Route::parse(path) {
        Route::Resource(target) => handle_resource(core, user, target, request, body, outcome).await,
        route => {
            let verb = request.method.as_str().to_lowercase();
            let asked = Attributes { verb: &verb, path, ..Attributes::default() };
            let user = authorize(&core, user, &request, &asked, &mut outcome.flow)?;
            match core.aggregator.find_route(&route) {
                Some(remote) => Ok(Box::pin(aggregation::proxy(&core, &remote, &user, request, body)).await),
                None => Ok(system::answer(&core, &route, &request)),
            }
        }
    }
}

/// Returns the effective user, if allowed to make the request. The request is classified in any case.
fn authorize(
    core: &Core,
    user: User,
    request: &Parts,
    asked: &Attributes<'_>,
    flow: &mut Option<Flow>,
) -> ApiResult<User> {
    let user = auth::impersonate(core, user, &request.headers, asked)?;
    *flow = core.flow_control.classify(&core.store, &user, asked);
    match request.extensions.get::<Unrestricted>() {
        Some(_) => auth::allow(core, &user, asked),
        None => auth::authorize(core, &user, asked)?,
    }
    Ok(user)
}

async fn handle_resource<B>(
    core: Arc<Core>,
    user: User,
    target: Target,
    request: Parts,
    body: B,
    outcome: &mut Outcome,
) -> ApiResult<Response<Body>>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let remote = core.aggregator.find(&target.group, &target.version);
    let query = request.uri.query().unwrap_or_default();
    let parsed = match request.method {
        Method::DELETE if !body.is_end_stream() => Options::parse_beside_body(query),
        _ => Options::parse(query),
    };
    let mut options = match parsed {
        // An extension server validates its own queries.
        Err(_) if remote.is_some() => Options::default(),
        options => options?,
    };
    let asked = route::verb(&request.method, &target, &options);
    let selected = route::selected_name(asked, &options);
    let attributes = Attributes {
        verb: asked.map_or("", Verb::as_str),
        group: &target.group,
        version: &target.version,
        resource: &target.plural,
        subresource: &target.subresource,
        namespace: &target.namespace,
        name: selected.as_deref().unwrap_or(&target.name),
        path: request.uri.path(),
    };
    let user = authorize(&core, user, &request, &attributes, &mut outcome.flow)?;
    if let Some(remote) = remote {
        return Ok(Box::pin(aggregation::proxy(&core, &remote, &user, request, body)).await);
    }
    let Some((resource, verb)) = route::find(&core.catalog(), &target, &request, asked)? else {
        // Built-in groups have an error for all paths below them; other paths are plain 404s.
        let is_builtin = Catalog::is_builtin_group(&target.group);
        return Ok(if is_builtin { render::error(&render::unknown()) } else { render::not_found() });
    };
    let output;
    (output, outcome.encoding) = wire::negotiate(&request.headers)?;
    if outcome.encoding == Encoding::Protobuf && resource.custom && output == Output::Object {
        // Custom kinds have no protobuf messages.
        return Err(wire::no_such_form());
    }
    options.watch |= verb == Verb::Watch;
    let write = if verb.is_read() { WriteOptions::default() } else { WriteOptions::new(verb, &options)? };
    let creates_whole = verb == Verb::Create && target.subresource.is_empty();
    let agent = request.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
    let call = Call {
        core,
        verb,
        resource,
        subresource: Some(target.subresource).filter(|name| !name.is_empty()),
        namespace: target.namespace,
        name: if creates_whole { String::new() } else { target.name },
        user,
        user_agent: agent.unwrap_or_default().to_owned(),
        options,
        write,
        output,
    };
    let mut warnings: Vec<String> = call.resource.deprecation().map(str::to_owned).into_iter().collect();
    if connect::is_connection(call.subresource_name()) {
        return Box::pin(connect::connect(&call, &request, &target.rest, &mut warnings)).await;
    }
    let payload = if verb.is_read() { Bytes::new() } else { wire::collect(body).await? };
    let media = wire::media_type(&request.headers);
    let mut response = handlers::dispatch(call, media, payload, &mut warnings)
        .await
        .unwrap_or_else(|error| render::error(&error));
    render::add_warnings(&mut response, &warnings);
    Ok(response)
}

/// Handles an authenticated and authorized create.
pub(crate) async fn create(
    call: &Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    let decoded = decode::object(call, media, body, warnings)?;
    if review::is_review(&call.resource.group, &call.resource.plural) {
        return answer_review(call, decoded);
    }
    let written = create_object(call, decoded, Mode::Create, warnings).await?;
    answer(call, written, StatusCode::CREATED).await
}

/// Answers an access or token review, which is not stored.
fn answer_review(call: &Call, review: Decoded) -> ApiResult<Response<Body>> {
    if call.output != Output::Object {
        let what =
            format!("the resource {} does not support being converted to a Table", call.resource.qualified());
        return Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, Reason::NotAcceptable, what));
    }
    answer_value(call, review::answer(call, review)?, StatusCode::CREATED)
}

/// Creates an object in the version of the request: defaulting, admission, validation and commit.
pub(crate) async fn create_object(
    call: &Call,
    decoded: Decoded,
    mode: Mode,
    warnings: &mut Vec<String>,
) -> ApiResult<Written> {
    let Decoded { mut object, emptied } = decoded;
    commit::check_definition_size(call, &object)?;
    let Name { name, is_generated } = default(call, &mut object, mode)?;
    if mode != Mode::Apply {
        warnings.extend(metadata::merge_owners(&mut object, false));
        apply::track(call, None, &mut object, &emptied).await;
    }
    let attempt =
        Attempt { call, operation: Operation::Create, name: &name, hides_name: is_generated, old: None };
    admission::mutate(attempt, &mut object, warnings).await?;
    warnings.extend(metadata::merge_owners(&mut object, true));
    let requested = if mode == Mode::Create { "" } else { name.as_str() };
    rbac::check_escalation(call, &object, None, requested, false)?;
    let mut object = validate(call, object, &emptied, warnings)?;
    // Admission may have set the name.
    let name = object::name(&object).to_owned();
    let name = name.as_str();
    let result = async {
        crate::crd::check_not_terminating(&call.core, &call.resource, name)?;
        admission::check_namespace(&call.core, &call.resource, call.scope(), name)?;
        if mode != Mode::Create {
            // As in the real server, after validation and before validating admission.
            let asked = Attributes { name, ..call.attributes(Verb::Create) };
            auth::authorize(&call.core, &call.user, &asked)?;
        }
        admission::validate(Attempt { name, hides_name: false, ..attempt }, &object, warnings).await?;
        let is_other = call.resource.custom && !call.resource.is_storage_version();
        let converted = if is_other { Some(call.to_stored(object.clone()).await?) } else { None };
        let _room = admission::reserve(&call.core, &call.resource, call.scope(), &object, None)?;
        if call.resource.custom && !is_other {
            // The client's status was dropped, including its defaults. Apply them again for readers; they are not
            // validated.
            call.resource.strategy.default(&call.resource.version, &mut object);
        }
        commit::create(call, converted.as_ref().unwrap_or(&object))
    }
    .await;
    if result.is_err() || call.write.dry_run {
        call.resource.strategy.release(&call.core.allocators, &object);
    }
    let written = result?;
    commit::settle(call, name, &written).await?;
    Ok(written)
}

/// Creates one of the server's own objects, without admission.
pub(crate) fn create_now(call: &Call, mut object: Value) -> ApiResult<Written> {
    default(call, &mut object, Mode::Create)?;
    apply::track_now(call, None, &mut object, &[]);
    let object = validate(call, object, &[], &mut Vec::new())?;
    commit::create(call, &object)
}

/// The name of a new object before admission.
struct Name {
    name: String,
    /// Whether the server generated it.
    is_generated: bool,
}

/// Sets the namespace, defaults, system fields and the name of a new object.
fn default(call: &Call, object: &mut Value, mode: Mode) -> ApiResult<Name> {
    let root = object::ensure(object);
    root.insert("apiVersion".into(), call.resource.api_version().into());
    root.insert("kind".into(), call.resource.kind.as_str().into());
    write::match_namespace(call, object)?;
    // Defaulting is part of decoding: it does not see fields that the server adds later.
    call.resource.strategy.default(&call.resource.version, object);
    let environment = &*call.core.environment;
    let metadata = object::metadata(object);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        // The grace period is kept if an update creates the object.
        if !(mode == Mode::Replace && field == "deletionGracePeriodSeconds") {
            metadata.remove(field);
        }
    }
    if metadata.get("generation").and_then(Value::as_i64) == Some(0) {
        metadata.remove("generation");
    }
    metadata.insert("creationTimestamp".into(), environment.now_string().into());
    metadata.insert("uid".into(), environment.uid().into());
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (mut name, generate) = (text("name"), text("generateName"));
    let is_generated = name.is_empty() && !generate.is_empty();
    if is_generated {
        // The suffix always fits: the base is truncated to 58 of 63 characters.
        let mut base = generate;
        while base.len() > 58 {
            base.pop();
        }
        name = format!("{base}{}", environment.name_suffix());
        metadata.insert("name".into(), name.clone().into());
    }
    write::encode_served(call, object);
    Ok(Name { name, is_generated })
}

/// Prepares and validates a new object, in the version used for validation.
fn validate(call: &Call, object: Value, emptied: &[String], warnings: &mut Vec<String>) -> ApiResult<Value> {
    let mut object = call.to_validated_version(object)?;
    let strategy = &call.resource.strategy;
    strategy.prepare_create(call.hook(emptied), &mut object)?;
    if strategy.has_generation() {
        object::metadata(&mut object).insert("generation".into(), 1.into());
    }
    let mut errors = metadata::validate(&object, strategy.name_rule(), call.resource.namespaced);
    if strategy.checks_finalizers() {
        metadata::known_finalizers(&object, &mut errors);
    }
    errors.extend(strategy.validate_create(call.hook(emptied), &object));
    if errors.is_empty() {
        errors.extend(auth::parameters::check(call, &object, None));
    }
    if errors.is_empty() {
        warnings.extend(strategy.warnings(&object, None));
        commit::check_depth(&object)?;
        write::encode(call, &mut object);
        return Ok(object);
    }
    strategy.release(&call.core.allocators, &object);
    Err(write::invalid(call, object::name(&object), errors, emptied))
}
