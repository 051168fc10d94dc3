//! Converts objects between versions of a kind, natively or by a webhook.

use serde_json::Value;
use steersman_api::{
    object,
    status::{ApiError, ApiResult},
};
use steersman_patch::apply;

use crate::catalog::Resource;

/// Converts objects of a resource's kind, each in any version, to version `to`.
pub(crate) async fn all(resource: &Resource, mut objects: Vec<Value>, to: &str) -> ApiResult<Vec<Value>> {
    let strategy = &resource.strategy;
    let Some(converter) = strategy.converter() else {
        return objects.into_iter().map(|object| directly(resource, object, to)).collect();
    };
    // Webhooks see `fieldsV1` unpacked, as clients do.
    objects.iter_mut().for_each(apply::unpack);
    let mut converted = converter.convert(objects, to).await.map_err(ApiError::unforeseen)?;
    for (object, _) in converted.iter_mut().filter(|(_, changed)| *changed) {
        strategy.coerce(object);
    }
    Ok(converted.into_iter().map(|(object, _)| object).collect())
}

/// Converts a single object.
pub(crate) async fn one(resource: &Resource, object: Value, to: &str) -> ApiResult<Value> {
    if object::text(&object, &["apiVersion"]) == Some(to) {
        return Ok(object);
    }
    let converted = all(resource, vec![object], to).await?;
    converted.into_iter().next().ok_or_else(|| ApiError::internal("the conversion returned no object"))
}

/// Converts an object natively, without a webhook.
pub(crate) fn directly(resource: &Resource, object: Value, to: &str) -> ApiResult<Value> {
    let from = object::text(&object, &["apiVersion"]).unwrap_or(&resource.storage_api_version).to_owned();
    if from == to { Ok(object) } else { resource.strategy.convert(object, &from, to) }
}
