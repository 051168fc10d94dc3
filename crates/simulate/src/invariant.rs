//! Invariants that every state must satisfy, as Rust functions or CEL expressions.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;
use steersman_cel::{Environment, Program, Type, Value};

use crate::{Error, oracle::Objects};

/// Cost limit of an expression.
const COST_LIMIT: u64 = 10_000_000;

type Holds = dyn Fn(&Objects) -> Result<(), String> + Send + Sync;

/// A condition that every state must satisfy.
#[derive(Clone)]
pub(crate) struct Invariant {
    pub(crate) name: String,
    condition: Condition,
    /// Why it could not be evaluated so far; `None` once it was.
    unasked: Arc<Mutex<Option<String>>>,
}

#[derive(Clone)]
enum Condition {
    Function(Arc<Holds>),
    /// Evaluated for each object of a kind, or for all objects together.
    Expression {
        kind: Option<String>,
        program: Arc<Program>,
    },
}

impl Invariant {
    pub(crate) fn of_function(
        name: String,
        holds: impl Fn(&Objects) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { name, condition: Condition::Function(Arc::new(holds)), unasked: Arc::default() }
    }

    pub(crate) fn of_expression(kind: Option<&str>, text: &str) -> Result<Self, Error> {
        let variable = if kind.is_some() { "object" } else { "objects" };
        let environment = Environment::new().with(variable, Type::Dyn);
        let program = Program::compile(&environment, text)
            .map_err(|error| Error::Invariant(text.to_owned(), error.to_string()))?;
        let (name, unasked) = match kind {
            Some(kind) => (format!("{kind}: {text}"), format!("there was no {kind}")),
            None => (text.to_owned(), "nothing changed".to_owned()),
        };
        let condition = Condition::Expression { kind: kind.map(str::to_owned), program: Arc::new(program) };
        Ok(Self { name, condition, unasked: Arc::new(Mutex::new(Some(unasked))) })
    }

    /// Evaluates a state after one of its objects has changed.
    pub(crate) fn check(&self, objects: &Objects, changed: &str) -> Result<(), String> {
        match &self.condition {
            Condition::Function(holds) => holds(objects),
            Condition::Expression { kind: Some(kind), program } => match objects.get(changed) {
                Some(object) if object["kind"] == kind.as_str() => self.ask(program, "object", value(object)),
                _ => Ok(()),
            },
            Condition::Expression { kind: None, program } => {
                self.ask(program, "objects", Value::list(objects.values().map(value).collect()))
            }
        }
    }

    fn ask(&self, program: &Program, variable: &str, value: Value) -> Result<(), String> {
        let answer = program.run([(variable, value)], COST_LIMIT).0;
        let mut unasked = self.unasked.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            // A field may not exist before the status is written: this is not a violation.
            Err(error) if error.to_string().starts_with("no such key") => {
                if unasked.is_some() {
                    *unasked = Some(error.to_string());
                }
                return Ok(());
            }
            _ => *unasked = None,
        }
        match answer {
            Ok(Value::Bool(true)) => Ok(()),
            Ok(Value::Bool(false)) => Err("it evaluated to false".into()),
            Ok(other) => Err(format!("it evaluated to a {}, not to true", other.type_name())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns why it could not be evaluated in any state, if so.
    pub(crate) fn unasked(&self) -> Option<String> {
        self.unasked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => {
            number.as_i64().map_or_else(|| Value::Double(number.as_f64().unwrap_or_default()), Value::Int)
        }
        Json::String(text) => Value::string(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(value).collect()),
        Json::Object(fields) => {
            Value::map(fields.iter().map(|(key, item)| (Value::string(key.as_str()), value(item))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(object: Json) -> Objects {
        [("shells.example.com/a/one".to_owned(), object)].into()
    }

    #[test]
    fn an_expression_is_asked_of_each_object_of_its_kind() {
        let invariant =
            Invariant::of_expression(Some("Shell"), "object.status.ready <= object.spec.size").unwrap();
        let check = |kind: &str, status: Json| {
            let object = json!({"kind": kind, "spec": {"size": 2}, "status": status});
            invariant.check(&state(object), "shells.example.com/a/one")
        };
        assert_eq!(invariant.unasked().unwrap(), "there was no Shell");
        assert_eq!(check("Shell", json!({})), Ok(()));
        assert_eq!(invariant.unasked().unwrap(), "no such key: ready");
        assert_eq!(check("Other", json!({"ready": 3})), Ok(()));
        assert_eq!(check("Shell", json!({"ready": 3})), Err("it evaluated to false".into()));
        assert_eq!(invariant.unasked(), None);
    }

    #[test]
    fn an_expression_without_a_kind_is_about_all_objects() {
        let invariant = Invariant::of_expression(None, "objects.all(one, one.kind != 'Other')").unwrap();
        assert_eq!(invariant.check(&state(json!({"kind": "Shell"})), "x"), Ok(()));
        assert!(invariant.check(&state(json!({"kind": "Other"})), "x").is_err());
        let error = Invariant::of_expression(None, "object.kind").err().unwrap();
        assert!(error.to_string().contains("undeclared reference to 'object'"), "{error}");
    }
}
