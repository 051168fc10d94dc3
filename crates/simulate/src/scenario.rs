//! Scenarios: the user actions of a simulation.

use std::time::Duration;

use serde_json::Value;

/// A user action. After each one, the simulation waits until nothing changes any more.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Step {
    /// Applies objects.
    Apply(Vec<Value>),
    /// Changes an object by a merge patch.
    Patch {
        /// The object, identified by its `apiVersion`, `kind` and `metadata`.
        object: Value,
        /// The merge patch.
        patch: Value,
    },
    /// Changes one property of an object to another value that its definition allows, preferably a number.
    ///
    /// If the definition declares no properties and accepts anything, an existing number or boolean of the object is changed.
    /// Does nothing if there is none.
    Change(Value),
    /// Deletes an object.
    Delete(Value),
    /// Advances the clock.
    Advance(Duration),
}

/// Initial objects, and a sequence of user actions.
///
/// ```
/// use serde_json::json;
/// use steersman_simulate::Scenario;
///
/// let shell = json!({"apiVersion": "example.com/v1", "kind": "Shell", "metadata": {"name": "one"}, "spec": {"size": 1}});
/// let scenario = Scenario::new()
///     .apply(shell.clone())
///     .patch(&shell, json!({"spec": {"size": 3}}))
///     .delete(&shell);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Scenario {
    pub(crate) given: Vec<Value>,
    pub(crate) steps: Vec<Step>,
}

impl Scenario {
    /// Creates a scenario without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a scenario that applies a sample and deletes it at the end.
    pub fn lifecycle(sample: &Value) -> Self {
        Self::new().apply(sample.clone()).delete(sample)
    }

    /// Adds an object that exists before the operator starts, such as a CRD.
    pub fn given(mut self, object: Value) -> Self {
        self.given.push(object);
        self
    }

    /// Applies an object.
    pub fn apply(mut self, object: Value) -> Self {
        self.steps.push(Step::Apply(vec![object]));
        self
    }

    /// Changes an object by a merge patch.
    pub fn patch(mut self, object: &Value, patch: Value) -> Self {
        self.steps.push(Step::Patch { object: object.clone(), patch });
        self
    }

    /// Changes one property of an object to a value that its definition allows; see [`Step::Change`].
    pub fn change(mut self, object: &Value) -> Self {
        self.steps.push(Step::Change(object.clone()));
        self
    }

    /// Deletes an object.
    pub fn delete(mut self, object: &Value) -> Self {
        self.steps.push(Step::Delete(object.clone()));
        self
    }

    /// Advances the clock.
    pub fn advance(mut self, time: Duration) -> Self {
        self.steps.push(Step::Advance(time));
        self
    }

    /// Whether any object that users apply is among `live`.
    pub(crate) fn has_objects_in<'a>(&self, mut live: impl Iterator<Item = &'a Value>) -> bool {
        live.any(|live| {
            let same = |object: &Value| {
                object["kind"] == live["kind"] && object["metadata"]["name"] == live["metadata"]["name"]
            };
            self.steps.iter().any(|step| matches!(step, Step::Apply(objects) if objects.iter().any(same)))
        })
    }

    /// Adds a step.
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

impl Step {
    /// Describes the step in a few words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Apply(objects) => {
                let names: Vec<_> = objects.iter().map(describe).collect();
                format!("apply {}", names.join(", "))
            }
            Self::Patch { object, patch } => format!("patch {} {patch}", describe(object)),
            Self::Change(object) => format!("change {}", describe(object)),
            Self::Delete(object) => format!("delete {}", describe(object)),
            Self::Advance(time) => format!("advance {time:?}"),
        }
    }
}

fn describe(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}
