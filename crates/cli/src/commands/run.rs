//! `steer run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use steersman::Operator;
use steersman_helm_operator::{Defaults, WatchConfig, add_watches};

use crate::args::GlobalArgs;
use crate::cluster;
use crate::commands::cluster::interrupted;
use crate::failure::{self, Failure, Result};

const EXAMPLES: &str = "\
An operator-sdk project runs as it is: its watches.yaml, flags, annotations and environment are
understood. WATCH_NAMESPACE limits the namespaces.

Examples:
  steer run helm
  steer run helm --watches-file ./watches.yaml --reconcile-period 5m
  WATCH_NAMESPACE=shop,lab steer run helm --suppress-override-values";

/// Run an operator
#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Helm(Helm),
}

/// Run a chart operator: a release for each object of the kinds in watches.yaml
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Helm {
    /// File that names the kinds and their charts
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,

    /// How often each object is looked at even if nothing happens
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = super::release::duration)]
    reconcile_period: Duration,

    /// How many objects of a kind are worked on at a time [default: the number of processors]
    #[arg(long, value_name = "NUMBER")]
    max_concurrent_reconciles: Option<usize>,

    /// Do not tell in events what override values are
    #[arg(long)]
    suppress_override_values: bool,

    /// Wait this long for the watched kinds to be defined
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = super::release::duration)]
    wait_for_kinds: Duration,
}

impl Run {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))?;
        match self.what {
            What::Helm(helm) => runtime.block_on(helm.run(globals)),
        }
    }
}

impl Helm {
    async fn run(self, globals: &GlobalArgs) -> Result {
        let watches = WatchConfig::load(&self.watches_file)
            .map_err(|error| Failure::new(error.to_string()).help("--watches-file names the file"))?;
        let client = cluster::client(globals).await?;
        let mut defaults = Defaults {
            reconcile_period: self.reconcile_period,
            suppress_override_values: self.suppress_override_values,
            patience: self.wait_for_kinds,
            ..Defaults::default()
        };
        if let Some(workers) = self.max_concurrent_reconciles {
            defaults.max_concurrent_reconciles = workers.max(1);
        }
        let namespaces = std::env::var("WATCH_NAMESPACE").unwrap_or_default();
        let namespaces: Vec<&str> =
            namespaces.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let operator = Operator::new("helm-operator").namespaces(namespaces);
        let failed = |error: steersman_helm_operator::Error| Failure::new(error.to_string());
        let operator = add_watches(operator, &watches, &defaults, &client).await.map_err(failed)?;
        failure::note(&format!("watching {} kinds of {}", watches.len(), self.watches_file.display()));
        let stop = async {
            // A signal that cannot be waited for never comes.
            if interrupted().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        operator.run_until(client, stop).await.map_err(|error| Failure::new(error.to_string()))
    }
}
