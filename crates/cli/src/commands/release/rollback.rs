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

/// Make an earlier revision of a release the current one again
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rollback {
    /// Name of the release
    name: String,

    /// Number of the revision [default: the one before the last]
    #[arg(allow_hyphen_values = true)]
    revision: Option<i64>,

    /// Wait until all objects are ready
    #[arg(long)]
    wait: bool,

    /// With --wait, wait until all jobs have ended too
    #[arg(long)]
    wait_for_jobs: bool,

    /// How long each hook, and waiting, may take
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = super::duration)]
    timeout: Duration,

    /// Write nothing
    #[arg(long)]
    dry_run: bool,

    /// Run no hooks
    #[arg(long)]
    no_hooks: bool,

    /// Replace objects as a whole
    #[arg(long)]
    force: bool,

    /// Delete what the rollback created if it fails
    #[arg(long)]
    cleanup_on_fail: bool,

    /// Keep at most so many revisions; 0 keeps all [default: 10, or HELM_MAX_HISTORY]
    #[arg(long, value_name = "NUMBER")]
    history_max: Option<usize>,

    /// Accepted for Helm's sake, where it does nothing any more
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
