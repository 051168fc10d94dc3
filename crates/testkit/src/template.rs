//! Renders `.gotmpl.yaml` files: Go templates with sprig's functions.

use std::path::Path;

use serde_json::{Map, Value};
use steersman_chart::sprig;

use crate::error::LoadError;

/// The template variables `.Namespace` and `.Vars`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    pub(crate) namespace: String,
    pub(crate) vars: Map<String, Value>,
}

/// Executes a template file.
pub(crate) fn render(path: &Path, variables: &Variables) -> Result<Vec<u8>, LoadError> {
    let failed = |error: &dyn std::fmt::Display| LoadError::new(path, error);
    let text = std::fs::read(path).map_err(|error| failed(&error))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fields = [
        ("Namespace", Value::String(variables.namespace.clone())),
        ("Vars", Value::Object(variables.vars.clone())),
    ];
    let environment = steersman_chart::System { enable_dns: true };
    let variable = |name: &str| std::env::var(name).ok();
    sprig::render(&name, &text, "template.Env", fields.to_vec(), Box::new(environment), Box::new(variable))
        .map_err(|error| failed(&error))
}
