//! `steer history`.

use clap::Args;
use serde::Serialize;
use steersman_release::Release;

use super::show::{self, FormatArgs};
use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::Result;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  steer history shop
  steer history shop -o json --max 3";

/// List the revisions of a release
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, visible_alias = "hist")]
pub(crate) struct History {
    /// Name of the release
    name: String,

    /// Maximum number of revisions to show, latest first
    #[arg(long, value_name = "NUMBER", default_value_t = 256)]
    max: usize,

    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Serialize)]
struct Row<'a> {
    revision: i64,
    updated: String,
    status: &'a str,
    chart: String,
    app_version: &'a str,
    description: &'a str,
}

impl<'a> Row<'a> {
    fn new(release: &'a Release) -> Self {
        Self {
            revision: release.version,
            updated: release.info.last_deployed.map(|time| time.to_string()).unwrap_or_default(),
            status: release.info.status.as_str(),
            chart: release.chart.title(),
            app_version: release.chart.app_version(),
            description: &release.info.description,
        }
    }
}

impl History {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let history =
            cluster::run(async { Ok(cluster::releases(globals).await?.history(&self.name).await?) })?;
        let history = history.get(history.len().saturating_sub(self.max)..).unwrap_or_default();
        let rows: Vec<Row<'_>> = history.iter().map(Row::new).collect();
        if show::data(self.format.output, &rows, output)? {
            return Ok(());
        }
        let head = ["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "DESCRIPTION"];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for (release, row) in history.iter().zip(rows) {
            table.push(vec![
                row.revision.to_string(),
                show::moment(release.info.last_deployed),
                row.status.to_owned(),
                row.chart,
                row.app_version.to_owned(),
                row.description.to_owned(),
            ]);
        }
        show::table(&table, output);
        Ok(())
    }
}
