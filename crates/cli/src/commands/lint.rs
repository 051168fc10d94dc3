//! `steer lint`.

use std::path::{Path, PathBuf};

use clap::Args;
use steersman_chart::{LintMessage, LintOptions, Severity, Values};

use super::template::kube_version;
use crate::args::{GlobalArgs, ValuesArgs};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::{charts, namespace};

const EXAMPLES: &str = "\
Issues that make an installation fail are [ERROR]s, those that break with convention [WARNING]s.

Examples:
  steer lint                                 the chart in this directory
  steer lint ./shop -f prod.yaml --strict
  steer lint shop-1.2.3.tgz --quiet";

/// Maximum depth of subcharts to search for.
const MAX_DEPTH: usize = 32;

/// Examine charts for possible issues
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lint {
    /// Charts, as directories or archives [default: .]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Fail on lint warnings, too
    #[arg(long)]
    strict: bool,

    /// Lint the dependent charts in charts/, too
    #[arg(long)]
    with_subcharts: bool,

    /// Print only warnings and errors
    #[arg(long)]
    quiet: bool,

    /// Do not check values against values.schema.json
    #[arg(long)]
    skip_schema_validation: bool,

    /// Kubernetes version for capabilities and deprecation checks
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,

    #[command(flatten)]
    values: ValuesArgs,
}

impl Lint {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let kube_version = self.kube_version.as_deref().map(kube_version).transpose()?;
        let mut paths = if self.paths.is_empty() { vec![PathBuf::from(".")] } else { self.paths.clone() };
        if self.with_subcharts {
            for path in paths.clone() {
                find_charts(&path.join("charts"), 0, &mut paths);
            }
        }
        let values = charts::values(&self.values, globals)?;
        let options = LintOptions {
            namespace: namespace::resolve(globals),
            kube_version,
            skip_schema_validation: self.skip_schema_validation,
        };
        let mut failed = 0;
        let mut flawed = 0;
        for path in &paths {
            let result = self.lint(path, &values, &options);
            failed += usize::from(result.failed);
            flawed += usize::from(result.flawed);
            if self.quiet && !result.flawed {
                continue;
            }
            output.line(format_args!("==> Linting {}", path.display()));
            result.lines.iter().for_each(|line| output.line(line));
            output.line("");
        }
        let summary = format!("{} chart(s) linted, {failed} chart(s) failed", paths.len());
        if failed > 0 {
            return Err(Failure::new(summary));
        }
        if !self.quiet || flawed > 0 {
            output.line(summary);
        }
        Ok(())
    }

    fn lint(&self, path: &Path, values: &Values, options: &LintOptions) -> Linted {
        let messages = match steersman_chart::lint(path, values, options) {
            Ok(messages) => messages,
            Err(error) => {
                return Linted { lines: vec![format!("Error {error}")], failed: true, flawed: true };
            }
        };
        let tolerated = if self.strict { Severity::Info } else { Severity::Warning };
        let worth_it = |message: &&LintMessage| !self.quiet || message.severity > Severity::Info;
        Linted {
            failed: messages.iter().any(|message| message.severity > tolerated),
            flawed: messages.iter().any(|message| message.severity > Severity::Info),
            lines: messages.iter().filter(worth_it).map(ToString::to_string).collect(),
        }
    }
}

struct Linted {
    lines: Vec<String>,
    failed: bool,
    /// Whether there is a message more severe than info.
    flawed: bool,
}

/// Collects all charts below a directory, unpacked or packed, sorted by name.
fn find_charts(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    if depth > MAX_DEPTH {
        return;
    }
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find_charts(&entry.path(), depth + 1, found);
        } else if name == "Chart.yaml" {
            found.push(directory.to_owned());
        } else if name.ends_with(".tgz") || name.ends_with(".tar.gz") {
            found.push(entry.path());
        }
    }
}
