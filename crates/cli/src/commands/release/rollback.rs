//! `steer rollback`.

use std::time::Duration;

use clap::Args;
use steersman_release::{HistoryMax, RollbackOptions, Timeout};

use super::{history_max, waiting, write_mode};
use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::Result;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  steer rollback shop           to the revision before the last
  steer rollback shop 3 --wait  to revision 3";

/// Roll back a release to a previous revision
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rollback {
    /// Name of the release
    name: String,

    /// Revision to roll back to [default: the previous one]
    #[arg(allow_hyphen_values = true)]
    revision: Option<i64>,

    /// Wait until all objects are ready
    #[arg(long)]
    wait: bool,

    /// With --wait, also wait until all Jobs have completed
    #[arg(long)]
    wait_for_jobs: bool,

    /// Time limit for each hook, and for waiting
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = super::duration)]
    timeout: Duration,

    /// Simulate the rollback without writing anything
    #[arg(long)]
    dry_run: bool,

    /// Do not run hooks
    #[arg(long)]
    no_hooks: bool,

    /// Replace objects instead of patching them
    #[arg(long)]
    force: bool,

    /// Delete new objects created by the rollback if it fails
    #[arg(long)]
    cleanup_on_fail: bool,

    /// Maximum number of revisions to keep; 0 for no limit [default: HELM_MAX_HISTORY, or 10]
    #[arg(long, value_name = "NUMBER")]
    history_max: Option<usize>,

    /// Accepted for compatibility with Helm, where it has no effect either
    #[arg(long, hide = true)]
    recreate_pods: bool,
}

impl Rollback {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let options = RollbackOptions {
            revision: self.revision,
            wait: self.wait,
            wait_for_jobs: self.wait_for_jobs,
            timeout: Timeout(self.timeout),
            disable_hooks: self.no_hooks,
            dry_run: self.dry_run,
            cleanup_on_fail: self.cleanup_on_fail,
            history_max: HistoryMax(self.history_max.unwrap_or_else(history_max)),
        };
        cluster::run(async {
            let releases = cluster::releases(globals).await?.write_mode(write_mode(self.force, true));
            Ok(releases.on_progress(waiting::display()).rollback(&self.name, &options).await?)
        })?;
        output.line("Rollback was a success! Happy Helming!");
        Ok(())
    }
}
