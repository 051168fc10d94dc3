//! The resource in two versions: `v1` is stored, `v2` has a schedule in parts.

use k8s_openapi::{
    api::{batch::v1::JobTemplateSpec, core::v1::ObjectReference},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens when a run is due while another one is under way.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConcurrencyPolicy {
    /// Both run.
    #[default]
    Allow,
    /// The new one is left out.
    Forbid,
    /// The old one is replaced.
    Replace,
}

/// The desired runs.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "batch.tutorial.kubebuilder.io",
    version = "v1",
    kind = "CronJob",
    namespaced,
    status = "CronJobStatus",
    printcolumn = r#"{"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule"}"#,
    printcolumn = r#"{"name": "Last", "type": "date", "jsonPath": ".status.lastScheduleTime"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct CronJobSpec {
    /// When, in the format of cron.
    #[schemars(length(min = 0))]
    pub schedule: String,
    /// The rest of the fields, which both versions share.
    #[serde(flatten)]
    pub common: Common,
}

/// What both versions share.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Common {
    /// By how many seconds a run may be late. Default: by any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens when a run is due while another one is under way. Default: both run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_policy: Option<ConcurrencyPolicy>,
    /// Starts no runs. Default: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// What is run.
    #[schemars(schema_with = "any_object")]
    pub job_template: JobTemplateSpec,
    /// How many runs that succeeded are kept. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub successful_jobs_history_limit: Option<i32>,
    /// How many runs that failed are kept. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failed_jobs_history_limit: Option<i32>,
}

/// A schema without validation. A job's takes a megabyte in two versions, and the API server validates jobs
/// anyway when they are created.
fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// The observed runs.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    /// The jobs under way.
    pub active: Vec<ObjectReference>,
    /// When a job was last due and started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
}

/// The API version `v2`.
pub mod v2 {
    #[allow(clippy::wildcard_imports, reason = "the second version of the same module")]
    use super::*;

    /// The desired runs.
    #[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
    #[kube(
        group = "batch.tutorial.kubebuilder.io",
        version = "v2",
        kind = "CronJob",
        namespaced,
        status = "CronJobStatus",
        printcolumn = r#"{"name": "Last", "type": "date", "jsonPath": ".status.lastScheduleTime"}"#
    )]
    #[serde(rename_all = "camelCase")]
    pub struct CronJobSpec {
        /// When, in parts. A part that is not given is any.
        pub schedule: Parts,
        /// The rest of the fields, which both versions share.
        #[serde(flatten)]
        pub common: Common,
    }

    /// A schedule in parts.
    #[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
    #[serde(rename_all = "camelCase")]
    #[allow(missing_docs, reason = "the names say it")]
    pub struct Parts {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        pub minute: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        pub hour: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        pub day_of_month: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        pub month: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        pub day_of_week: Option<String>,
    }
}

/// The CustomResourceDefinition with both versions.
///
/// # Errors
/// Fails if the versions cannot be merged.
pub fn crd() -> Result<CustomResourceDefinition, kube::core::crd::MergeError> {
    kube::core::crd::merge_crds(vec![CronJob::crd(), v2::CronJob::crd()], "v1")
}

/// Converts v2 to v1: joins the parts of the schedule.
///
/// # Errors
/// Never; the signature allows for it.
pub fn to_v1(new: v2::CronJob) -> Result<CronJob, String> {
    let any = |part: Option<String>| part.filter(|part| !part.is_empty()).unwrap_or_else(|| "*".into());
    let v2::Parts { minute, hour, day_of_month, month, day_of_week } = new.spec.schedule;
    let schedule = [minute, hour, day_of_month, month, day_of_week].map(any).join(" ");
    Ok(CronJob {
        metadata: new.metadata,
        spec: CronJobSpec { schedule, common: new.spec.common },
        status: new.status,
    })
}

/// Converts v1 to v2: splits the schedule into parts.
///
/// # Errors
/// Fails if the schedule does not have five fields.
pub fn from_v1(old: CronJob) -> Result<v2::CronJob, String> {
    let fields: Vec<&str> = old.spec.schedule.split_whitespace().collect();
    let &[minute, hour, day_of_month, month, day_of_week] = fields.as_slice() else {
        return Err(format!("invalid schedule: {}", old.spec.schedule));
    };
    let part = |text: &str| (text != "*").then(|| text.to_owned());
    let schedule = v2::Parts {
        minute: part(minute),
        hour: part(hour),
        day_of_month: part(day_of_month),
        month: part(month),
        day_of_week: part(day_of_week),
    };
    Ok(v2::CronJob {
        metadata: old.metadata,
        spec: v2::CronJobSpec { schedule, common: old.spec.common },
        status: old.status,
    })
}
