//! Custom health checks in CEL, for the objects of a task.

use serde_json::Value as Json;
use steersman_cel::{Environment, Program, Type, Value};
use steersman_core::readiness::Readiness;

use crate::api::HealthCheck;

/// The variable available to expressions.
const OBJECT: &str = "object";
/// The cost limit of evaluating an expression.
const COST_LIMIT: u64 = 1_000_000;

impl HealthCheck {
    /// Returns the check that applies to an object: one with its name before one for its kind.
    #[must_use]
    pub fn of<'a>(checks: &'a [Self], object: &Json) -> Option<&'a Self> {
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        let of_kind = || checks.iter().filter(|check| check.kind == kind);
        of_kind().find(|check| check.name == name).or_else(|| of_kind().find(|check| check.name.is_empty()))
    }

    /// Validates the check.
    ///
    /// # Errors
    /// Fails if an expression does not compile, or is not of type bool.
    pub fn verify(&self) -> Result<(), String> {
        if self.kind.is_empty() {
            return Err("health: a check has no kind".into());
        }
        if self.ready.is_empty() {
            return Err(format!("health of {}: expression `ready` is required", self.kind));
        }
        compile(&self.kind, &self.ready)?;
        if !self.failed.is_empty() {
            compile(&self.kind, &self.failed)?;
        }
        Ok(())
    }

    /// Determines an object's readiness. An expression that cannot be evaluated yet counts as
    /// waiting.
    pub fn readiness(&self, object: &Json) -> Readiness {
        if !self.failed.is_empty() && self.holds(&self.failed, object) == Ok(true) {
            return Readiness::Failed(format!("failed by {}", self.failed));
        }
        match self.holds(&self.ready, object) {
            Ok(true) => Readiness::Ready,
            Ok(false) => Readiness::Waiting(format!("not yet {}", self.ready)),
            Err(why) => Readiness::Waiting(format!("not yet {}: {why}", self.ready)),
        }
    }

    fn holds(&self, expression: &str, object: &Json) -> Result<bool, String> {
        let program = compile(&self.kind, expression)?;
        match program.run([(OBJECT, value(object))], COST_LIMIT).0 {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(other) => Err(format!("it evaluates to {}, expected bool", other.type_name())),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn compile(kind: &str, expression: &str) -> Result<Program, String> {
    let environment = Environment::new().with(OBJECT, Type::Dyn);
    let program = Program::compile(&environment, expression)
        .map_err(|error| format!("health of {kind}: {expression:?}: {error}"))?;
    match program.output() {
        Type::Bool | Type::Dyn => Ok(program),
        other => Err(format!("health of {kind}: {expression:?} is of type {other}, expected bool")),
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
        Json::Object(entries) => {
            Value::map(entries.iter().map(|(key, item)| (Value::string(key.as_str()), value(item))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(ready: &str, failed: &str) -> HealthCheck {
        HealthCheck {
            kind: "Database".into(),
            ready: ready.into(),
            failed: failed.into(),
            ..Default::default()
        }
    }

    #[test]
    fn an_object_is_judged_by_its_own_fields() {
        let check = check("object.status.phase == 'Ready'", "object.status.phase == 'Lost'");
        let database = |phase: &str| json!({ "kind": "Database", "status": { "phase": phase } });
        assert_eq!(check.readiness(&database("Ready")), Readiness::Ready);
        assert!(matches!(check.readiness(&database("Lost")), Readiness::Failed(_)));
        assert!(matches!(check.readiness(&database("New")), Readiness::Waiting(_)));
        // A missing status evaluates to an error, which counts as waiting.
        assert!(matches!(check.readiness(&json!({ "kind": "Database" })), Readiness::Waiting(_)));
    }

    #[test]
    fn a_check_that_is_no_condition_is_refused() {
        assert_eq!(check("object.ready", "has(object.status) && object.status.lost").verify(), Ok(()));
        for (ready, words) in [("", "is required"), ("1 +", "Syntax error"), ("'yes'", "expected bool")] {
            let error = check(ready, "").verify().unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_check_of_a_name_goes_first() {
        let named = HealthCheck { name: "main".into(), ..check("true", "") };
        let checks = [check("false", ""), named.clone()];
        let object = |name: &str| json!({ "kind": "Database", "metadata": { "name": name } });
        assert_eq!(HealthCheck::of(&checks, &object("main")), Some(&named));
        assert_eq!(HealthCheck::of(&checks, &object("other")), Some(&checks[0]));
        assert_eq!(HealthCheck::of(&checks, &json!({ "kind": "Pod" })), None);
    }
}
