//! Kinds that make pods.

use serde_json::{Map, Value, json};

use super::{Rules, pod};
use crate::{fields::FieldError, object, status::ApiResult, strategy::Hook};

fn default_template(spec: &mut Map<String, Value>) {
    let template = object::ensure(spec.entry("template").or_insert(Value::Null));
    pod::default_spec(object::ensure(template.entry("spec").or_insert(Value::Null)));
}

fn set(spec: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    spec.entry(key).or_insert_with(|| value.into());
}

/// The selector must be there, must not be empty, must match the template and must not change.
fn validate_selector(object: &Value, errors: &mut Vec<FieldError>) {
    let selector = object::get(object, &["spec", "selector"]);
    let empty = Map::new();
    let Some(selector) = selector.filter(|s| !s.is_null()) else {
        errors.push(FieldError::required("spec.selector", ""));
        return;
    };
    let labels = object::get(object, &["spec", "template", "metadata", "labels"])
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let wanted = selector.get("matchLabels").and_then(Value::as_object).unwrap_or(&empty);
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).map_or(0, Vec::len);
    if wanted.is_empty() && expressions == 0 {
        errors.push(FieldError::invalid(
            "spec.selector",
            selector.clone(),
            "empty selector is invalid for deployment",
        ));
    } else if wanted.iter().any(|(k, v)| labels.get(k) != Some(v)) {
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            Value::Object(labels.clone()),
            "`selector` does not match template `labels`",
        ));
    }
}

fn validate_template(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object::get(object, &["spec", "template", "spec"]).unwrap_or(&Value::Null);
    pod::validate_spec(spec, "spec.template.spec", errors);
}

fn immutable_selector(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let selector = |v: &Value| object::get(v, &["spec", "selector"]).cloned().unwrap_or_default();
    if selector(object) != selector(old) {
        errors.push(FieldError::invalid("spec.selector", selector(object), "field is immutable"));
    }
}

fn not_negative(object: &Value, field: &str, errors: &mut Vec<FieldError>) {
    if let Some(n) = object::get(object, &["spec", field]).and_then(Value::as_i64).filter(|n| *n < 0) {
        errors.push(FieldError::invalid(format!("spec.{field}"), n, "must be greater than or equal to 0"));
    }
}

pub(super) struct Deployment;

impl Rules for Deployment {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_template(spec);
        set(spec, "replicas", 1);
        set(spec, "revisionHistoryLimit", 10);
        set(spec, "progressDeadlineSeconds", 600);
        let strategy = object::ensure(spec.entry("strategy").or_insert(Value::Null));
        set(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate")) {
            let rolling = object::ensure(strategy.entry("rollingUpdate").or_insert(Value::Null));
            set(rolling, "maxUnavailable", "25%");
            set(rolling, "maxSurge", "25%");
        }
    }

    fn validate(&self, object: &Value, errors: &mut Vec<FieldError>) {
        not_negative(object, "replicas", errors);
        validate_selector(object, errors);
        validate_template(object, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        immutable_selector(object, old, errors);
    }
}

pub(super) struct ReplicaSet;

impl Rules for ReplicaSet {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_template(spec);
        set(spec, "replicas", 1);
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        object::child(object, "status").insert("replicas".into(), 0.into());
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Vec<FieldError>) {
        not_negative(object, "replicas", errors);
        validate_selector(object, errors);
        validate_template(object, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        immutable_selector(object, old, errors);
    }
}

pub(super) struct StatefulSet;

impl Rules for StatefulSet {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_template(spec);
        set(spec, "replicas", 1);
        set(spec, "podManagementPolicy", "OrderedReady");
        set(spec, "revisionHistoryLimit", 10);
        set(spec, "serviceName", "");
        let strategy = object::ensure(spec.entry("updateStrategy").or_insert(Value::Null));
        set(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate")) {
            let rolling = object::ensure(strategy.entry("rollingUpdate").or_insert(Value::Null));
            set(rolling, "partition", 0);
        }
        let retention =
            object::ensure(spec.entry("persistentVolumeClaimRetentionPolicy").or_insert(Value::Null));
        set(retention, "whenDeleted", "Retain");
        set(retention, "whenScaled", "Retain");
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        let status = object::child(object, "status");
        status.insert("replicas".into(), 0.into());
        status.insert("availableReplicas".into(), 0.into());
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Vec<FieldError>) {
        not_negative(object, "replicas", errors);
        validate_selector(object, errors);
        validate_template(object, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        const MUTABLE: [&str; 8] = [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
            "podManagementPolicy",
        ];
        let fixed = |v: &Value| {
            let mut spec = v.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
            for field in MUTABLE.iter().take(7) {
                spec.remove(*field);
            }
            spec
        };
        if fixed(object) != fixed(old) {
            errors.push(FieldError::forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            ));
        }
    }
}

pub(super) struct DaemonSet;

impl Rules for DaemonSet {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_template(spec);
        set(spec, "revisionHistoryLimit", 10);
        let strategy = object::ensure(spec.entry("updateStrategy").or_insert(Value::Null));
        set(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate")) {
            let rolling = object::ensure(strategy.entry("rollingUpdate").or_insert(Value::Null));
            set(rolling, "maxUnavailable", 1);
            set(rolling, "maxSurge", 0);
        }
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        let status = object::child(object, "status");
        for field in ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"]
        {
            status.insert(field.into(), 0.into());
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Vec<FieldError>) {
        validate_selector(object, errors);
        validate_template(object, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        immutable_selector(object, old, errors);
    }
}

pub(super) struct Job;

fn default_job(spec: &mut Map<String, Value>) {
    default_template(spec);
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    set(spec, "backoffLimit", 6);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    set(spec, "podReplacementPolicy", "TerminatingOrFailed");
}

impl Rules for Job {
    fn default(&self, _: &str, object: &mut Value) {
        default_job(object::child(object, "spec"));
        // A job passes its template's labels on where it has none.
        let labels = object::get(object, &["spec", "template", "metadata", "labels"]).cloned();
        if let Some(labels) = labels {
            object::metadata(object).entry("labels").or_insert(labels);
        }
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        let manual = object::get(object, &["spec", "manualSelector"]).and_then(Value::as_bool) == Some(true);
        if !manual {
            let (uid, name) = (object::uid(object).to_owned(), object::name(object).to_owned());
            let spec = object::child(object, "spec");
            let template = object::ensure(spec.entry("template").or_insert(Value::Null));
            let metadata = object::ensure(template.entry("metadata").or_insert(Value::Null));
            let labels = object::ensure(metadata.entry("labels").or_insert(Value::Null));
            for (key, value) in [
                ("controller-uid", &uid),
                ("job-name", &name),
                ("batch.kubernetes.io/controller-uid", &uid),
                ("batch.kubernetes.io/job-name", &name),
            ] {
                labels.insert(key.into(), value.as_str().into());
            }
            let selector = object::ensure(spec.entry("selector").or_insert(Value::Null));
            let wanted = object::ensure(selector.entry("matchLabels").or_insert(Value::Null));
            wanted.insert("batch.kubernetes.io/controller-uid".into(), uid.into());
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Vec<FieldError>) {
        for field in ["parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"] {
            not_negative(object, field, errors);
        }
        validate_template(object, errors);
        let policy = object::text(object, &["spec", "template", "spec", "restartPolicy"]).unwrap_or_default();
        if policy == "Always" {
            errors.push(FieldError::required(
                "spec.template.spec.restartPolicy",
                "valid values: \"OnFailure\", \"Never\"",
            ));
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        immutable_selector(object, old, errors);
    }
}

pub(super) struct CronJob;

impl Rules for CronJob {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        set(spec, "concurrencyPolicy", "Allow");
        set(spec, "suspend", false);
        set(spec, "successfulJobsHistoryLimit", 3);
        set(spec, "failedJobsHistoryLimit", 1);
        let template = object::ensure(spec.entry("jobTemplate").or_insert(Value::Null));
        let job = object::ensure(template.entry("spec").or_insert(Value::Null));
        default_template(job);
    }

    fn validate(&self, object: &Value, errors: &mut Vec<FieldError>) {
        if object::text(object, &["spec", "schedule"]).unwrap_or_default().is_empty() {
            errors.push(FieldError::required("spec.schedule", ""));
        }
        let spec =
            object::get(object, &["spec", "jobTemplate", "spec", "template", "spec"]).unwrap_or(&Value::Null);
        pod::validate_spec(spec, "spec.jobTemplate.spec.template.spec", errors);
    }
}
