//! Parameters: validates their values, and converts them for templates.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::{InstanceSpec, OperatorVersionSpec, Parameter, ParameterType};
use crate::error::Error;

/// Validates a value, which may be empty: whether it is required, its type, and the allowed values.
///
/// # Errors
/// Fails with KUDO's message, which names the parameter.
pub fn validate(parameter: &Parameter, value: &str) -> Result<(), Error> {
    let name = &parameter.name;
    if value.is_empty() {
        if parameter.is_required() && parameter.default.is_none() {
            return Err(Error::Parameter(format!("parameter \"{name}\" is required but has no value set")));
        }
        return Ok(());
    }
    let refused =
        |why: String| Error::Parameter(format!("parameter \"{name}\" has an invalid value {value:?}: {why}"));
    fits(parameter.ty(), value).map_err(refused)?;
    match &parameter.values {
        Some(allowed) if !allowed.iter().any(|one| one == value) => {
            Err(refused(format!("value is {value:?}, but only allowed values are [{}]", allowed.join(" "))))
        }
        _ => Ok(()),
    }
}

/// Validates that a string parses as a type.
///
/// # Errors
/// Fails with the reason.
pub fn fits(ty: ParameterType, value: &str) -> Result<(), String> {
    let name = ty.as_str();
    let syntax = |function: &str| {
        format!(
            "type is \"{name}\" but format of {value:?} is invalid: strconv.{function}: parsing {value:?}: invalid syntax"
        )
    };
    let invalid = || format!("type is \"{name}\", but format of {value} is invalid");
    match ty {
        ParameterType::String => Ok(()),
        ParameterType::Integer => value.parse::<i64>().map(drop).map_err(|_| syntax("ParseInt")),
        ParameterType::Number => match value.parse::<f64>() {
            Ok(_) => Ok(()),
            Err(_) => Err(syntax("ParseFloat")),
        },
        ParameterType::Boolean => parse_bool(value).map(drop).ok_or_else(|| syntax("ParseBool")),
        ParameterType::Array => {
            steersman_yaml::array_from_slice(value.as_bytes()).map(drop).map_err(|_| invalid())
        }
        ParameterType::Map => {
            steersman_yaml::object_from_slice(value.as_bytes()).map(drop).map_err(|_| invalid())
        }
    }
}

/// Parses a boolean like Go's `strconv.ParseBool`.
#[must_use]
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Returns a parameter's value: that of the run, else that of the instance, else the default.
#[must_use]
pub fn value<'a>(spec: &'a InstanceSpec, parameter: &'a Parameter) -> Option<&'a str> {
    let of_run = spec.plan_execution.parameters.get(&parameter.name);
    of_run.or_else(|| spec.parameters.get(&parameter.name)).or(parameter.default.as_ref()).map(String::as_str)
}

/// Builds `.Params` for templates: strings, except for lists and maps of parameters with these types.
///
/// # Errors
/// Fails if a list or map does not parse.
pub fn resolve(version: &OperatorVersionSpec, spec: &InstanceSpec) -> Result<BTreeMap<String, Value>, Error> {
    let mut values = BTreeMap::new();
    for parameter in &version.parameters {
        let text = value(spec, parameter).unwrap_or_default();
        let read = |error: steersman_yaml::Error| {
            Error::Parameter(format!("parameter \"{}\": {error}", parameter.name))
        };
        let resolved = match parameter.ty() {
            ParameterType::Array => {
                Value::Array(steersman_yaml::array_from_slice(text.as_bytes()).map_err(read)?)
            }
            ParameterType::Map => {
                Value::Object(steersman_yaml::object_from_slice(text.as_bytes()).map_err(read)?)
            }
            _ => Value::String(text.to_owned()),
        };
        values.insert(parameter.name.clone(), resolved);
    }
    Ok(values)
}

/// Converts a YAML value to a parameter's string. Lists and maps become YAML, other values are formatted as
/// in Go.
#[must_use]
pub fn to_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(_) | Value::Object(_) => steersman_yaml::to_string(value).ok(),
        other => Some(other.to_string()),
    }
}

/// Parses a parameter file: a map of names and values, none of them null.
///
/// # Errors
/// Fails if it is not a map, or a value is null.
pub fn from_file(name: &str, text: &[u8]) -> Result<BTreeMap<String, String>, Error> {
    let failed = |why: String| Error::Parameter(format!("{name}: {why}"));
    let table = match steersman_yaml::from_slice(text).map_err(|error| failed(error.to_string()))? {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(table) => table,
        _ => return Err(failed("expected a map of parameters".into())),
    };
    let mut values = BTreeMap::new();
    for (key, value) in table {
        let Some(text) = to_text(&value) else {
            return Err(failed(format!("parameter \"{key}\" has a null value")));
        };
        values.insert(key, text);
    }
    Ok(values)
}
