//! Reproducible image layers: the archive depends on the files only.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::Error;

/// A file of an image layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// Its absolute path, without the leading slash.
    pub path: String,
    /// Its content.
    pub data: Vec<u8>,
    /// Its mode. Default: 0644; for executables 0755.
    pub mode: u32,
}

impl ImageFile {
    /// Creates a file with mode 0644.
    pub fn new(path: &str, data: impl Into<Vec<u8>>) -> Self {
        Self { path: path.trim_start_matches('/').to_owned(), data: data.into(), mode: 0o644 }
    }

    /// Creates an executable with mode 0755.
    pub fn executable(path: &str, data: impl Into<Vec<u8>>) -> Self {
        Self { mode: 0o755, ..Self::new(path, data) }
    }
}

/// Builds a tar archive of the files and their parent directories, sorted by name.
pub(super) fn tar(files: &[ImageFile], created: u64) -> Result<Vec<u8>, Error> {
    let mut entries: BTreeMap<String, Option<&ImageFile>> = BTreeMap::new();
    entries.insert("tmp/".into(), None);
    for file in files {
        let is_safe = file.path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        if !is_safe {
            return Err(Error::Image(format!("invalid path in an image: {:?}", file.path)));
        }
        let mut parent = String::new();
        for part in file.path.split('/').take(file.path.split('/').count() - 1) {
            parent.push_str(part);
            parent.push('/');
            entries.entry(parent.clone()).or_insert(None);
        }
        entries.insert(file.path.clone(), Some(file));
    }
    let mut archive = Builder::new(Vec::new());
    for (path, file) in entries {
        let mut header = Header::new_gnu();
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(created);
        let data: &[u8] = match file {
            Some(file) => {
                header.set_mode(file.mode);
                header.set_size(file.data.len() as u64);
                &file.data
            }
            None => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(if path == "tmp/" { 0o1777 } else { 0o755 });
                header.set_size(0);
                &[]
            }
        };
        archive
            .append_data(&mut header, &path, data)
            .map_err(|error| Error::Image(format!("{path}: {error}")))?;
    }
    archive.into_inner().map_err(|error| Error::Image(error.to_string()))
}

/// Compresses reproducibly: without a name, time or system in the header.
pub(super) fn gzip(data: &[u8]) -> Result<Vec<u8>, Error> {
    let failed = |error: std::io::Error| Error::Image(error.to_string());
    let mut encoder = GzBuilder::new().operating_system(255).write(Vec::new(), Compression::new(6));
    encoder.write_all(data).map_err(failed)?;
    encoder.finish().map_err(failed)
}
