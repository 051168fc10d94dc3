//! Invariants of a simulation, and exceptions from its checks.

use std::path::{Path, PathBuf};

use clap::Args;
use steersman_simulate::Simulation;

use crate::failure::{Failure, Result};

/// What must hold in a simulation, and what need not.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Rules")]
pub(super) struct RuleArgs {
    /// CEL invariant of all objects, or of each of a kind: 'Shop: object.spec.size > 0'; may be repeated
    #[arg(long, value_name = "KIND: EXPRESSION")]
    invariant: Vec<String>,

    /// File with a list of invariants, each with `expression` and `kind`; may be repeated
    #[arg(long, value_name = "FILE")]
    invariants: Vec<PathBuf>,

    /// Resource or object that may outlive the samples, such as secrets/default/key; may be repeated
    #[arg(long, value_name = "RESOURCE")]
    keep: Vec<String>,

    /// Objects to exclude from comparison: 'secrets/*/sh.helm.release.v1.*'; may be repeated
    #[arg(long, value_name = "OBJECTS")]
    ignore: Vec<String>,

    /// Field of a kind to exclude from comparison; may be repeated
    #[arg(long, value_name = "KIND.FIELD")]
    ignore_field: Vec<String>,

    /// Property that --properties skips, with all fields below it: .spec.paused; may be repeated
    #[arg(long, value_name = "PATH")]
    ignore_property: Vec<String>,
}

impl RuleArgs {
    pub(super) fn apply(&self, mut simulation: Simulation) -> Result<Simulation> {
        let mut invariants = Vec::new();
        for text in &self.invariant {
            invariants.push(parse(text));
        }
        for path in &self.invariants {
            invariants.extend(read(path)?);
        }
        for (kind, expression) in invariants {
            simulation = simulation
                .invariant_expression(kind.as_deref(), &expression)
                .map_err(|error| Failure::new(error.to_string()))?;
        }
        simulation = self.keep.iter().fold(simulation, Simulation::keeps);
        simulation = self.ignore.iter().fold(simulation, Simulation::ignores);
        simulation = self.ignore_property.iter().fold(simulation, Simulation::ignores_property);
        for field in &self.ignore_field {
            let Some((kind, path)) = field.split_once('.').filter(|(kind, _)| !kind.is_empty()) else {
                return Err(Failure::new(format!("--ignore-field {field} has no kind"))
                    .help("write it as Shop.status.history"));
            };
            simulation = simulation.ignores_field(kind, format!(".{path}"));
        }
        Ok(simulation)
    }
}

/// Splits an invariant into kind and expression.
fn parse(text: &str) -> (Option<String>, String) {
    // No CEL expression begins with a word and a colon.
    let named = text.split_once(':').filter(|(kind, _)| {
        kind.starts_with(|first: char| first.is_ascii_uppercase())
            && kind.chars().all(|letter| letter.is_ascii_alphanumeric())
    });
    match named {
        Some((kind, expression)) => (Some(kind.to_owned()), expression.trim().to_owned()),
        None => (None, text.to_owned()),
    }
}

fn read(path: &Path) -> Result<Vec<(Option<String>, String)>> {
    let broken = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| broken(&error))?;
    let entries = steersman_yaml::array_from_slice(&text).map_err(|error| broken(&error))?;
    let mut found = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let Some(expression) = entry["expression"].as_str() else {
            return Err(broken(&format!("entry {} has no expression", index + 1)).help(
                "each entry needs an `expression`, and a `kind` to evaluate it for each `object` of it",
            ));
        };
        found.push((entry["kind"].as_str().map(str::to_owned), expression.to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invariant_may_name_its_kind() {
        let of = |text: &str| {
            let (kind, expression) = parse(text);
            (kind.unwrap_or_default(), expression)
        };
        assert_eq!(of("Shop: object.spec.size > 0"), ("Shop".into(), "object.spec.size > 0".into()));
        assert_eq!(of("objects.size() < 3"), (String::new(), "objects.size() < 3".into()));
        let ternary = "objects.size() > 3 ? false : true";
        assert_eq!(of(ternary), (String::new(), ternary.into()));
    }

    #[test]
    fn a_file_has_a_list_of_invariants() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("invariants.yaml");
        std::fs::write(
            &path,
            "- kind: Shop\n  expression: object.spec.size > 0\n- expression: objects.size() < 9\n",
        )
        .unwrap();
        assert_eq!(read(&path).unwrap().len(), 2);
        std::fs::write(&path, "- kind: Shop\n").unwrap();
        assert!(read(&path).unwrap_err().message().contains("entry 1 has no expression"));
    }
}
