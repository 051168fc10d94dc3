//! `steer status`.

use clap::Args;
use steersman_release::ChartRecord;

use super::show::{self, FormatArgs, Shown};
use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::Result;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  steer status shop --show-desc
  steer status shop --revision 2 -o yaml";

/// Show the status of a release
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {
    /// Name of the release
    name: String,

    /// Revision number [default: the latest]
    #[arg(long, value_name = "NUMBER")]
    revision: Option<i64>,

    /// Show the description of the revision
    #[arg(long)]
    show_desc: bool,

    #[command(flatten)]
    format: FormatArgs,
}

impl Status {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let found = async { Ok(cluster::releases(globals).await?.get(&self.name, self.revision).await?) };
        let mut release = cluster::run(found)?;
        release.chart = ChartRecord::default();
        if show::data(self.format.output, &release, output)? {
            return Ok(());
        }
        show::release(&release, Shown { description: self.show_desc, ..Shown::default() }, output)
    }
}
