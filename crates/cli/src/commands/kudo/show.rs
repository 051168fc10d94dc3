//! `steer kudo get`, and objects as YAML or JSON.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use steersman_kudo::tree::{Branch, draw};
use steersman_kudo::{Instance, Operator, OperatorVersion};

use super::kudo;
use crate::args::GlobalArgs;
use crate::failure::{Failure, Result};
use crate::namespace;
use crate::output::Output;

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// Prints a value as KUDO does: YAML with an empty line after it, or JSON with keys in the order of Go's types.
pub(super) fn print(value: &impl Serialize, format: Format, output: &mut Output) -> Result {
    let value = serde_json::to_value(value).map_err(|error| Failure::new(error.to_string()))?;
    match format {
        Format::Yaml => output.line(yaml(&value)?),
        Format::Json => {
            let mut text = String::new();
            write_json(&value, 0, &mut text);
            output.line(text);
        }
    }
    Ok(())
}

fn yaml(value: &Value) -> Result<String> {
    steersman_yaml::to_string(value).map_err(|error| Failure::new(error.to_string()))
}

/// Keys in the order of Go's types; other keys follow.
const METADATA: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];
const OTHERS: &[&str] = &[
    "kind",
    "name",
    "displayName",
    "description",
    "apiVersion",
    "metadata",
    "spec",
    "status",
    "message",
    "operator",
    "operatorVersion",
    "version",
    "appVersion",
    "templates",
    "tasks",
    "parameters",
    "plans",
    "planExecution",
    "planName",
    "uid",
    "planStatus",
    "conditions",
    "lastUpdatedTimestamp",
    "kudoVersion",
    "kubernetesVersion",
    "maintainers",
    "email",
    "url",
    "strategy",
    "phases",
    "steps",
    "errors",
    "warnings",
    "valid",
];
/// Steps have `message` before `status`, unlike other types.
const STEP: &[&str] = &["name", "message", "status"];

fn write_json(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth + 1);
    let end = "  ".repeat(depth);
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "[\n" } else { ",\n" });
                out.push_str(&indent);
                write_json(item, depth + 1, out);
            }
            let _ = write!(out, "\n{end}]");
        }
        Value::Object(entries) if !entries.is_empty() => {
            let has = |key: &str| entries.contains_key(key);
            let order = if has("creationTimestamp") {
                METADATA
            } else if has("message") && has("status") && !has("steps") && !has("phases") {
                STEP
            } else {
                OTHERS
            };
            let place = |key: &str| order.iter().position(|known| *known == key).unwrap_or(order.len());
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by_key(|(key, _)| place(key));
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                out.push_str(if index == 0 { "{\n" } else { ",\n" });
                let _ = write!(out, "{indent}{}: ", Value::from(key.as_str()));
                write_json(value, depth + 1, out);
            }
            let _ = write!(out, "\n{end}}}");
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

/// Prints objects, with the fields that Go's types always serialize.
fn print_all(mut objects: Vec<Value>, format: Format, output: &mut Output) -> Result {
    for object in &mut objects {
        if object["status"].is_null() {
            object["status"] = json!({});
        }
        if object["kind"] == "Instance" && object["spec"]["planExecution"].is_null() {
            object["spec"]["planExecution"] = json!({});
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.entry("creationTimestamp").or_insert(Value::Null);
            // Omitted as in kubectl.
            metadata.remove("managedFields");
        }
    }
    match format {
        Format::Json => print(&objects, format, output),
        Format::Yaml => {
            for object in &objects {
                output.line("---");
                output.line(yaml(object)?);
            }
            output.line("...");
            Ok(())
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Instances,
    Operators,
    Operatorversions,
    All,
}

/// List instances, operators, operator versions, or all of them
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kudo get instances\n  steer kudo get all -o yaml")]
pub(super) struct Get {
    /// Kind of objects to list
    kind: Kind,

    /// Output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

impl Get {
    pub(super) async fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let kudo = kudo(globals).await?;
        let wants = |kind: Kind| self.kind == kind || self.kind == Kind::All;
        let operators: Vec<Operator> = if wants(Kind::Operators) { kudo.list().await? } else { Vec::new() };
        let versions: Vec<OperatorVersion> =
            if wants(Kind::Operatorversions) { kudo.list().await? } else { Vec::new() };
        let instances: Vec<Instance> = if wants(Kind::Instances) { kudo.list().await? } else { Vec::new() };
        if let Some(format) = self.output {
            let mut all = Vec::new();
            all.extend(operators.iter().map(serde_json::to_value));
            all.extend(versions.iter().map(serde_json::to_value));
            all.extend(instances.iter().map(serde_json::to_value));
            let all: Vec<_> = all.into_iter().flatten().collect();
            return print_all(all, format, output);
        }
        let namespace = namespace::resolve(globals);
        let what = match self.kind {
            Kind::Instances => "instances",
            Kind::Operators => "operators",
            Kind::Operatorversions => "operatorversions",
            Kind::All => "operators including versions and instances",
        };
        output.line(format!("List of current installed {what} in namespace {namespace:?}:"));
        let branches: Vec<Branch> = match self.kind {
            Kind::Instances => instances.iter().map(|one| Branch::new(one.name())).collect(),
            Kind::Operators => operators.iter().map(|one| Branch::new(one.name())).collect(),
            Kind::Operatorversions => versions.iter().map(|one| Branch::new(one.name())).collect(),
            Kind::All => operators.iter().map(|operator| whole(operator, &versions, &instances)).collect(),
        };
        output.line(draw(&branches));
        Ok(())
    }
}

fn whole(operator: &Operator, versions: &[OperatorVersion], instances: &[Instance]) -> Branch {
    let mut branch = Branch::new(operator.name());
    for version in versions.iter().filter(|version| version.spec.operator.name == operator.name()) {
        let mut below = Branch::new(version.name());
        for instance in instances.iter().filter(|one| one.spec.operator_version.name == version.name()) {
            below.push(Branch::new(instance.name()));
        }
        branch.push(below);
    }
    branch
}
