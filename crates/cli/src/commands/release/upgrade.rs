//! `steer upgrade`.

use clap::Args;
use steersman_release::{CrdPolicy, Error, HistoryMax, Options, ValuesPolicy};

use super::show::{self, Format, Shown};
use super::{DeployArgs, SourceArgs, history_max};
use crate::args::GlobalArgs;
use crate::charts::{self, Located};
use crate::cluster;
use crate::failure::{Failure, Result};
use crate::output::Output;

const EXAMPLES: &str = "\
An interrupted operation on the release is recovered. `steer diff` shows what would change.

Examples:
  steer upgrade shop ./chart -f prod.yaml --atomic
  steer upgrade --install shop ./chart --reuse-values --set image.tag=1.6
  steer upgrade shop ./chart --crds CreateReplace";

/// Upgrade a release to a chart and values
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Upgrade {
    /// Name of the release
    name: String,

    /// Chart: a directory, archive, URL, oci:// reference, or repository/chart
    chart: String,

    /// Install the release if it does not exist
    #[arg(short, long)]
    install: bool,

    #[command(flatten)]
    values_from: ValuesFrom,

    /// Maximum number of revisions to keep; 0 for no limit [default: HELM_MAX_HISTORY, or 10]
    #[arg(long, value_name = "NUMBER")]
    history_max: Option<usize>,

    /// Delete new objects created by the upgrade if it fails
    #[arg(long)]
    cleanup_on_fail: bool,

    /// Accepted for compatibility with Helm, where it has no effect either
    #[arg(long, hide = true)]
    recreate_pods: bool,

    #[command(flatten)]
    deploy: DeployArgs,

    #[command(flatten)]
    source: SourceArgs,
}

/// Flags that say how an upgrade's values come about.
#[derive(Args, Debug)]
#[command(next_help_heading = "Values")]
pub(super) struct ValuesFrom {
    /// Reset the values to the ones built into the chart
    #[arg(long)]
    reset_values: bool,

    /// Reuse the last release's values, its chart's included, and merge in new ones
    #[arg(long)]
    reuse_values: bool,

    /// Reset the values to the new chart's, then merge in the last release's and new ones
    #[arg(long)]
    reset_then_reuse_values: bool,

    /// Keep the random values that templates generated in the last revision
    #[arg(long)]
    keep_random: bool,
}

impl ValuesFrom {
    pub(super) fn apply(&self, options: Options) -> Options {
        let values = match self {
            Self { reset_values: true, .. } => ValuesPolicy::Reset,
            Self { reuse_values: true, .. } => ValuesPolicy::Reuse,
            Self { reset_then_reuse_values: true, .. } => ValuesPolicy::ResetThenReuse,
            _ => ValuesPolicy::Given,
        };
        Options { values, keep_random: self.keep_random, ..options }
    }
}

impl Upgrade {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let failed = |failure: Failure| failure.within("UPGRADE FAILED");
        let options = Options {
            cleanup_on_fail: self.cleanup_on_fail,
            history_max: HistoryMax(self.history_max.unwrap_or_else(history_max)),
            ..self.values_from.apply(self.deploy.options(globals)?)
        };
        let located = Located::find(&self.chart, &self.source.chart, globals)?;
        let values = charts::values(&self.source.values, globals)?;
        let chart = located.load_installable(self.deploy.dependency_update, &self.source.chart, globals)?;
        let upgraded = cluster::run(async {
            let releases = self.deploy.releases(cluster::releases(globals).await?)?;
            let absent = self.install && releases.revisions(&self.name).await?.is_empty();
            if absent {
                let crds = options.crds.or(Some(CrdPolicy::Create));
                let options = Options { crds, ..options.clone() };
                return Ok((releases.install(&self.name, &chart, &values, &options).await?, true));
            }
            match releases.upgrade(&self.name, &chart, &values, &options).await {
                Ok(release) => Ok((release, false)),
                // It was uninstalled with --keep-history, or an uninstall was interrupted: Helm reinstalls it, too.
                Err(Error::NotDeployed { .. }) if self.install => {
                    let options = Options { replace: true, ..options.clone() };
                    Ok((releases.install(&self.name, &chart, &values, &options).await?, true))
                }
                Err(error) => Err(error.into()),
            }
        });
        let (release, installed) = upgraded.map_err(failed)?;
        if show::data(self.deploy.format.output, &release, output)? {
            return Ok(());
        }
        if self.deploy.format.output == Format::Table && options.dry_run.is_none() {
            if installed {
                output.line(format_args!("Release {:?} does not exist. Installing it now.", self.name));
            } else {
                output.line(format_args!("Release {:?} has been upgraded. Happy Helming!", self.name));
            }
        }
        let shown = Shown {
            all: globals.debug(),
            hide_notes: self.deploy.hide_notes,
            hide_secrets: self.deploy.hide_secret,
            ..Shown::default()
        };
        show::release(&release, shown, output)
    }
}
