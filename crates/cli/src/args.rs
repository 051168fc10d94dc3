//! Flags shared by several commands, with Helm's names.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use steersman_chart::{Limits, ValueOptions};
use steersman_release::RenderLimits;

use crate::failure::{Failure, Result};
use crate::flags;

/// Flags of every command.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Namespace scope for this request [default: that of the kubeconfig's context]
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Path to the kubeconfig file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Name of the kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME")]
    kube_context: Option<String>,

    /// Enable verbose output on standard error, and print manifests even if they are invalid
    #[arg(long, global = true)]
    debug: bool,

    /// Path to the registry config file, with the credentials of OCI registries
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) registry_config: Option<PathBuf>,

    /// Path to the file containing repository names and URLs
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) repository_config: Option<PathBuf>,

    /// Path to the directory containing cached repository indexes
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) repository_cache: Option<PathBuf>,
}

impl GlobalArgs {
    /// Whether debug output is enabled, by the flag or by HELM_DEBUG.
    pub(crate) fn debug(&self) -> bool {
        self.debug || std::env::var("HELM_DEBUG").is_ok_and(|value| flags::go_bool(&value) == Some(true))
    }

    /// Returns the kubeconfig context named by the flag or by HELM_KUBECONTEXT.
    pub(crate) fn context(&self) -> Option<String> {
        let context = self.kube_context.clone().or_else(|| std::env::var("HELM_KUBECONTEXT").ok());
        context.filter(|name| !name.is_empty())
    }
}

/// Flags that values come from.
#[derive(Args, Debug)]
#[command(next_help_heading = "Values")]
pub(crate) struct ValuesArgs {
    /// Values from a YAML file, a URL, or standard input (-); may be repeated
    #[arg(short = 'f', long, value_name = "FILE", allow_hyphen_values = true)]
    values: Vec<String>,

    /// Set values: key1=val1,key2=val2; may be repeated
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    set: Vec<String>,

    /// Set STRING values: key1=val1,key2=val2; may be repeated
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    set_string: Vec<String>,

    /// Set values from the contents of files: key1=path1,key2=path2; may be repeated
    #[arg(long, value_name = "KEY=PATH", allow_hyphen_values = true)]
    set_file: Vec<String>,

    /// Set JSON values: key1=json1,key2=json2, or one JSON object; may be repeated
    #[arg(long, value_name = "KEY=JSON", allow_hyphen_values = true)]
    set_json: Vec<String>,

    /// Set a literal STRING value, without special characters; may be repeated
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    set_literal: Vec<String>,
}

impl ValuesArgs {
    pub(crate) fn options(&self) -> ValueOptions {
        ValueOptions {
            files: flags::split_list(&self.values),
            json: self.set_json.clone(),
            set: self.set.clone(),
            set_string: self.set_string.clone(),
            set_file: self.set_file.clone(),
            set_literal: self.set_literal.clone(),
        }
    }
}

/// Flags that say how to speak to a repository or registry.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Chart source")]
pub(crate) struct AccessArgs {
    /// Username for the chart repository or registry
    #[arg(long, value_name = "NAME")]
    pub(crate) username: Option<String>,

    /// Password for the chart repository or registry
    #[arg(long, value_name = "PASSWORD", allow_hyphen_values = true)]
    pub(crate) password: Option<String>,

    /// Verify server certificates using only the CA bundle in this PEM file
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Identify the client by the TLS certificate in this PEM file
    #[arg(long, value_name = "FILE")]
    pub(crate) cert_file: Option<PathBuf>,

    /// Private key of the client certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Skip TLS certificate checks
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,

    /// Use insecure HTTP connections to OCI registries
    #[arg(long)]
    pub(crate) plain_http: bool,

    /// Not supported: signatures are not verified yet
    #[arg(long, hide = true)]
    verify: bool,

    /// Location of the public keys for verification; not used
    #[arg(long, hide = true)]
    keyring: Option<PathBuf>,
}

impl AccessArgs {
    /// Rejects unsupported flags.
    pub(crate) fn check(&self) -> Result {
        if self.verify {
            return Err(Failure::new("--verify is not supported: steer does not check signatures yet").help(
                "`steer chart pull --prov` fetches the provenance file, `helm verify` or gpg can check it",
            ));
        }
        Ok(())
    }
}

/// Flags that say which chart, and where from.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Chart source")]
pub(crate) struct ChartArgs {
    /// Version constraint for a fetched chart, such as 1.1.1 or ^2.0.0 [default: latest]
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub(crate) version: Option<String>,

    /// Chart repository URL where to locate the requested chart
    #[arg(long, value_name = "URL")]
    pub(crate) repo: Option<String>,

    /// Use development versions (pre-releases), too; ignored if --version is set
    #[arg(long)]
    pub(crate) devel: bool,

    /// Pass credentials to all domains, whatever host the chart is on
    #[arg(long)]
    pub(crate) pass_credentials: bool,

    #[command(flatten)]
    pub(crate) access: AccessArgs,
}

impl ChartArgs {
    /// Returns the arguments as if only these flags were given.
    pub(crate) fn of(version: Option<&str>, repo: Option<&str>) -> Self {
        Self { version: version.map(str::to_owned), repo: repo.map(str::to_owned), ..Self::default() }
    }

    /// Rejects unsupported flags.
    pub(crate) fn check(&self) -> Result {
        self.access.check()
    }
}

/// Flags that bound rendering.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Rendering limits")]
pub(crate) struct RenderArgs {
    /// Memory limit for all templates of a render, such as 512Mi or 2Gi
    #[arg(long, value_name = "SIZE", default_value = "256Mi", value_parser = flags::size)]
    render_memory: usize,

    /// Cost limit for all templates of a render: 1 per step, 10M per RSA key, 2M per password hash
    #[arg(long, value_name = "NUMBER", default_value = "200000000")]
    render_cost: usize,

    /// Time limit for rendering a chart
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = flags::duration)]
    render_timeout: Duration,
}

impl RenderArgs {
    pub(crate) fn limits(&self) -> RenderLimits {
        let limits = Limits { memory: self.render_memory, cost: self.render_cost, ..Limits::default() };
        RenderLimits { limits, timeout: self.render_timeout }
    }
}
