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
An operator-sdk project runs as it is: its watches.yaml, flags, annotations and environment are
understood. WATCH_NAMESPACE limits the namespaces.

--confined is recommended wherever those who write the watched objects have fewer rights than the
operator: what a chart renders then stays in the namespace of its object.

Examples:
  steer run helm
  steer run helm --confined --allowed-cluster-kinds ClusterRole.rbac.authorization.k8s.io
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
    Helm(Box<Helm>),
    #[cfg(feature = "kudo")]
    Kudo(super::kudo::run::RunKudo),
    #[cfg(all(unix, feature = "ansible"))]
    Ansible(Box<ansible::Ansible>),
}

/// Run a chart operator: a release for each object of the kinds in watches.yaml
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Helm {
    /// File that names the kinds and their charts
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,

    /// How often each object is looked at even if nothing happens; 0 for never, else at most once a second
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = super::release::duration)]
    reconcile_period: Duration,

    /// How many objects of a kind are worked on at a time [default: the number of processors, at least 8]
    #[arg(long, value_name = "NUMBER")]
    max_concurrent_reconciles: Option<usize>,

    /// Keep objects, hooks and lookups of releases in the namespace of their object; `confined` in watches.yaml wins
    #[arg(long)]
    confined: bool,

    /// Cluster-scoped kinds that confined releases may have, as KIND.GROUP; may be repeated
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    allowed_cluster_kinds: Vec<String>,

    /// Do not tell in events what override values are
    #[arg(long)]
    suppress_override_values: bool,

    /// Where metrics are served; 0 turns them off
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", alias = "metrics-addr")]
    metrics_bind_address: String,

    /// Serve metrics by TLS [default: true on port 8443, else false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
    metrics_secure: Option<bool>,

    /// Serve secure metrics to those who may get /metrics alone, as the API server says of their token
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set, value_name = "true|false")]
    metrics_require_rbac: bool,

    /// Folder with the tls.crt and tls.key of secure metrics [default: a certificate that signs itself]
    #[arg(long, value_name = "DIR")]
    metrics_cert_path: Option<PathBuf>,

    /// Where /healthz and /readyz are served; 0 turns them off
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
    /// Work only while leading, so that several replicas can run
    #[arg(long, alias = "enable-leader-election")]
    leader_elect: bool,

    /// The lease to lead by [default: the name of the operator]
    #[arg(long, value_name = "NAME")]
    leader_election_id: Option<String>,

    /// The lease's namespace [default: the operator's own]
    #[arg(long, value_name = "NAME")]
    leader_election_namespace: Option<String>,

    /// What is logged: a level, or `target=level` pairs separated by commas
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "LOG_LEVEL", alias = "zap-log-level")]
    log_level: String,

    /// The form of the logs: auto, text or json
    #[arg(long, value_name = "FORMAT", default_value = "auto", env = "LOG_FORMAT")]
    log_format: String,

    /// Wait this long for the watched kinds to be defined
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = super::release::duration)]
    wait_for_kinds: Duration,

    #[command(flatten)]
    ignored: IgnoredArgs,
}

impl RuntimeArgs {
    /// Adds them to the command line of the runtime's own program.
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

/// A flag with its value, as one word.
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
        match self.what {
            What::Helm(helm) => runtime.block_on(helm.run(globals)),
            #[cfg(feature = "kudo")]
            What::Kudo(kudo) => runtime.block_on(kudo.run(globals)),
            #[cfg(all(unix, feature = "ansible"))]
            What::Ansible(ansible) => runtime.block_on(ansible.run(globals)),
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

    /// The command line of the runtime's own program, which does all that is not about charts.
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
