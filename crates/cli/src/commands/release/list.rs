//! `steer list`.

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use steersman_release::{Release, Status};

use super::show::{self, Format, FormatArgs};
use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::{Failure, Result};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  steer list
  steer list -A --failed
  steer list -f '^shop' -o json";

/// List releases
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, visible_alias = "ls")]
pub(crate) struct List {
    /// List releases across all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Releases in any status
    #[arg(short, long)]
    all: bool,

    /// Deployed releases; without a status flag, deployed and failed ones are shown
    #[arg(long)]
    deployed: bool,

    /// Failed releases
    #[arg(long)]
    failed: bool,

    /// Pending releases: being installed, upgraded or rolled back
    #[arg(long)]
    pending: bool,

    /// Uninstalled releases whose history was kept
    #[arg(long)]
    uninstalled: bool,

    /// Releases that are being uninstalled
    #[arg(long)]
    uninstalling: bool,

    /// Releases whose latest revision is superseded
    #[arg(long)]
    superseded: bool,

    /// Regular expression that release names must match
    #[arg(short, long, value_name = "REGEX")]
    filter: Option<String>,

    /// Label selector that release records must match
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,

    /// Sort by release date instead of by name
    #[arg(short, long)]
    date: bool,

    /// Reverse the sort order
    #[arg(short, long)]
    reverse: bool,

    /// Maximum number of releases to show
    #[arg(short, long, value_name = "NUMBER", default_value_t = 256)]
    max: usize,

    /// Number of releases to skip at the beginning
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    offset: usize,

    /// Print only the release names
    #[arg(short = 'q', long)]
    short: bool,

    /// Do not print column headers
    #[arg(long)]
    no_headers: bool,

    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    namespace: &'a str,
    revision: String,
    updated: String,
    status: &'a str,
    chart: String,
    app_version: &'a str,
}

impl<'a> Row<'a> {
    fn new(release: &'a Release) -> Self {
        let updated = release.info.last_deployed.map_or_else(|| "-".into(), go_time);
        Self {
            name: &release.name,
            namespace: &release.namespace,
            revision: release.version.to_string(),
            updated,
            status: release.info.status.as_str(),
            chart: release.chart.title(),
            app_version: release.chart.app_version(),
        }
    }
}

/// Formats a time as Go does.
fn go_time(time: Timestamp) -> String {
    let nanoseconds = format!("{:09}", time.subsec_nanosecond());
    let fraction = nanoseconds.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction} +0000 UTC", time.strftime("%Y-%m-%d %H:%M:%S"))
}

impl List {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let filter = match self.filter.as_deref().filter(|filter| !filter.is_empty()) {
            Some(filter) => Some(
                regex::Regex::new(filter)
                    .map_err(|error| Failure::new(format!("--filter {filter:?}: {error}")))?,
            ),
            None => None,
        };
        let found = cluster::run(async {
            let releases = cluster::releases(globals).await?;
            Ok(releases.list(self.selector.as_deref(), self.all_namespaces).await?)
        })?;
        let mut found: Vec<Release> = found
            .into_iter()
            .filter(|release| self.shows(release.info.status))
            .filter(|release| filter.as_ref().is_none_or(|filter| filter.is_match(&release.name)))
            .collect();
        if self.date {
            found.sort_by_key(|release| release.info.last_deployed);
        }
        if self.reverse {
            found.reverse();
        }
        let limit = if self.max == 0 { usize::MAX } else { self.max };
        let found: Vec<Release> = found.into_iter().skip(self.offset).take(limit).collect();
        self.show(&found, output)
    }

    fn shows(&self, status: Status) -> bool {
        let chosen = self.deployed
            || self.failed
            || self.pending
            || self.uninstalled
            || self.uninstalling
            || self.superseded;
        self.all
            || match status {
                Status::Deployed => self.deployed || !chosen,
                Status::Failed => self.failed || !chosen,
                Status::Uninstalled => self.uninstalled,
                Status::Uninstalling => self.uninstalling,
                Status::Superseded => self.superseded,
                status => self.pending && status.is_pending(),
            }
    }

    fn show(&self, found: &[Release], output: &mut Output) -> Result {
        if self.short {
            let names: Vec<&str> = found.iter().map(|release| release.name.as_str()).collect();
            if self.format.output == Format::Table {
                names.iter().for_each(|name| output.line(name));
            } else {
                show::data(self.format.output, &names, output)?;
            }
            return Ok(());
        }
        let rows: Vec<Row<'_>> = found.iter().map(Row::new).collect();
        if show::data(self.format.output, &rows, output)? {
            return Ok(());
        }
        let head = ["NAME", "NAMESPACE", "REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION"];
        let mut table = Vec::new();
        if !self.no_headers {
            table.push(head.map(str::to_owned).to_vec());
        }
        for row in rows {
            table.push(vec![
                row.name.to_owned(),
                row.namespace.to_owned(),
                row.revision,
                row.updated,
                row.status.to_owned(),
                row.chart,
                row.app_version.to_owned(),
            ]);
        }
        show::table(&table, output);
        Ok(())
    }
}
