//! `steer kudo get`, and objects as YAML or JSON.

use clap::Args;
use serde::Serialize;
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

/// Prints a value as YAML or JSON.
pub(super) fn print(value: &impl Serialize, format: Format, output: &mut Output) -> Result {
    let text = match format {
        Format::Yaml => steersman_yaml::to_string(value).map_err(|error| Failure::new(error.to_string()))?,
        Format::Json => {
            let text =
                serde_json::to_string_pretty(value).map_err(|error| Failure::new(error.to_string()))?;
            format!("{text}\n")
        }
    };
    output.push(&text);
    Ok(())
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
    /// What to list
    kind: Kind,

    /// Print the objects in this format
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
            return print(&all, format, output);
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
