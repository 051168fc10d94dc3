//! Charts in directories.

use std::path::{Path, PathBuf};

use super::ignore::Rules;
use super::{MAX_FILE_SIZE, io_error, without_bom};
use crate::chart::File;
use crate::error::Error;
use crate::gofmt;

/// Maximum depth of directories: a link to a parent directory would never end.
const MAX_DEPTH: usize = 64;
/// Maximum total size of a directory: a link to the root directory would be huge.
const MAX_TOTAL: u64 = 1024 * 1024 * 1024;

/// How to treat symbolic links in a chart's directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Load the target, wherever it is, and warn. The default, as in Helm.
    #[default]
    Follow,
    /// Load the target if it is inside the chart's directory, otherwise fail.
    Inside,
}

/// Returns the chart's files sorted by path, and warnings about links.
pub(super) fn files(root: &Path, links: Links) -> Result<(Vec<File>, Vec<String>), Error> {
    let ignore_file = root.join(".helmignore");
    let rules = match std::fs::read(&ignore_file) {
        Ok(text) => Rules::parse(&text),
        Err(_) => Rules::parse(b""),
    }
    .map_err(Error::Load)?;
    let real_root = std::fs::canonicalize(root).map_err(|error| io_error("lstat", root, error))?;
    let mut walk = Walk { rules, links, real_root, files: Vec::new(), warnings: Vec::new(), total: 0 };
    walk.directory(root, "", 0)?;
    Ok((walk.files, walk.warnings))
}

struct Walk {
    rules: Rules,
    links: Links,
    real_root: PathBuf,
    files: Vec<File>,
    warnings: Vec<String>,
    total: u64,
}

impl Walk {
    fn directory(&mut self, path: &Path, relative: &str, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Load(format!(
                "directories are nested deeper than {MAX_DEPTH} levels at {}",
                path.display()
            )));
        }
        let entries = std::fs::read_dir(path).map_err(|error| io_error("open", path, error))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(|error| io_error("readdirent", path, error))?.file_name());
        }
        names.sort();
        for name in names {
            let path = path.join(&name);
            let name = name.to_string_lossy();
            let relative = if relative.is_empty() { name.into_owned() } else { format!("{relative}/{name}") };
            self.entry(&path, relative, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, relative: String, depth: usize) -> Result<(), Error> {
        let mut info = std::fs::symlink_metadata(path).map_err(|error| io_error("lstat", path, error))?;
        if info.is_symlink() {
            let target = std::fs::canonicalize(path).map_err(|error| {
                let why = io_error("lstat", path, error);
                Error::Load(format!("error evaluating symlink {}: {why}", path.display()))
            })?;
            if self.links == Links::Inside && !target.starts_with(&self.real_root) {
                return Err(Error::Load(format!(
                    "symbolic link {} points outside the chart directory: {}",
                    path.display(),
                    target.display()
                )));
            }
            self.warnings.push(format!(
                "found symbolic link in path: {} resolves to {}. Contents of linked file included and used",
                path.display(),
                target.display()
            ));
            info = std::fs::metadata(&target).map_err(|error| io_error("lstat", &target, error))?;
        }
        if self.rules.ignore(&relative, info.is_dir()) {
            return Ok(());
        }
        if info.is_dir() {
            return self.directory(path, &relative, depth + 1);
        }
        if !info.is_file() {
            return Err(Error::Load(format!(
                "cannot load irregular file {} as it has file mode type bits set",
                path.display()
            )));
        }
        if info.len() > MAX_FILE_SIZE {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            return Err(Error::Load(format!(
                "chart file {} is larger than the maximum file size {MAX_FILE_SIZE}",
                gofmt::quote(&name.as_ref().into())
            )));
        }
        self.total += info.len();
        if self.total > MAX_TOTAL {
            return Err(Error::Load(format!(
                "the chart's files exceed the limit of {MAX_TOTAL} bytes in total"
            )));
        }
        let content = std::fs::read(path).map_err(|error| {
            let why = io_error("open", path, error);
            Error::Load(format!("error reading {relative}: {why}"))
        })?;
        self.files.push(File { name: relative, data: without_bom(content) });
        Ok(())
    }
}
