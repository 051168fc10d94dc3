//! The embedded Python package, and the private directory that it is unpacked into.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::processes::kill_marked;
use crate::error::{Error, Result};

/// The prefix of operators' directories.
const PREFIX: &str = "steersman-ansible-";
/// The prefix of a directory that is being prepared.
const NEW_PREFIX: &str = "new-steersman-ansible-";
/// The maximum time until such a directory is locked.
const LONGEST_UNLOCKED: Duration = Duration::from_secs(60);
/// The number of attempts to remove a run's directory. A process that was just killed may still write to it.
const REMOVALS: usize = 100;
const REMOVAL_INTERVAL: Duration = Duration::from_millis(20);

macro_rules! files {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!(concat!("../../python/", $path)))),*] };
}

const FILES: &[(&str, &str)] = files![
    "steersman_ansible/__init__.py",
    "steersman_ansible/__main__.py",
    "steersman_ansible/events.py",
    "steersman_ansible/inline.py",
    "steersman_ansible/lazy_client.py",
    "steersman_ansible/libraries.py",
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

/// A directory that only the operator's user can access. Removed on drop, or by the next operator.
pub(crate) struct Package {
    directory: NamedDirectory,
    /// A lock on the directory, held as long as the operator lives. An unlocked directory is left over.
    _lock: File,
}

/// A directory that is removed on drop.
struct NamedDirectory(PathBuf);

impl Drop for NamedDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The directory of one run, removed on drop.
pub(crate) struct RunDirectory(PathBuf);

impl RunDirectory {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let is_removed = |path: &Path| std::fs::remove_dir_all(path).is_ok() || !path.exists();
        if is_removed(&self.0) {
            return;
        }
        let path = std::mem::take(&mut self.0);
        std::thread::spawn(move || {
            for _ in 0..REMOVALS {
                std::thread::sleep(REMOVAL_INTERVAL);
                if is_removed(&path) {
                    break;
                }
            }
        });
    }
}

impl Package {
    /// Creates the directory, and removes those of operators that were killed.
    pub(crate) fn unpack() -> Result<Self> {
        let temporary = std::env::temp_dir();
        sweep(&temporary);
        let failed =
            |source| Error::io(format!("cannot create a directory in {}", temporary.display()), source);
        let made = private().prefix(NEW_PREFIX).tempdir().map_err(failed)?;
        let lock = File::open(made.path()).map_err(failed)?;
        lock.lock().map_err(failed)?;
        // Renamed once it is locked: another operator starting now must not consider it left over.
        let named = named(made.path());
        std::fs::rename(made.path(), &named).map_err(failed)?;
        // The directory to remove on drop has the new name.
        let _ = made.keep();
        let package = Self { directory: NamedDirectory(named), _lock: lock };
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
        &self.directory.0
    }

    /// Returns the directory for `PYTHONPATH`.
    pub(crate) fn python_path(&self) -> PathBuf {
        self.path().join("python")
    }

    /// Returns the directory for temporary files of plays and modules. All runs share it, including the modules' cache
    /// of API discovery.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.path().join("tmp")
    }

    /// Creates a directory for one run.
    pub(crate) fn run_directory(&self) -> std::io::Result<RunDirectory> {
        Ok(RunDirectory(private().prefix("").tempdir_in(self.path().join("runs"))?.keep()))
    }
}

/// Returns the final name of a directory.
fn named(new: &Path) -> PathBuf {
    let name = new.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let random = name.strip_prefix(NEW_PREFIX).unwrap_or(name);
    new.with_file_name(format!("{PREFIX}{random}"))
}

/// Returns a builder of directories with mode 0700; by default the umask would decide.
fn private<'a>() -> tempfile::Builder<'a, 'a> {
    let mut builder = tempfile::Builder::new();
    builder.permissions(Permissions::from_mode(0o700));
    builder
}

/// Creates a directory and its parents with mode 0700.
pub(crate) fn make_directory(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a file with mode 0600.
pub(crate) fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Removes the directories of operators that no longer run.
fn sweep(temporary: &Path) {
    for entry in std::fs::read_dir(temporary).into_iter().flatten().flatten() {
        // A directory is unlocked for a moment after it was created.
        let is_old = || {
            let age =
                entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
            age.is_some_and(|age| age > LONGEST_UNLOCKED)
        };
        let is_ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX) || name.starts_with(NEW_PREFIX) && is_old());
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_ours || !is_directory {
            continue;
        }
        let Ok(lock) = File::open(entry.path()) else { continue };
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
        // As if the operator had been killed: without lock, but with the directory.
        let left = tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap().keep();
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
