//! A content-addressed cache on disk.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::Error;

/// A directory of files named by their SHA-256. The content of an entry never changes, so it is never refreshed.
#[derive(Clone, Debug)]
pub struct Cache {
    root: Option<PathBuf>,
}

impl Cache {
    /// Creates a cache in `root`, or with `None` one that stores nothing. The directory is created for the first file.
    pub fn new(root: Option<PathBuf>) -> Self {
        Self { root }
    }

    /// Returns the file with a digest (64 hexadecimal digits). A corrupt or truncated file counts as missing.
    pub fn get(&self, digest: &str) -> Option<Vec<u8>> {
        let data = fs::read(self.path(digest)?).ok()?;
        (sha256(&data) == digest).then_some(data)
    }

    /// Stores a file and returns its digest. Best effort: if the cache cannot be written, the file is not stored.
    pub fn put(&self, data: &[u8]) -> String {
        let digest = sha256(data);
        if let Some(path) = self.path(&digest) {
            let _ = write_atomically(&path, data);
        }
        digest
    }

    fn path(&self, digest: &str) -> Option<PathBuf> {
        let root = self.root.as_ref()?;
        // The digest comes from an index or a reference: validated, so that it cannot escape the directory.
        if !is_sha256(digest) {
            return None;
        }
        let (fan, _) = digest.split_at(2);
        Some(root.join("charts").join("sha256").join(fan).join(digest))
    }
}

/// Writes a file atomically, creating its directory if necessary.
pub fn write_atomically(path: &Path, data: &[u8]) -> Result<(), Error> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(|source| Error::file(directory, source))?;
    let write = || {
        let mut file = tempfile::Builder::new().prefix(".steer-").tempfile_in(directory)?;
        file.write_all(data)?;
        readable_by_all(file.as_file())?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|source| Error::file(path, source))
}

#[cfg(unix)]
fn readable_by_all(file: &fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable_by_all(_: &fs::File) -> std::io::Result<()> {
    Ok(())
}

/// Returns the SHA-256 of `data` in hexadecimal digits.
pub(crate) fn sha256(data: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(data).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Whether `digest` is 64 lower-case hexadecimal digits.
pub(crate) fn is_sha256(digest: &str) -> bool {
    digest.len() == 64 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_comes_back_by_its_digest() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(directory.path().into()));
        let digest = cache.put(b"chart");
        assert_eq!(digest, sha256(b"chart"));
        assert_eq!(cache.get(&digest).as_deref(), Some(&b"chart"[..]));
    }

    #[test]
    fn a_tampered_file_is_not_given_out() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(directory.path().into()));
        let digest = cache.put(b"chart");
        fs::write(cache.path(&digest).unwrap(), b"other").unwrap();
        assert_eq!(cache.get(&digest), None);
    }

    #[test]
    fn a_digest_is_never_a_path() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(directory.path().into()));
        for digest in ["", "..", "../../etc/passwd", &"A".repeat(64), &"ä".repeat(32)] {
            assert_eq!(cache.path(digest), None, "{digest}");
        }
    }

    #[test]
    fn an_unwritable_cache_only_forgets() {
        let cache = Cache::new(Some("/proc/nowhere".into()));
        let digest = cache.put(b"chart");
        assert_eq!(cache.get(&digest), None);
        assert_eq!(Cache::new(None).get(&digest), None);
    }
}
