//! Writes files of a project: missing files are created, edited files are never overwritten.

use std::fs;
use std::path::{Component, Path};

use crate::error::{Error, Result};

/// The outcome for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not exist and was created.
    Created,
    /// It existed and was changed.
    Updated,
    /// It already has the wanted content.
    Unchanged,
    /// It differs and was left unchanged: it was edited by hand.
    Kept,
    /// The same lines were changed by hand and by the scaffold: it contains both between conflict markers.
    Conflict,
    /// It is no longer part of the scaffold, was not edited, and was removed.
    Removed,
}

/// A file of a project and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its path, relative to the project's directory.
    pub path: String,
    /// The outcome.
    pub outcome: Outcome,
    /// What has to be changed by hand, if anything.
    pub by_hand: Option<String>,
}

/// Planned changes of a project's files; nothing is written before the plan is complete.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    changes: Vec<Change>,
}

#[derive(Debug)]
struct Change {
    written: Written,
    /// `None` if the file is removed or left unchanged.
    content: Option<Vec<u8>>,
}

/// What to do with an existing file whose content differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Keep it.
    Keep,
    /// Replace it.
    Replace,
}

impl Plan {
    /// Plans a file's content; `existing` decides about a file that differs.
    pub(crate) fn put(
        &mut self,
        root: &Path,
        path: impl Into<String>,
        content: impl Into<Vec<u8>>,
        existing: Existing,
    ) -> Result<()> {
        let (path, content) = (path.into(), content.into());
        check(root, &path)?;
        let outcome = match self.read(root, &path)? {
            None => Outcome::Created,
            Some(current) if current == content => Outcome::Unchanged,
            Some(_) if existing == Existing::Replace => Outcome::Updated,
            Some(_) => Outcome::Kept,
        };
        let content = matches!(outcome, Outcome::Created | Outcome::Updated).then_some(content);
        self.add(path, outcome, content);
        Ok(())
    }

    /// Plans a file's content unconditionally.
    pub(crate) fn set(&mut self, root: &Path, path: &str, content: &str, outcome: Outcome) -> Result<()> {
        check(root, path)?;
        self.add(path.to_owned(), outcome, Some(content.as_bytes().to_vec()));
        Ok(())
    }

    /// Plans the removal of a file.
    pub(crate) fn remove(&mut self, root: &Path, path: &str) -> Result<()> {
        check(root, path)?;
        self.add(path.to_owned(), Outcome::Removed, None);
        Ok(())
    }

    /// Leaves a file unchanged, with a note on what to change by hand.
    pub(crate) fn keep(&mut self, path: &str, by_hand: Option<String>) {
        self.add(path.to_owned(), Outcome::Kept, None);
        if let Some(change) = self.changes.iter_mut().find(|change| change.written.path == path) {
            change.written.by_hand = by_hand.or(change.written.by_hand.take());
        }
    }

    /// Edits an existing file: `change` returns its new content, or `None` to leave it unchanged.
    pub(crate) fn edit(
        &mut self,
        root: &Path,
        path: &str,
        change: impl FnOnce(&str) -> Option<String>,
    ) -> Result<()> {
        let Some(current) = self.text(root, path)? else {
            return Err(Error::Broken { path: root.join(path), reason: "file not found".to_owned() });
        };
        match change(&current).filter(|text| *text != current) {
            Some(text) => self.add(path.to_owned(), Outcome::Updated, Some(text.into_bytes())),
            None => self.add(path.to_owned(), Outcome::Unchanged, None),
        }
        Ok(())
    }

    /// Inserts text before the line with kubebuilder's marker of this name.
    ///
    /// A file without the marker is left unchanged, with a note to insert it by hand.
    pub(crate) fn insert(&mut self, root: &Path, path: &str, mark: &str, text: &str) -> Result<()> {
        let Some(current) = self.text(root, path)? else {
            return Err(Error::Broken { path: root.join(path), reason: "file not found".to_owned() });
        };
        match insert_before(&current, mark, text) {
            Some(changed) => self.add(path.to_owned(), Outcome::Updated, Some(changed.into_bytes())),
            None => {
                let text = text.trim_end();
                self.keep(path, Some(format!("line +kubebuilder:scaffold:{mark} not found; add\n{text}")));
            }
        }
        Ok(())
    }

    /// Returns a file's content with the planned changes applied.
    pub(crate) fn text(&self, root: &Path, path: &str) -> Result<Option<String>> {
        let broken = |_| Error::Broken { path: root.join(path), reason: "not valid UTF-8".to_owned() };
        self.read(root, path)?.map(|bytes| String::from_utf8(bytes).map_err(broken)).transpose()
    }

    fn read(&self, root: &Path, path: &str) -> Result<Option<Vec<u8>>> {
        let planned = self.changes.iter().rev().find(|change| change.written.path == path);
        if let Some(content) = planned.and_then(|change| change.content.as_ref()) {
            return Ok(Some(content.clone()));
        }
        on_disk(root, path)
    }

    fn add(&mut self, path: String, outcome: Outcome, content: Option<Vec<u8>>) {
        if let Some(earlier) = self.changes.iter_mut().find(|change| change.written.path == path) {
            // A file that is created and then changed counts as created.
            if earlier.written.outcome != Outcome::Created && outcome != Outcome::Unchanged {
                earlier.written.outcome = outcome;
            }
            earlier.content = content.or(earlier.content.take());
            return;
        }
        self.changes.push(Change { written: Written { path, outcome, by_hand: None }, content });
    }

    /// Returns the planned changes without making them.
    pub(crate) fn preview(self) -> Vec<Written> {
        self.changes.into_iter().map(|change| change.written).collect()
    }

    /// Returns the changes of text files as unified diffs, each with its path.
    pub(crate) fn differences(&self, root: &Path) -> Result<Vec<(String, String)>> {
        let mut differences = Vec::new();
        for Change { written, content } in &self.changes {
            let (before, after) = match (written.outcome, content) {
                (Outcome::Removed, _) => (on_disk(root, &written.path)?, None),
                (_, Some(content)) => (on_disk(root, &written.path)?, Some(content.as_slice())),
                (_, None) => continue,
            };
            let before = before.as_deref().map(String::from_utf8_lossy);
            let after = after.map(String::from_utf8_lossy);
            let name = |prefix: &str, text: &Option<_>| match text {
                Some(_) => format!("{prefix}/{}", written.path),
                None => "/dev/null".to_owned(),
            };
            let mut options = diffy::DiffOptions::new();
            options.set_original_filename(name("a", &before)).set_modified_filename(name("b", &after));
            let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
            differences.push((written.path.clone(), options.create_patch(&before, &after).to_string()));
        }
        Ok(differences)
    }

    /// Makes the changes in order.
    pub(crate) fn write(self, root: &Path) -> Result<Vec<Written>> {
        let mut written = Vec::with_capacity(self.changes.len());
        for change in self.changes {
            if change.written.outcome == Outcome::Removed {
                let path = root.join(&change.written.path);
                fs::remove_file(&path).map_err(Error::io(&path))?;
            }
            if let Some(content) = change.content {
                let path = root.join(&change.written.path);
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent).map_err(Error::io(parent))?;
                }
                fs::write(&path, content).map_err(Error::io(&path))?;
            }
            written.push(change.written);
        }
        Ok(written)
    }
}

fn on_disk(root: &Path, path: &str) -> Result<Option<Vec<u8>>> {
    let path = root.join(path);
    match fs::read(&path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(&path)(error)),
    }
}

/// Rejects paths that lead out of the project: a chart's file paths come from untrusted archives.
fn check(root: &Path, path: &str) -> Result<()> {
    if Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(());
    }
    Err(Error::Broken { path: root.join(path), reason: "outside of the project".to_owned() })
}

/// Whether a line is kubebuilder's marker for insertions, with or without a space after `#` or `//`.
pub(crate) fn is_mark(line: &str, mark: &str) -> bool {
    let line = line.trim();
    let comment = line.strip_prefix('#').or_else(|| line.strip_prefix("//")).map(str::trim_start);
    comment.and_then(|comment| comment.strip_prefix("+kubebuilder:scaffold:")) == Some(mark)
}

/// Inserts `text` before the line with a marker; `None` if there is no such line.
pub(crate) fn insert_before(current: &str, mark: &str, text: &str) -> Option<String> {
    let at = current
        .split_inclusive('\n')
        .scan(0, |offset, line| {
            let start = *offset;
            *offset += line.len();
            Some((start, line))
        })
        .find(|(_, line)| is_mark(line, mark))?
        .0;
    let (before, after) = current.split_at(at);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    Some(format!("{before}{text}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_edited_stays() {
        let root = tempfile::tempdir().unwrap();
        let put = |content: &str, existing| {
            let mut plan = Plan::default();
            plan.put(root.path(), "a/b", content, existing).unwrap();
            plan.write(root.path()).unwrap()[0].outcome
        };
        assert_eq!(put("one", Existing::Keep), Outcome::Created);
        assert_eq!(put("one", Existing::Keep), Outcome::Unchanged);
        assert_eq!(put("two", Existing::Keep), Outcome::Kept);
        assert_eq!(fs::read_to_string(root.path().join("a/b")).unwrap(), "one");
        assert_eq!(put("two", Existing::Replace), Outcome::Updated);
        assert_eq!(fs::read_to_string(root.path().join("a/b")).unwrap(), "two");
    }

    #[test]
    fn paths_stay_within_the_project() {
        let root = tempfile::tempdir().unwrap();
        for path in ["../a", "/a", "a/../../b", "./../a"] {
            let mut plan = Plan::default();
            assert!(plan.put(root.path(), path, "x", Existing::Replace).is_err(), "{path}");
        }
    }

    #[test]
    fn texts_are_inserted_before_their_mark() {
        let inserted = |text: &str| insert_before(text, "watch", "new");
        for mark in ["#+kubebuilder:scaffold:watch", "  # +kubebuilder:scaffold:watch"] {
            assert_eq!(inserted(&format!("a\n{mark}\nb\n")).unwrap(), format!("a\nnew\n{mark}\nb\n"));
            assert_eq!(inserted(mark).unwrap(), format!("new\n{mark}"));
        }
        assert_eq!(inserted("a\n# +kubebuilder:scaffold:watches\n"), None);
    }
}
