//! Projects of Helm operators, which manage releases of charts.

use std::path::Path;

use serde_json::{Value, json};
use steersman_chart::{Chart, File};

use crate::api::ApiOptions;
use crate::error::{Error, Result};
use crate::files::{Existing, Plan};
use crate::layout::{ROLE as RULES, values};
use crate::project::{Project, Resource};
use crate::templates::{Template, render, template};
use crate::{crd, files, role, sample, schema};

/// The files of a project outside config/.
pub(crate) const FILES: &[(&str, Template)] = &[
    (".gitignore", template!("helm/gitignore")),
    ("Dockerfile", template!("helm/Dockerfile")),
    ("Makefile", template!("helm/Makefile")),
    ("watches.yaml", template!("helm/watches.yaml")),
];

/// The starter chart of a kind without a chart of its own.
const STARTER: &[(&str, Template)] = &[
    (".helmignore", template!("starter-chart/helmignore")),
    ("Chart.yaml", template!("starter-chart/Chart.yaml")),
    ("values.yaml", template!("starter-chart/values.yaml")),
    ("templates/NOTES.txt", template!("starter-chart/templates/NOTES.txt")),
    ("templates/_helpers.tpl", template!("starter-chart/templates/_helpers.tpl")),
    ("templates/deployment.yaml", template!("starter-chart/templates/deployment.yaml")),
    ("templates/hpa.yaml", template!("starter-chart/templates/hpa.yaml")),
    ("templates/ingress.yaml", template!("starter-chart/templates/ingress.yaml")),
    ("templates/service.yaml", template!("starter-chart/templates/service.yaml")),
    ("templates/serviceaccount.yaml", template!("starter-chart/templates/serviceaccount.yaml")),
];

const CLUSTER_RULES: &str = "config/rbac/cluster_role.yaml";
const RULES_MARK: &str = "rules";

pub(crate) fn create_api(
    root: &Path,
    plan: &mut Plan,
    project: &mut Project,
    options: &ApiOptions,
    resource: &Resource,
) -> Result<()> {
    let chart = match &options.chart {
        Some(chart) => chart.clone(),
        None => existing_or_starter(root, options, resource)?,
    };
    chart.check_installable()?;
    let existing = if options.force { Existing::Replace } else { Existing::Keep };
    let directory = format!("helm-charts/{}", chart.name());
    for file in chart.all_files() {
        plan.put(root, format!("{directory}/{}", file.name), file.data.to_vec(), existing)?;
    }
    let mut parts: Vec<(&str, Value)> = Vec::new();
    if options.resource {
        write_resource(root, plan, project, options, resource, &chart)?;
        parts.push(("api.crdVersion", "v1".into()));
    }
    if options.controller {
        watch(root, plan, resource, &format!("chart: {directory}"))?;
        write_rules(root, plan, project, options, resource, &chart)?;
    }
    project.record(resource, options.namespaced, &parts);
    Ok(())
}

/// Writes the definition, a sample, and the editor and viewer roles of a kind.
fn write_resource(
    root: &Path,
    plan: &mut Plan,
    project: &Project,
    options: &ApiOptions,
    resource: &Resource,
    chart: &Chart,
) -> Result<()> {
    let existing = if options.force { Existing::Replace } else { Existing::Keep };
    write_definition(root, plan, resource, chart, options.namespaced, existing)?;
    let sample_file = resource.sample_file();
    let text = sample::of_chart(chart, resource, project.name(), options.namespaced);
    plan.put(root, format!("config/samples/{sample_file}"), text, existing)?;
    list(root, plan, "config/samples/kustomization.yaml", &sample_file, "manifestskustomizesamples")?;
    write_user_roles(root, plan, project, resource)
}

/// Writes the definition of a kind, with a schema derived from its chart's values.
pub(crate) fn write_definition(
    root: &Path,
    plan: &mut Plan,
    resource: &Resource,
    chart: &Chart,
    namespaced: bool,
    existing: Existing,
) -> Result<()> {
    let columns = json!([
        { "name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status" },
        { "name": "Release", "type": "string", "jsonPath": ".status.deployedRelease.name" },
        { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
    ]);
    let definition = crd::definition(resource, namespaced, schema::of_chart(chart, resource), columns);
    write_crd(root, plan, resource, &definition, existing)
}

/// Writes a definition and lists it in config/crd's kustomization.
pub(crate) fn write_crd(
    root: &Path,
    plan: &mut Plan,
    resource: &Resource,
    definition: &Value,
    existing: Existing,
) -> Result<()> {
    let crd_file = resource.crd_file();
    plan.put(root, format!("config/crd/bases/{crd_file}"), format!("---\n{}", yaml(definition)?), existing)?;
    list(root, plan, "config/crd/kustomization.yaml", &format!("bases/{crd_file}"), "crdkustomizeresource")
}

/// Writes the roles for the users of a kind.
pub(crate) fn write_user_roles(
    root: &Path,
    plan: &mut Plan,
    project: &Project,
    resource: &Resource,
) -> Result<()> {
    const ROLES: [(&str, Template); 3] = [
        ("admin", template!("config/rbac/kind_admin_role.yaml")),
        ("editor", template!("config/rbac/kind_editor_role.yaml")),
        ("viewer", template!("config/rbac/kind_viewer_role.yaml")),
    ];
    let kind = resource.kind.to_ascii_lowercase();
    let (file_prefix, role_prefix) = match project.is_multigroup() && !resource.short_group.is_empty() {
        true => (format!("{}_{kind}", resource.short_group), format!("{}-{kind}", resource.short_group)),
        false => (kind.clone(), kind),
    };
    let mut values = values(project);
    values["Group"] = resource.group.as_str().into();
    values["Plural"] = resource.plural.as_str().into();
    values["RolePrefix"] = role_prefix.into();
    for (role, template) in ROLES {
        let file = format!("{file_prefix}_{role}_role.yaml");
        plan.put(root, format!("config/rbac/{file}"), render(template, &values)?, Existing::Keep)?;
        list(root, plan, "config/rbac/kustomization.yaml", &file, "rbackustomizeresource")?;
    }
    Ok(())
}

/// Lists a file in a kustomization, unless it is listed already.
pub(crate) fn list(root: &Path, plan: &mut Plan, kustomization: &str, file: &str, mark: &str) -> Result<()> {
    let text = plan.text(root, kustomization)?.unwrap_or_default();
    let line = format!("- {file}");
    if text.lines().any(|known| known.trim() == line) {
        return Ok(());
    }
    plan.insert(root, kustomization, mark, &line)
}

/// Adds the kind to watches.yaml with the settings in `run`, unless it is watched already.
pub(crate) fn watch(root: &Path, plan: &mut Plan, resource: &Resource, run: &str) -> Result<()> {
    const WATCHES: &str = "watches.yaml";
    let text = plan.text(root, WATCHES)?.unwrap_or_default();
    let broken = |reason: String| Error::Broken { path: root.join(WATCHES), reason };
    let watches = steersman_yaml::from_str(&text).map_err(|error| broken(error.to_string()))?;
    let is_same = |watch: &Value| {
        watch["group"] == *resource.group
            && watch["version"] == *resource.version
            && watch["kind"] == *resource.kind
    };
    if watches.as_array().is_some_and(|watches| watches.iter().any(is_same)) {
        return Ok(());
    }
    let Resource { group, version, kind, .. } = resource;
    let entry = format!("- group: {group}\n  version: {version}\n  kind: {kind}\n  {run}\n");
    plan.insert(root, WATCHES, "watch", &entry)
}

/// Adds the permissions that the operator needs for the kind to its role.
pub(crate) fn write_rules(
    root: &Path,
    plan: &mut Plan,
    project: &Project,
    options: &ApiOptions,
    resource: &Resource,
    chart: &Chart,
) -> Result<()> {
    if has_rules(root, plan, resource)? && !options.force {
        return Ok(());
    }
    put_needs(
        root,
        plan,
        project,
        resource,
        role::of_chart(chart, resource, options.namespaced)?,
        options.force,
    )
}

/// Whether the role has rules for a kind.
fn has_rules(root: &Path, plan: &Plan, resource: &Resource) -> Result<bool> {
    Ok(plan.text(root, RULES)?.is_some_and(|text| text.contains(&heading(resource))))
}

/// Adds the permissions that the operator needs for a kind to its roles.
///
/// Existing rules of the kind are left unchanged unless `force` is set.
pub(crate) fn put_needs(
    root: &Path,
    plan: &mut Plan,
    project: &Project,
    resource: &Resource,
    needs: role::Needs,
    force: bool,
) -> Result<()> {
    if has_rules(root, plan, resource)? && !force {
        return Ok(());
    }
    let heading = heading(resource);
    let role::Needs { mut inside, outside } = needs;
    if !project.is_namespaced() {
        inside.extend(outside);
        return put_rules(root, plan, RULES, &heading, &inside.rules());
    }
    put_rules(root, plan, RULES, &heading, &inside.rules())?;
    if outside.is_empty() {
        return Ok(());
    }
    if plan.text(root, CLUSTER_RULES)?.is_none() {
        let text = render(template!("config/rbac/cluster_role.yaml"), &values(project))?;
        plan.put(root, CLUSTER_RULES, text, Existing::Keep)?;
    }
    list(root, plan, "config/rbac/kustomization.yaml", "cluster_role.yaml", "rbackustomizeresource")?;
    put_rules(root, plan, CLUSTER_RULES, &heading, &outside.rules())
}

/// Returns the comment that precedes the rules of a kind in a role.
pub(crate) fn heading(resource: &Resource) -> String {
    format!("## Rules for {}/{}, Kind: {}\n", resource.group, resource.version, resource.kind)
}

/// Writes rules under their heading: replaces existing ones, or inserts them before the marker.
fn put_rules(root: &Path, plan: &mut Plan, path: &str, heading: &str, rules: &[Value]) -> Result<()> {
    let rules = yaml(&json!(rules))?;
    let text = plan.text(root, path)?.unwrap_or_default();
    let Some(start) = text.find(heading) else {
        return plan.insert(root, path, RULES_MARK, &format!("##\n{heading}##\n{rules}"));
    };
    let (before, after) = text.split_at(start + heading.len());
    let rest = after.strip_prefix("##\n").unwrap_or(after);
    let ends = |line: &str| line.starts_with("##") || files::is_mark(line, RULES_MARK);
    let length: usize = rest.split_inclusive('\n').take_while(|line| !ends(line)).map(str::len).sum();
    let replaced = format!("{before}##\n{rules}{}", rest.get(length..).unwrap_or_default());
    plan.edit(root, path, |_| Some(replaced))
}

/// Returns the project's existing chart for a kind, or the starter chart.
fn existing_or_starter(root: &Path, options: &ApiOptions, resource: &Resource) -> Result<Chart> {
    let name = resource.kind.to_ascii_lowercase();
    let path = root.join("helm-charts").join(&name);
    if path.exists() {
        return Ok(Chart::load(&path)?);
    }
    let (repository, tag) = match options.image.as_deref() {
        Some(image) => split_image(image)?,
        None => ("nginx", "1.29"),
    };
    let port = if options.image.is_some() { "8080" } else { "80" };
    let files = STARTER.iter().map(|(path, (_, text))| {
        let text = text
            .replace("<CHARTNAME>", &name)
            .replace("<REPOSITORY>", repository)
            .replace("<APPVERSION>", tag)
            .replace("<PORT>", port);
        File::new(*path, text)
    });
    Ok(Chart::from_files(files)?)
}

/// Splits an image into its name and tag.
fn split_image(image: &str) -> Result<(&str, &str)> {
    let refused =
        |reason: &str| Error::Name { flag: "--image", value: image.to_owned(), reason: reason.to_owned() };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | ':' | '@');
    if image.is_empty() || !image.chars().all(is_plain) {
        return Err(refused("must be an image such as example.com/memcached:1.6"));
    }
    if image.contains('@') {
        return Err(refused("must have a tag and not a digest"));
    }
    Ok(match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    })
}

pub(crate) fn yaml(value: &Value) -> Result<String> {
    let failed =
        |error: steersman_yaml::Error| Error::Template { name: "yaml".to_owned(), reason: error.to_string() };
    steersman_yaml::to_string(value).map_err(failed)
}
