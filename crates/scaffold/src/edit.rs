//! How a project works, changed.

use std::path::Path;

use crate::error::{Error, Result};
use crate::files::{Existing, Plan, Written};
use crate::init::{CONFIG, put_project, values};
use crate::project::{Plugin, Project};
use crate::templates::render;

/// What is changed of a project. What is not said stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// Whether its kinds may be of several API groups.
    pub multigroup: Option<bool>,
    /// Whether the operator works in its own namespace alone.
    pub namespaced: Option<bool>,
}

/// The files that say where the operator works.
const SCOPED: [&str; 2] = ["config/manager/manager.yaml", "config/rbac/role_binding.yaml"];

/// Changes how the project in a directory works.
///
/// # Errors
/// Fails if there is no project, or a file cannot be written.
pub fn edit(root: &Path, options: &EditOptions) -> Result<Vec<Written>> {
    let before = Project::load(root)?;
    let mut project = before.clone();
    let mut plan = Plan::default();
    if let Some(yes) = options.multigroup {
        project.set_flag("multigroup", yes);
    }
    if let Some(yes) = options.namespaced.filter(|yes| *yes != before.is_namespaced()) {
        if before.plugin()? == Plugin::Rust {
            return Err(Error::usage(
                "a Rust project says in its code where it works",
                "Operator::namespaces names the namespaces, and `make manifests` writes the role for them",
            ));
        }
        project.set_flag("namespaced", yes);
        scope(root, &mut plan, &before, &project)?;
    }
    put_project(root, &mut plan, &project)?;
    plan.write(root)
}

/// Writes the files that say where the operator works anew, where they are as they were scaffolded.
fn scope(root: &Path, plan: &mut Plan, before: &Project, after: &Project) -> Result<()> {
    let (old, new) = (values(before), values(after));
    for (path, template) in CONFIG.iter().filter(|(path, _)| SCOPED.contains(path)) {
        let current = plan.text(root, path)?;
        let existing = match current == Some(render(*template, &old)?) {
            true => Existing::Replace,
            false => Existing::Keep,
        };
        plan.put(root, *path, render(*template, &new)?, existing)?;
    }
    // The rules are the kinds', so only the role's own kind changes here.
    let (from, to) = match after.is_namespaced() {
        true => ("kind: ClusterRole\n", "kind: Role\n"),
        false => ("kind: Role\n", "kind: ClusterRole\n"),
    };
    plan.edit(root, "config/rbac/role.yaml", |text| Some(text.replacen(from, to, 1)))
}
