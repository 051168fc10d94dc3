//! The files of a project that are generated from PROJECT alone.

use serde_json::{Value, json};

use crate::error::Result;
use crate::project::{Plugin, Project};
use crate::templates::{Template, render, template};
use crate::{ansible, helm, rust};

/// The operator's role, with the rules of the project's kinds.
pub(crate) const ROLE: &str = "config/rbac/role.yaml";

/// The files under config/ of projects with kubebuilder's deployment layout.
const CONFIG: &[(&str, Template)] = &[
    ("config/crd/kustomization.yaml", template!("config/crd/kustomization.yaml")),
    ("config/default/kustomization.yaml", template!("config/default/kustomization.yaml")),
    ("config/default/metrics_service.yaml", template!("config/default/metrics_service.yaml")),
    ("config/manager/kustomization.yaml", template!("config/manager/kustomization.yaml")),
    ("config/manager/manager.yaml", template!("config/manager/manager.yaml")),
    ("config/manifests/kustomization.yaml", template!("config/manifests/kustomization.yaml")),
    (
        "config/network-policy/allow-metrics-traffic.yaml",
        template!("config/network-policy/allow-metrics-traffic.yaml"),
    ),
    ("config/network-policy/kustomization.yaml", template!("config/network-policy/kustomization.yaml")),
    ("config/prometheus/kustomization.yaml", template!("config/prometheus/kustomization.yaml")),
    ("config/prometheus/monitor.yaml", template!("config/prometheus/monitor.yaml")),
    ("config/rbac/kustomization.yaml", template!("config/rbac/kustomization.yaml")),
    ("config/rbac/leader_election_role.yaml", template!("config/rbac/leader_election_role.yaml")),
    (
        "config/rbac/leader_election_role_binding.yaml",
        template!("config/rbac/leader_election_role_binding.yaml"),
    ),
    ("config/rbac/metrics_auth_role.yaml", template!("config/rbac/metrics_auth_role.yaml")),
    ("config/rbac/metrics_auth_role_binding.yaml", template!("config/rbac/metrics_auth_role_binding.yaml")),
    ("config/rbac/metrics_reader_role.yaml", template!("config/rbac/metrics_reader_role.yaml")),
    (ROLE, template!("config/rbac/role.yaml")),
    ("config/rbac/role_binding.yaml", template!("config/rbac/role_binding.yaml")),
    ("config/rbac/service_account.yaml", template!("config/rbac/service_account.yaml")),
    ("config/samples/kustomization.yaml", template!("config/samples/kustomization.yaml")),
    ("config/scorecard/bases/config.yaml", template!("config/scorecard/bases/config.yaml")),
    ("config/scorecard/kustomization.yaml", template!("config/scorecard/kustomization.yaml")),
    ("config/scorecard/patches/basic.config.yaml", template!("config/scorecard/patches/basic.config.yaml")),
    ("config/scorecard/patches/olm.config.yaml", template!("config/scorecard/patches/olm.config.yaml")),
];

/// Returns paths and contents of the project's generated files, except those of its kinds.
///
/// A kind's code, definition, sample and user roles belong to the project once they are created.
pub(crate) fn files(project: &Project) -> Result<Vec<(String, String)>> {
    let mut values = values(project);
    let templates: Vec<&(&str, Template)> = match project.plugin()? {
        Plugin::Helm => helm::FILES.iter().chain(CONFIG).collect(),
        Plugin::Ansible => {
            let is_own = |path: &str| ansible::FILES.iter().any(|(own, _)| *own == path);
            ansible::FILES.iter().chain(CONFIG.iter().filter(|(path, _)| !is_own(path))).collect()
        }
        Plugin::Rust => {
            rust::add_values(&mut values, project)?;
            rust::FILES.iter().collect()
        }
    };
    let mut files = Vec::with_capacity(templates.len());
    for (path, template) in templates {
        files.push(((*path).to_owned(), render(*template, &values)?));
    }
    Ok(files)
}

/// Returns the values for a project's templates.
pub(crate) fn values(project: &Project) -> Value {
    json!({
        "ProjectName": project.name(),
        "Domain": project.domain(),
        "Namespaced": project.is_namespaced(),
        "RoleKind": if project.is_namespaced() { "Role" } else { "ClusterRole" },
        "Owner": project.owner(),
        "OwnerQuoted": json!(project.owner()).to_string(),
        "License": project.license(),
    })
}
