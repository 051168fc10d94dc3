//! Steps beyond kuttl's format: actions in order, with what to do if one fails and in any case.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use steersman_formats::parse_duration;

use crate::subset::ListMatch;
use crate::types::{Metadata, ObjectReference};

/// The API group of the kinds that kuttl does not have.
pub(crate) const GROUP: &str = "e2e.steersman.dev";

/// A list of actions: `apiVersion: e2e.steersman.dev/v1alpha1`, `kind: Step`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ActionStep {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    /// Its name overrides the one of its file.
    pub metadata: Metadata,
    /// How lists are compared in all assertions of the step, those of its files included. Default: `exact`.
    pub lists: Lists,
    /// Seconds that each action may take to become true. Default: those of the step.
    pub timeout: Option<u32>,
    /// Actions in order; the first that fails ends the step.
    pub r#try: Vec<Action>,
    /// Actions to run if one of `try` failed.
    pub catch: Vec<Action>,
    /// Actions to run in any case.
    pub finally: Vec<Action>,
}

/// How lists are compared.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Lists {
    /// The same number of items, each matching the one at its place. The default.
    #[default]
    Exact,
    /// Each expected item matches some item.
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

/// One thing that a step does.
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
    /// Makes something go wrong.
    Fault(Fault),
    /// Sets the clock forward by a duration such as `1h30m`; on the embedded cluster.
    Advance(#[serde(deserialize_with = "duration")] Duration),
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let nanoseconds = parse_duration(&text).and_then(|nanoseconds| u64::try_from(nanoseconds).ok());
    nanoseconds.map(Duration::from_nanos).ok_or_else(|| {
        D::Error::custom(format!("advance: {text:?} is no duration forward, such as 90s or 1h30m"))
    })
}

/// A condition to wait for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Wait {
    /// Group and version.
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
    /// The assertion that is waited for; its list is compared partially.
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

/// Something that goes wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// Ends the operator without warning and starts it again; on the embedded cluster.
    KillOperator,
    /// Ends the operator without warning until `startOperator`; on the embedded cluster.
    StopOperator,
    /// Starts the operator again.
    StartOperator,
    /// Ends the operator's open watches, as a lost connection does; on the embedded cluster.
    CutWatches,
    /// Deletes the pods with these labels, without grace.
    KillPods(BTreeMap<String, String>),
}

/// What a fault does to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorChange {
    /// End it in the middle of what it does.
    Kill,
    /// Start it.
    Start,
    /// End its open watches.
    CutWatches,
}

/// The answer to a change, when it is made.
pub type Changed<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Control over the cluster and the operator under test.
pub trait Controls: Send + Sync {
    /// Kills or starts the operator, or cuts its watches.
    fn change_operator(&self, change: OperatorChange) -> Changed<'_>;

    /// Sets the clock of the cluster and its operator forward.
    fn advance(&self, by: Duration) -> Changed<'_>;
}
