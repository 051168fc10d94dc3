//! `steer chart dependency`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use steersman_chart::semver::{Constraint, Version};
use steersman_chart::{Chart, Dependency as Wanted};
use steersman_registry::{Fetcher, Manager, clean_path};

use crate::args::{AccessArgs, GlobalArgs};
use crate::failure::Result;
use crate::output::Output;
use crate::remote;

const UPDATE_EXAMPLES: &str = "\
Examples:
  steer chart dependency update              the chart in this directory
  steer chart dependency update ./shop --skip-refresh";

const BUILD_EXAMPLES: &str = "\
Examples:
  steer chart dependency build ./shop        the exact versions in Chart.lock";

const LIST_EXAMPLES: &str = "\
Examples:
  steer chart dependency list ./shop";

/// Maximum width of a column.
const MAX_COLUMN: usize = 80;

/// Manage a chart's dependencies
#[derive(Args, Debug)]
#[command(visible_alias = "dep")]
pub(super) struct Dependency {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Update charts/ to the latest versions that satisfy Chart.yaml, and write Chart.lock
    #[command(visible_alias = "up", after_help = UPDATE_EXAMPLES)]
    Update(Fill),
    /// Rebuild charts/ from the versions in Chart.lock
    #[command(after_help = BUILD_EXAMPLES)]
    Build(Fill),
    /// List the dependencies of a chart, with their status
    #[command(visible_alias = "ls", after_help = LIST_EXAMPLES)]
    List(List),
}

#[derive(Args, Debug)]
struct Fill {
    /// Directory of the chart
    #[arg(value_name = "CHART", default_value = ".")]
    chart: PathBuf,

    /// Do not refresh the local repository cache
    #[arg(long)]
    skip_refresh: bool,

    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Args, Debug)]
struct List {
    /// Directory or archive of the chart
    #[arg(value_name = "CHART", default_value = ".")]
    chart: PathBuf,
}

impl Dependency {
    pub(super) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        match self.command {
            Command::Update(fill) => fill.run(globals, output, true),
            Command::Build(fill) => fill.run(globals, output, false),
            Command::List(list) => list.run(output),
        }
    }
}

impl Fill {
    fn run(self, globals: &GlobalArgs, output: &mut Output, update: bool) -> Result {
        let (fetcher, access) = (Fetcher::new(globals.paths()), self.access.access()?);
        let mut progress = |line: &str| output.line(line);
        let mut manager =
            Manager::new(&fetcher, &access, &self.chart, &mut progress).skip_refresh(self.skip_refresh);
        match update {
            true => remote::block_on(manager.update()),
            false => remote::block_on(manager.build()),
        }
    }
}

impl List {
    fn run(self, output: &mut Output) -> Result {
        let chart = Chart::load(&self.chart)?;
        let charts = clean_path(&self.chart.join("charts"));
        let Some(wanted) = &chart.metadata().dependencies else {
            output.line(format_args!("WARNING: no dependencies at {}", charts.display()));
            return Ok(());
        };
        let present = list(&charts);
        let mut rows = vec![["NAME", "VERSION", "REPOSITORY", "STATUS"].map(str::to_owned)];
        for dependency in wanted {
            let Wanted { name, version, repository, .. } = dependency;
            let status = status(&present, dependency, &chart);
            rows.push([name.clone(), version.clone(), repository.clone(), status.to_owned()]);
        }
        output.line(table(&rows));
        output.line("");
        for path in &present {
            let is_archive = path.extension().is_some_and(|extension| extension == "tgz");
            if !path.is_dir() && !is_archive {
                continue;
            }
            let shown = path.display().to_string();
            match Chart::load(path) {
                Err(_) => output.line(format_args!("WARNING: {shown:?} is not a chart.")),
                Ok(found) if !wanted.iter().any(|dependency| dependency.name == found.name()) => {
                    output.line(format_args!("WARNING: {shown:?} is not in Chart.yaml."));
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

/// Returns the entries of `charts/` except hidden files, sorted by name.
fn list(charts: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(charts).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Returns a dependency's status in Helm's terms.
///
/// Archives of its name are checked first, then the loaded subcharts.
fn status(present: &[PathBuf], dependency: &Wanted, parent: &Chart) -> &'static str {
    let prefix = format!("{}-", dependency.name);
    let version_of = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        Some(name.strip_prefix(&prefix)?.strip_suffix(".tgz")?.to_owned())
    };
    let archives: Vec<_> = present.iter().filter_map(|path| Some((path, version_of(path)?))).collect();
    match archives.as_slice() {
        [] => {}
        [(archive, _)] => return archive_status(archive, dependency),
        several => {
            let mut dated = several.iter().filter(|(_, version)| Version::parse_strict(version).is_ok());
            match (dated.next(), dated.next()) {
                (Some((archive, _)), None) => return archive_status(archive, dependency),
                (Some(_), Some(_)) => return "too many matches",
                (None, _) => {}
            }
        }
    }
    match parent.subcharts().iter().rfind(|chart| chart.name() == dependency.name) {
        None => "missing",
        Some(chart) => version_status(&chart.metadata().version, dependency).unwrap_or("unpacked"),
    }
}

fn archive_status(archive: &Path, dependency: &Wanted) -> &'static str {
    match Chart::load(archive) {
        Err(_) => "corrupt",
        Ok(chart) if chart.name() != dependency.name => "misnamed",
        Ok(chart) => version_status(&chart.metadata().version, dependency).unwrap_or("ok"),
    }
}

fn version_status(found: &str, dependency: &Wanted) -> Option<&'static str> {
    if found == dependency.version {
        return None;
    }
    match (Constraint::parse(&dependency.version), Version::parse(found)) {
        (Ok(constraint), Ok(version)) => (!constraint.check(&version)).then_some("wrong version"),
        _ => Some("invalid version"),
    }
}

/// Formats a table as Helm does: columns padded to the widest cell and separated by tabs.
fn table(rows: &[[String; 4]]) -> String {
    let width = |column: usize| {
        let widths = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        widths.max().unwrap_or(0).min(MAX_COLUMN)
    };
    let widths: Vec<_> = (0..4).map(width).collect();
    let line = |row: &[String; 4]| {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| fit(cell, *width)).collect();
        cells.join("\t")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn fit(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return format!("{cell:<width$}");
    }
    let kept: String = cell.chars().take(width.saturating_sub(3)).collect();
    format!("{kept}...")
}
