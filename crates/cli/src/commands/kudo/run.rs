//! `steer run kudo`.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use steersman_cluster::Cluster;
use steersman_kudo::{ExecutionStatus, tree};
use steersman_kudo_operator::{Admission, Kudo, KudoOperator, SERVICE, SimulatedFiles};

use super::read;
use crate::args::GlobalArgs;
use crate::cluster;
use crate::commands::interruption;
use crate::failure::{Failure, Result};

const EXAMPLES: &str = "\
Without a directory, the operator runs on the cluster of the kubeconfig, installs its CRDs there,
and serves its admission webhook. With directories, it runs on an embedded cluster: their packages
are installed, and the plans of their instances are shown whenever they change. Containers are
simulated there: Jobs succeed, and pipes yield a line of text for each file.

Examples:
  steer run kudo
  steer run kudo ./my-operator
  steer run kudo ./my-operator --until-complete";

/// Interval at which plans are checked.
const LOOK: Duration = Duration::from_millis(200);

/// Run the operator for KUDO packages
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::commands) struct RunKudo {
    /// Directories of packages to install on an embedded cluster
    directories: Vec<PathBuf>,

    /// Exit when all deploy plans are complete; fail if one fails
    #[arg(long)]
    until_complete: bool,

    /// With --until-complete, time after which to fail, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,

    /// URL at which the API server reaches the admission webhook, such as https://localhost:9443
    ///
    /// If it is set, the webhook configuration is installed. Without it and without a configuration in the
    /// cluster, the operator itself admits or denies changes when it observes them.
    #[arg(long, value_name = "URL", conflicts_with = "directories")]
    webhook_url: Option<String>,

    /// Port of the admission webhook
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    webhook_port: u16,

    /// Address that the metrics endpoint binds to; 0 disables it
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    metrics_bind_address: String,

    /// Address that the probe endpoint (/healthz and /readyz) binds to; 0 disables it
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    health_probe_bind_address: String,

    /// Log level, or `target=level` pairs separated by commas
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "LOG_LEVEL")]
    log_level: String,
}

impl RunKudo {
    pub(in crate::commands) async fn run(self, globals: &GlobalArgs) -> Result {
        if self.directories.is_empty() { self.on_cluster(globals).await } else { self.embedded().await }
    }

    async fn on_cluster(self, globals: &GlobalArgs) -> Result {
        let client = cluster::client(globals).await?;
        let operator = KudoOperator::new()
            .webhook(Admission::new(client.clone()))
            .operator()
            .version(env!("CARGO_PKG_VERSION"))
            .client(client);
        let mut words = vec![
            "steer run kudo".to_owned(),
            "run".to_owned(),
            "--install-crds".to_owned(),
            format!("--log-level={}", self.log_level),
            format!("--webhook-port={}", self.webhook_port),
            format!("--metrics-bind-address={}", self.metrics_bind_address),
            format!("--health-probe-bind-address={}", self.health_probe_bind_address),
        ];
        words.extend(self.webhook_url.map(|url| format!("--webhook-url={url}")));
        operator
            .main_from(words.into_iter().map(OsString::from))
            .await
            .map_err(|error| Failure::new(error.to_string()))
    }

    async fn embedded(self) -> Result {
        let packages = self.directories.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
        let cluster = Cluster::start().await.map_err(|error| Failure::new(error.to_string()))?;
        let admission = Admission::new(cluster.client());
        cluster.webhooks_by("default", SERVICE, move |request| admission.clone().answer(request));
        let kudo = Kudo::new(cluster.client(), "default");
        kudo.init().await?;
        kudo.register_webhook("default").await?;
        let operator = KudoOperator::new().files(SimulatedFiles).operator();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(operator.run_until(cluster.client(), async {
            // Dropping the sender also stops the operator.
            let _ = stopped.await;
        }));
        let mut names = Vec::new();
        for found in &packages {
            let Some(package) = found.first() else { continue };
            kudo.install(found, None, Default::default()).await?;
            names.push(format!("{}-instance", package.operator.name));
        }
        let signal =
            interruption().map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
        let ended = tokio::select! {
            ended = self.show(&kudo, &names) => ended,
            () = signal => Ok(()),
        };
        drop(stop);
        let operator =
            running.await.map_err(|error| Failure::new(format!("the operator failed: {error}")))?;
        ended.and(operator.map_err(|error| Failure::new(error.to_string())))
    }

    /// Prints the plans whenever they change.
    async fn show(&self, kudo: &Kudo, names: &[String]) -> Result {
        let begun = Instant::now();
        let mut shown = vec![String::new(); names.len()];
        loop {
            let mut complete = 0;
            for (name, before) in names.iter().zip(&mut shown) {
                let instance = kudo.instance(name).await?;
                let version = kudo.version_of(&instance).await?;
                let text = tree::plan_status(&instance, &version.spec);
                if instance.status.last_plan().is_some() && text != *before {
                    let _ = writeln!(anstream::stdout(), "{text}");
                    *before = text;
                }
                let deploy = instance.status.plan_status.get("deploy").map(|plan| plan.status);
                if self.until_complete && deploy == Some(ExecutionStatus::FatalError) {
                    return Err(Failure::new(format!("the deploy plan of {name} failed")));
                }
                complete += usize::from(deploy == Some(ExecutionStatus::Complete));
            }
            if self.until_complete && complete == names.len() {
                return Ok(());
            }
            if self.until_complete && begun.elapsed() >= Duration::from_secs(self.timeout) {
                return Err(Failure::new(format!("not complete after {} s", self.timeout)));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
