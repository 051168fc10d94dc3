//! Adds a kind to a project.

use std::path::Path;

use steersman_chart::Chart;

use crate::error::{Error, Result};
use crate::files::{Plan, Written};
use crate::init::put_project;
use crate::project::{Plugin, Project, Resource, qualified};
use crate::update::Base;
use crate::{ansible, helm, names, rust};

/// The options of a new kind.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// The API group, without the project's domain. Default with a chart: `charts`.
    pub group: Option<String>,
    /// The API version. Default with a chart: `v1alpha1`.
    pub version: Option<String>,
    /// The kind. Default with a chart: the chart's name in PascalCase.
    pub kind: Option<String>,
    /// The plural of the kind, in lower case. Default: its English plural.
    pub plural: Option<String>,
    /// Whether the kind is namespaced. Default: yes.
    pub namespaced: bool,
    /// Whether to write its definition and a sample. Default: yes.
    pub resource: bool,
    /// Whether the operator reconciles it. Default: yes.
    pub controller: bool,
    /// Whether to replace the files of a kind that already exists. Default: no.
    pub force: bool,
    /// The image that objects of the kind run, unless a chart determines it. Default: nginx.
    pub image: Option<String>,
    /// The chart released for each object. Default: a small starter chart.
    pub chart: Option<Chart>,
    /// Whether to write an Ansible role for the kind. Default: no.
    pub generate_role: bool,
    /// Whether to write a playbook for the kind; it calls the role if that is written too. Default: no.
    pub generate_playbook: bool,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            group: None,
            version: None,
            kind: None,
            plural: None,
            namespaced: true,
            resource: true,
            controller: true,
            force: false,
            image: None,
            chart: None,
            generate_role: false,
            generate_playbook: false,
        }
    }
}

impl ApiOptions {
    /// Sets the chart.
    #[must_use]
    pub fn of_chart(mut self, chart: Chart) -> Self {
        self.chart = Some(chart);
        self
    }

    /// Resolves the kind within a project, with defaults applied.
    fn resource(&self, project: &Project) -> Result<Resource> {
        let of_chart = |default: &str| self.chart.as_ref().map(|_| default.to_owned());
        let group = self.group.clone().or_else(|| of_chart("charts")).ok_or(Error::Missing("--group"))?;
        let version =
            self.version.clone().or_else(|| of_chart("v1alpha1")).ok_or(Error::Missing("--version"))?;
        let kind = match (&self.kind, &self.chart) {
            (Some(kind), _) => kind.clone(),
            (None, Some(chart)) => names::kind_of_chart(chart.name()),
            (None, None) => return Err(Error::Missing("--kind")),
        };
        if !group.is_empty() {
            names::check_group(&group)?;
        }
        names::check_version(&version)?;
        names::check_kind(&kind)?;
        let plural = self.plural.clone().unwrap_or_else(|| names::plural_of(&kind));
        names::check_plural(&plural)?;
        let resource = Resource {
            group: qualified(&group, project.domain()),
            version,
            kind,
            plural,
            short_group: group,
        };
        names::check_full_group(&resource.short_group, &resource.group)?;
        Ok(resource)
    }
}

/// Adds a kind to the project in a directory. An existing kind is left unchanged unless
/// [`ApiOptions::force`] is set.
///
/// # Errors
/// Fails if there is no project, a name is not valid, or a file cannot be written.
pub fn create_api(root: &Path, options: &ApiOptions) -> Result<Vec<Written>> {
    let mut project = Project::load(root)?;
    let mut files = Plan::default();
    plan(root, &mut files, &mut project, options)?;
    put_project(root, &mut files, &project)?;
    Base::complete_known(root, &mut files, &project)?;
    files.write(root)
}

pub(crate) fn plan(root: &Path, plan: &mut Plan, project: &mut Project, options: &ApiOptions) -> Result<()> {
    let resource = options.resource(project)?;
    let plugin = project.plugin()?;
    if plugin != Plugin::Helm && options.chart.is_some() {
        return Err(Error::usage(
            "--helm-chart is for Helm projects",
            "`steer init --plugins helm` makes one",
        ));
    }
    if plugin != Plugin::Ansible && (options.generate_role || options.generate_playbook) {
        return Err(Error::usage(
            "--generate-role and --generate-playbook are for Ansible projects",
            "`steer init --plugins ansible` makes one",
        ));
    }
    let twin = project.resources().into_iter().find(|known| {
        known.kind == resource.kind && known.group != resource.group && !project.is_multigroup()
    });
    if let Some(twin) = twin {
        return Err(Error::usage(
            format!("{} is already a kind of {}", resource.kind, twin.group),
            "`steer edit --multigroup` lets several groups have kinds of the same name",
        ));
    }
    match plugin {
        Plugin::Helm => helm::create_api(root, plan, project, options, &resource),
        Plugin::Rust => rust::create_api(root, plan, project, options, &resource),
        Plugin::Ansible => ansible::create_api(root, plan, project, options, &resource),
    }
}
