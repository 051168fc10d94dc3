//! A single webhook of a configuration: match constraints, conditions and client.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::admission::{
    constraints::{Constraints, texts},
    expression::{Compiler, Expression},
};

/// A webhook with its compiled match conditions.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) ignores_failure: bool,
    pub(super) side_effects: bool,
    pub(super) timeout: Duration,
    pub(super) reinvocable: bool,
    /// The first supported review version, `v1` or `v1beta1`.
    pub(super) version: Option<&'static str>,
    pub(super) conditions: Vec<Expression>,
    pub(super) constraints: Constraints,
}

/// The client configuration of a webhook.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) url: Option<String>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) ca_bundle: Vec<u8>,
}

impl Client {
    pub(crate) fn new(config: &Value) -> Self {
        let service = &config["service"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            url: config["url"].as_str().map(str::to_owned),
            namespace: text(&service["namespace"]),
            name: text(&service["name"]),
            port: service["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(443),
            path: text(&service["path"]),
            ca_bundle: STANDARD.decode(text(&config["caBundle"])).unwrap_or_default(),
        }
    }
}

impl Hook {
    pub(super) fn new(value: &Value) -> Self {
        let conditions = value["matchConditions"].as_array().into_iter().flatten();
        let compiler = Compiler::new(&Value::Null, false);
        Self {
            name: value["name"].as_str().unwrap_or_default().to_owned(),
            client: Client::new(&value["clientConfig"]),
            ignores_failure: value["failurePolicy"] == "Ignore",
            side_effects: !matches!(value["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            timeout: Duration::from_secs(value["timeoutSeconds"].as_u64().unwrap_or(10)),
            reinvocable: value["reinvocationPolicy"] == "IfNeeded",
            version: texts(&value["admissionReviewVersions"]).iter().find_map(|version| {
                match version.as_str() {
                    "v1" => Some("v1"),
                    "v1beta1" => Some("v1beta1"),
                    _ => None,
                }
            }),
            conditions: conditions
                .map(|condition| Expression::new(&condition["expression"], |text| compiler.condition(text)))
                .collect(),
            constraints: Constraints::new(value, &value["rules"]),
        }
    }
}
