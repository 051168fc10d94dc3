//! `steer init`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use steersman_scaffold::{ApiOptions, DEFAULT_DOMAIN, InitOptions, License, Plugin};

use crate::args::GlobalArgs;
use crate::ask::ask;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::scaffold::{HelmChartArgs, KindArgs, report};

const ABOUT: &str = "\
Initialize a new operator project in the current directory

The layout, the names and the PROJECT file are those of operator-sdk and kubebuilder. From a chart, \
a CRD is generated whose spec holds the chart's values, with a sample and the role that the \
operator needs. On a terminal, the command prompts for missing flags; elsewhere it uses defaults or \
fails.";

const EXAMPLES: &str = "\
Existing files are left unchanged: running the command twice changes nothing.

Examples:
  steer init --plugins helm --domain example.com --helm-chart ./nginx
  steer init --plugins helm --helm-chart shop --helm-chart-repo https://charts.example.com
  steer init --plugins helm --domain example.com --group cache --version v1 --kind Memcached
  steer init --plugins rust --domain example.com --group cache --version v1 --kind Memcached
  steer init --plugins ansible --domain example.com --group cache --version v1 --kind Memcached --generate-role
  steer dev .                                next: runs it on an embedded cluster";

/// Initialize a new operator project in the current directory
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Init {
    /// Plugin to scaffold with: helm, rust or ansible
    #[arg(long, value_name = "PLUGIN")]
    plugins: Option<String>,

    /// Domain for API groups [default: my.domain]
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,

    /// Name of the project [default: name of the current directory]
    #[arg(long, value_name = "NAME")]
    project_name: Option<String>,

    /// URL of the project's repository
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    repo: String,

    /// Owner of the project
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    owner: String,

    /// License of the project
    #[arg(long, value_name = "LICENSE", default_value = "apache2")]
    license: LicenseName,

    /// Restrict the operator to its own namespace
    #[arg(long)]
    namespaced: bool,

    /// Allow kinds of several API groups (multigroup layout)
    #[arg(long)]
    multigroup: bool,

    /// Accepted for compatibility with operator-sdk; the project version is always 3
    #[arg(long, hide = true, value_parser = ["3"])]
    project_version: Option<String>,

    #[command(flatten)]
    chart: HelmChartArgs,

    #[command(flatten)]
    kind: KindArgs,

    /// Generate an Ansible role skeleton for the kind
    #[arg(long, help_heading = "Ansible", requires = "kind")]
    generate_role: bool,

    /// Generate an Ansible playbook for the kind; with --generate-role, it runs the role
    #[arg(long, help_heading = "Ansible", requires = "kind")]
    generate_playbook: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LicenseName {
    Apache2,
    None,
}

impl Init {
    pub(crate) fn run(mut self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let plugin = self.plugin()?;
        if plugin != Plugin::Helm && self.chart.helm_chart.is_some() {
            return Err(Failure::new("--helm-chart is for Helm projects").help("--plugins helm makes one"));
        }
        let chart = self.chart.load(globals)?;
        let KindArgs { group, version, kind } = &self.kind;
        let has_kind = group.is_some() || version.is_some() || kind.is_some();
        if chart.is_none() && has_kind {
            self.kind.complete()?;
        }
        let domain = match self.domain.take() {
            Some(domain) => Some(domain),
            None => ask("Domain that the API groups end with", Some(DEFAULT_DOMAIN))?,
        };
        let options = InitOptions {
            project_name: self.project_name,
            domain: domain.unwrap_or_else(|| DEFAULT_DOMAIN.to_owned()),
            repo: self.repo,
            owner: self.owner,
            license: match self.license {
                LicenseName::Apache2 => License::Apache2,
                LicenseName::None => License::None,
            },
            namespaced: self.namespaced,
            multigroup: self.multigroup,
            beside: self.chart.path().into_iter().collect::<Vec<PathBuf>>(),
            ..InitOptions::new(plugin)
        };
        let api = (chart.is_some() || has_kind).then(|| ApiOptions {
            group: self.kind.group,
            version: self.kind.version,
            kind: self.kind.kind,
            chart,
            generate_role: self.generate_role,
            generate_playbook: self.generate_playbook,
            ..ApiOptions::default()
        });
        let written = steersman_scaffold::init(Path::new("."), &options, api.as_ref())?;
        if report(&written, output) {
            if plugin == Plugin::Rust {
                output.line("\nThe crates are not published yet: Cargo.toml names the checkout that steer was built from.");
            }
            output.line(match (api, plugin) {
                (Some(_), _) => "\nNext: steer dev .",
                (None, Plugin::Ansible) => {
                    "\nNext: steer create api --group GROUP --version v1alpha1 --kind KIND --generate-role"
                }
                (None, _) => "\nNext: steer create api --group GROUP --version v1alpha1 --kind KIND",
            });
        }
        Ok(())
    }

    fn plugin(&self) -> Result<Plugin> {
        let named = match &self.plugins {
            Some(named) => Some(named.clone()),
            // A chart implies the plugin helm.
            None if self.chart.helm_chart.is_some() => Some("helm".to_owned()),
            None if crate::ask::is_possible() => {
                ask("What the operator is made of, helm, rust or ansible", Some("helm"))?
            }
            None => None,
        };
        let Some(named) = named else {
            return Err(Failure::new("--plugins is required")
                .help("--plugins helm: from a chart; --plugins rust: in code; --plugins ansible: from roles and playbooks"));
        };
        // operator-sdk accepts a list, whose first entry determines the project's type.
        Ok(Plugin::parse(named.split(',').next().unwrap_or_default())?)
    }
}
