//! A kind to try things on.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each suite uses a part")]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
#[kube(group = "test.steersman.dev", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
#[serde(default)]
pub struct WidgetSpec {
    pub color: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
#[serde(default)]
pub struct WidgetStatus {
    pub color: String,
    pub note: Option<String>,
}

pub fn widget(name: &str, color: &str) -> Widget {
    Widget::new(name, WidgetSpec { color: color.to_owned() })
}

pub fn shown(widget: Option<&Widget>) -> Option<&str> {
    Some(widget?.status.as_ref()?.color.as_str())
}
