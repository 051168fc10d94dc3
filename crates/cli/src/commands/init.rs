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
Make a new operator project in this directory

The layout, the names and the PROJECT file are those of operator-sdk and kubebuilder. From a chart \
come the definition of a kind whose spec are the chart's values, a sample, and the role that the \
operator needs for it. On a terminal it asks for what is missing; elsewhere it takes defaults or \
fails.";

const EXAMPLES: &str = "\
Files that are there already stay as they are: running it twice changes nothing.

Examples:
  steer init --plugins helm --domain example.com --helm-chart ./nginx
  steer init --plugins helm --helm-chart shop --helm-chart-repo https://charts.example.com
  steer init --plugins helm --domain example.com --group cache --version v1 --kind Memcached
  steer init --plugins rust --domain example.com --group cache --version v1 --kind Memcached
  steer init --plugins ansible --domain example.com --group cache --version v1 --kind Memcached --generate-role
  steer dev .                                then: runs it on an embedded cluster";

/// Make a new operator project in this directory
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Init {
    /// What the operator is made of: helm, rust or ansible
    #[arg(long, value_name = "PLUGIN")]
    plugins: Option<String>,

    /// Domain that the API groups end with [default: my.domain]
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,

    /// Name of the project [default: that of the directory]
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

    /// Let the operator work in its own namespace alone
    #[arg(long)]
    namespaced: bool,

    /// Let the kinds be of several API groups
    #[arg(long)]
    multigroup: bool,

    /// Accepted for operator-sdk's sake: PROJECT is of version 3
    #[arg(long, hide = true, value_parser = ["3"])]
    project_version: Option<String>,

    #[command(flatten)]
    chart: HelmChartArgs,

    #[command(flatten)]
    kind: KindArgs,

    /// Write an Ansible role for the kind
    #[arg(long, help_heading = "Ansible", requires = "kind")]
    generate_role: bool,

    /// Write a playbook for the kind, which runs the role if --generate-role is given too
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
            // Nothing else is made from a chart.
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
        // operator-sdk takes a list, in which the first says what the project is.
        Ok(Plugin::parse(named.split(',').next().unwrap_or_default())?)
    }
}
