//! The forms in which objects leave the server besides their own: lists, metadata alone, Tables.

use serde_json::{Map, Value, json};
use steersman_api::{
    http::{Include, Meta},
    status::ApiResult,
};

use crate::{call::Call, catalog::Resource, core::Core};

/// `metadata` of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListMeta {
    pub(crate) revision: u64,
    pub(crate) continue_token: String,
    pub(crate) remaining: Option<usize>,
}

impl ListMeta {
    /// The metadata of a plain list; custom resources write the token even if there is none.
    pub(crate) fn of_list(&self, custom: bool) -> Value {
        let mut value = self.to_value();
        if custom && self.continue_token.is_empty() {
            value["continue"] = "".into();
        }
        value
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut out = Map::new();
        if self.revision > 0 {
            out.insert("resourceVersion".into(), self.revision.to_string().into());
        }
        if !self.continue_token.is_empty() {
            out.insert("continue".into(), self.continue_token.as_str().into());
        }
        if let Some(remaining) = self.remaining {
            out.insert("remainingItemCount".into(), remaining.into());
        }
        Value::Object(out)
    }
}

/// The plain list.
pub(crate) fn list(call: &Call, mut items: Vec<Value>, meta: &ListMeta) -> Value {
    if !call.resource.custom {
        // Items of typed lists do not repeat what the list's kind says already.
        for item in &mut items {
            if let Some(map) = item.as_object_mut() {
                map.remove("apiVersion");
                map.remove("kind");
            }
        }
    }
    json!({
        "kind": call.resource.list_kind,
        "apiVersion": call.resource.api_version(),
        "metadata": meta.of_list(call.resource.custom),
        "items": items,
    })
}

/// `PartialObjectMetadata` of an object.
pub(crate) fn partial(object: &Value, version: Meta) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": object.get("metadata").cloned().unwrap_or_default(),
    })
}

/// `PartialObjectMetadataList`.
pub(crate) fn partial_list(items: &[Value], meta: &ListMeta, version: Meta) -> Value {
    let items: Vec<Value> = items.iter().map(|item| partial(item, version)).collect();
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": version.api_version(),
        "metadata": meta.to_value(),
        // Nothing is null here, unlike in other lists.
        "items": Some(items).filter(|items| !items.is_empty()),
    })
}

/// A Table of objects in the version of the request.
pub(crate) fn table(call: &Call, items: &[Value], meta: &ListMeta, version: Meta) -> ApiResult<Value> {
    let mut meta = meta.clone();
    // A single object's Table carries the object's version.
    if meta.revision == 0
        && let [one] = items
    {
        meta.revision = steersman_api::object::meta_text(one, "resourceVersion").parse().unwrap_or_default();
    }
    let form = Form { version, include: call.include()?, header: true };
    Ok(rows(&call.core, &call.resource, items, &meta, form))
}

/// How a Table is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) version: Meta,
    pub(crate) include: Include,
    /// Whether it explains its columns.
    pub(crate) header: bool,
}

/// A Table, outside of a call.
pub(crate) fn rows(core: &Core, resource: &Resource, items: &[Value], meta: &ListMeta, form: Form) -> Value {
    let columns = resource.strategy.columns(&resource.version);
    let now = core.environment.now();
    let rows: Vec<Value> = items
        .iter()
        .map(|item| {
            let cells = resource.strategy.cells(&resource.version, item, now);
            let mut row = json!({"cells": cells});
            row["object"] = match form.include {
                Include::None => Value::Null,
                Include::Metadata => partial(item, form.version),
                Include::Object => item.clone(),
            };
            row
        })
        .collect();
    let mut table = json!({
        "kind": "Table",
        "apiVersion": form.version.api_version(),
        "metadata": meta.to_value(),
        "columnDefinitions": Value::Null,
        "rows": rows,
    });
    if form.header {
        table["columnDefinitions"] = columns.iter().map(steersman_api::table::Column::to_value).collect();
    }
    table
}
