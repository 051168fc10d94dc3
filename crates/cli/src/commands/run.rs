//! `steer run`.

#[cfg(all(unix, feature = "ansible"))]
pub(super) mod ansible;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use steersman::Operator;
use steersman_helm_operator::{Defaults, WatchConfig, add_watches};

use crate::args::{GlobalArgs, RenderArgs};
use crate::cluster;
use crate::failure::{Failure, Result};

const EXAMPLES: &str = "\
An operator-sdk project runs unchanged: its watches.yaml, flags, annotations and environment
variables are supported. WATCH_NAMESPACE limits the namespaces.

--confined is recommended if users who write the watched objects have fewer permissions than the
operator: everything that a chart renders is then confined to the namespace of its object.

Examples:
  steer run helm
  steer run helm --confined --allowed-cluster-kinds ClusterRole.rbac.authorization.k8s.io
  steer run helm --watches-file ./watches.yaml --reconcile-period 5m
  WATCH_NAMESPACE=shop,lab steer run helm --suppress-override-values";

/// Run an operator
#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Helm(Box<Helm>),
    #[cfg(feature = "kudo")]
    Kudo(super::kudo::run::RunKudo),
    #[cfg(all(unix, feature = "ansible"))]
    Ansible(Box<ansible::Ansible>),
}

/// Run a chart operator: one release per object of the kinds in watches.yaml
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Helm {
    /// Path to the watches file, which lists the kinds and their charts
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,

    /// Interval of periodic reconciles; 0 disables them, minimum 1s
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = super::release::duration)]
    reconcile_period: Duration,

    /// Maximum number of concurrent reconciles per kind [default: the number of processors, at least 8]
    #[arg(long, value_name = "NUMBER")]
    max_concurrent_reconciles: Option<usize>,

    /// Confine objects, hooks and lookups of releases to their namespace; watches.yaml takes precedence
    #[arg(long)]
    confined: bool,

    /// Cluster-scoped kinds allowed in confined releases, as KIND.GROUP; may be repeated
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    allowed_cluster_kinds: Vec<String>,

    /// Hide override values in OverrideValuesInUse events
    #[arg(long)]
    suppress_override_values: bool,

    /// Address that the metrics endpoint binds to; 0 disables it
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", alias = "metrics-addr")]
    metrics_bind_address: String,

    /// Enable secure serving (TLS) of the metrics endpoint [default: true on port 8443, else false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
    metrics_secure: Option<bool>,

    /// Enable RBAC checks for secure metrics: the caller's token must be allowed to get /metrics
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set, value_name = "true|false")]
    metrics_require_rbac: bool,

    /// Directory with tls.crt and tls.key for secure metrics [default: a self-signed certificate]
    #[arg(long, value_name = "DIR")]
    metrics_cert_path: Option<PathBuf>,

    /// Address that the probe endpoint (/healthz and /readyz) binds to; 0 disables it
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    health_probe_bind_address: String,

    #[command(flatten)]
    runtime: RuntimeArgs,

    #[command(flatten)]
    render: RenderArgs,
}

/// Flags of every operator: election, logs, and what is waited for.
#[derive(Args, Debug)]
struct RuntimeArgs {
    /// Enable leader election, so that only one of several replicas is active
    #[arg(long, alias = "enable-leader-election")]
    leader_elect: bool,

    /// Name of the leader election lease [default: the name of the operator]
    #[arg(long, value_name = "NAME")]
    leader_election_id: Option<String>,

    /// Namespace of the leader election lease [default: the operator's own]
    #[arg(long, value_name = "NAME")]
    leader_election_namespace: Option<String>,

    /// Log level, or `target=level` pairs separated by commas
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "LOG_LEVEL", alias = "zap-log-level")]
    log_level: String,

    /// Log format: auto, text or json
    #[arg(long, value_name = "FORMAT", default_value = "auto", env = "LOG_FORMAT")]
    log_format: String,

    /// Time to wait for the CRDs of the watched kinds
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = super::release::duration)]
    wait_for_kinds: Duration,

    #[command(flatten)]
    ignored: IgnoredArgs,
}

impl RuntimeArgs {
    /// Appends them to the command line of the runtime.
    fn add_to(&self, words: &mut Vec<OsString>) {
        words.push(word("log-level", &self.log_level));
        words.push(word("log-format", &self.log_format));
        words.extend(self.leader_election_id.as_ref().map(|id| word("leader-election-id", id)));
        words.extend(
            self.leader_election_namespace
                .as_ref()
                .map(|namespace| word("leader-election-namespace", namespace)),
        );
        if self.leader_elect {
            words.push("--leader-elect".into());
        }
    }
}

/// Joins a flag and its value to one argument.
fn word(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut word = OsString::from(format!("--{name}="));
    word.push(value);
    word
}

/// Flags of operator-sdk's program that change nothing here: manifests that give them go on working.
#[derive(Args, Debug)]
struct IgnoredArgs {
    #[arg(long, hide = true)]
    enable_http2: bool,
    #[arg(long, hide = true)]
    zap_devel: bool,
    #[arg(long, hide = true)]
    zap_encoder: Option<String>,
    #[arg(long, hide = true)]
    zap_stacktrace_level: Option<String>,
    #[arg(long, hide = true)]
    zap_time_encoding: Option<String>,
}

impl Run {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result {
        let runtime = crate::runtime::multi_thread()?;
        match self.command {
            Commands::Helm(helm) => runtime.block_on(helm.run(globals)),
            #[cfg(feature = "kudo")]
            Commands::Kudo(kudo) => runtime.block_on(kudo.run(globals)),
            #[cfg(all(unix, feature = "ansible"))]
            Commands::Ansible(ansible) => runtime.block_on(ansible.run(globals)),
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
            kind_timeout: self.runtime.wait_for_kinds,
            confined: self.confined,
            allowed_cluster_kinds: self.allowed_cluster_kinds.clone(),
            render: self.render.limits(),
            ..Defaults::default()
        };
        if let Some(workers) = self.max_concurrent_reconciles {
            defaults.max_concurrent_reconciles = workers.max(1);
        }
        let failed = |error: steersman_helm_operator::Error| Failure::new(error.to_string());
        let operator =
            Operator::new("helm-operator").version(env!("CARGO_PKG_VERSION")).client(client.clone());
        let operator = add_watches(operator, &watches, &defaults, &client).await.map_err(failed)?;
        operator.main_from(self.words()).await.map_err(|error| Failure::new(error.to_string()))
    }

    /// Returns the command line of the runtime, which handles everything except charts.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["steer run helm".into(), "run".into()];
        words.push(word("metrics-bind-address", &self.metrics_bind_address));
        words.push(word("metrics-require-rbac", self.metrics_require_rbac.to_string()));
        words.extend(self.metrics_secure.map(|secure| word("metrics-secure", secure.to_string())));
        words.extend(self.metrics_cert_path.as_ref().map(|folder| word("metrics-cert-path", folder)));
        words.push(word("health-probe-bind-address", &self.health_probe_bind_address));
        self.runtime.add_to(&mut words);
        words
    }
}
