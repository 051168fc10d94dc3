//! A chart repository's index.yaml.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Deserializer};

use crate::cache::is_sha256;
use crate::{Error, version, yaml};

/// All charts of a repository, each with its versions, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    charts: BTreeMap<String, Vec<Entry>>,
}

/// One version of a chart in an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// The chart's name.
    #[serde(deserialize_with = "text")]
    pub name: String,
    /// The chart's version.
    #[serde(deserialize_with = "text")]
    pub version: String,
    /// Its URLs, relative to the repository's. Only the first one is used, as in Helm.
    #[serde(deserialize_with = "list")]
    pub urls: Vec<String>,
    /// The packed chart's SHA-256, unparsed; empty if there is none.
    #[serde(deserialize_with = "text")]
    digest: String,
}

impl Entry {
    /// Returns the packed chart's SHA-256 in hexadecimal digits, if the index has a valid one.
    pub fn sha256(&self) -> Option<String> {
        let digest = self.digest.trim().to_ascii_lowercase();
        let digest = digest.strip_prefix("sha256:").unwrap_or(&digest);
        is_sha256(digest).then(|| digest.to_owned())
    }
}

impl Index {
    /// Parses an index in YAML or JSON; `source` names it in errors.
    pub fn parse(data: &[u8], source: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct File {
            #[serde(default, deserialize_with = "text")]
            api_version: String,
            #[serde(default)]
            entries: Option<BTreeMap<String, Option<Vec<Option<Entry>>>>>,
        }
        let invalid = |message: &str| Error::InvalidFile { path: source.into(), message: message.into() };
        if data.is_empty() {
            return Err(invalid("empty index.yaml file"));
        }
        let file: File = yaml::parse_or_json(data).map_err(|message| invalid(&message))?;
        if file.api_version.is_empty() {
            return Err(invalid("no API version specified"));
        }
        let charts = file
            .entries
            .unwrap_or_default()
            .into_iter()
            .map(|(name, entries)| {
                let entries = entries.into_iter().flatten().flatten().filter(is_valid);
                (name, version::newest_first_by(entries, |entry| &entry.version))
            })
            .collect();
        Ok(Self { charts })
    }

    /// Loads an index from a file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let data = fs::read(path).map_err(|source| Error::file(path, source))?;
        Self::parse(&data, &path.display().to_string())
    }

    /// Finds a version of a chart that satisfies `constraint`. Prefers the identical version, then the newest. An empty
    /// constraint accepts everything but pre-releases.
    pub fn find(&self, chart: &str, constraint: &str) -> Result<&Entry, String> {
        let entries = self.charts.get(chart).ok_or("no chart name found")?;
        if entries.is_empty() {
            return Err("no chart version found".into());
        }
        let matches = version::Matcher::new(constraint)?;
        entries
            .iter()
            .find(|entry| !constraint.is_empty() && entry.version == constraint)
            .or_else(|| entries.iter().find(|entry| matches.accepts(&entry.version)))
            .ok_or_else(|| format!("no chart version found for {chart}-{constraint}"))
    }

    /// Returns all versions of a chart, newest first; `None` if the repository does not have the chart.
    pub fn versions(&self, chart: &str) -> Option<&[Entry]> {
        self.charts.get(chart).map(Vec::as_slice)
    }

    /// Returns the names of all charts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.charts.keys().map(String::as_str)
    }

    /// Returns every version of every chart.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.charts.values().flatten()
    }
}

/// Whether Helm accepts the entry; it skips entries with an invalid name or version.
fn is_valid(entry: &Entry) -> bool {
    !entry.name.is_empty() && !entry.name.contains('/') && version::is_version(&entry.version)
}

/// Deserializes a string, or any unquoted scalar as its text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Scalar {
        Text(String),
        Bool(bool),
        Number(serde_json::Number),
        Null(()),
    }
    Ok(match Scalar::deserialize(deserializer)? {
        Scalar::Text(text) => text,
        Scalar::Bool(value) => value.to_string(),
        Scalar::Number(value) => value.to_string(),
        Scalar::Null(()) => String::new(),
    })
}

/// Deserializes a list; null is an empty one.
fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Option::<Vec<String>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = r#"
apiVersion: v1
generated: "2024-01-01T00:00:00Z"
entries:
  shop:
  - name: shop
    version: 1.2.0
    digest: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    urls: [shop-1.2.0.tgz]
  - name: shop
    version: 1.10.0
    digest: sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855
    urls: [https://cdn.example.com/shop-1.10.0.tgz]
    unknownToHelm: {}
  - name: shop
    version: 2.0.0-rc.1
    urls: [shop-2.0.0-rc.1.tgz]
  -
  - name: shop
    version: not.a.version
  empty: []
  odd:
  - name: odd
    version: 1
    urls:
"#;

    fn index() -> Index {
        Index::parse(INDEX.as_bytes(), "test").unwrap()
    }

    #[test]
    fn the_newest_version_that_satisfies_is_found() {
        let index = index();
        let version = |constraint| index.find("shop", constraint).map(|entry| entry.version.clone());
        assert_eq!(version("").unwrap(), "1.10.0");
        assert_eq!(version("1.2.0").unwrap(), "1.2.0");
        assert_eq!(version("~1.2").unwrap(), "1.2.0");
        assert_eq!(version(">0.0.0-0").unwrap(), "2.0.0-rc.1");
        assert_eq!(version("2.0.0-rc.1").unwrap(), "2.0.0-rc.1");
        assert_eq!(version("^3").unwrap_err(), "no chart version found for shop-^3");
        assert_eq!(index.find("nothing", "").unwrap_err(), "no chart name found");
        assert_eq!(index.find("empty", "").unwrap_err(), "no chart version found");
    }

    #[test]
    fn entries_that_no_chart_can_have_are_left_out() {
        let index = index();
        assert_eq!(index.versions("shop").unwrap().len(), 3);
        assert_eq!(index.versions("odd").unwrap()[0].version, "1");
        assert_eq!(index.names().collect::<Vec<_>>(), ["empty", "odd", "shop"]);
    }

    #[test]
    fn digests_may_carry_their_algorithm() {
        let index = index();
        for entry in &index.versions("shop").unwrap()[1..] {
            let digest = entry.sha256();
            assert!(digest.is_none_or(|digest| digest.starts_with("e3b0c442")));
        }
        assert!(index.find("shop", "1.10.0").unwrap().sha256().is_some());
        assert!(index.find("shop", "2.0.0-rc.1").unwrap().sha256().is_none());
    }

    #[test]
    fn json_is_read_too_and_nonsense_refused() {
        let json = br#"{"apiVersion":"v1","entries":{"a":[{"name":"a","version":"1.0.0","urls":["u"]}]}}"#;
        assert_eq!(Index::parse(json, "test").unwrap().find("a", "").unwrap().urls, ["u"]);
        for (data, message) in [
            ("", "error loading test: empty index.yaml file"),
            ("entries: {}", "error loading test: no API version specified"),
        ] {
            assert_eq!(Index::parse(data.as_bytes(), "test").unwrap_err().to_string(), message);
        }
        assert!(Index::parse(b"<html>not found</html>", "test").is_err());
    }
}
