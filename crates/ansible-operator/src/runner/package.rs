//! The Python that comes with the program, and the private directory that it is unpacked into.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::processes::kill_marked;
use crate::error::{Error, Result};

/// How the directories of operators begin.
const PREFIX: &str = "steersman-ansible-";
/// How a directory begins that is being made.
const NEW_PREFIX: &str = "new-steersman-ansible-";
/// How long it may take until it is locked.
const LONGEST_UNLOCKED: Duration = Duration::from_secs(60);
/// How often it is tried to remove the directory of a run: a process that was just killed may still write to it.
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

/// A directory that only the operator's user can look into. It goes when this is dropped, or with the next operator.
pub(crate) struct Package {
    directory: NamedDirectory,
    /// On the directory itself, held as long as the operator lives: one whose lock can be taken is left over.
    _lock: File,
}

/// A directory that goes when it is dropped.
struct NamedDirectory(PathBuf);

impl Drop for NamedDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The directory of one run, which goes when it is dropped.
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
    /// Makes the directory, and removes those of operators that were killed.
    pub(crate) fn unpack() -> Result<Self> {
        let temporary = std::env::temp_dir();
        sweep(&temporary);
        let failed =
            |source| Error::io(format!("no directory can be made in {}", temporary.display()), source);
        let made = private().prefix(NEW_PREFIX).tempdir().map_err(failed)?;
        let lock = File::open(made.path()).map_err(failed)?;
        lock.lock().map_err(failed)?;
        // It gets its name when it is locked: another operator that starts now must not take it for one that was left.
        let named = named(made.path());
        std::fs::rename(made.path(), &named).map_err(failed)?;
        // What is removed in the end has the new name.
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

    /// Where Python finds the package.
    pub(crate) fn python_path(&self) -> PathBuf {
        self.path().join("python")
    }

    /// Where plays and modules put temporary files. All runs share it, and with it what they know of the API.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.path().join("tmp")
    }

    /// A directory for one run.
    pub(crate) fn run_directory(&self) -> std::io::Result<RunDirectory> {
        Ok(RunDirectory(private().prefix("").tempdir_in(self.path().join("runs"))?.keep()))
    }
}

/// The name that a directory gets.
fn named(new: &Path) -> PathBuf {
    let name = new.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let random = name.strip_prefix(NEW_PREFIX).unwrap_or(name);
    new.with_file_name(format!("{PREFIX}{random}"))
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
        // Between being made and being locked there is a moment.
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
        // As if it had been killed: the lock is gone, the directory is not.
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
