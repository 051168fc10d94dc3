//! How a project works, changed.

use std::path::Path;

use crate::error::{Error, Result};
use crate::files::{Existing, Plan, Written};
use crate::init::put_project;
use crate::layout;
use crate::project::{Plugin, Project};
use crate::update::Base;

/// What is changed of a project. What is not said stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// Whether its kinds may be of several API groups.
    pub multigroup: Option<bool>,
    /// Whether the operator works in its own namespace alone.
    pub namespaced: Option<bool>,
}

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
    let (old, new) = (layout::files(before)?, layout::files(after)?);
    for ((path, old), (_, new)) in old.iter().zip(&new).filter(|(old, new)| old != new) {
        // The rules are the kinds', so only the role's own kind changes, below.
        if path == layout::ROLE {
            continue;
        }
        let existing = match plan.text(root, path)?.as_ref() == Some(old) {
            true => Existing::Replace,
            false => Existing::Keep,
        };
        plan.put(root, path.as_str(), new.as_str(), existing)?;
    }
    Base::follow(root, plan, &old, &new)?;
    let (from, to) = match after.is_namespaced() {
        true => ("kind: ClusterRole\n", "kind: Role\n"),
        false => ("kind: Role\n", "kind: ClusterRole\n"),
    };
    plan.edit(root, layout::ROLE, |text| Some(text.replacen(from, to, 1)))
}
