//! watches.yaml: the watched kinds, and the chart that is released for each of their objects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use steersman_watches::{LabelSelector, deserialize_duration};

use crate::error::{Error, Result};

/// One entry of watches.yaml, with operator-sdk's fields, those of helm-operator-plugins, and ours.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct WatchConfig {
    /// API group of the watched kind.
    pub group: String,
    /// API version of the watched kind.
    pub version: String,
    /// Kind to watch.
    pub kind: String,
    /// Chart: a directory or archive, relative to the directory of watches.yaml and reloaded when it changes;
    /// or `https://…`, `oci://…`, or a name in `chartRepo`, fetched once when the operator starts.
    pub chart: PathBuf,
    /// Version constraint for a fetched chart. Default: the latest version.
    pub chart_version: String,
    /// URL of the chart repository, if `chart` is a chart's name. Default: none.
    pub chart_repo: Option<String>,
    /// Whether to watch the objects of releases, and restore them when they drift. Default: true.
    #[serde(default = "yes")]
    pub watch_dependent_resources: bool,
    /// Values that override the object's, in the syntax of `--set-string`; `$VAR` and templates are expanded.
    pub override_values: BTreeMap<String, String>,
    /// Label selector of the objects to watch. Default: all objects.
    pub selector: Option<LabelSelector>,
    /// Interval of periodic reconciles for each object; zero disables them, minimum 1s. Default:
    /// `--reconcile-period`.
    #[serde(deserialize_with = "deserialize_duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub reconcile_period: Option<Duration>,
    /// Maximum number of concurrent reconciles. Default: `--max-concurrent-reconciles`.
    pub max_concurrent_reconciles: Option<usize>,
    /// Accepted for compatibility with operator-sdk; templates can always look up objects.
    pub dry_run_option: String,
    /// Fields of released objects that may differ from the chart. Default: none.
    pub ignore: Vec<Ignore>,
    /// Policy for the CRDs in the chart's `crds/`: `Skip`, `Create` or `CreateReplace`. Default: missing ones
    /// are created when a release is installed.
    pub crds: Option<Crds>,
    /// Maximum number of revisions to keep per release; 0 for no limit. Default: 10.
    pub max_release_history: Option<usize>,
    /// Confines objects, hooks and lookups of a release to its namespace: recommended if users who write the
    /// objects have fewer permissions than the operator. Default: `--confined`.
    pub confined: Option<bool>,
    /// Cluster-scoped kinds allowed in a confined release, such as `ClusterRole.rbac.authorization.k8s.io`.
    /// Default: `--allowed-cluster-kinds`.
    pub allowed_cluster_kinds: Option<Vec<String>>,
}

/// Policy for the CRDs of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as Flux does")]
pub enum Crds {
    Skip,
    Create,
    CreateReplace,
}

/// Fields of released objects that may differ from the chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Ignore {
    /// JSON pointers such as `/spec/replicas`.
    pub paths: Vec<String>,
    /// Kind of the objects. Default: all kinds.
    pub kind: Option<String>,
    /// Name of the object. Default: all objects.
    pub name: Option<String>,
}

impl WatchConfig {
    /// JSON schema of an entry, with the descriptions of its fields. Needs the feature `schema`.
    #[cfg(feature = "schema")]
    #[must_use]
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }

    /// Reads a watches.yaml. Chart paths are relative to its directory.
    ///
    /// # Errors
    /// Fails if it cannot be read, if an entry is incomplete, or if two entries have the same kind.
    pub fn load(path: impl AsRef<Path>) -> Result<Vec<Self>> {
        let path = path.as_ref();
        let failed = |reason: String| Error::Watches(format!("{}: {reason}", path.display()));
        let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        let mut watches = Self::parse(&text).map_err(|error| failed(error.to_string()))?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for watch in &mut watches {
            if !watch.is_remote() && watch.chart.is_relative() {
                watch.chart = directory.join(&watch.chart);
            }
        }
        Ok(watches)
    }

    /// Parses the content of a watches.yaml.
    ///
    /// # Errors
    /// As [`WatchConfig::load`].
    pub fn parse(text: &[u8]) -> Result<Vec<Self>> {
        let watches: Option<Vec<Self>> =
            steersman_yaml::from_slice_as(text).map_err(|error| Error::Watches(error.to_string()))?;
        let watches = watches.unwrap_or_default();
        let mut seen = BTreeSet::new();
        for watch in &watches {
            if watch.version.is_empty() {
                return Err(Error::Watches(format!(
                    "invalid GVK: {}: version must not be empty",
                    watch.title()
                )));
            }
            if watch.kind.is_empty() {
                return Err(Error::Watches(format!(
                    "invalid GVK: {}: kind must not be empty",
                    watch.title()
                )));
            }
            if watch.chart.as_os_str().is_empty() {
                return Err(Error::Watches(format!("{}: chart must not be empty", watch.title())));
            }
            if watch.chart_repo.as_ref().is_some_and(String::is_empty) {
                return Err(Error::Watches(format!("{}: chartRepo must not be empty", watch.title())));
            }
            if !watch.chart_version.is_empty() && !watch.is_remote() {
                return Err(Error::Watches(format!(
                    "{}: chartVersion is only for charts from a repository or registry, and {} is local",
                    watch.title(),
                    watch.chart.display()
                )));
            }
            if !seen.insert((&watch.group, &watch.version, &watch.kind)) {
                return Err(Error::Watches(format!("duplicate GVK: {}", watch.title())));
            }
            watch.selector()?;
        }
        Ok(watches)
    }

    /// Whether the chart has to be fetched.
    pub(crate) fn is_remote(&self) -> bool {
        self.chart_repo.is_some() || self.chart.to_string_lossy().contains("://")
    }

    /// Formats the kind as `charts.example.com/v1, Kind=Shop`.
    fn title(&self) -> String {
        format!("{}, Kind={}", self.api_version(), self.kind)
    }

    /// Returns group and version, as in `apiVersion`.
    pub fn api_version(&self) -> String {
        steersman_watches::api_version(&self.group, &self.version)
    }

    /// Returns the label selector in the syntax of `kubectl --selector`. `None` selects all objects.
    ///
    /// # Errors
    /// Fails if it has an unknown operator.
    pub fn selector(&self) -> Result<Option<String>> {
        let text = self.selector.as_ref().map(LabelSelector::text).transpose().map_err(Error::Watches)?;
        Ok(text.filter(|text| !text.is_empty()))
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_sdks_fields_are_read() {
        let text = b"
- group: demo.example.com
  version: v1alpha1
  kind: Nginx
  chart: helm-charts/nginx
  overrideValues: {image.tag: $TAG}
  reconcilePeriod: 90s
  maxConcurrentReconciles: 3
  watchDependentResources: false
  selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: NotIn, values: [d, e]}]}
- {version: v1, kind: Plain, chart: plain.tgz}
";
        let watches = WatchConfig::parse(text).unwrap();
        let nginx = &watches[0];
        assert_eq!(nginx.api_version(), "demo.example.com/v1alpha1");
        assert_eq!(nginx.reconcile_period, Some(Duration::from_secs(90)));
        assert_eq!(nginx.selector().unwrap().as_deref(), Some("a=b,c notin (d,e)"));
        assert!(!nginx.watch_dependent_resources);
        assert!(watches[1].watch_dependent_resources);
        assert_eq!(watches[1].api_version(), "v1");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| WatchConfig::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error("- {group: a, kind: B, chart: c}").contains("version must not be empty"));
        assert!(error("- {group: a, version: v1, chart: c}").contains("kind must not be empty"));
        let twice =
            "- {group: a, version: v1, kind: B, chart: c}\n- {group: a, version: v1, kind: B, chart: d}";
        assert!(error(twice).contains("duplicate GVK: a/v1, Kind=B"));
        assert!(
            error("- {version: v1, kind: B, chart: c, reconcilePeriod: soon}").contains("invalid duration")
        );
        let local = error("- {version: v1, kind: B, chart: charts/c, chartVersion: 1.2.3}");
        assert!(local.contains("v1, Kind=B: chartVersion is only for charts from a repository"), "{local}");
        let nowhere = error("- {version: v1, kind: B, chart: c, chartRepo: \"\", chartVersion: 1.2.3}");
        assert!(nowhere.contains("v1, Kind=B: chartRepo must not be empty"), "{nowhere}");
        assert!(
            WatchConfig::parse(b"- {version: v1, kind: B, chart: 'oci://x/c', chartVersion: 1.2.3}").is_ok()
        );
    }

    #[test]
    fn charts_lie_next_to_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("watches.yaml");
        let text = "
- {version: v1, kind: A, chart: charts/a}
- {version: v1, kind: B, chart: /charts/b}
- {version: v1, kind: C, chart: 'https://example.com/c.tgz'}
- {version: v1, kind: D, chart: d, chartRepo: 'https://example.com'}
";
        std::fs::write(&path, text).unwrap();
        let charts: Vec<PathBuf> =
            WatchConfig::load(&path).unwrap().into_iter().map(|watch| watch.chart).collect();
        let expected = [
            directory.path().join("charts/a"),
            "/charts/b".into(),
            "https://example.com/c.tgz".into(),
            "d".into(),
        ];
        assert_eq!(charts, expected);
        std::fs::write(&path, "- {kind: A}").unwrap();
        let error = WatchConfig::load(&path).unwrap_err().to_string();
        assert_eq!(error, format!("{}: invalid GVK: , Kind=A: version must not be empty", path.display()));
        let missing = WatchConfig::load(directory.path().join("none")).unwrap_err().to_string();
        assert!(missing.contains("none: "), "{missing}");
    }

    #[test]
    fn an_entry_without_a_selector_is_about_all_objects() {
        let selector = |more: &str| {
            let text = format!("- {{group: g, version: v1, kind: A, chart: a{more}}}");
            WatchConfig::parse(text.as_bytes()).map(|watches| watches[0].selector().unwrap())
        };
        assert_eq!(selector("").unwrap(), None);
        assert_eq!(selector(", selector: {}").unwrap(), None);
        assert_eq!(selector(", selector: {matchLabels: {a: b}}").unwrap().as_deref(), Some("a=b"));
        let wrong = ", selector: {matchExpressions: [{key: a, operator: Like, values: [b]}]}";
        assert!(selector(wrong).unwrap_err().to_string().contains("Like"));
        assert_eq!(WatchConfig::parse(b"").unwrap(), []);
        assert!(WatchConfig::parse(b"{").is_err());
        let empty = WatchConfig::parse(b"- {group: g, version: v1, kind: A}").unwrap_err().to_string();
        assert_eq!(empty, "g/v1, Kind=A: chart must not be empty");
    }

    #[test]
    fn kinds_that_differ_in_one_part_are_others() {
        let text = "
- {group: g, version: v1, kind: A, chart: a}
- {group: h, version: v1, kind: A, chart: a}
- {group: g, version: v2, kind: A, chart: a}
- {group: g, version: v1, kind: B, chart: a}
";
        assert_eq!(WatchConfig::parse(text.as_bytes()).unwrap().len(), 4);
        let remote =
            b"- {version: v1, kind: B, chart: c, chartRepo: 'https://example.com', chartVersion: 1.2.3}";
        assert!(WatchConfig::parse(remote).is_ok());
    }

    #[cfg(feature = "schema")]
    #[test]
    fn the_schema_describes_every_field() {
        let schema = WatchConfig::schema();
        let fields = schema["properties"].as_object().unwrap();
        for field in ["group", "chart", "overrideValues", "reconcilePeriod", "ignore", "allowedClusterKinds"]
        {
            assert!(fields.contains_key(field), "{field}");
        }
    }
}
