//! Detects file changes for `--watch`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(150);
/// Directories that runs and builds write to.
const IGNORED: [&str; 4] = [".git", ".steer", "node_modules", "target"];
/// Maximum number of watched files.
const MAX_FILES: usize = 20_000;

/// The modification time of each file.
pub(crate) type Snapshot = BTreeMap<PathBuf, SystemTime>;

/// Returns the files below directories, except hidden files and reports.
pub(crate) fn snapshot(directories: &[PathBuf]) -> Snapshot {
    let mut files = Snapshot::new();
    for directory in directories {
        add(directory, &mut files);
    }
    files
}

fn add(directory: &Path, files: &mut Snapshot) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Ok(metadata) = entry.metadata() else { continue };
        if files.len() >= MAX_FILES || IGNORED.iter().any(|ignored| name == *ignored) {
            continue;
        }
        if metadata.is_dir() {
            add(&entry.path(), files);
        } else if is_source(&name.to_string_lossy()) {
            files.insert(entry.path(), metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH));
        }
    }
}

/// Whether a file is a source file, as opposed to reports and kubeconfigs, which a run writes.
fn is_source(name: &str) -> bool {
    let is_report = name.starts_with("kuttl-report.") || name.ends_with(".html");
    let is_scratch = name.ends_with('~') || name.ends_with(".swp") || name.starts_with(".#");
    !is_report && !is_scratch && !name.starts_with("kubeconfig")
}

/// Returns the files that differ between two snapshots.
pub(crate) fn differences(before: &Snapshot, after: &Snapshot) -> Vec<PathBuf> {
    let touched = after.iter().filter(|(path, time)| before.get(*path) != Some(*time));
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    touched.map(|(path, _)| path).chain(gone).cloned().collect()
}

/// Waits until files differ from a snapshot.
pub(crate) async fn changed(directories: &[PathBuf], seen: &Snapshot) {
    while snapshot(directories) == *seen {
        tokio::time::sleep(INTERVAL).await;
    }
}
