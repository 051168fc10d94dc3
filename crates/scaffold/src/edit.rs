//! Edits a project's configuration.

use std::path::Path;

use crate::error::{Error, Result};
use crate::files::{Existing, Plan, Written};
use crate::init::put_project;
use crate::layout;
use crate::project::{Plugin, Project};
use crate::update::Base;

/// The settings of a project to change. `None` leaves a setting unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// Whether its kinds may belong to several API groups.
    pub multigroup: Option<bool>,
    /// Whether the operator watches only its own namespace.
    pub namespaced: Option<bool>,
}

/// Changes the configuration of the project in a directory.
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
                "the namespaces of a Rust project are set in its code",
                "use Operator::namespaces; `make manifests` writes the role for them",
            ));
        }
        project.set_flag("namespaced", yes);
        scope(root, &mut plan, &before, &project)?;
    }
    put_project(root, &mut plan, &project)?;
    plan.write(root)
}

/// Regenerates the files that depend on the operator's scope, unless they were edited.
fn scope(root: &Path, plan: &mut Plan, before: &Project, after: &Project) -> Result<()> {
    let (old, new) = (layout::files(before)?, layout::files(after)?);
    for ((path, old), (_, new)) in old.iter().zip(&new).filter(|(old, new)| old != new) {
        // The role's rules are generated per kind, so only its `kind` is changed, below.
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
