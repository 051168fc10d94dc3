//! Regenerates definitions and roles from the charts of a project.

use std::path::Path;

use serde_json::Value;
use steersman_chart::Chart;

use crate::api::ApiOptions;
use crate::error::{Error, Result};
use crate::files::{Existing, Plan, Written};
use crate::helm;
use crate::project::{Plugin, Project, Resource};

/// Writes the definitions of a Helm project's kinds, with schemas derived from their charts' values.
///
/// A definition that differs is left unchanged unless `force` is set: it may have been edited.
///
/// # Errors
/// Fails if there is no such project, a chart does not load, or a file cannot be written.
pub fn generate_crds(root: &Path, force: bool) -> Result<Vec<Written>> {
    let project = helm_project(root)?;
    let existing = if force { Existing::Replace } else { Existing::Keep };
    let mut plan = Plan::default();
    for (resource, chart) in kinds(root, &project)? {
        let namespaced = is_namespaced(root, &resource)?;
        helm::write_definition(root, &mut plan, &resource, &chart, namespaced, existing)?;
    }
    plan.write(root)
}

/// Writes the RBAC rules that the operator of a Helm project needs for its charts.
///
/// Existing rules of a kind are left unchanged unless `force` is set.
///
/// # Errors
/// As [`generate_crds`].
pub fn generate_rbac(root: &Path, force: bool) -> Result<Vec<Written>> {
    let project = helm_project(root)?;
    let mut plan = Plan::default();
    for (resource, chart) in kinds(root, &project)? {
        let options =
            ApiOptions { force, namespaced: is_namespaced(root, &resource)?, ..ApiOptions::default() };
        helm::write_rules(root, &mut plan, &project, &options, &resource, &chart)?;
    }
    plan.write(root)
}

/// Plans the RBAC rules of a Helm project's kinds for a directory other than the one with its charts.
pub(crate) fn plan_rbac(root: &Path, target: &Path, plan: &mut Plan, project: &Project) -> Result<()> {
    for (resource, chart) in kinds(root, project)? {
        let options = ApiOptions { namespaced: is_namespaced(root, &resource)?, ..ApiOptions::default() };
        helm::write_rules(target, plan, project, &options, &resource, &chart)?;
    }
    Ok(())
}

fn helm_project(root: &Path) -> Result<Project> {
    let project = Project::load(root)?;
    match project.plugin()? {
        Plugin::Helm => Ok(project),
        Plugin::Ansible => Err(Error::usage(
            "the rules of roles and playbooks are unknown before they run",
            "definitions and rules are edited by hand; `steer rbac learn` writes the rules that a run needs",
        )),
        Plugin::Rust => Err(Error::usage(
            "the definitions and the role of a project in Rust follow from its code",
            "`make manifests` writes them",
        )),
    }
}

/// Returns the kinds in watches.yaml with their charts.
fn kinds(root: &Path, project: &Project) -> Result<Vec<(Resource, Chart)>> {
    let path = root.join("watches.yaml");
    let text = std::fs::read(&path).map_err(Error::io(&path))?;
    let watches = steersman_yaml::array_from_slice(&text)
        .map_err(|error| Error::Broken { path: path.clone(), reason: error.to_string() })?;
    let mut kinds = Vec::new();
    for resource in project.resources() {
        let is_meant = |watch: &&Value| {
            watch["group"] == *resource.group
                && watch["version"] == *resource.version
                && watch["kind"] == *resource.kind
        };
        let Some(watch) = watches.iter().find(is_meant) else { continue };
        let Some(chart) = watch["chart"].as_str() else {
            let reason = format!("chart of {} is not a path", resource.kind);
            return Err(Error::Broken { path, reason });
        };
        kinds.push((resource, Chart::load(root.join(chart))?));
    }
    Ok(kinds)
}

/// Whether a kind is namespaced, by its definition. Default: yes.
pub(crate) fn is_namespaced(root: &Path, resource: &Resource) -> Result<bool> {
    let path = root.join("config/crd/bases").join(resource.crd_file());
    if !path.exists() {
        return Ok(true);
    }
    let text = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
    let definition = steersman_yaml::from_str(text.trim_start_matches("---\n"))
        .map_err(|error| Error::Broken { path, reason: error.to_string() })?;
    Ok(definition.pointer("/spec/scope").is_none_or(|scope| scope != "Cluster"))
}
