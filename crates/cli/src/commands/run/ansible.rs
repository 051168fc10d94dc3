//! `steer run ansible`.

pub(in crate::commands) mod diff;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use steersman::Operator;
use steersman_ansible_operator::{Defaults, LogEvents, RunnerOptions, Watches, add_watches};

use super::{RuntimeArgs, word};
use crate::args::GlobalArgs;
use crate::cluster;
use crate::commands::release::duration;
use crate::failure::{Failure, Result};

const EXAMPLES: &str = "\
An operator-sdk project runs unchanged: its watches.yaml, flags, annotations and environment
variables are supported. WATCH_NAMESPACE limits the namespaces.

Plays are run by the ansible-core of --python, of VIRTUAL_ENV, or in PATH, in forks of one process
that has it imported; --cold starts a new process for each run instead.

Examples:
  steer run ansible
  steer run ansible --watches-file ./watches.yaml --reconcile-period 5m
  steer run ansible --check
  WATCH_NAMESPACE=shop,lab steer run ansible --python ~/venv/bin/python3";

/// Run an Ansible operator: a role or playbook per object of the kinds in watches.yaml
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Ansible {
    #[command(flatten)]
    plays: PlayArgs,

    /// Interval of periodic reconciles; 0 disables them
    #[arg(long, value_name = "DURATION", default_value = "10h0m0s", value_parser = duration)]
    reconcile_period: Duration,

    /// Maximum number of concurrent reconciles per kind [default: the number of processors]
    #[arg(long, value_name = "NUMBER", alias = "max-workers")]
    max_concurrent_reconciles: Option<usize>,

    /// Inject owner references to the watched object into objects that plays create
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set, value_name = "true|false")]
    inject_owner_ref: bool,

    /// Ansible events to log
    #[arg(long, value_name = "EVENTS", value_enum, default_value = "tasks")]
    ansible_log_events: Events,

    /// Log the output of plays
    #[arg(long, env = "ANSIBLE_DEBUG_LOGS", value_parser = clap::builder::BoolishValueParser::new())]
    #[arg(num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set, value_name = "true|false")]
    ansible_debug_logs: bool,

    /// Run plays with --check --diff, and change nothing in the cluster
    #[arg(long)]
    check: bool,

    /// Address that the metrics endpoint binds to; 0 disables it
    #[arg(long, value_name = "ADDRESS", default_value = ":8443", alias = "metrics-addr")]
    metrics_bind_address: String,

    /// Enable secure serving (TLS) of the metrics endpoint
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set, value_name = "true|false")]
    metrics_secure: bool,

    /// Enable RBAC checks for secure metrics: the caller's token must be allowed to get /metrics
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set, value_name = "true|false")]
    metrics_require_rbac: bool,

    /// Directory with tls.crt and tls.key for secure metrics [default: a self-signed certificate]
    #[arg(long, value_name = "DIR")]
    metrics_cert_path: Option<PathBuf>,

    /// Address that the probe endpoint (/healthz and /readyz) binds to; 0 disables it
    #[arg(long, value_name = "ADDRESS", default_value = ":6789")]
    health_probe_bind_address: String,

    /// Time to wait for active runs on shutdown
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    graceful_shutdown_timeout: Duration,

    /// File to record API requests to, for `rbac --least-privilege`
    #[arg(long, value_name = "FILE")]
    record_requests: Option<PathBuf>,

    #[command(flatten)]
    runtime: RuntimeArgs,

    /// Socket of a Python process with Ansible already imported, as started by a simulation
    #[arg(long, value_name = "SOCKET", hide = true)]
    prepared: Option<PathBuf>,

    #[command(flatten)]
    ignored: IgnoredAnsibleArgs,
}

/// Flags that say which plays are run, and how.
#[derive(Args, Debug)]
pub(in crate::commands) struct PlayArgs {
    /// Path to the watches file, which lists the kinds and their roles or playbooks
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,

    /// Ansible verbosity
    #[arg(long, value_name = "LEVEL", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=7))]
    ansible_verbosity: u8,

    /// Search path for roles, separated by colons [default: from Ansible's configuration]
    #[arg(long, value_name = "PATHS", env = "ANSIBLE_ROLES_PATH")]
    ansible_roles_path: Option<OsString>,

    /// Search path for collections, separated by colons [default: from Ansible's configuration]
    #[arg(long, value_name = "PATHS", env = "ANSIBLE_COLLECTIONS_PATH")]
    ansible_collections_path: Option<OsString>,

    /// Additional arguments for ansible-playbook, separated by spaces
    #[arg(long, value_name = "ARGUMENTS", default_value = "", allow_hyphen_values = true)]
    ansible_args: String,

    /// Inventory file or directory [default: localhost only]
    #[arg(long, value_name = "PATH", env = "ANSIBLE_INVENTORY")]
    ansible_inventory: Option<PathBuf>,

    /// Python with ansible-core [default: that of VIRTUAL_ENV, of ansible-playbook, or in PATH]
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,

    /// Start a new process for each run
    #[arg(long)]
    cold: bool,

    /// Time limit for a run; 0 for no limit
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = duration)]
    run_timeout: Duration,
}

impl PlayArgs {
    fn roles_path(&self) -> Vec<PathBuf> {
        paths(self.ansible_roles_path.as_ref())
    }

    /// Reads watches.yaml.
    pub(in crate::commands) fn watches(&self) -> Result<Watches> {
        Watches::load(&self.watches_file, &self.roles_path(), |name| std::env::var(name).ok())
            .map_err(|error| Failure::new(error.to_string()).help("--watches-file names the file"))
    }

    /// Returns the defaults of plays, with the flags applied.
    pub(in crate::commands) fn defaults(&self) -> Defaults {
        Defaults {
            verbosity: self.ansible_verbosity,
            runner: RunnerOptions {
                python: self.python.clone(),
                cold: self.cold,
                roles_path: self.roles_path(),
                collections_path: paths(self.ansible_collections_path.as_ref()),
                arguments: self.ansible_args.split_whitespace().map(str::to_owned).collect(),
                inventory: self.ansible_inventory.clone(),
                timeout: Some(self.run_timeout).filter(|limit| !limit.is_zero()),
                prepared: None,
            },
            ..Defaults::default()
        }
    }
}

fn paths(joined: Option<&OsString>) -> Vec<PathBuf> {
    let paths = joined.into_iter().flat_map(std::env::split_paths);
    paths.filter(|path| !path.as_os_str().is_empty()).collect()
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Events {
    /// Tasks as they start, debug messages and failures
    #[value(alias = "Tasks")]
    Tasks,
    /// Also the result of every task
    #[value(alias = "Everything")]
    Everything,
    /// None
    #[value(alias = "Nothing")]
    Nothing,
}

/// Flags of operator-sdk's program that change nothing here: manifests that give them go on working.
#[derive(Args, Debug)]
struct IgnoredAnsibleArgs {
    #[arg(long, hide = true)]
    proxy_port: Option<u16>,
    #[arg(long, hide = true)]
    leader_elect_lease_duration: Option<String>,
    #[arg(long, hide = true)]
    leader_elect_renew_deadline: Option<String>,
    #[arg(long, hide = true)]
    leader_elect_retry_period: Option<String>,
}

impl Ansible {
    pub(super) async fn run(self, globals: &GlobalArgs) -> Result {
        if self.metrics_require_rbac && !self.metrics_secure {
            return Err(Failure::new("--metrics-require-rbac needs --metrics-secure"));
        }
        let watches = self.plays.watches()?;
        let client = cluster::client(globals).await?;
        let plays = self.plays.defaults();
        let defaults = Defaults {
            reconcile_period: self.reconcile_period,
            max_concurrent_reconciles: self
                .max_concurrent_reconciles
                .map_or(plays.max_concurrent_reconciles, |workers| workers.max(1)),
            inject_owner_ref: self.inject_owner_ref,
            check: self.check,
            log_events: match self.ansible_log_events {
                Events::Tasks => LogEvents::Tasks,
                Events::Everything => LogEvents::Everything,
                Events::Nothing => LogEvents::Nothing,
            },
            debug_logs: self.ansible_debug_logs,
            kind_timeout: self.runtime.wait_for_kinds,
            runner: RunnerOptions { prepared: self.prepared.clone(), ..plays.runner },
            ..plays
        };
        let failed = |error: steersman_ansible_operator::Error| Failure::new(error.to_string());
        let operator =
            Operator::new("ansible-operator").version(env!("CARGO_PKG_VERSION")).client(client.clone());
        let operator = add_watches(operator, &watches, &defaults, &client).await.map_err(failed)?;
        operator.main_from(self.words()).await.map_err(|error| Failure::new(error.to_string()))
    }

    /// Returns the command line of the runtime, which handles everything except plays.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["steer run ansible".into(), "run".into()];
        words.push(word("metrics-bind-address", &self.metrics_bind_address));
        words.push(word("metrics-secure", self.metrics_secure.to_string()));
        words.push(word("metrics-require-rbac", self.metrics_require_rbac.to_string()));
        words.extend(self.metrics_cert_path.as_ref().map(|folder| word("metrics-cert-path", folder)));
        words.push(word("health-probe-bind-address", &self.health_probe_bind_address));
        let grace = self.graceful_shutdown_timeout.as_secs();
        words.push(word("graceful-shutdown-timeout", grace.to_string()));
        words.extend(self.record_requests.as_ref().map(|file| word("record-requests", file)));
        self.runtime.add_to(&mut words);
        words
    }
}
