//! The API of {{ .Kind }}: its spec and status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state. `make manifests` generates the schema from the types, defaults and comments of this struct.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "{{ .Group }}",
    version = "{{ .Version }}",
    kind = "{{ .Kind }}",
    plural = "{{ .Plural }}",
{{- if .KindNamespaced }}
    namespaced,
{{- end }}
    status = "{{ .Kind }}Status",
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "Available", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].status"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct {{ .Kind }}Spec {
    /// Number of pods.
    #[serde(default = "default_size")]
    #[schemars(range(min = 0))]
    pub size: i32,
    /// Container image of the pods.
    #[serde(default = "default_image")]
    pub image: String,
}

fn default_size() -> i32 {
    1
}

fn default_image() -> String {
    {{ .Image }}.to_owned()
}

/// The observed state.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct {{ .Kind }}Status {
    /// `Available`: all pods are available.
    pub conditions: Vec<Condition>,
}
