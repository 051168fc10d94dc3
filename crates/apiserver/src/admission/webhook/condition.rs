//! Conditions under which a webhook is asked: expressions on the request.

use std::sync::LazyLock;

use serde_json::Value;
use steersman_cel::{Environment, Program, Type, Value as Cel};

/// All conditions of a webhook together may cost so much.
const LIMIT: u64 = 2_500_000;

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let names = ["object", "oldObject", "request"];
    names.into_iter().fold(Environment::new(), |environment, name| environment.with(name, Type::Dyn))
});

/// Compiles an expression.
///
/// # Errors
/// Why it can't be used.
pub(super) fn compile(text: &str) -> Result<Program, String> {
    Program::compile(&ENVIRONMENT, text).map_err(|error| format!("compilation error: {error}"))
}

/// Whether all conditions hold.
///
/// # Errors
/// Why that can't be told. One that does not hold settles it, whatever is wrong with others.
pub(super) fn hold(
    conditions: &[(String, Result<Program, String>)],
    object: &Value,
    old: &Value,
    request: &Value,
) -> Result<bool, String> {
    let variables = [("object", cel(object)), ("oldObject", cel(old)), ("request", cel(request))];
    let (mut budget, mut errors) = (LIMIT, Vec::new());
    for (text, program) in conditions {
        let result = match program {
            Ok(program) => {
                let (value, cost) = program.run(variables.clone(), budget);
                budget = budget.saturating_sub(cost);
                value.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.clone()),
        };
        match result {
            Ok(Cel::Bool(true)) => {}
            Ok(Cel::Bool(false)) => return Ok(false),
            Ok(_) => errors.push(format!("expression '{text}' gives no bool")),
            Err(error) => errors.push(format!("expression '{text}' resulted in error: {error}")),
        }
    }
    if errors.is_empty() { Ok(true) } else { Err(crate::auth::rbac::aggregate(&errors)) }
}

/// A JSON value as expressions see it.
fn cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Cel::Int(integer),
            None => Cel::Double(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Cel::string(text.as_str()),
        Value::Array(items) => Cel::list(items.iter().map(cel).collect()),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| (Cel::string(key.as_str()), cel(value))).collect();
            Cel::Map(std::sync::Arc::new(pairs))
        }
    }
}
