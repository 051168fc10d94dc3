//! Records the real server's responses, so that each case is sent to it only once.
//!
//! One file of JSON lines per feature, append-only; the key is the digest of the case's requests. The files are in
//! the user's cache, next to the programs that answered.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::run::Answer;

/// Increased when masking changes, which invalidates older recordings.
const FORMAT: u32 = 12;

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    answers: Vec<Answer>,
}

/// The responses recorded for one feature.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    answers: HashMap<String, Vec<Answer>>,
}

impl Recording {
    /// Opens the recording of a feature below a directory; an unreadable one counts as empty.
    #[must_use]
    pub fn open(folder: &Path, feature: &str) -> Self {
        let path = folder.join(format!("v{FORMAT}")).join(format!("{feature}.jsonl"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        // A line truncated by a killed run is skipped, and its case sent again.
        let answers = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Line>(line).ok())
            .map(|line| (line.key, line.answers))
            .collect();
        Self { path, answers }
    }

    /// Removes all responses.
    ///
    /// # Errors
    /// If the file can't be removed.
    pub fn clear(&mut self) -> std::io::Result<()> {
        self.answers.clear();
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the responses for a case's key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[Answer]> {
        self.answers.get(key).map(Vec::as_slice)
    }

    /// Adds responses, and writes them immediately.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn insert(&mut self, key: String, answers: Vec<Answer>) -> std::io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
        let line = Line { key, answers };
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        file.write_all(text.as_bytes())?;
        self.answers.insert(line.key, line.answers);
        Ok(())
    }
}

/// Returns the cache directory, shared with the oracle's other parts.
#[must_use]
pub fn cache_folder() -> PathBuf {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("STEERSMAN_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|cache| cache.join("steersman")))
        .unwrap_or_else(|| from("HOME").unwrap_or_default().join(".cache/steersman"))
        .join("kubernetes")
}
