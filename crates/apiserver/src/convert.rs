//! Conversion between the versions of a kind, by the kind itself or by a webhook.

use serde_json::Value;
use steersman_api::{
    object,
    status::{ApiError, ApiResult},
};
use steersman_patch::apply;

use crate::catalog::Resource;

/// Rewrites objects of a resource's kind, each of which may be in another version, into version `to`.
pub(crate) async fn all(resource: &Resource, mut objects: Vec<Value>, to: &str) -> ApiResult<Vec<Value>> {
    let strategy = &resource.strategy;
    let Some(converter) = strategy.converter() else {
        return objects.into_iter().map(|object| directly(resource, object, to)).collect();
    };
    // Webhooks see records of fields unpacked, as clients do.
    objects.iter_mut().for_each(apply::unpack);
    let mut converted = converter.convert(objects, to).await.map_err(ApiError::unforeseen)?;
    for (object, _) in converted.iter_mut().filter(|(_, changed)| *changed) {
        strategy.coerce(object);
    }
    Ok(converted.into_iter().map(|(object, _)| object).collect())
}

/// Rewrites one object.
pub(crate) async fn one(resource: &Resource, object: Value, to: &str) -> ApiResult<Value> {
    if object::text(&object, &["apiVersion"]) == Some(to) {
        return Ok(object);
    }
    let converted = all(resource, vec![object], to).await?;
    converted.into_iter().next().ok_or_else(|| ApiError::internal("a conversion gave nothing"))
}

/// Rewrites an object by what the kind itself knows.
pub(crate) fn directly(resource: &Resource, object: Value, to: &str) -> ApiResult<Value> {
    let from = object::text(&object, &["apiVersion"]).unwrap_or(&resource.storage_api_version).to_owned();
    if from == to { Ok(object) } else { resource.strategy.convert(object, &from, to) }
}
