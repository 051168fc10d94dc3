//! `steer create api`.

use std::path::Path;

use clap::{ArgAction, Args};
use steersman_scaffold::{ApiOptions, Project};

use crate::args::GlobalArgs;
use crate::failure::Result;
use crate::output::Output;
use crate::scaffold::{HelmChartArgs, KindArgs, report};

const EXAMPLES: &str = "\
A kind that is there already stays as it is: --force writes its definition, sample and rules anew,
from the chart in helm-charts/ or from the one that is given.

Examples:
  steer create api --group cache --version v1alpha1 --kind Memcached
  steer create api --helm-chart ./nginx
  steer create api --group web --version v1 --kind Site --helm-chart main/nginx --helm-chart-version '~1.2'
  steer create api --helm-chart ./nginx --force          after the chart has changed
  steer create api --group cache --version v1 --kind Memcached --generate-role --generate-playbook";

/// Add a kind: its definition, a sample, and what works on it
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Api {
    #[command(flatten)]
    kind: KindArgs,

    /// Plural of the kind, in lower case [default: as English forms it]
    #[arg(long, value_name = "PLURAL", help_heading = "Kind")]
    plural: Option<String>,

    /// Whether objects of the kind are in namespaces
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true", help_heading = "Kind")]
    namespaced: bool,

    /// Whether the kind's definition and a sample are written
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    resource: bool,

    /// Whether the operator works on the kind
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    controller: bool,

    /// Replace files of a kind that is there already
    #[arg(long)]
    force: bool,

    /// Image that objects of the kind run, where no chart says it
    #[arg(long, value_name = "IMAGE", conflicts_with = "helm_chart")]
    image: Option<String>,

    /// Write an Ansible role for the kind
    #[arg(long, help_heading = "Ansible")]
    generate_role: bool,

    /// Write a playbook for the kind, which runs the role if --generate-role is given too
    #[arg(long, help_heading = "Ansible")]
    generate_playbook: bool,

    /// Accepted for operator-sdk's sake: PROJECT says what the project is made of
    #[arg(long, hide = true)]
    plugins: Option<String>,

    /// Accepted for operator-sdk's sake: `make manifests` is left to the person
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    make: Option<bool>,

    #[command(flatten)]
    chart: HelmChartArgs,
}

impl Api {
    pub(super) fn run(mut self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let root = Path::new(".");
        // Before anything is asked or fetched.
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
