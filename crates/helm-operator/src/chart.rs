//! Where a controller's chart comes from, and when it is another one.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use steersman_chart::Chart;

use crate::error::{Error, Result};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How many files are looked at: more than any chart has.
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
    looked: Instant,
    /// Counts changes.
    version: u64,
}

/// What tells that files changed: how many there are, how much they hold, and when the last one was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    files: usize,
    bytes: u64,
    newest: SystemTime,
}

impl ChartSource {
    /// A chart that stays as it is.
    pub(crate) fn fixed(chart: Chart) -> Self {
        let stamp = Stamp { files: 0, bytes: 0, newest: SystemTime::UNIX_EPOCH };
        let loaded = Loaded { chart, stamp, looked: Instant::now(), version: 0 };
        Self { path: None, loaded: Mutex::new(loaded) }
    }

    /// A directory or archive, which is loaded again when it changes.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        let loaded = Loaded { chart: load(path)?, stamp: stamp(path), looked: Instant::now(), version: 0 };
        Ok(Self { path: Some(path.to_owned()), loaded: Mutex::new(loaded) })
    }

    /// The chart as it is now, and a number that grows when it changes.
    pub(crate) fn current(&self) -> Result<(Chart, u64)> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = self.path.as_ref().filter(|_| loaded.looked.elapsed() >= LOOK) {
            loaded.looked = Instant::now();
            let now = stamp(path);
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
    let failed = |source| Error::Chart { chart: path.display().to_string(), source: Box::new(source) };
    let chart = Chart::load(path).map_err(failed)?;
    chart.check_installable().and_then(|()| chart.check_dependencies()).map_err(failed)?;
    Ok(chart)
}

fn stamp(path: &Path) -> Stamp {
    let mut stamp = Stamp { files: 0, bytes: 0, newest: SystemTime::UNIX_EPOCH };
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(metadata) = path.metadata() else { continue };
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
            continue;
        }
        stamp.files += 1;
        stamp.bytes += metadata.len();
        stamp.newest = stamp.newest.max(metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH));
        if stamp.files > MAX_FILES {
            break;
        }
    }
    stamp
}
