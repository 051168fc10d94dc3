//! Shared by the scaffolding commands: chart flags, and the report on files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use steersman_chart::Chart;
use steersman_scaffold::{Outcome, Written};

use crate::args::{ChartArgs, GlobalArgs};
use crate::ask::ask;
use crate::charts::Located;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Flags that say which kind is scaffolded.
#[derive(Args, Debug)]
#[command(next_help_heading = "Kind")]
pub(crate) struct KindArgs {
    /// API group of the kind, without the project's domain [default with a chart: charts]
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,

    /// API version of the kind [default with a chart: v1alpha1]
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,

    /// Resource kind [default with a chart: the chart's name in camel case]
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
}

impl KindArgs {
    /// Prompts for missing flags without a default.
    pub(crate) fn complete(&mut self) -> Result {
        for (flag, question, default) in [
            (&mut self.group, "API group, without the domain", None),
            (&mut self.version, "API version", Some("v1alpha1")),
            (&mut self.kind, "Kind", None),
        ] {
            if flag.is_none() && crate::ask::is_possible() {
                *flag = ask(question, default)?;
            }
        }
        Ok(())
    }
}

/// Flags that say which chart is released for the kind's objects.
#[derive(Args, Debug)]
#[command(next_help_heading = "Chart")]
pub(crate) struct HelmChartArgs {
    /// Chart to scaffold from: a directory, archive, URL, oci:// reference, or repository/name
    #[arg(long, value_name = "CHART")]
    pub(crate) helm_chart: Option<String>,

    /// Chart repository URL where to locate the requested chart
    #[arg(long, value_name = "URL", requires = "helm_chart")]
    helm_chart_repo: Option<String>,

    /// Version constraint for a fetched chart, such as 1.1.1 or ^2.0.0 [default: latest]
    #[arg(long, value_name = "RANGE", requires = "helm_chart")]
    helm_chart_version: Option<String>,

    /// Accepted for compatibility with operator-sdk; CRDs are always v1
    #[arg(long, hide = true, value_parser = ["v1"])]
    crd_version: Option<String>,
}

impl HelmChartArgs {
    /// Loads the chart, if one is given.
    pub(crate) fn load(&self, globals: &GlobalArgs) -> Result<Option<Chart>> {
        let Some(name) = &self.helm_chart else { return Ok(None) };
        let source = ChartArgs::of(self.helm_chart_version.as_deref(), self.helm_chart_repo.as_deref());
        let chart = Located::find(name, &source, globals)?.load()?;
        chart.check_dependencies().map_err(|error| {
            Failure::from(error).help(format!("`steer chart dependency build {name}` fetches them"))
        })?;
        Ok(Some(chart))
    }

    /// Returns the chart's path, if it is on disk.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.helm_chart.as_ref().map(PathBuf::from).filter(|path| path.exists())
    }
}

/// Reports the outcomes of a project's files. Returns whether anything changed.
pub(crate) fn report(written: &[Written], output: &mut Output) -> bool {
    // The files of a chart are summarized.
    let mut charts: BTreeMap<String, usize> = BTreeMap::new();
    let mut changed = false;
    for Written { path, outcome, .. } in written {
        changed |= !matches!(outcome, Outcome::Unchanged | Outcome::Kept);
        let mut parts = path.splitn(3, '/');
        match (parts.next(), parts.next(), outcome) {
            (Some("helm-charts"), Some(chart), Outcome::Created) => {
                *charts.entry(format!("helm-charts/{chart}")).or_default() += 1;
            }
            (_, _, Outcome::Created) => output.line(format_args!("created  {path}")),
            (_, _, Outcome::Updated) => output.line(format_args!("updated  {path}")),
            (_, _, Outcome::Removed) => output.line(format_args!("removed  {path}")),
            (_, _, Outcome::Conflict) => output.line(format_args!("conflict {path}")),
            (_, _, Outcome::Unchanged | Outcome::Kept) => {}
        }
    }
    for (chart, files) in charts {
        output.line(format_args!("created  {chart} ({files} files)"));
    }
    for Written { path, by_hand, .. } in written.iter().filter(|file| file.outcome == Outcome::Kept) {
        match by_hand {
            Some(what) => output.line(format_args!("kept     {path}: {what}")),
            None => output.line(format_args!("kept     {path}: it was edited")),
        }
    }
    if !changed {
        output.line("nothing to do: the project is up to date");
    }
    changed
}
