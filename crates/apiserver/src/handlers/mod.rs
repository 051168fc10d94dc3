//! Request handlers, one module per verb or subresource.

mod binding;
mod budget;
mod delete;
mod list;
mod patch;
mod scale;
mod watch;

pub use watch::EventStream;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;
use steersman_api::{
    http::Body,
    status::{ApiError, ApiResult},
};

use crate::{
    auth::token,
    call::{Call, Decoded},
    catalog::Verb,
    commit::Written,
    decode, pipeline,
    render::answer,
    update,
    write::Mode,
};

/// Dispatches a request by subresource and verb.
pub(crate) async fn dispatch(
    call: Call,
    media: &str,
    body: Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    // Box the futures of writes: their state is large, and reads would have to move it through every layer too.
    match (call.subresource_name(), call.verb) {
        ("scale", _) => Box::pin(scale::scale(&call, media, &body, warnings)).await,
        ("binding", Verb::Create) => Box::pin(binding::bind(&call, media, &body, warnings)).await,
        ("eviction", Verb::Create) => Box::pin(delete::evict(call, media, &body, warnings)).await,
        ("token", Verb::Create) => Box::pin(token::answer_request(&call, media, &body, warnings)).await,
        (_, Verb::Get) => get(&call).await,
        (_, Verb::List) => list::list(&call).await,
        (_, Verb::Watch) => watch::watch(&call).await,
        (_, Verb::Create) if is_binding(&call) => {
            Box::pin(binding::bind_by_name(call, media, &body, warnings)).await
        }
        (_, Verb::Create) => Box::pin(pipeline::create(&call, media, &body, warnings)).await,
        (_, Verb::Update) => Box::pin(replace(&call, media, &body, warnings)).await,
        (_, Verb::Patch) => Box::pin(patch::patch(&call, media, &body, warnings)).await,
        (_, Verb::Delete) => Box::pin(delete::delete(call, media, &body, warnings)).await,
        (_, Verb::DeleteCollection) => Box::pin(delete::collection(call, media, &body, warnings)).await,
    }
}

/// Whether a request targets the legacy `bindings` resource, which has no objects.
fn is_binding(call: &Call) -> bool {
    call.resource.group.is_empty() && call.resource.plural == "bindings"
}

/// Rejects a write to a single custom object without a name in the path.
pub(crate) fn check_named(verb: Verb, media: &str) -> ApiResult<()> {
    match verb {
        Verb::Patch => patch::check_custom_media(media).and_then(|()| Err(nameless())),
        Verb::Update => Err(nameless()),
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

async fn replace(
    call: &Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    let Decoded { object, emptied } = decode::object(call, media, body, warnings)?;
    decode::check_name(call, &object)?;
    let replacement = |_: Option<&Value>| Ok(Decoded { object: object.clone(), emptied: emptied.clone() });
    let (written, created) = update::update(call, Mode::Replace, replacement, warnings).await?;
    answer(call, written, if created { StatusCode::CREATED } else { StatusCode::OK }).await
}
