//! Pods and pod templates.

use serde_json::{Map, Value, json};

use super::Rules;
use crate::{fields::FieldError, object, status::ApiResult, strategy::Hook};

pub(super) struct Pod;

impl Rules for Pod {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_spec(spec);
        spec.entry("enableServiceLinks").or_insert(true.into());
        // Limits double as requests where none are given.
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                requests_from_limits(object::ensure(container));
            }
        }
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        let class = quality(object);
        let status = object::child(object, "status");
        status.insert("phase".into(), "Pending".into());
        status.insert("qosClass".into(), class.into());
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Vec<FieldError>) {
        validate_spec(object.get("spec").unwrap_or(&Value::Null), "spec", errors);
    }
}

/// Seconds between the wish to delete a pod and its end.
pub(super) fn grace_seconds(object: &Value, asked: Option<i64>) -> i64 {
    let own = object::get(object, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    let period = asked.or(own).unwrap_or(30);
    let unscheduled = object::text(object, &["spec", "nodeName"]).unwrap_or_default().is_empty();
    let over = matches!(object::text(object, &["status", "phase"]), Some("Succeeded" | "Failed"));
    // Nobody is there to wait for.
    if unscheduled || over { 0 } else { period.max(0) }
}

/// Defaults that pods and templates share.
pub(super) fn default_spec(spec: &mut Map<String, Value>) {
    let mut fill = |key: &str, value: Value| {
        spec.entry(key).or_insert(value);
    };
    fill("restartPolicy", "Always".into());
    fill("dnsPolicy", "ClusterFirst".into());
    fill("schedulerName", "default-scheduler".into());
    fill("terminationGracePeriodSeconds", 30.into());
    fill("securityContext", json!({}));
    if let Some(account) = spec.get("serviceAccountName").or_else(|| spec.get("serviceAccount")).cloned() {
        spec.insert("serviceAccountName".into(), account.clone());
        spec.insert("serviceAccount".into(), account);
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            default_container(object::ensure(container));
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        default_volume(object::ensure(volume));
    }
}

fn default_container(container: &mut Map<String, Value>) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let tag = image.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    let policy =
        if image.contains('@') || tag.is_some_and(|t| t != "latest") { "IfNotPresent" } else { "Always" };
    container.entry("imagePullPolicy").or_insert_with(|| policy.into());
    container.entry("terminationMessagePath").or_insert_with(|| "/dev/termination-log".into());
    container.entry("terminationMessagePolicy").or_insert_with(|| "File".into());
    container.entry("resources").or_insert_with(|| json!({}));
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        object::ensure(port).entry("protocol").or_insert_with(|| "TCP".into());
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe) {
            default_probe(object::ensure(probe));
        }
    }
    for hook in ["postStart", "preStop"] {
        let action =
            container.get_mut("lifecycle").and_then(|l| l.get_mut(hook)).and_then(|h| h.get_mut("httpGet"));
        if let Some(action) = action {
            default_http(object::ensure(action));
        }
    }
    for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reference) = variable.get_mut("valueFrom").and_then(|v| v.get_mut("fieldRef")) {
            object::ensure(reference).entry("apiVersion").or_insert_with(|| "v1".into());
        }
    }
}

fn default_probe(probe: &mut Map<String, Value>) {
    for (key, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        let slot = probe.entry(key).or_insert(value.into());
        if *slot == json!(0) {
            *slot = value.into();
        }
    }
    if let Some(action) = probe.get_mut("httpGet") {
        default_http(object::ensure(action));
    }
    if let Some(action) = probe.get_mut("grpc") {
        object::ensure(action).entry("service").or_insert_with(|| "".into());
    }
}

fn default_http(action: &mut Map<String, Value>) {
    action.entry("path").or_insert_with(|| "/".into());
    action.entry("scheme").or_insert_with(|| "HTTP".into());
}

fn default_volume(volume: &mut Map<String, Value>) {
    if volume.len() <= 1 {
        volume.insert("emptyDir".into(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source) {
            object::ensure(source).entry("defaultMode").or_insert(420.into());
        }
    }
    if let Some(path) = volume.get_mut("hostPath") {
        object::ensure(path).entry("type").or_insert_with(|| "".into());
    }
    let sources =
        volume.get_mut("projected").and_then(|p| p.get_mut("sources")).and_then(Value::as_array_mut);
    for source in sources.into_iter().flatten() {
        if let Some(token) = source.get_mut("serviceAccountToken") {
            object::ensure(token).entry("expirationSeconds").or_insert(3600.into());
        }
    }
}

fn requests_from_limits(container: &mut Map<String, Value>) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = object::ensure(resources.entry("requests").or_insert(Value::Null));
    for (key, value) in limits {
        requests.entry(key).or_insert(value);
    }
}

/// The quality of service that resources buy.
fn quality(pod: &Value) -> &'static str {
    let containers: Vec<&Value> = ["containers", "initContainers"]
        .iter()
        .filter_map(|list| object::get(pod, &["spec", list]).and_then(Value::as_array))
        .flatten()
        .collect();
    let amount = |container: &Value, list: &str, name: &str| {
        object::get(container, &["resources", list, name])
            .filter(|v| **v != json!("0") && **v != json!(0))
            .cloned()
    };
    let mut any = false;
    let mut guaranteed = !containers.is_empty();
    for container in containers {
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount(container, "requests", name), amount(container, "limits", name));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Rules that pods and templates share.
pub(super) fn validate_spec(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let containers = spec.get("containers").and_then(Value::as_array);
    if containers.is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names: Vec<&str> = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec.get(list).and_then(Value::as_array).into_iter().flatten().enumerate() {
            let at = format!("{path}.{list}[{index}]");
            let name = object::text(container, &["name"]).unwrap_or_default();
            if name.is_empty() {
                errors.push(FieldError::required(format!("{at}.name"), ""));
            } else {
                for complaint in crate::names::label(name) {
                    errors.push(FieldError::invalid(format!("{at}.name"), name, complaint));
                }
                if names.contains(&name) {
                    errors.push(FieldError::duplicate(format!("{at}.name"), name));
                }
                names.push(name);
            }
            if object::text(container, &["image"]).unwrap_or_default().is_empty() && path == "spec" {
                errors.push(FieldError::required(format!("{at}.image"), ""));
            }
        }
    }
    for (field, supported) in [
        ("restartPolicy", &["Always", "Never", "OnFailure"][..]),
        ("dnsPolicy", &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"][..]),
    ] {
        let given = object::text(spec, &[field]).unwrap_or_default();
        if !supported.contains(&given) {
            errors.push(FieldError::not_supported(format!("{path}.{field}"), given, supported));
        }
    }
}
