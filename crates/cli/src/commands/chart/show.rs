//! `steer chart show`.

use clap::{Args, ValueEnum};
use steersman_chart::Chart;

use crate::args::{ChartArgs, GlobalArgs};
use crate::charts::Located;
use crate::failure::{Failure, Result};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  steer chart show values ./shop > values.yaml
  steer chart show chart oci://registry.example.com/charts/shop --version 1.2.3
  steer chart show all shop --repo https://charts.example.com";

const READMES: [&str; 3] = ["readme.md", "readme.txt", "readme"];

/// Show information of a chart
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Show {
    /// Part of the chart to show
    #[arg(value_enum, value_name = "PART")]
    part: Part,

    /// Chart: a directory, archive, URL, oci:// reference, or repository/chart
    chart: String,

    #[command(flatten)]
    source: ChartArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Chart.yaml
    Chart,
    /// values.yaml
    Values,
    /// The README
    Readme,
    /// The CRDs in crds/, those of subcharts included
    Crds,
    /// All of the above
    All,
}

impl Show {
    pub(super) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let chart = Located::find(&self.chart, &self.source, globals)?.load()?;
        let all = self.part == Part::All;
        let wanted = |part: Part| all || self.part == part;
        if wanted(Part::Chart) {
            let text = steersman_yaml::to_string(chart.metadata())
                .map_err(|error| Failure::new(error.to_string()))?;
            output.line(text);
        }
        if wanted(Part::Values)
            && let Some(values) = chart.file("values.yaml")
        {
            separate(all, output);
            output.line(String::from_utf8_lossy(values));
        }
        if wanted(Part::Readme)
            && let Some(readme) = readme(&chart)
        {
            separate(all, output);
            output.line(String::from_utf8_lossy(readme));
        }
        if wanted(Part::Crds) {
            let mut crds = Vec::new();
            collect_crds(&chart, &mut crds);
            if crds.first().is_some_and(|crd| !crd.starts_with(b"---")) {
                separate(all, output);
            }
            crds.into_iter().for_each(|crd| output.line(String::from_utf8_lossy(crd)));
        }
        Ok(())
    }
}

fn separate(all: bool, output: &mut Output) {
    if all {
        output.line("---");
    }
}

fn readme(chart: &Chart) -> Option<&[u8]> {
    let is_readme = |name: &str| READMES.iter().any(|readme| readme.eq_ignore_ascii_case(name));
    chart.all_files().iter().find(|file| is_readme(&file.name)).map(|file| &file.data[..])
}

/// Collects the definitions of a chart, followed by those of its subcharts.
fn collect_crds<'a>(chart: &'a Chart, crds: &mut Vec<&'a [u8]>) {
    let is_crd = |name: &str| {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        name.starts_with("crds/") && matches!(extension.as_deref(), Some("yaml" | "yml" | "json"))
    };
    crds.extend(chart.all_files().iter().filter(|file| is_crd(&file.name)).map(|file| &file.data[..]));
    chart.subcharts().iter().for_each(|subchart| collect_crds(subchart, crds));
}
