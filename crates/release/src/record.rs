//! A release as Helm records it.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steersman_chart::{Chart, Error as ChartError, File, Values};

/// One revision of a release, with the fields and names of Helm's own record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Release {
    /// The release's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Times and status.
    pub info: Info,
    /// The released chart, without its subcharts, as Helm records it.
    #[serde(deserialize_with = "nullable")]
    pub chart: ChartRecord,
    /// The user-supplied values, without the chart's.
    #[serde(skip_serializing_if = "Map::is_empty", deserialize_with = "nullable")]
    pub config: Map<String, Value>,
    /// The rendered objects as one YAML stream, without hooks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// The hooks.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub hooks: Vec<Hook>,
    /// The revision number, starting at 1.
    pub version: i64,
    /// The namespace of the record, and of objects that do not set one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Objects that this revision, or an earlier one, could not delete. Helm has no such field.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub undeleted: Vec<Undeleted>,
    /// User-supplied labels of the record. Kept as labels of the stored object, not in its content.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
    /// Whether the record does not verify, although only signed records are trusted. Such a release has no hooks,
    /// values and notes. See [`Releases::verified_by`](crate::Releases::verified_by).
    #[serde(skip)]
    pub unverified: bool,
}

/// An object that is no longer part of a release and could not be deleted yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Undeleted {
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Why it could not be deleted.
    pub reason: String,
}

impl fmt::Display for Undeleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)?;
        if !self.namespace.is_empty() {
            write!(f, " in namespace {}", self.namespace)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Times and status of a revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    /// When its first revision was deployed.
    #[serde(with = "moment")]
    pub first_deployed: Option<Timestamp>,
    /// When this revision was deployed.
    #[serde(with = "moment")]
    pub last_deployed: Option<Timestamp>,
    /// When it was uninstalled.
    #[serde(with = "moment")]
    pub deleted: Option<Timestamp>,
    /// Human-readable description of the last operation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The status.
    pub status: Status,
    /// The rendered NOTES.txt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
}

/// Status of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "named as Helm does")]
pub enum Status {
    Deployed,
    Uninstalled,
    Superseded,
    Failed,
    Uninstalling,
    PendingInstall,
    PendingUpgrade,
    PendingRollback,
    #[default]
    #[serde(other)]
    Unknown,
}

impl Status {
    /// Whether an operation is in progress, or was interrupted.
    pub fn is_pending(self) -> bool {
        matches!(self, Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback)
    }

    /// Returns the name that Helm stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Deployed => "deployed",
            Self::Uninstalled => "uninstalled",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
            Self::Uninstalling => "uninstalling",
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A hook, with the result of its last run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// The name of its object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The kind of its object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The template that it comes from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// The events at which it runs, by Helm's names.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub events: Vec<String>,
    /// Its last run.
    pub last_run: HookExecution,
    /// Its weight: hooks of the same event run in ascending order.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// When its object is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub delete_policies: Vec<String>,
    /// When its logs are shown.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub output_log_policies: Vec<String>,
}

/// One run of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookExecution {
    /// When it started.
    #[serde(with = "moment")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(with = "moment")]
    pub completed_at: Option<Timestamp>,
    /// `Unknown`, `Running`, `Succeeded` or `Failed`; empty if it has never run.
    pub phase: String,
}

/// A chart as Helm records it. Only fields that are used are parsed; the rest is passed through unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChartRecord {
    /// The content of Chart.yaml.
    #[serde(deserialize_with = "nullable")]
    pub metadata: Map<String, Value>,
    /// Chart.lock.
    pub lock: Value,
    /// The templates, with their content in base64.
    pub templates: Value,
    /// The chart's own values.
    #[serde(deserialize_with = "nullable")]
    pub values: Map<String, Value>,
    /// values.schema.json in base64.
    pub schema: Value,
    /// The other files, with their content in base64.
    pub files: Value,
}

impl ChartRecord {
    /// Returns the record of a chart that is released with these values.
    ///
    /// # Errors
    /// Fails if its dependencies cannot be processed.
    pub fn new(chart: &Chart, values: &Values) -> Result<Self, ChartError> {
        let (metadata, own) = chart.processed(values)?;
        let object = |value| if let Value::Object(map) = value { map } else { Map::new() };
        let lock = chart.lock().map_or(Value::Null, |lock| serde_json::to_value(lock).unwrap_or_default());
        Ok(Self {
            metadata: object(serde_json::to_value(metadata).unwrap_or_default()),
            lock,
            templates: files(chart.templates()),
            values: object(own.to_json()),
            schema: chart.schema().map_or(Value::Null, |schema| BASE64.encode(schema).into()),
            files: files(chart.files()),
        })
    }

    fn text(&self, key: &str) -> &str {
        self.metadata.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// The chart's name.
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// The chart's version.
    pub fn version(&self) -> &str {
        self.text("version")
    }

    /// The version of the application that the chart installs.
    pub fn app_version(&self) -> &str {
        self.text("appVersion")
    }

    /// The chart's name and version, as Helm lists it.
    pub fn title(&self) -> String {
        if self.metadata.is_empty() {
            "MISSING".into()
        } else {
            format!("{}-{}", self.name(), self.version())
        }
    }
}

fn files(files: &[File]) -> Value {
    let file = |file: &File| serde_json::json!({ "name": file.name, "data": BASE64.encode(&*file.data) });
    files.iter().map(file).collect()
}

impl Release {
    /// Returns the values that templates saw, as far as recorded: the user-supplied ones over the chart's.
    pub fn computed_values(&self) -> Map<String, Value> {
        let mut values = self.config.clone();
        coalesce(&mut values, &self.chart.values);
        values
    }

    /// Returns the name of the Secret or ConfigMap that holds this revision.
    pub fn key(&self) -> String {
        crate::storage::key(&self.name, self.version)
    }

    /// Whether the release was made from a chart of that name.
    pub fn is_of(&self, chart: &str) -> bool {
        self.chart.name() == chart
    }
}

/// Coalesces a chart's values under the user's, as Helm does. Maps merge, and a user's null deletes the key.
pub(crate) fn coalesce(values: &mut Map<String, Value>, under: &Map<String, Value>) {
    for (key, default) in under {
        match (values.get_mut(key), default) {
            (None, default) => {
                values.insert(key.clone(), default.clone());
            }
            (Some(Value::Null), _) => {
                values.remove(key);
            }
            (Some(Value::Object(table)), Value::Object(default)) => coalesce(table, default),
            (Some(_), _) => {}
        }
    }
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Go encodes an empty collection as null, and decodes null as an empty one.
pub(crate) fn nullable<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Helm encodes an absent time as an empty string.
mod moment {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(
        moment: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match moment {
            Some(moment) => serializer.collect_str(moment),
            None => serializer.serialize_str(""),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        match Option::<String>::deserialize(deserializer)?.as_deref() {
            // Go's zero time, which some writers encode.
            None | Some("" | "0001-01-01T00:00:00Z") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn records_read_what_helm_writes() {
        let text = json!({
            "name": "shop", "namespace": "lab", "version": 3, "manifest": "---\n", "hooks": null, "config": null,
            "info": {
                "first_deployed": "2026-01-02T03:04:05.6+01:00", "last_deployed": "0001-01-01T00:00:00Z", "deleted": "",
                "description": "Install complete", "status": "pending-rollback",
            },
            "chart": { "metadata": { "name": "c", "version": "1" }, "lock": null, "templates": [], "values": null,
                "schema": null, "files": [] },
        });
        let release: Release = serde_json::from_value(text).unwrap();
        assert_eq!(release.info.status, Status::PendingRollback);
        assert_eq!(release.info.first_deployed.unwrap().to_string(), "2026-01-02T02:04:05.6Z");
        assert_eq!((release.info.last_deployed, release.info.deleted), (None, None));
        assert_eq!(release.chart.title(), "c-1");
        let written = serde_json::to_value(&release).unwrap();
        assert_eq!(written["info"]["deleted"], "");
        assert_eq!(written["info"]["status"], "pending-rollback");
        assert!(written.get("config").is_none() && written.get("labels").is_none());
        let unknown: Release = serde_json::from_value(json!({ "info": { "status": "dreaming" } })).unwrap();
        assert_eq!(unknown.info.status, Status::Unknown);
    }

    #[test]
    fn defaults_lie_under_what_was_given() {
        let mut values = map(json!({ "a": { "x": 1 }, "gone": null, "kept": 2 }));
        coalesce(&mut values, &map(json!({ "a": { "x": 9, "y": null }, "gone": 5, "kept": 3, "new": null })));
        assert_eq!(Value::Object(values), json!({ "a": { "x": 1, "y": null }, "kept": 2, "new": null }));
    }

    #[test]
    fn statuses_have_the_names_of_helm() {
        for (status, name, is_pending) in [
            (Status::Unknown, "unknown", false),
            (Status::Deployed, "deployed", false),
            (Status::Uninstalled, "uninstalled", false),
            (Status::Superseded, "superseded", false),
            (Status::Failed, "failed", false),
            (Status::Uninstalling, "uninstalling", false),
            (Status::PendingInstall, "pending-install", true),
            (Status::PendingUpgrade, "pending-upgrade", true),
            (Status::PendingRollback, "pending-rollback", true),
        ] {
            assert_eq!(
                (status.as_str(), status.to_string().as_str(), status.is_pending()),
                (name, name, is_pending)
            );
            assert_eq!(serde_json::to_value(status).unwrap(), name);
            assert_eq!(serde_json::from_value::<Status>(json!(name)).unwrap(), status);
        }
    }

    #[test]
    fn times_are_written_as_helm_does() {
        let moment: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let info = Info { first_deployed: Some(moment), ..Info::default() };
        let written = serde_json::to_value(&info).unwrap();
        assert_eq!(written["first_deployed"], "2026-01-02T03:04:05.678Z");
        assert_eq!(written["last_deployed"], "");
        assert_eq!(serde_json::from_value::<Info>(written).unwrap(), info);
        assert_eq!(serde_json::from_value::<Info>(json!({ "deleted": null })).unwrap(), Info::default());
        assert!(serde_json::from_value::<Info>(json!({ "deleted": "soon" })).is_err());
    }

    #[test]
    fn a_weight_of_nothing_is_left_out() {
        let written = |weight| serde_json::to_value(Hook { weight, ..Hook::default() }).unwrap();
        assert!(written(0).get("weight").is_none());
        assert_eq!((&written(5)["weight"], &written(-5)["weight"]), (&json!(5), &json!(-5)));
    }

    #[test]
    fn a_chart_is_named_with_its_version() {
        let chart = |metadata: Value| ChartRecord { metadata: map(metadata), ..ChartRecord::default() };
        let known = chart(json!({ "name": "shop", "version": "1.2", "appVersion": "3" }));
        assert_eq!((known.name(), known.version(), known.app_version()), ("shop", "1.2", "3"));
        assert_eq!(known.title(), "shop-1.2");
        assert_eq!(chart(json!({})).title(), "MISSING");
        assert_eq!(chart(json!({ "name": 1 })).title(), "-");
        let release = Release { name: "a".into(), version: 3, chart: known, ..Release::default() };
        assert!(release.is_of("shop") && !release.is_of("a"));
        assert_eq!(release.key(), "sh.helm.release.v1.a.v3");
    }

    #[test]
    fn a_chart_is_recorded_with_its_files() {
        let chart = Chart::from_files([
            File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}"),
            File::new("values.yaml", "a: 1"),
            File::new("values.schema.json", "{}"),
            File::new("templates/a.yaml", "kind: A"),
            File::new("extra.txt", "extra"),
        ])
        .unwrap();
        let record = ChartRecord::new(&chart, &Values::new()).unwrap();
        assert_eq!(
            record.templates,
            json!([{ "name": "templates/a.yaml", "data": BASE64.encode("kind: A") }])
        );
        assert_eq!(record.files, json!([{ "name": "extra.txt", "data": BASE64.encode("extra") }]));
        assert_eq!((&record.schema, &record.lock), (&json!(BASE64.encode("{}")), &Value::Null));
        assert_eq!(Value::Object(record.values), json!({ "a": 1 }));
        assert_eq!(record.metadata["name"], "shop");
    }

    #[test]
    fn what_could_not_be_deleted_is_named() {
        let undeleted = |namespace: &str| Undeleted {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: namespace.into(),
            name: "a".into(),
            reason: "no".into(),
        };
        assert_eq!(undeleted("lab").to_string(), "Pod/a in namespace lab: no");
        assert_eq!(undeleted("").to_string(), "Pod/a: no");
    }

    #[test]
    fn values_that_templates_saw_are_those_of_both() {
        let release = Release {
            config: map(json!({ "a": 1, "gone": null })),
            chart: ChartRecord {
                values: map(json!({ "a": 2, "b": 3, "gone": 4 })),
                ..ChartRecord::default()
            },
            ..Release::default()
        };
        assert_eq!(Value::Object(release.computed_values()), json!({ "a": 1, "b": 3 }));
    }
}
