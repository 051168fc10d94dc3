//! `package new` and `package add`: creates and extends the files of a package.
//!
//! Files are formatted as KUDO does: with sorted keys, without comments, and with the defaults of parameters spelled out.

use serde_json::{Map, Value, json};

use super::PackageParameter;
use crate::api::{API_VERSION, Maintainer, Plan, Task};
use crate::error::{Error, Problem};

use super::{OPERATOR_FILE, PARAMS_FILE};

/// Returns the operator.yaml of a new package, which applies nothing yet.
#[must_use]
pub fn new_operator(name: &str, maintainer: &Maintainer) -> String {
    text(&json!({
        "apiVersion": API_VERSION, "name": name, "operatorVersion": "0.1.0", "appVersion": "0.1.0",
        "kubernetesVersion": "0.16.0", "kudoVersion": "0.19.0", "maintainers": [maintainer],
        "tasks": [{ "name": "deploy", "kind": "Apply", "spec": {} }],
        "plans": { "deploy": { "strategy": "serial", "phases": [{
            "name": "deploy", "strategy": "serial", "steps": [{ "name": "deploy", "tasks": ["deploy"] }],
        }] } },
    }))
}

/// Returns the params.yaml of a new package.
#[must_use]
pub fn new_params() -> String {
    text(&json!({ "apiVersion": API_VERSION, "parameters": [] }))
}

/// Adds a maintainer to operator.yaml.
///
/// # Errors
/// Fails if the file is not a valid operator.yaml.
pub fn add_maintainer(operator: &str, maintainer: &Maintainer) -> Result<String, Error> {
    let mut file = read(OPERATOR_FILE, operator)?;
    list(OPERATOR_FILE, &mut file, "maintainers")?.push(json!(maintainer));
    Ok(text(&file.into()))
}

/// Adds a task to operator.yaml.
///
/// # Errors
/// Fails if the file is not a valid operator.yaml, or has a task of that name.
pub fn add_task(operator: &str, task: &Task) -> Result<String, Error> {
    let mut file = read(OPERATOR_FILE, operator)?;
    let tasks = list(OPERATOR_FILE, &mut file, "tasks")?;
    if tasks.iter().any(|known| known["name"] == task.name.as_str()) {
        return Err(invalid(OPERATOR_FILE, format!("task {} already exists", task.name)));
    }
    tasks.push(json!(task));
    Ok(text(&file.into()))
}

/// Adds a plan to operator.yaml.
///
/// # Errors
/// Fails if the file is not a valid operator.yaml, or has a plan of that name.
pub fn add_plan(operator: &str, name: &str, plan: &Plan) -> Result<String, Error> {
    let mut file = read(OPERATOR_FILE, operator)?;
    let plans = file.entry("plans").or_insert_with(|| json!({}));
    if plans.is_null() {
        *plans = json!({});
    }
    let Some(plans) = plans.as_object_mut() else {
        return Err(invalid(OPERATOR_FILE, "plans is not a map".into()));
    };
    if plans.contains_key(name) {
        return Err(invalid(OPERATOR_FILE, format!("plan {name} already exists")));
    }
    plans.insert(name.to_owned(), json!(plan));
    Ok(text(&file.into()))
}

/// Adds a parameter to params.yaml.
///
/// # Errors
/// Fails if the file is not a valid params.yaml, or has a parameter of that name.
pub fn add_parameter(params: &str, parameter: &PackageParameter) -> Result<String, Error> {
    let mut file = read(PARAMS_FILE, params)?;
    let all = list(PARAMS_FILE, &mut file, "parameters")?;
    for known in all.iter_mut().filter_map(Value::as_object_mut) {
        if known.get("name").and_then(Value::as_str) == Some(parameter.name.as_str()) {
            return Err(invalid(PARAMS_FILE, format!("parameter {} already exists", parameter.name)));
        }
        known.entry("required").or_insert(Value::Bool(true));
        known.entry("immutable").or_insert(Value::Bool(false));
    }
    let mut added = json!(parameter);
    if let Some(added) = added.as_object_mut() {
        let is_empty = |value: &Value| {
            value.is_null() || *value == Value::Bool(false) || value.as_str().is_some_and(str::is_empty)
        };
        let is_said = |key: &str| matches!(key, "required" | "immutable");
        added.retain(|key, value| if is_said(key) { !value.is_null() } else { !is_empty(value) });
    }
    all.push(added);
    Ok(text(&file.into()))
}

fn invalid(file: &str, message: String) -> Error {
    Error::Invalid(vec![Problem { file: file.to_owned(), line: None, message }])
}

fn read(name: &str, text: &str) -> Result<Map<String, Value>, Error> {
    match steersman_yaml::from_str(text) {
        Ok(Value::Object(file)) => Ok(file),
        Ok(_) => Err(invalid(name, "expected a map".into())),
        Err(error) => Err(invalid(name, error.to_string())),
    }
}

fn list<'a>(name: &str, file: &'a mut Map<String, Value>, key: &str) -> Result<&'a mut Vec<Value>, Error> {
    let found = file.entry(key).or_insert_with(|| json!([]));
    if found.is_null() {
        *found = json!([]);
    }
    found.as_array_mut().ok_or_else(|| invalid(name, format!("{key} is not a list")))
}

fn text(value: &Value) -> String {
    steersman_yaml::to_string(value).unwrap_or_default()
}
