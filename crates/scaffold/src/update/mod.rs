//! Merges a newer scaffold into a project created by an older one or by operator-sdk.

mod adopt;
mod base;
mod known;
mod merge;

use std::path::Path;

use self::adopt::Adopted;
pub(crate) use self::base::Base;
use self::merge::Merged;
use crate::error::{Error, Result};
use crate::files::{Outcome, Plan, Written};
use crate::init::put_project;
use crate::layout;
use crate::project::{Project, SCAFFOLD_VERSION};

/// The result of merging a newer scaffold, or of a dry run.
#[derive(Clone, Debug)]
pub struct Update {
    /// The files and their outcomes.
    pub written: Vec<Written>,
    /// The changes as unified diffs, each with its file.
    pub differences: Vec<(String, String)>,
    /// The previous scaffold version, if this program created the project.
    pub from: Option<String>,
}

impl Update {
    /// Returns the files with conflicts to resolve by hand.
    #[must_use]
    pub fn conflicts(&self) -> Vec<&str> {
        let conflicts = self.written.iter().filter(|file| file.outcome == Outcome::Conflict);
        conflicts.map(|file| file.path.as_str()).collect()
    }
}

/// Merges the scaffold of this program into the project in a directory. With `dry_run`, nothing is written.
///
/// The scaffold's previous output is stored in the project's `.scaffold.yaml`, as the common ancestor of a three-way merge of
/// each file. Edits are kept, with conflict markers where the scaffold changed the same lines. A project without that file,
/// such as one of operator-sdk, is adopted: missing files are added, unedited files of operator-sdk are replaced, and all others
/// are kept, or get conflict markers where the scaffold requires a change.
///
/// # Errors
/// Fails if there is no project, an earlier merge has unresolved conflicts, or a file cannot be written.
pub fn update(root: &Path, dry_run: bool) -> Result<Update> {
    let mut project = Project::load(root)?;
    let from = project.scaffold_version().map(str::to_owned);
    let files = layout::files(&project)?;
    let base = Base::load(root)?;
    let mut plan = Plan::default();
    check_resolved(root, &plan, &files)?;
    let label = format!("scaffold {SCAFFOLD_VERSION}");
    match &base {
        Some(base) => merge_all(root, &mut plan, base, &files, &label)?,
        None => adopt_all(root, &mut plan, &project, &files, &label)?,
    }
    project.set_scaffold_version();
    put_project(root, &mut plan, &project)?;
    Base::of(&files).put(root, &mut plan)?;
    let differences = plan.differences(root)?;
    let written = if dry_run { plan.preview() } else { plan.write(root)? };
    Ok(Update { written, differences, from })
}

/// Refuses to merge while conflicts of an earlier merge are unresolved, as git does.
fn check_resolved(root: &Path, plan: &Plan, files: &[(String, String)]) -> Result<()> {
    let mut unresolved = Vec::new();
    for (path, _) in files {
        if plan.text(root, path)?.is_some_and(|text| merge::is_unresolved(&text)) {
            unresolved.push(path.clone());
        }
    }
    if unresolved.is_empty() { Ok(()) } else { Err(Error::Unresolved(unresolved)) }
}

/// Merges each file, with the scaffold's previous output as the common ancestor.
fn merge_all(
    root: &Path,
    plan: &mut Plan,
    base: &Base,
    files: &[(String, String)],
    label: &str,
) -> Result<()> {
    for (path, new) in files {
        let mine = plan.text(root, path)?;
        match (base.get(path), mine) {
            (_, Some(mine)) if mine == *new => {}
            (Some(old), Some(_)) if old == new => {}
            (Some(old), Some(mine)) if old == mine => plan.set(root, path, new, Outcome::Updated)?,
            (Some(old), Some(mine)) => {
                let merged = merge::three_way(old, &mine, new, label);
                if merged.text != mine {
                    set_merged(root, plan, path, &merged)?;
                }
            }
            (Some(old), None) if old == new => {}
            (Some(_), None) => {
                plan.keep(path, Some("it was deleted from the project, but changed in the scaffold".into()));
            }
            (None, None) => plan.set(root, path, new, Outcome::Created)?,
            (None, Some(mine)) => set_merged(root, plan, path, &merge::two_way(&mine, new, label))?,
        }
    }
    for path in base.paths().filter(|path| !files.iter().any(|(known, _)| known == path)) {
        match plan.text(root, path)? {
            Some(mine) if base.get(path) == Some(mine.as_str()) => plan.remove(root, path)?,
            Some(_) => {
                plan.keep(path, Some("it was removed from the scaffold, but edited in the project".into()));
            }
            None => {}
        }
    }
    Ok(())
}

/// Updates a project whose originally scaffolded files are not known.
fn adopt_all(
    root: &Path,
    plan: &mut Plan,
    project: &Project,
    files: &[(String, String)],
    label: &str,
) -> Result<()> {
    for (path, new) in files {
        let Some(mine) = plan.text(root, path)? else {
            plan.set(root, path, new, Outcome::Created)?;
            continue;
        };
        if mine == *new {
            continue;
        }
        match adopt::adopt(project, path, &mine, new) {
            Adopted::Replace(text) if text == mine => {}
            Adopted::Replace(text) => plan.set(root, path, &text, Outcome::Updated)?,
            Adopted::Keep => {
                plan.keep(path, Some("it differs from what operator-sdk and steer scaffold".into()));
            }
            Adopted::Unchanged => {}
            Adopted::Merge => set_merged(root, plan, path, &merge::two_way(&mine, new, label))?,
        }
    }
    for path in known::REPLACED {
        if plan.text(root, path)?.is_some() {
            plan.keep(path, Some("it was removed from the scaffold; delete it if you do not need it".into()));
        }
    }
    Ok(())
}

fn set_merged(root: &Path, plan: &mut Plan, path: &str, merged: &Merged) -> Result<()> {
    let outcome = if merged.has_conflict { Outcome::Conflict } else { Outcome::Updated };
    plan.set(root, path, &merged.text, outcome)
}
