//! Create and update.

use bytes::Bytes;
use http::{Response, StatusCode};

use steersman_api::{
    http::{Body, Output},
    status::{ApiError, ApiResult, Reason},
};

use super::{answer, answer_value, subresource};
use crate::{
    auth::review,
    call::Call,
    decode,
    pipeline::{self, Mode},
};

pub(super) async fn create(call: &mut Call, media: &str, body: &Bytes) -> ApiResult<Response<Body>> {
    let object = decode::object(call, media, body)?;
    if review::is_review(&call.resource.group, &call.resource.plural) {
        if call.output != Output::Object {
            let what = format!(
                "the resource {} does not support being converted to a Table",
                call.resource.qualified()
            );
            return Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, Reason::NotAcceptable, what));
        }
        let answer = review::answer(call, object)?;
        return answer_value(call, answer, StatusCode::CREATED);
    }
    if call.resource.group.is_empty() && call.resource.plural == "bindings" {
        return subresource::bind_by_name(call, &object).await;
    }
    let written = pipeline::create(call, object).await?;
    answer(call, written, StatusCode::CREATED).await
}

pub(super) async fn replace(call: &mut Call, media: &str, body: &Bytes) -> ApiResult<Response<Body>> {
    let object = decode::object(call, media, body)?;
    call.check_name(&object)?;
    let (written, created) = pipeline::update(call, Mode::Replace, |_, _| Ok(object.clone())).await?;
    answer(call, written, if created { StatusCode::CREATED } else { StatusCode::OK }).await
}
