//! One module per verb.

mod budget;
mod delete;
mod list;
mod patch;
mod scale;
mod subresource;
mod watch;
mod write;

pub use watch::EventStream;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;
use steersman_api::{
    fields::FieldError,
    http::{Body, FieldValidation, Output, Propagation, json_response},
    status::{ApiError, ApiResult, Reason},
};
use steersman_patch::apply::unpack;

use crate::{call::Call, pipeline::Written, render};

/// Leads a request to its verb.
pub(crate) async fn dispatch(
    call: &mut Call,
    verb: &str,
    media: &str,
    body: Bytes,
) -> ApiResult<Response<Body>> {
    if call.subresource.is_some()
        && let Some(response) = subresource::special(call, verb, media, &body).await?
    {
        return Ok(response);
    }
    match verb {
        "get" => get(call).await,
        "list" => list::list(call).await,
        "watch" => watch::watch(call).await,
        "create" => write::create(call, media, &body).await,
        "update" => write::replace(call, media, &body).await,
        "patch" => patch::patch(call, media, &body).await,
        "delete" => delete::delete(call, media, &body).await,
        "deletecollection" => delete::collection(call, media, &body).await,
        _ => Err(ApiError::method_not_supported(&call.resource.group, &call.resource.plural, verb)),
    }
}

/// Refuses a write to one custom object that names none.
pub(crate) fn check_named(verb: &str, media: &str) -> ApiResult<()> {
    match verb {
        "patch" => patch::check_custom_media(media).and_then(|()| Err(nameless())),
        "update" => Err(nameless()),
        _ => Ok(()),
    }
}

fn nameless() -> ApiError {
    ApiError::bad_request("name must be provided")
}

async fn get(call: &Call) -> ApiResult<Response<Body>> {
    list::check_resource_version(call, true)?;
    let entry = call.seen()?;
    answer(call, Written::Stored(entry), StatusCode::OK).await
}

/// Writes an object in the form that the client asked for.
pub(crate) async fn answer(call: &Call, written: Written, code: StatusCode) -> ApiResult<Response<Body>> {
    if let Written::Stored(entry) = &written
        && call.output == Output::Object
        && call.resource.serves_bytes(entry)
    {
        return Ok(json_response(code, Body::whole(entry.json())));
    }
    let stored = match written {
        Written::Stored(entry) => call.resource.read(&entry),
        Written::Value(value) => value,
    };
    let served = call.to_served(stored).await?;
    answer_value(call, served, code)
}

/// Writes an object of the request's version in the form that the client asked for.
pub(crate) fn answer_value(call: &Call, mut served: Value, code: StatusCode) -> ApiResult<Response<Body>> {
    unpack(&mut served);
    let value = match call.output {
        Output::Object => served,
        Output::Metadata(version) => render::partial(&served, version),
        Output::MetadataList(_) => {
            let what = call.resource.internal_type(&call.resource.kind);
            return Err(ApiError::new(
                StatusCode::NOT_ACCEPTABLE,
                Reason::NotAcceptable,
                format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({what})"
                ),
            ));
        }
        Output::Table(version) => render::table(call, &[served], &render::ListMeta::default(), version)?,
    };
    Ok(json_response(code, Body::whole(value.to_string())))
}

/// Judges and takes over the options that writes share.
pub(crate) fn check_write_options(call: &mut Call, verb: &str) -> ApiResult<()> {
    let kind = match verb {
        "create" => "CreateOptions",
        "update" => "UpdateOptions",
        "patch" => "PatchOptions",
        _ => "DeleteOptions",
    };
    let mut errors = Vec::new();
    let dry_run = call.options.dry_run.clone();
    check_dry_run(&dry_run, &mut errors);
    call.dry_run = !dry_run.is_empty();
    match call.options.field_validation.as_str() {
        "" | "Warn" => call.field_validation = FieldValidation::Warn,
        "Ignore" => call.field_validation = FieldValidation::Ignore,
        "Strict" => call.field_validation = FieldValidation::Strict,
        other => {
            errors.push(FieldError::not_supported(
                "fieldValidation",
                other,
                &["", "Ignore", "Strict", "Warn"],
            ));
        }
    }
    if call.options.field_manager.len() > 128 {
        errors.push(FieldError::too_long("fieldManager", 128));
    }
    for (at, odd) in call.options.field_manager.char_indices().filter(|(_, c)| c.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {at})", u32::from(odd));
        errors.push(FieldError::invalid("fieldManager", call.options.field_manager.as_str(), why));
    }
    if let Some(policy) = &call.options.propagation_policy
        && Propagation::parse(policy).is_none()
    {
        let supported = ["Foreground", "Background", "Orphan", "nil"];
        errors.push(FieldError::not_supported("propagationPolicy", policy.as_str(), &supported));
    }
    if !errors.is_empty() {
        return Err(ApiError::invalid_kind("meta.k8s.io", kind, "", errors));
    }
    call.options_object = call.write_options(kind);
    Ok(())
}

/// `All` is the only stage that a dry run can name.
fn check_dry_run(dry_run: &[String], errors: &mut Vec<FieldError>) {
    if dry_run.iter().any(|d| d != "All") {
        let given: Value = dry_run.iter().map(|d| Value::from(d.as_str())).collect();
        errors.push(FieldError::not_supported("dryRun", given, &["All"]));
    }
}
