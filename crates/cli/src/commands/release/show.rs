//! Prints releases as Helm does.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use steersman_release::{Hook, Release};

use crate::failure::{Failure, Result};
use crate::output::Output;

#[derive(Args, Debug, Default)]
pub(super) struct FormatArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    #[default]
    Table,
    Json,
    Yaml,
}

/// Prints data as JSON or YAML; returns false for a table, which the caller prints.
pub(super) fn data(format: Format, data: &impl Serialize, output: &mut Output) -> Result<bool> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("unable to write output: {error}"));
    match format {
        Format::Table => return Ok(false),
        Format::Json => output.line(serde_json::to_string(data).map_err(|error| failed(&error))?),
        Format::Yaml => {
            let value = serde_json::to_value(data).map_err(|error| failed(&error))?;
            output.push(&steersman_yaml::to_string(&value).map_err(|error| failed(&error))?);
        }
    }
    Ok(true)
}

/// Prints a table: padded columns separated by tabs.
pub(super) fn table(rows: &[Vec<String>], output: &mut Output) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        output.line(cells.join("\t"));
    }
}

/// Formats a time like `Mon Jan  2 15:04:05 2006`.
pub(super) fn moment(time: Option<Timestamp>) -> String {
    time.map(|time| time.strftime("%a %b %e %H:%M:%S %Y").to_string()).unwrap_or_default()
}

/// The optional parts of a release to show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    pub(super) description: bool,
    pub(super) metadata: bool,
    pub(super) all: bool,
    pub(super) hide_notes: bool,
    pub(super) hide_secrets: bool,
}

/// Prints a release for people.
pub(super) fn release(release: &Release, shown: Shown, output: &mut Output) -> Result {
    output.line(format_args!("NAME: {}", release.name));
    if release.info.last_deployed.is_some() {
        output.line(format_args!("LAST DEPLOYED: {}", moment(release.info.last_deployed)));
    }
    output.line(format_args!("NAMESPACE: {}", release.namespace));
    output.line(format_args!("STATUS: {}", release.info.status));
    output.line(format_args!("REVISION: {}", release.version));
    if shown.metadata {
        output.line(format_args!("CHART: {}", release.chart.name()));
        output.line(format_args!("VERSION: {}", release.chart.version()));
        output.line(format_args!("APP_VERSION: {}", release.chart.app_version()));
    }
    if shown.description {
        output.line(format_args!("DESCRIPTION: {}", release.info.description));
    }
    tests(release, output);
    if shown.all {
        output.line("USER-SUPPLIED VALUES:");
        output.push(&given(release)?);
        output.line("");
        output.line("COMPUTED VALUES:");
        output.push(&yaml(&Value::Object(release.computed_values()))?);
        output.line("");
    }
    if shown.all || release.info.description.eq_ignore_ascii_case("Dry run complete") {
        output.line("HOOKS:");
        for hook in &release.hooks {
            output.push(&hook_text(hook));
        }
        let manifest =
            if shown.hide_secrets { without_secrets(&release.manifest) } else { release.manifest.clone() };
        output.line(format_args!("MANIFEST:\n{manifest}"));
    }
    if !shown.hide_notes && !release.info.notes.is_empty() {
        output.line(format_args!("NOTES:\n{}", release.info.notes.trim()));
    }
    Ok(())
}

/// Returns the user-supplied values as YAML; `null` if there are none, as in Helm.
pub(super) fn given(release: &Release) -> Result<String> {
    if release.config.is_empty() { Ok("null\n".into()) } else { yaml(&Value::Object(release.config.clone())) }
}

pub(super) fn hook_text(hook: &Hook) -> String {
    format!("---\n# Source: {}\n{}\n", hook.path, hook.manifest)
}

fn tests(release: &Release, output: &mut Output) {
    let is_test = |hook: &&Hook| hook.events.iter().any(|event| event == "test");
    let tests: Vec<&Hook> = release.hooks.iter().filter(is_test).collect();
    if tests.is_empty() {
        output.line("TEST SUITE: None");
    }
    for test in tests.into_iter().filter(|test| test.last_run.started_at.is_some()) {
        output.line(format_args!("TEST SUITE:     {}", test.name));
        output.line(format_args!("Last Started:   {}", moment(test.last_run.started_at)));
        output.line(format_args!("Last Completed: {}", moment(test.last_run.completed_at)));
        output.line(format_args!("Phase:          {}", test.last_run.phase));
    }
}

pub(super) fn yaml(value: &Value) -> Result<String> {
    steersman_yaml::to_string(value)
        .map_err(|error| Failure::new(format!("unable to write YAML output: {error}")))
}

/// Replaces each Secret in a manifest by a placeholder.
fn without_secrets(manifest: &str) -> String {
    let mut text = String::new();
    for document in steersman_chart::split(manifest) {
        let kind = steersman_yaml::from_str(document).ok();
        let is = |key: &str, wanted: &str| {
            kind.as_ref().and_then(|value| value.get(key)).and_then(Value::as_str) == Some(wanted)
        };
        if is("kind", "Secret") && is("apiVersion", "v1") {
            let source =
                document.lines().next().filter(|line| line.starts_with("# Source:")).unwrap_or_default();
            text.push_str(&format!("---\n{source}\n# HIDDEN: The Secret output has been suppressed\n"));
        } else {
            text.push_str(&format!("---\n{document}\n"));
        }
    }
    text
}
