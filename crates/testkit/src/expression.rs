//! Assertions in Kubernetes' Common Expression Language.

use serde_json::Value as Json;
use steersman_cel::{Environment, Program, Type, Value};

use crate::types::{Assertion, TestAssert};

/// Cost limit of an expression.
const COST_LIMIT: u64 = 100_000_000;

/// The expressions of an assertion, compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expressions {
    any: Vec<(String, Program)>,
    all: Vec<(String, Program)>,
}

impl Expressions {
    pub(crate) fn compile(assert: &TestAssert) -> Result<Self, String> {
        let mut environment = Environment::new();
        for reference in &assert.resource_refs {
            reference.validate().map_err(|why| {
                format!(
                    "resourceRefs: {} {} {:?}: {why}",
                    reference.api_version, reference.kind, reference.name
                )
            })?;
            environment = environment.with(&*reference.variable, Type::Dyn);
        }
        let compile = |assertions: &[Assertion]| -> Result<Vec<(String, Program)>, String> {
            let compiled = assertions.iter().map(|assertion| {
                let text = assertion.cel_expr.clone();
                let program = Program::compile(&environment, &text)
                    .map_err(|error| format!("celExpr {text:?}: {error}"))?;
                Ok((text, program))
            });
            compiled.collect()
        };
        Ok(Self { any: compile(&assert.assert_any)?, all: compile(&assert.assert_all)? })
    }

    /// Evaluates the expressions and returns the failures.
    pub(crate) fn check(&self, variables: &[(String, Json)]) -> Vec<String> {
        let variables: Vec<(&str, Value)> =
            variables.iter().map(|(name, object)| (name.as_str(), value(object))).collect();
        let failures = |programs: &[(String, Program)]| -> Vec<String> {
            programs.iter().filter_map(|(text, program)| evaluate(text, program, &variables).err()).collect()
        };
        let (any, all) = (failures(&self.any), failures(&self.all));
        let mut errors = Vec::new();
        if !self.any.is_empty() && any.len() == self.any.len() {
            errors.push(format!("no expression evaluated to true: {}", any.join("\n")));
        }
        if !all.is_empty() {
            errors.push(format!("not all assertAll expressions evaluated to true: {}", all.join("\n")));
        }
        errors
    }
}

fn evaluate(text: &str, program: &Program, variables: &[(&str, Value)]) -> Result<(), String> {
    match program.run(variables.iter().cloned(), COST_LIMIT).0 {
        Ok(Value::Bool(true)) => Ok(()),
        Ok(Value::Bool(false)) => Err(format!("expression {text:?} evaluated to 'false'")),
        Ok(other) => Err(format!("expression {text:?} evaluated to a {}, not to true", other.type_name())),
        Err(error) => Err(format!("expression {text:?} failed to evaluate: {error}")),
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
