//! The index of a package repository: `index.yaml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Package;
use crate::api::Maintainer;
use crate::error::Error;

/// The packages of a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Index {
    /// The API version of the file: `v1`.
    pub api_version: String,
    /// The versions of each operator, newest first.
    pub entries: BTreeMap<String, Vec<Entry>>,
    /// When it was generated.
    pub generated: Option<String>,
}

/// A version of an operator in a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the file")]
pub struct Entry {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub operator_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    pub urls: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

impl Entry {
    /// Creates the entry of a package: its archive is below `url`, with a SHA-256 digest in hexadecimal.
    #[must_use]
    pub fn of(package: &Package, url: &str, digest: &str) -> Self {
        let url = if url.is_empty() { "http://localhost" } else { url.trim_end_matches('/') };
        let operator = &package.operator;
        Self {
            name: operator.name.clone(),
            operator_version: operator.operator_version.clone(),
            app_version: operator.app_version.clone(),
            description: operator.description.clone(),
            maintainers: operator.maintainers.clone(),
            urls: vec![format!("{url}/{}", package.archive_name())],
            digest: digest.to_owned(),
        }
    }
}

impl Index {
    /// Creates an empty index.
    #[must_use]
    pub fn new(generated: &str) -> Self {
        Self { api_version: "v1".into(), entries: BTreeMap::new(), generated: Some(generated.to_owned()) }
    }

    /// Parses an index.
    ///
    /// # Errors
    /// Fails if it is not a valid index, or an entry has no operator version.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let failed = |reason: String| Error::Read { path: "index.yaml".into(), reason };
        let mut index: Self =
            steersman_yaml::from_slice_as(text).map_err(|error| failed(error.to_string()))?;
        if index.api_version.is_empty() {
            return Err(failed("no API version defined".into()));
        }
        for (name, versions) in &index.entries {
            if versions.iter().any(|entry| entry.operator_version.is_empty()) {
                return Err(failed(format!("package {name} is missing an operator version")));
            }
        }
        index.sort();
        Ok(index)
    }

    /// Adds an entry, and returns whether it was added: not if one with the same versions exists.
    pub fn add(&mut self, entry: Entry) -> bool {
        let versions = self.entries.entry(entry.name.clone()).or_default();
        let is_known = versions.iter().any(|known| {
            (&known.app_version, &known.operator_version) == (&entry.app_version, &entry.operator_version)
        });
        if !is_known {
            versions.push(entry);
            self.sort();
        }
        !is_known
    }

    /// Adds the entries of another index that are missing in this one.
    pub fn merge(&mut self, other: Self) {
        for entry in other.entries.into_values().flatten() {
            self.add(entry);
        }
    }

    /// Formats the file, with the newest version of an operator first.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        steersman_yaml::to_string(self).unwrap_or_default()
    }

    fn sort(&mut self) {
        for versions in self.entries.values_mut() {
            versions.sort_by(|one, other| {
                let key = |entry: &Entry| (numbers(&entry.app_version), numbers(&entry.operator_version));
                key(other).cmp(&key(one))
            });
        }
    }

    /// Returns the newest version of each operator with `text` in its name, or all versions.
    #[must_use]
    pub fn search(&self, text: &str, all: bool) -> Vec<&Entry> {
        let found = self.entries.iter().filter(|(name, _)| name.contains(text));
        found.flat_map(|(_, versions)| versions.iter().take(if all { usize::MAX } else { 1 })).collect()
    }

    /// Returns the newest entry of an operator that matches the requested versions.
    #[must_use]
    pub fn find(
        &self,
        name: &str,
        app_version: Option<&str>,
        operator_version: Option<&str>,
    ) -> Option<&Entry> {
        self.entries.get(name)?.iter().find(|entry| {
            app_version.is_none_or(|version| entry.app_version == version)
                && operator_version.is_none_or(|version| entry.operator_version == version)
        })
    }
}

/// Parses a version for comparison: its numbers, and releases after their pre-releases. Invalid versions sort as
/// the oldest.
fn numbers(version: &str) -> Option<(Vec<u64>, bool, String)> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let version = version.split('+').next().unwrap_or_default();
    let (numbers, pre_release) = version.split_once('-').unwrap_or((version, ""));
    let mut numbers: Vec<u64> = numbers.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    numbers.resize(3, 0);
    Some((numbers, pre_release.is_empty(), pre_release.to_owned()))
}
