//! `steer uninstall`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use steersman_release::{Cascade, Error, Timeout, UninstallOptions};

use super::waiting;
use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::{Failure, Result};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  steer uninstall shop --wait
  steer uninstall shop --keep-history";

/// Uninstall releases: delete their objects and history
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Uninstall {
    /// Names of the releases
    #[arg(required = true)]
    names: Vec<String>,

    /// Keep the release history
    #[arg(long)]
    keep_history: bool,

    /// Wait until all objects are deleted
    #[arg(long)]
    wait: bool,

    /// Time limit for each hook, and for waiting
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = super::duration)]
    timeout: Duration,

    /// Do not run hooks
    #[arg(long)]
    no_hooks: bool,

    /// Simulate the uninstall without writing anything
    #[arg(long)]
    dry_run: bool,

    /// Succeed if the release does not exist
    #[arg(long)]
    ignore_not_found: bool,

    /// Cascading deletion strategy for the objects' dependents
    #[arg(long, value_name = "HOW", default_value = "background")]
    cascade: CascadeArg,

    /// Description of the uninstall in the history
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CascadeArg {
    Background,
    Foreground,
    Orphan,
}

impl Uninstall {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let options = UninstallOptions {
            keep_history: self.keep_history,
            wait: self.wait,
            timeout: Timeout(self.timeout),
            disable_hooks: self.no_hooks,
            dry_run: self.dry_run,
            description: self.description.clone().filter(|text| !text.is_empty()),
            cascade: match self.cascade {
                CascadeArg::Background => Cascade::Background,
                CascadeArg::Foreground => Cascade::Foreground,
                CascadeArg::Orphan => Cascade::Orphan,
            },
            rendered: None,
        };
        cluster::run(async {
            let releases = cluster::releases(globals).await?.on_progress(waiting::display());
            for name in &self.names {
                match releases.uninstall(name, &options).await {
                    Ok(done) => {
                        if !done.kept.is_empty() {
                            output.line("These resources were kept due to the resource policy:");
                            done.kept.iter().for_each(|object| output.line(object));
                            output.line("");
                        }
                    }
                    Err(Error::NotFound { .. }) if self.ignore_not_found => {}
                    Err(error @ Error::NotFound { .. }) => {
                        return Err(
                            Failure::from(error).within(&format!("uninstall: Release not loaded: {name}"))
                        );
                    }
                    Err(error) => return Err(error.into()),
                }
                output.line(format_args!("release {name:?} uninstalled"));
            }
            Ok(())
        })
    }
}
