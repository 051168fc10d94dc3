//! The Python that comes with the program, and the private directory that it is unpacked into.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::processes::kill_marked;
use crate::error::{Error, Result};

/// How the directories of operators begin.
const PREFIX: &str = "steersman-ansible-";
/// Held as long as the operator lives: a directory whose lock can be taken is left over from one that was killed.
const LOCK: &str = "lock";

macro_rules! files {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!(concat!("../../python/", $path)))),*] };
}

const FILES: &[(&str, &str)] = files![
    "steersman_ansible/__init__.py",
    "steersman_ansible/__main__.py",
    "steersman_ansible/events.py",
    "steersman_ansible/inline.py",
    "steersman_ansible/lazy_client.py",
    "steersman_ansible/modules.py",
    "steersman_ansible/play.py",
    "steersman_ansible/server.py",
    "steersman_ansible/temporary.py",
    "steersman_ansible/warm.py",
    "callback/steersman_events.py",
    "collections/ansible_collections/operator_sdk/util/plugins/module_utils/client.py",
    "collections/ansible_collections/operator_sdk/util/plugins/modules/k8s_event.py",
    "collections/ansible_collections/operator_sdk/util/plugins/modules/k8s_status.py",
    "collections/ansible_collections/operator_sdk/util/plugins/modules/osdk_metric.py",
    "collections/ansible_collections/operator_sdk/util/plugins/modules/requeue_after.py",
];

/// A directory that only the operator's user can look into. It goes when this is dropped, or with the next operator.
pub(crate) struct Package {
    directory: TempDir,
    _lock: File,
}

impl Package {
    /// Makes the directory, and removes those of operators that were killed.
    pub(crate) fn unpack() -> Result<Self> {
        let temporary = std::env::temp_dir();
        sweep(&temporary);
        let failed =
            |source| Error::io(format!("no directory can be made in {}", temporary.display()), source);
        let directory = private().prefix(PREFIX).tempdir().map_err(failed)?;
        // It gets its name when it is locked: another operator that starts now must not take it for one that was left.
        let unnamed = directory.path().join("lock.new");
        let lock = create(&unnamed).map_err(failed)?;
        lock.lock().map_err(failed)?;
        std::fs::rename(&unnamed, directory.path().join(LOCK)).map_err(failed)?;
        let package = Self { directory, _lock: lock };
        for folder in ["runs", "tmp"] {
            make_directory(&package.path().join(folder)).map_err(failed)?;
        }
        for (path, content) in FILES {
            let path = package.python_path().join(path);
            path.parent().map_or(Ok(()), make_directory).map_err(failed)?;
            create(&path).and_then(|mut file| file.write_all(content.as_bytes())).map_err(failed)?;
        }
        Ok(package)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where Python finds the package.
    pub(crate) fn python_path(&self) -> PathBuf {
        self.path().join("python")
    }

    /// Where plays and modules put temporary files. All runs share it, and with it what they know of the API.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.path().join("tmp")
    }

    /// A directory for one run, which goes when it is dropped.
    pub(crate) fn run_directory(&self) -> std::io::Result<TempDir> {
        private().prefix("").tempdir_in(self.path().join("runs"))
    }
}

/// Makes temporary directories for the operator's user alone: by default the umask decides.
fn private<'a>() -> tempfile::Builder<'a, 'a> {
    let mut builder = tempfile::Builder::new();
    builder.permissions(Permissions::from_mode(0o700));
    builder
}

/// Makes a directory, and those above it, for the operator's user alone.
pub(crate) fn make_directory(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a file for the operator's user alone.
pub(crate) fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Removes the directories of operators that are no more.
fn sweep(temporary: &Path) {
    for entry in std::fs::read_dir(temporary).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_ours || !is_directory {
            continue;
        }
        // Without the lock's file it is being made or removed at this moment.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            kill_marked(&entry.path());
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_private_and_what_a_killed_operator_left_goes() {
        let package = Package::unpack().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(package.path()), 0o700);
        assert_eq!(mode(package.run_directory().unwrap().path()), 0o700);
        assert_eq!(mode(&package.python_path().join(FILES[1].0)), 0o600);
        // As if it had been killed: the lock is gone, the directory is not.
        let left = tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap().keep();
        File::create(left.join(LOCK)).unwrap();
        sweep(&std::env::temp_dir());
        assert!(!left.exists(), "no process holds its lock");
        assert!(package.path().exists(), "its lock is held");
    }

    #[test]
    fn every_file_of_the_package_comes_with_the_program() {
        fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                match entry.path() {
                    path if path.ends_with("__pycache__") => {}
                    path if path.is_dir() => collect(&path, found),
                    path => found.push(path),
                }
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let mut found = Vec::new();
        collect(&root, &mut found);
        for path in found.iter().filter(|path| !path.starts_with(root.join("tests"))) {
            let path = path.strip_prefix(&root).unwrap();
            assert!(FILES.iter().any(|(known, _)| Path::new(known) == path), "{}", path.display());
        }
    }
}
