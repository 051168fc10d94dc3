//! Packages on disk: directories and archives.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::{CHARTS, OPERATOR_FILE, PARAMS_FILE, Package, TEMPLATES};
use crate::error::Error;

/// The maximum size of a package's file, in bytes: an operator version has to fit into one object.
const MAX_FILE: u64 = 4 << 20;
/// The maximum size of an unpacked archive, in bytes.
const MAX_ARCHIVE: u64 = 64 << 20;
/// The maximum number of files of a package.
const MAX_FILES: usize = 10_000;

/// Whether a directory has the files of a package.
#[must_use]
pub fn is_package(path: &Path) -> bool {
    path.join(OPERATOR_FILE).is_file() && path.join(PARAMS_FILE).is_file()
}

impl Package {
    /// Reads a directory, or an archive (`.tgz`).
    ///
    /// # Errors
    /// Fails with all problems at once, or if the files cannot be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::from_files(files_of(path)?)
    }
}

/// Reads a package's files from a directory or archive: both YAML files, templates and charts.
///
/// # Errors
/// Fails if they cannot be read.
pub fn files_of(path: &Path) -> Result<BTreeMap<String, String>, Error> {
    let failed = |reason: String| Error::Read { path: path.display().to_string(), reason };
    if path.is_dir() {
        let mut files = BTreeMap::new();
        for name in [OPERATOR_FILE, PARAMS_FILE] {
            let file = path.join(name);
            if file.is_file() {
                files.insert(name.to_owned(), text(&file)?);
            }
        }
        let templates = path.join("templates");
        if templates.is_dir() {
            walk(&templates, TEMPLATES, &mut files, 0)?;
        }
        let charts = path.join("charts");
        if charts.is_dir() {
            walk(&charts, CHARTS, &mut files, 0)?;
        }
        return Ok(files);
    }
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    archive_files(file).map_err(failed)
}

/// Reads the files of an archive, which has no root directory. Nothing is written to disk, and links are skipped.
///
/// # Errors
/// Fails with the reason if it is not an archive, or too large.
pub fn archive_files(file: impl Read) -> Result<BTreeMap<String, String>, String> {
    let mut files = BTreeMap::new();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file).take(MAX_ARCHIVE));
    let mut count = 0;
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let mut entry = entry.map_err(|error| error.to_string())?;
        count += 1;
        if count > MAX_FILES {
            return Err(format!("more than {MAX_FILES} files"));
        }
        let name = entry.path().map_err(|error| error.to_string())?.to_string_lossy().into_owned();
        let name = name.trim_start_matches("./").to_owned();
        if !entry.header().entry_type().is_file() || !is_wanted(&name) {
            continue;
        }
        let mut text = String::new();
        let read = (&mut entry).take(MAX_FILE + 1).read_to_string(&mut text);
        read.map_err(|error| format!("{name}: {error}"))?;
        if text.len() as u64 > MAX_FILE {
            return Err(format!("{name}: more than {MAX_FILE} bytes"));
        }
        files.insert(name, text);
    }
    Ok(files)
}

fn is_wanted(name: &str) -> bool {
    name == OPERATOR_FILE
        || name == PARAMS_FILE
        || name.starts_with(CHARTS)
        || (name.starts_with(TEMPLATES) && is_yaml(name))
}

fn is_yaml(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

fn walk(
    directory: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, String>,
    depth: usize,
) -> Result<(), Error> {
    let failed = |reason: String| Error::Read { path: directory.display().to_string(), reason };
    if depth > 16 {
        return Err(failed("directories are nested too deeply".into()));
    }
    for entry in std::fs::read_dir(directory).map_err(|error| failed(error.to_string()))? {
        let entry = entry.map_err(|error| failed(error.to_string()))?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().map_err(|error| failed(error.to_string()))?;
        if kind.is_dir() {
            walk(&entry.path(), &format!("{name}/"), files, depth + 1)?;
        } else if is_yaml(&name) || name.starts_with(CHARTS) {
            if files.len() >= MAX_FILES {
                return Err(failed(format!("more than {MAX_FILES} files")));
            }
            files.insert(name, text(&entry.path())?);
        }
    }
    Ok(())
}

fn text(path: &Path) -> Result<String, Error> {
    let failed = |reason: String| Error::Read { path: path.display().to_string(), reason };
    let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if size > MAX_FILE {
        return Err(failed(format!("{size} bytes exceed the limit of {MAX_FILE}")));
    }
    std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))
}
