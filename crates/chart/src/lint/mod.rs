//! `helm lint`: errors and unusual things in a chart, with Helm's messages.

mod chartfile;
mod contacts;
mod deprecations;
mod names;
mod templates;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::capabilities::KubeVersion;
use crate::chart::{Chart, File};
use crate::error::Error;
use crate::load::{self, io_error};
use crate::values::coalesce::{Nulls, coalesce_tables};
use crate::values::schema::Schema;
use crate::values::{MAX_DEPTH, Values, from_map, to_map};
use crate::yaml;

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Informational.
    Info,
    /// Against conventions; `helm lint --strict` fails on it.
    Warning,
    /// The chart does not work.
    Error,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintMessage {
    /// Its severity.
    pub severity: Severity,
    /// File or directory that it is about.
    pub path: String,
    /// Its message.
    pub text: String,
}

impl fmt::Display for LintMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Info => "INFO",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
        };
        write!(f, "[{severity}] {}: {}", self.path, self.text)
    }
}

/// How to lint a chart.
#[derive(Clone, Debug, Default)]
pub struct LintOptions {
    /// Namespace of the release in templates. Empty by default.
    pub namespace: String,
    /// Kubernetes version for `.Capabilities` and deprecations. `None`, the default, means Helm's.
    pub kube_version: Option<KubeVersion>,
    /// Whether to skip values.schema.json when rendering. False by default.
    pub skip_schema_validation: bool,
}

/// Lints the chart in a directory or .tgz archive. Fails if there is no Chart.yaml.
pub fn lint(
    path: impl AsRef<Path>,
    values: &Values,
    options: &LintOptions,
) -> Result<Vec<LintMessage>, Error> {
    let path = path.as_ref();
    let source = Source::open(path)?;
    let mut linter = Linter { source, messages: Vec::new() };
    chartfile::lint(&mut linter);
    lint_values(&mut linter, values);
    templates::lint(&mut linter, values, options);
    lint_dependencies(&mut linter);
    Ok(linter.messages)
}

/// Location of the chart.
enum Source {
    Directory(PathBuf),
    Archive { path: PathBuf, files: Vec<File> },
}

impl Source {
    fn open(path: &Path) -> Result<Self, Error> {
        let name = path.to_string_lossy();
        if name.ends_with(".tgz") || name.ends_with(".tar.gz") {
            let content = std::fs::read(path)
                .map_err(|error| wrap("unable to open tarball", io_error("open", path, error)))?;
            let files =
                load::archive_files(&content).map_err(|error| wrap("unable to extract tarball", error))?;
            return Ok(Self::Archive { path: path.to_owned(), files });
        }
        let chart_file = path.join("Chart.yaml");
        std::fs::metadata(&chart_file).map_err(|error| {
            wrap("unable to check Chart.yaml file in chart", io_error("stat", &chart_file, error))
        })?;
        Ok(Self::Directory(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())))
    }

    /// Returns the name of the chart in messages about it as a whole.
    fn name(&self) -> String {
        match self {
            Self::Directory(path) | Self::Archive { path, .. } => path.display().to_string(),
        }
    }

    fn load(&self) -> Result<Chart, Error> {
        match self {
            Self::Directory(path) => Chart::load(path),
            Self::Archive { files, .. } => Chart::from_files(files.iter().cloned()),
        }
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        match self {
            Self::Directory(path) => {
                let path = path.join(name);
                std::fs::read(&path).map_err(|error| io_error("open", &path, error).to_string())
            }
            Self::Archive { files, .. } => files
                .iter()
                .find(|file| file.name == name)
                .map(|file| file.data.to_vec())
                .ok_or_else(|| format!("open {name}: no such file or directory")),
        }
    }

    fn is_directory(&self, name: &str) -> bool {
        match self {
            Self::Directory(path) => path.join(name).is_dir(),
            Self::Archive { files, .. } => {
                files.iter().any(|file| file.name.starts_with(&format!("{name}/")))
            }
        }
    }

    fn exists(&self, name: &str) -> bool {
        match self {
            Self::Directory(path) => path.join(name).exists(),
            Self::Archive { .. } => self.is_directory(name) || self.read(name).is_ok(),
        }
    }
}

struct Linter {
    source: Source,
    messages: Vec<LintMessage>,
}

impl Linter {
    /// Records a message if the outcome is an error. Returns whether it was not.
    fn rule(&mut self, severity: Severity, path: &str, outcome: Result<(), String>) -> bool {
        match outcome {
            Ok(()) => true,
            Err(text) => {
                self.messages.push(LintMessage { severity, path: path.to_owned(), text });
                false
            }
        }
    }
}

fn lint_values(linter: &mut Linter, overrides: &Values) {
    const FILE: &str = "values.yaml";
    let exists = linter.source.exists(FILE);
    let found = exists.then_some(()).ok_or_else(|| "file does not exist".to_owned());
    if linter.rule(Severity::Info, FILE, found) {
        let outcome = check_values(&linter.source, overrides);
        linter.rule(Severity::Error, FILE, outcome);
    }
}

fn check_values(source: &Source, overrides: &Values) -> Result<(), String> {
    let text = source.read("values.yaml").map_err(|error| format!("unable to parse YAML: {error}"))?;
    let values = yaml::values_as(&text, "chartutil.Values")
        .map_err(|error| format!("unable to parse YAML: {error}"))?;
    let coalesced = to_map(&overrides.0);
    coalesce_tables(&coalesced, &to_map(&values), Nulls::Delete, &mut Vec::new());
    match source.read("values.schema.json") {
        Ok(schema) if !schema.is_empty() => {
            let values = from_map(&coalesced, MAX_DEPTH);
            Schema::compile(&schema, None).check(&values, &mut Vec::new())
        }
        _ => Ok(()),
    }
}

fn lint_dependencies(linter: &mut Linter) {
    let chart = match linter.source.load() {
        Ok(chart) => chart,
        Err(error) => {
            linter.rule(Severity::Error, "", Err(format!("unable to load chart\n\t{error}")));
            return;
        }
    };
    let wanted: Vec<&str> =
        chart.metadata().dependencies.iter().flatten().map(|dependency| dependency.name.as_str()).collect();
    let present: Vec<&str> = chart.subcharts().iter().map(Chart::name).collect();
    let listed = |what: &str, names: Vec<&str>| {
        if names.is_empty() { Ok(()) } else { Err(format!("{what}: {}", names.join(","))) }
    };
    let path = linter.source.name();
    let unnamed = present.iter().filter(|name| !wanted.contains(name)).copied().collect();
    linter.rule(Severity::Error, &path, listed("chart metadata is missing these dependencies", unnamed));
    let missing = wanted.iter().filter(|name| !present.contains(name)).copied().collect();
    linter.rule(Severity::Warning, &path, listed("chart directory is missing these dependencies", missing));
}

fn wrap(context: &str, error: Error) -> Error {
    Error::Nested { context: context.to_owned(), source: Box::new(error) }
}
