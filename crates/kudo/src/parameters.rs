//! Parameters: their values checked, and as templates see them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::{InstanceSpec, OperatorVersionSpec, Parameter, ParameterType};
use crate::error::Error;

/// Checks a value, which may be empty: whether it must be there, its type, and the values that are allowed.
///
/// # Errors
/// Fails in KUDO's words, with the parameter's name.
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

/// Whether a text can be read as a type.
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

/// A boolean as Go's `strconv.ParseBool` reads it.
#[must_use]
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// The value of a parameter: that of the run, else of the instance, else its default.
#[must_use]
pub fn value<'a>(spec: &'a InstanceSpec, parameter: &'a Parameter) -> Option<&'a str> {
    let of_run = spec.plan_execution.parameters.get(&parameter.name);
    of_run.or_else(|| spec.parameters.get(&parameter.name)).or(parameter.default.as_ref()).map(String::as_str)
}

/// `.Params` of templates: text, but lists and tables for parameters of these types.
///
/// # Errors
/// Fails if a list or table cannot be read.
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

/// The text of a value that came as YAML: lists and tables as YAML, everything else as Go prints it.
#[must_use]
pub fn to_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(_) | Value::Object(_) => steersman_yaml::to_string(value).ok(),
        other => Some(other.to_string()),
    }
}

/// Reads a file of parameters: a table of names and values, none of them empty.
///
/// # Errors
/// Fails on what is no table, and on null.
pub fn from_file(name: &str, text: &[u8]) -> Result<BTreeMap<String, String>, Error> {
    let failed = |why: String| Error::Parameter(format!("{name}: {why}"));
    let table = match steersman_yaml::from_slice(text).map_err(|error| failed(error.to_string()))? {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(table) => table,
        _ => return Err(failed("a table of parameters is wanted".into())),
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
