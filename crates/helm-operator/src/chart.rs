//! Source of a controller's chart, and detection of its changes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use steersman_chart::Chart;

use crate::error::{Error, Result};
use crate::remote;
use crate::watches::WatchConfig;

/// Minimum interval between checks for changed files.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of files that are checked: more than any chart has.
const MAX_FILES: usize = 100_000;

/// A chart, which may change on disk.
#[derive(Debug)]
pub(crate) struct ChartSource {
    path: Option<PathBuf>,
    loaded: Mutex<Loaded>,
}

#[derive(Clone, Debug)]
struct Loaded {
    chart: Chart,
    stamp: Stamp,
    checked_at: Instant,
    /// Counts changes.
    version: u64,
}

/// Fingerprint of a chart's files: their number, size and last modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    files: usize,
    bytes: u64,
    newest: SystemTime,
}

impl ChartSource {
    /// Creates a source of a chart that never changes.
    pub(crate) fn fixed(chart: Chart) -> Self {
        let stamp = Stamp { files: 0, bytes: 0, newest: SystemTime::UNIX_EPOCH };
        let loaded = Loaded { chart, stamp, checked_at: Instant::now(), version: 0 };
        Self { path: None, loaded: Mutex::new(loaded) }
    }

    /// Opens the chart of a watch: from disk, or fetched once from a URL or a repository.
    pub(crate) async fn of(watch: &WatchConfig) -> Result<Self> {
        match watch.is_remote() {
            true => Ok(Self::fixed(remote::fetch(watch).await?)),
            false => Self::at(&watch.chart),
        }
    }

    /// Opens a directory or archive, which is reloaded when it changes.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        let loaded = Loaded {
            chart: load(path)?,
            stamp: stamp(path, MAX_FILES),
            checked_at: Instant::now(),
            version: 0,
        };
        Ok(Self { path: Some(path.to_owned()), loaded: Mutex::new(loaded) })
    }

    /// Returns the current chart, and a number that grows with each change.
    pub(crate) fn current(&self) -> Result<(Chart, u64)> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = self.path.as_ref().filter(|_| loaded.checked_at.elapsed() >= POLL_INTERVAL) {
            loaded.checked_at = Instant::now();
            let now = stamp(path, MAX_FILES);
            if now != loaded.stamp {
                loaded.chart = load(path)?;
                loaded.stamp = now;
                loaded.version += 1;
            }
        }
        Ok((loaded.chart.clone(), loaded.version))
    }

    /// The chart's name.
    pub(crate) fn name(&self) -> String {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.chart.name().to_owned()
    }
}

fn load(path: &Path) -> Result<Chart> {
    checked(Chart::load(path), &path.display().to_string())
}

/// Checks that a chart can be installed, with its dependencies.
pub(crate) fn checked(
    chart: std::result::Result<Chart, steersman_chart::Error>,
    place: &str,
) -> Result<Chart> {
    let failed = |source| Error::Chart { chart: place.to_owned(), source: Box::new(source) };
    let chart = chart.map_err(failed)?;
    chart.check_installable().and_then(|()| chart.check_dependencies()).map_err(failed)?;
    Ok(chart)
}

/// Returns the fingerprint of a chart's files, of at most `limit` files.
fn stamp(path: &Path, limit: usize) -> Stamp {
    let mut stamp = Stamp { files: 0, bytes: 0, newest: SystemTime::UNIX_EPOCH };
    let mut left = vec![path.to_owned()];
    while stamp.files < limit
        && let Some(path) = left.pop()
    {
        let Ok(metadata) = path.metadata() else { continue };
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
            continue;
        }
        stamp.files += 1;
        stamp.bytes += metadata.len();
        stamp.newest = stamp.newest.max(metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH));
    }
    stamp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn charts_on_disk_are_seen_to_change() {
        let directory = tempfile::tempdir().unwrap();
        let write = |version: &str| {
            let text = format!("{{apiVersion: v2, name: near, version: {version}}}");
            std::fs::write(directory.path().join("Chart.yaml"), text).unwrap();
        };
        write("0.1.0");
        let source = ChartSource::at(directory.path()).unwrap();
        assert_eq!(source.current().unwrap().1, 0);
        write("0.1.0-longer");
        source.loaded.lock().unwrap().checked_at -= POLL_INTERVAL;
        let (chart, version) = source.current().unwrap();
        assert_eq!((chart.metadata().version.as_str(), version), ("0.1.0-longer", 1));
    }

    #[test]
    fn files_are_counted_with_their_sizes() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let counted = || {
            let stamp = stamp(directory.path(), MAX_FILES);
            (stamp.files, stamp.bytes)
        };
        assert_eq!(counted(), (0, 0));
        write("a", "12345");
        write("b/c", "123");
        write("b/d/e", "");
        assert_eq!(counted(), (3, 8));
        assert_eq!([2, 3, 4].map(|limit| stamp(directory.path(), limit).files), [2, 3, 3]);
        assert!(stamp(directory.path(), MAX_FILES).newest > SystemTime::UNIX_EPOCH);
        assert_eq!(stamp(&directory.path().join("nothing"), MAX_FILES).files, 0);
        let before = stamp(directory.path(), MAX_FILES);
        let later = before.newest + Duration::from_secs(10);
        std::fs::File::open(directory.path().join("b/c")).unwrap().set_modified(later).unwrap();
        assert_eq!(stamp(directory.path(), MAX_FILES), Stamp { newest: later, ..before });
    }

    #[test]
    fn files_are_looked_at_no_more_often_than_needed() {
        let directory = tempfile::tempdir().unwrap();
        let write = |version: &str| {
            let text = format!("{{apiVersion: v2, name: near, version: {version}}}");
            std::fs::write(directory.path().join("Chart.yaml"), text).unwrap();
        };
        write("0.1.0");
        let source = ChartSource::at(directory.path()).unwrap();
        let pass = || source.loaded.lock().unwrap().checked_at -= POLL_INTERVAL;
        let current = || source.current().map(|(chart, version)| (chart.metadata().version.clone(), version));
        write("0.1.0-a");
        assert_eq!(current().unwrap(), ("0.1.0".into(), 0), "it was looked at a moment ago");
        pass();
        assert_eq!(current().unwrap(), ("0.1.0-a".into(), 1));
        pass();
        assert_eq!(current().unwrap(), ("0.1.0-a".into(), 1), "nothing changed");
        write("0.1.0-abc");
        pass();
        assert_eq!(current().unwrap(), ("0.1.0-abc".into(), 2));
        assert_eq!(source.name(), "near");
        write("broken: [");
        pass();
        let error = current().unwrap_err().to_string();
        assert!(error.contains(&directory.path().display().to_string()), "{error}");
        let fixed = ChartSource::fixed(source.loaded.lock().unwrap().chart.clone());
        fixed.loaded.lock().unwrap().checked_at -= POLL_INTERVAL;
        assert_eq!(fixed.current().unwrap().1, 0);
    }
}
