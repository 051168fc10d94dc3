//! The command line of an operator: `run | manifests | crds | rbac | webhooks | doctor | dashboard | version`.

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use futures::future::{BoxFuture, LocalBoxFuture};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

#[cfg(feature = "otlp")]
use tracing_subscriber::Layer as _;

use super::{Operator, doctor, logs, metrics_server::SECURE_METRICS_PORT};
use crate::{
    environment::SteppedEnvironment,
    error::{Error, Result},
    leader::LeaderElection,
    privilege::{Comparison, Requests},
    shard::Sharding,
};

#[derive(Debug, Parser)]
#[command(disable_version_flag = true, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

/// Returns the command line of an operator's program, for documentation.
#[must_use]
pub fn command_line() -> clap::Command {
    Cli::command().name("operator")
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator (default)
    Run(Box<Run>),
    /// Print all manifests that the operator needs in a cluster
    Manifests(Manifests),
    /// Print the CRDs of the operator
    Crds {
        /// Namespace of the operator, where the API server finds the conversion webhook
        #[arg(long, default_value = "default", value_name = "NAME")]
        namespace: String,
    },
    /// Print the RBAC manifests that the operator needs
    Rbac {
        /// Namespace of the operator
        #[arg(long, default_value = "default", value_name = "NAME")]
        namespace: String,
        /// Print the permissions of replicas that run with --shard
        #[arg(long)]
        shard: bool,
        /// Instead, compare them with the requests in a --record-requests file; fail if one was not declared
        #[arg(long, value_name = "FILE")]
        least_privilege: Option<PathBuf>,
    },
    /// Print the webhook manifests: configurations, and the Secret with their certificate
    Webhooks {
        /// Namespace of the operator
        #[arg(long, default_value = "default", value_name = "NAME")]
        namespace: String,
    },
    /// Check a cluster for the operator's CRDs, webhooks and permissions; fail if any is missing
    Doctor {
        /// Path to the kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
    },
    /// Print a Grafana dashboard for import
    Dashboard,
    /// Print the version
    Version,
}

#[derive(Debug, Args)]
struct Manifests {
    /// Operator image
    #[arg(long, default_value = "controller:latest", value_name = "IMAGE")]
    image: String,
    /// Namespace of the operator
    #[arg(long, default_value = "default", value_name = "NAME")]
    namespace: String,
    /// Print the manifests for replicas that shard the objects, instead of leader election
    #[arg(long)]
    shard: bool,
}

#[derive(Debug, Args)]
struct Run {
    /// Address that the metrics endpoint binds to; 0 disables it
    #[arg(long, default_value = ":8080", value_name = "ADDRESS")]
    metrics_bind_address: String,
    /// Enable secure serving (TLS) of the metrics endpoint [default: true on port 8443, else false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
    metrics_secure: Option<bool>,
    /// Enable RBAC checks for secure metrics: the caller's token must be allowed to get /metrics
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set, value_name = "true|false")]
    metrics_require_rbac: bool,
    /// Directory with tls.crt and tls.key for secure metrics [default: a self-signed certificate]
    #[arg(long, value_name = "DIR")]
    metrics_cert_path: Option<PathBuf>,
    /// Address that the probe endpoint (/healthz and /readyz) binds to; 0 disables it
    #[arg(long, default_value = ":8081", value_name = "ADDRESS")]
    health_probe_bind_address: String,
    /// Port of the webhook server, if the operator has webhooks
    #[arg(long, default_value_t = 9443, value_name = "PORT")]
    webhook_port: u16,
    /// Directory with tls.crt and tls.key for webhooks [default: signed by the operator's own CA]
    #[arg(long, value_name = "DIR")]
    webhook_cert_path: Option<PathBuf>,
    /// URL at which the API server reaches webhooks, such as https://localhost:9443 [default: the Service]
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
    /// Enable leader election, so that one of several replicas is active [default: set in code, else false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
    leader_elect: Option<bool>,
    /// Shard the objects among the replicas, instead of leader election
    #[arg(long)]
    shard: bool,
    /// Name of the leader election lease [default: the operator's name]
    #[arg(long, value_name = "NAME")]
    leader_election_id: Option<String>,
    /// Namespace of the leader election lease [default: the operator's own]
    #[arg(long, value_name = "NAME")]
    leader_election_namespace: Option<String>,
    /// Namespaces to watch, separated by commas [default: all]
    #[arg(long, env = "WATCH_NAMESPACE", value_name = "NAMES")]
    watch_namespace: Option<String>,
    /// Apply the operator's CRDs before starting
    #[arg(long)]
    install_crds: bool,
    /// Log level, or `target=level` pairs separated by commas
    #[arg(long, env = "LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    log_level: String,
    /// Log format
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value_t = logs::Format::Auto)]
    log_format: logs::Format,
    /// OpenTelemetry collector to export spans to, such as http://collector:4318
    #[cfg(feature = "otlp")]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Serve /debug/queue and /debug/cache on the probe endpoint
    #[arg(long)]
    debug_endpoints: bool,
    /// File to record API requests to, for `rbac --least-privilege`
    #[arg(long, value_name = "FILE")]
    record_requests: Option<PathBuf>,
    /// Time to wait for active reconciles on shutdown, in seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    graceful_shutdown_timeout: u64,
    /// Path to the kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Offset of the operator's clock from the machine's, in seconds, to test time-dependent behaviour
    #[arg(long, default_value_t = 0, value_name = "SECONDS", hide_short_help = true)]
    clock_offset: u64,
}

impl Operator {
    /// Runs the operator as a program, with the arguments of the process. The commands are `run` (the default),
    /// `manifests`, `crds`, `rbac`, `webhooks`, `doctor`, `dashboard` and `version`, with kubebuilder's flags and
    /// environment, logs, metrics, probes, and a graceful shutdown on SIGTERM and SIGINT. An invalid command line exits the
    /// process.
    ///
    /// # Errors
    /// As [`Operator::run_until`], and if no cluster is configured.
    pub async fn main(self) -> Result<()> {
        self.main_from(std::env::args_os()).await
    }

    /// As [`Operator::main`], with the given arguments instead of those of the process.
    ///
    /// # Errors
    /// As [`Operator::main`].
    pub async fn main_from(
        self,
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<()> {
        self.run_arguments(arguments.into_iter().map(Into::into).collect()).await
    }

    fn run_arguments(mut self, arguments: Vec<OsString>) -> LocalBoxFuture<'static, Result<()>> {
        Box::pin(async move {
            let command = Cli::command().bin_name(self.name.clone());
            let matches = command.get_matches_from(arguments);
            let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
            match cli.command {
                None => self.run_command(cli.run).await,
                Some(Command::Run(run)) => self.run_command(*run).await,
                Some(Command::Manifests(Manifests { image, namespace, shard })) => {
                    self.share(shard);
                    print(&self.deployed().manifests(&namespace, &image)?)
                }
                Some(Command::Crds { namespace }) => print(&self.declarations().crd_manifests(&namespace)?),
                Some(Command::Rbac { namespace, shard, least_privilege }) => {
                    self.share(shard);
                    match least_privilege {
                        Some(recording) => self.judge(&recording),
                        None => print(&self.deployed().rbac_manifests(&namespace)?),
                    }
                }
                Some(Command::Webhooks { namespace }) => {
                    print(&self.declarations().webhook_documents(&namespace)?)
                }
                Some(Command::Doctor { kubeconfig }) => {
                    // The address that `run` serves them on.
                    self.webhook_address.get_or_insert(SocketAddr::from(([0, 0, 0, 0], 9443)));
                    let (client, _) = connect(kubeconfig).await?;
                    let findings = self.doctor(&client).await?;
                    for finding in &findings {
                        print(&format!("{finding}\n"))?;
                    }
                    if findings.is_empty() { Ok(()) } else { Err(Error::Unhealthy(findings.len())) }
                }
                Some(Command::Dashboard) => print(&format!("{:#}\n", self.dashboard())),
                Some(Command::Version) => print(&format!("{} {}\n", self.name, self.version)),
            }
        })
    }

    /// Enables sharding if the command line requests it. Its settings may come from the code.
    fn share(&mut self, yes: bool) {
        if yes && self.sharding.is_none() {
            self.sharding = Some(Sharding::new());
        }
    }

    /// Configures leader election from the command line; where it is silent, the code decides.
    fn elect(&mut self, yes: Option<bool>, lease: Option<String>, namespace: Option<String>) {
        match yes {
            Some(false) => self.election = None,
            Some(true) if self.election.is_none() => {
                self.election = Some(LeaderElection::new(self.name.clone()));
            }
            _ => {}
        }
        if let Some(election) = &mut self.election {
            election.lease = lease.unwrap_or_else(|| election.lease.clone());
            election.namespace = namespace.or_else(|| election.namespace.take());
        }
    }

    async fn run_command(self, run: Run) -> Result<()> {
        let (spans, flush) = self.spans(&run)?;
        logs::start(&run.log_level, run.log_format, spans);
        let result = self.run_with(run).await;
        flush.await;
        result
    }

    async fn run_with(mut self, run: Run) -> Result<()> {
        let client = match self.client.take() {
            Some(client) => client,
            None => {
                let (client, host) = connect(run.kubeconfig).await?;
                self.api_server.get_or_insert(host);
                client
            }
        };
        if let Some(names) = &run.watch_namespace {
            self.namespaces =
                names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        }
        self.metrics = address(&run.metrics_bind_address)?;
        self.metrics_security.secure = run.metrics_secure.unwrap_or_else(|| {
            self.metrics_security.secure
                || self.metrics.is_some_and(|address| address.port() == SECURE_METRICS_PORT)
        });
        self.metrics_security.open = !run.metrics_require_rbac;
        if let Some(folder) = run.metrics_cert_path {
            self.metrics_security.certificates = Some(folder);
        }
        self.probes = address(&run.health_probe_bind_address)?;
        self.webhook_address = Some(SocketAddr::from(([0, 0, 0, 0], run.webhook_port)));
        self.webhook_certificates = run.webhook_cert_path.or(self.webhook_certificates);
        self.webhook_url = run.webhook_url.or(self.webhook_url);
        self.debug |= run.debug_endpoints;
        if run.clock_offset > 0 {
            let environment = SteppedEnvironment::new(self.take_environment());
            environment.step(Duration::from_secs(run.clock_offset));
            self.environment = Some(Arc::new(environment));
        }
        self.grace = Duration::from_secs(run.graceful_shutdown_timeout);
        if run.shard && run.leader_elect == Some(true) {
            return Err(Error::Config("--shard and --leader-elect exclude each other: leave one out".into()));
        }
        self.share(run.shard);
        self.elect(run.leader_elect, run.leader_election_id, run.leader_election_namespace);
        if run.install_crds {
            self.install_crds(&client).await?;
        }
        // What the doctor can't check shows up later anyway.
        for finding in doctor::examine(&self.running(), &client).await.unwrap_or_default() {
            tracing::warn!(fix = finding.fix, "{}", finding.problem);
        }
        let stop = stop_signal()?;
        let Some(recording) = run.record_requests else { return self.run_until(client, stop).await };
        let requests = Requests::new();
        let result = self.run_until(requests.of(client), stop).await;
        std::fs::write(&recording, requests.to_lines()).map_err(Error::other)?;
        result
    }

    /// Returns the layer that exports spans, and a future that flushes the last of them.
    #[cfg(feature = "otlp")]
    fn spans(&self, run: &Run) -> Result<(Option<logs::More>, BoxFuture<'static, ()>)> {
        let Some(endpoint) = &run.otlp_endpoint else { return Ok((None, Box::pin(std::future::ready(())))) };
        let (layer, sending) = super::otlp::Collector::read(endpoint)?.layer(&self.name);
        let flush = layer.flush(tokio::spawn(sending));
        let filter = tracing_subscriber::filter::Targets::new().with_default(tracing::Level::INFO);
        Ok((Some(layer.with_filter(filter).boxed()), Box::pin(flush)))
    }

    #[cfg(not(feature = "otlp"))]
    fn spans(&self, _: &Run) -> Result<(Option<logs::More>, BoxFuture<'static, ()>)> {
        Ok((None, Box::pin(std::future::ready(()))))
    }

    /// Prints which permissions a recorded run lacked, and which it did not need.
    fn judge(&self, recording: &Path) -> Result<()> {
        let text = std::fs::read_to_string(recording)
            .map_err(|error| Error::Config(format!("{}: {error}", recording.display())))?;
        let requests = Requests::from_lines(&text)
            .map_err(|error| Error::Config(format!("{} is not a recording: {error}", recording.display())))?;
        let Comparison { missing, idle } = requests.compare(&self.deployed().all_rules());
        for finding in missing.iter().chain(&idle) {
            print(&format!("{}\n", finding.problem))?;
        }
        if missing.is_empty() { Ok(()) } else { Err(Error::Undeclared(missing.len())) }
    }
}

#[expect(clippy::print_stdout, reason = "the output of a command")]
fn print(text: &str) -> Result<()> {
    print!("{text}");
    Ok(())
}

/// Returns a client, and the host and port of its API server.
async fn connect(kubeconfig: Option<PathBuf>) -> Result<(Client, String)> {
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(&path).map_err(|error| Error::Config(error.to_string()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(|error| Error::Config(error.to_string()))?
        }
        None => Config::infer().await.map_err(|error| Error::Config(error.to_string()))?,
    };
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    Ok((Client::try_from(config)?, host))
}

/// Parses `:8080`, `127.0.0.1:8080` or `0`.
fn address(text: &str) -> Result<Option<SocketAddr>> {
    if text == "0" || text.is_empty() {
        return Ok(None);
    }
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse().map(Some).map_err(|_| Error::Config(format!("invalid address {text}")))
}

fn stop_signal() -> Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::other)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::other)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn addresses_read_as_kubebuilder_writes_them() {
        assert_eq!(address(":8081").unwrap().unwrap().to_string(), "0.0.0.0:8081");
        assert_eq!(address("127.0.0.1:1").unwrap().unwrap().to_string(), "127.0.0.1:1");
        assert_eq!(address("0").unwrap(), None);
        assert!(address("nowhere").is_err());
    }

    #[test]
    fn flags_read_as_kubebuilder_writes_them() {
        let cli = Cli::try_parse_from(["operator", "--leader-elect", "--metrics-bind-address=0"]).unwrap();
        assert_eq!(cli.run.leader_elect, Some(true));
        let cli = Cli::try_parse_from(["operator", "run", "--leader-elect=false", "--shard"]).unwrap();
        assert!(matches!(cli.command, Some(Command::Run(run)) if run.leader_elect == Some(false)));
    }

    #[test]
    fn the_command_line_decides_about_the_election() {
        let lease = |yes: Option<bool>, name: Option<&str>, code: Option<&str>| {
            let mut operator = Operator::new("test");
            operator.election = code.map(LeaderElection::new);
            operator.elect(yes, name.map(str::to_owned), None);
            operator.election.map(|election| election.lease)
        };
        assert_eq!(lease(Some(false), None, Some("code")), None);
        assert_eq!(lease(None, None, Some("code")).as_deref(), Some("code"));
        assert_eq!(lease(Some(true), None, Some("code")).as_deref(), Some("code"));
        assert_eq!(lease(Some(true), Some("flag"), Some("code")).as_deref(), Some("flag"));
        assert_eq!(lease(Some(true), None, None).as_deref(), Some("test"));
        assert_eq!(lease(None, Some("flag"), None), None);
    }

    #[test]
    fn leases_are_missed_only_by_those_that_use_them() {
        let resources = |operator: &Operator| {
            let rules = operator.running().all_rules().into_iter();
            rules.flat_map(|rule| rule.resources.unwrap_or_default()).collect::<Vec<_>>()
        };
        let mut operator = Operator::new("test");
        assert_eq!(resources(&operator), ["events"]);
        operator.elect(Some(true), None, None);
        assert_eq!(resources(&operator), ["events", "leases", "leases"]);
        let mut operator = Operator::new("test");
        operator.share(true);
        assert_eq!(resources(&operator), ["events", "leases"]);
    }

    #[test]
    fn manifests_for_shards_let_them_run() {
        for command in ["manifests", "rbac"] {
            let cli = Cli::try_parse_from(["operator", command, "--shard"]).unwrap();
            let Some(Command::Manifests(Manifests { shard, .. }) | Command::Rbac { shard, .. }) = cli.command
            else {
                panic!("{command} is another command")
            };
            let mut operator = Operator::new("test");
            operator.share(shard);
            let text = operator.manifests("system", "image").unwrap();
            assert!(text.contains("  - list\n  - patch\n"), "{text}");
            assert!(text.contains("- --shard\n") && !text.contains("--leader-elect"), "{text}");
        }
    }
}
