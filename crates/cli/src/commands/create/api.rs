//! `steer create api`.

use std::path::Path;

use clap::{ArgAction, Args};
use steersman_scaffold::{ApiOptions, Project};

use crate::args::GlobalArgs;
use crate::failure::Result;
use crate::output::Output;
use crate::scaffold::{HelmChartArgs, KindArgs, report};

const EXAMPLES: &str = "\
An existing kind is left unchanged: --force regenerates its CRD, sample and rules from the chart in
helm-charts/ or from the given one.

Examples:
  steer create api --group cache --version v1alpha1 --kind Memcached
  steer create api --helm-chart ./nginx
  steer create api --group web --version v1 --kind Site --helm-chart main/nginx --helm-chart-version '~1.2'
  steer create api --helm-chart ./nginx --force          after the chart has changed
  steer create api --group cache --version v1 --kind Memcached --generate-role --generate-playbook";

/// Scaffold a Kubernetes API: its CRD, a sample and a controller
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Api {
    #[command(flatten)]
    kind: KindArgs,

    /// Plural of the kind, in lower case [default: the English plural]
    #[arg(long, value_name = "PLURAL", help_heading = "Kind")]
    plural: Option<String>,

    /// Whether the kind is namespaced
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true", help_heading = "Kind")]
    namespaced: bool,

    /// Whether to scaffold the CRD and a sample
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    resource: bool,

    /// Whether to scaffold the controller
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    controller: bool,

    /// Overwrite the files of an existing kind
    #[arg(long)]
    force: bool,

    /// Operand image of the kind's objects, for a kind without a chart
    #[arg(long, value_name = "IMAGE", conflicts_with = "helm_chart")]
    image: Option<String>,

    /// Generate an Ansible role skeleton for the kind
    #[arg(long, help_heading = "Ansible")]
    generate_role: bool,

    /// Generate an Ansible playbook for the kind; with --generate-role, it runs the role
    #[arg(long, help_heading = "Ansible")]
    generate_playbook: bool,

    /// Accepted for compatibility with operator-sdk; the PROJECT file names the plugin
    #[arg(long, hide = true)]
    plugins: Option<String>,

    /// Accepted for compatibility with operator-sdk; `make manifests` is not run
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    make: Option<bool>,

    #[command(flatten)]
    chart: HelmChartArgs,
}

impl Api {
    pub(super) fn run(mut self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let root = Path::new(".");
        // Fails early, before any prompt or download.
        Project::load(root)?;
        let chart = self.chart.load(globals)?;
        if chart.is_none() {
            self.kind.complete()?;
        }
        let options = ApiOptions {
            group: self.kind.group,
            version: self.kind.version,
            kind: self.kind.kind,
            plural: self.plural,
            namespaced: self.namespaced,
            resource: self.resource,
            controller: self.controller,
            force: self.force,
            image: self.image,
            chart,
            generate_role: self.generate_role,
            generate_playbook: self.generate_playbook,
        };
        let written = steersman_scaffold::create_api(root, &options)?;
        report(&written, output);
        Ok(())
    }
}
