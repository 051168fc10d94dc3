//! Steps beyond kuttl's format: ordered actions, with `catch` for failures and `finally` for cleanup.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use steersman_formats::parse_duration;

use crate::subset::ListMatch;
use crate::types::{Metadata, ObjectReference};

/// The API group of the kinds that extend kuttl's format.
pub(crate) const GROUP: &str = "e2e.steersman.dev";

/// A list of actions: `apiVersion: e2e.steersman.dev/v1alpha1`, `kind: Step`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ActionStep {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    /// The metadata; its name overrides the one in the file name.
    pub metadata: Metadata,
    /// How lists are compared in all assertions of the step, its files included. Default: `exact`.
    pub lists: Lists,
    /// Timeout of each action, in seconds. Default: the step's timeout.
    pub timeout: Option<u32>,
    /// Actions to run in order; the first failure ends the step.
    pub r#try: Vec<Action>,
    /// Actions to run if an action of `try` failed.
    pub catch: Vec<Action>,
    /// Actions to run last, whether or not the step failed.
    pub finally: Vec<Action>,
}

/// How lists are compared.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Lists {
    /// Both lists have the same length and match item by item. The default.
    #[default]
    Exact,
    /// Each expected item matches some item of the list.
    Partial,
}

impl From<Lists> for ListMatch {
    fn from(lists: Lists) -> Self {
        match lists {
            Lists::Exact => Self::Exact,
            Lists::Partial => Self::Partial,
        }
    }
}

/// An action of a step.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Applies an object.
    Apply(Value),
    /// Waits until an object matches.
    Assert(Value),
    /// Waits until no object matches.
    Error(Value),
    /// Deletes objects and waits until they are gone.
    Delete(ObjectReference),
    /// Waits for a condition of an object.
    Wait(Wait),
    /// Runs a program.
    Command(String),
    /// Runs a shell script.
    Script(String),
    /// Injects a fault.
    Fault(Fault),
    /// Advances the clock by a duration such as `1h30m`; embedded cluster only.
    Advance(#[serde(deserialize_with = "duration")] Duration),
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let nanoseconds = parse_duration(&text).and_then(|nanoseconds| u64::try_from(nanoseconds).ok());
    nanoseconds.map(Duration::from_nanos).ok_or_else(|| {
        D::Error::custom(format!(
            "advance: invalid duration {text:?} (must be positive, such as 90s or 1h30m)"
        ))
    })
}

/// A condition to wait for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Wait {
    /// The API version, such as `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace. Default: that of the test case.
    #[serde(default)]
    pub namespace: String,
    /// The type of the condition, such as `Ready`.
    pub condition: String,
    /// The condition's status. Default: `True`.
    #[serde(default = "yes")]
    pub status: String,
}

fn yes() -> String {
    "True".to_owned()
}

impl Wait {
    /// The assertion that expresses the wait; it must be compared with [`ListMatch::Partial`].
    pub(crate) fn assertion(&self) -> Value {
        let mut metadata = serde_json::json!({ "name": self.name });
        if !self.namespace.is_empty() {
            metadata["namespace"] = self.namespace.as_str().into();
        }
        serde_json::json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": metadata,
            "status": { "conditions": [{ "type": self.condition, "status": self.status }] },
        })
    }
}

/// A fault to inject.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// Kills the operator without a graceful shutdown and starts it again; embedded cluster only.
    KillOperator,
    /// Kills the operator without a graceful shutdown until `startOperator`; embedded cluster only.
    StopOperator,
    /// Starts the operator again.
    StartOperator,
    /// Closes the operator's open watches, as a lost connection does; embedded cluster only.
    CutWatches,
    /// Deletes the pods with these labels, with a grace period of zero.
    KillPods(BTreeMap<String, String>),
}

/// A change to the operator's process or connections, as a fault requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorChange {
    /// Kill it without a graceful shutdown.
    Kill,
    /// Start it.
    Start,
    /// Close its open watches.
    CutWatches,
}

/// A future that completes once the change is made, with the reason if it could not be.
pub type Changed<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Control over the cluster and the operator under test.
pub trait Controls: Send + Sync {
    /// Kills or starts the operator, or cuts its watches.
    fn change_operator(&self, change: OperatorChange) -> Changed<'_>;

    /// Advances the clock of the cluster and its operator.
    fn advance(&self, by: Duration) -> Changed<'_>;
}
