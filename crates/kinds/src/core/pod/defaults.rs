//! Defaulting of pods and pod templates, and removal of disabled fields.

use serde_json::{Map, Value, json};

use crate::{
    check::{child, children, default, default_zero, made},
    core::persistent_volume_claim as claim,
};

/// Fields with containers.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Sets the defaults common to pods and pod templates.
pub(crate) fn spec(spec: &mut Map<String, Value>) {
    default_zero(spec, "dnsPolicy", "ClusterFirst");
    default_zero(spec, "restartPolicy", "Always");
    default(spec, "securityContext", json!({}));
    default(spec, "terminationGracePeriodSeconds", 30);
    default_zero(spec, "schedulerName", "default-scheduler");
    let text = |spec: &Map<String, Value>, key: &str| {
        spec.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    // `serviceAccount` is the deprecated alias.
    match text(spec, "serviceAccountName").or_else(|| text(spec, "serviceAccount")) {
        Some(account) => {
            spec.insert("serviceAccountName".into(), account.as_str().into());
            spec.insert("serviceAccount".into(), account.into());
        }
        None => {
            spec.remove("serviceAccount");
        }
    }
    for list in CONTAINERS {
        for container in children(spec, list) {
            of_container(container);
        }
    }
    for volume in children(spec, "volumes") {
        of_volume(volume);
    }
}

/// Sets the defaults of pods only.
pub(super) fn pod(spec: &mut Map<String, Value>) {
    // Requests default to limits.
    for list in ["containers", "initContainers"] {
        for container in children(spec, list) {
            let Some(resources) = child(container, "resources") else { continue };
            requests_from_limits(resources);
        }
    }
    if let Some(resources) = child(spec, "resources") {
        requests_from_limits(resources);
    }
    default(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for list in ["containers", "initContainers"] {
            for container in children(spec, list) {
                for port in children(container, "ports") {
                    let number = port.get("containerPort").cloned().unwrap_or_default();
                    default_zero(port, "hostPort", number);
                }
            }
        }
    }
}

fn requests_from_limits(resources: &mut Map<String, Value>) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object) else { return };
    let asked = resources.get("requests").and_then(Value::as_object);
    let missing: Vec<_> = limits
        .iter()
        .filter(|(key, _)| asked.is_none_or(|asked| !asked.contains_key(*key)))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    made(resources, "requests").extend(missing);
}

/// Returns the default pull policy: Always for the tag `latest`, or with neither tag nor digest.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match name.get(slash..).and_then(|last| last.split_once(':')) {
        Some((last, tag)) => (name.get(..slash + last.len()).unwrap_or_default(), Some(tag)),
        None => (name, None),
    };
    let moves = match tag {
        Some(tag) => tag == "latest",
        None => !digest,
    };
    if moves && is_repository(path) { "Always" } else { "IfNotPresent" }
}

/// Whether a string is a valid image repository. The tags of other images are not interpreted.
fn is_repository(path: &str) -> bool {
    let rest = match path.split_once('/') {
        Some((host, rest))
            if host == "localhost" || host.contains(['.', ':']) || host.to_lowercase() != host =>
        {
            rest
        }
        _ => path,
    };
    let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    rest.split('/').all(|part| {
        let bytes = part.as_bytes();
        let ends = bytes.first().is_some_and(|c| word(*c)) && bytes.last().is_some_and(|c| word(*c));
        // Separators are one dot, one or two underscores, or any number of dashes.
        let separated = part
            .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            .all(|between| matches!(between, "" | "." | "_" | "__") || between.bytes().all(|c| c == b'-'));
        ends && separated
    })
}

fn of_container(container: &mut Map<String, Value>) {
    let policy = pull_policy(container.get("image").and_then(Value::as_str).unwrap_or_default());
    default_zero(container, "imagePullPolicy", policy);
    default_zero(container, "terminationMessagePath", "/dev/termination-log");
    default_zero(container, "terminationMessagePolicy", "File");
    for port in children(container, "ports") {
        default_zero(port, "protocol", "TCP");
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = child(container, name) else { continue };
        default_zero(probe, "timeoutSeconds", 1);
        default_zero(probe, "periodSeconds", 10);
        default_zero(probe, "successThreshold", 1);
        default_zero(probe, "failureThreshold", 3);
        http(probe);
        if let Some(action) = child(probe, "grpc") {
            default(action, "service", "");
        }
    }
    if let Some(lifecycle) = child(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(handler) = child(lifecycle, hook) {
                http(handler);
            }
        }
    }
    for variable in children(container, "env") {
        let Some(source) = child(variable, "valueFrom") else { continue };
        if let Some(field) = child(source, "fieldRef") {
            default_zero(field, "apiVersion", "v1");
        }
        if let Some(file) = child(source, "fileKeyRef") {
            default(file, "optional", false);
        }
    }
}

fn http(handler: &mut Map<String, Value>) {
    if let Some(action) = child(handler, "httpGet") {
        default_zero(action, "path", "/");
        default_zero(action, "scheme", "HTTP");
    }
}

fn of_volume(volume: &mut Map<String, Value>) {
    let empty = super::volume::is_without_source(volume);
    if empty {
        volume.insert("emptyDir".into(), json!({}));
    }
    if let Some(image) = child(volume, "image") {
        let policy = pull_policy(image.get("reference").and_then(Value::as_str).unwrap_or_default());
        default_zero(image, "pullPolicy", policy);
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = child(volume, source) {
            default(source, "defaultMode", 420);
        }
    }
    if let Some(path) = child(volume, "hostPath") {
        default(path, "type", "");
    }
    if let Some(source) = child(volume, "downwardAPI") {
        fields_of(source);
    }
    if let Some(projected) = child(volume, "projected") {
        for source in children(projected, "sources") {
            if let Some(token) = child(source, "serviceAccountToken") {
                default(token, "expirationSeconds", 3600);
            }
            if let Some(source) = child(source, "downwardAPI") {
                fields_of(source);
            }
        }
    }
    // Some volume sources have defaults of their own.
    if let Some(disk) = child(volume, "iscsi") {
        default_zero(disk, "iscsiInterface", "default");
    }
    if let Some(disk) = child(volume, "rbd") {
        rbd(disk);
    }
    if let Some(disk) = child(volume, "azureDisk") {
        azure_disk(disk);
    }
    if let Some(disk) = child(volume, "scaleIO") {
        scale_io(disk);
    }
    if let Some(template) = child(volume, "ephemeral").and_then(|e| child(e, "volumeClaimTemplate")) {
        claim::default_spec(made(template, "spec"));
    }
}

pub(crate) fn rbd(disk: &mut Map<String, Value>) {
    default_zero(disk, "pool", "rbd");
    default_zero(disk, "user", "admin");
    default_zero(disk, "keyring", "/etc/ceph/keyring");
}

pub(crate) fn azure_disk(disk: &mut Map<String, Value>) {
    default(disk, "cachingMode", "ReadWrite");
    default(disk, "kind", "Shared");
    default(disk, "fsType", "ext4");
    default(disk, "readOnly", false);
}

pub(crate) fn scale_io(disk: &mut Map<String, Value>) {
    default_zero(disk, "storageMode", "ThinProvisioned");
    default_zero(disk, "fsType", "xfs");
}

fn fields_of(source: &mut Map<String, Value>) {
    for item in children(source, "items") {
        if let Some(field) = child(item, "fieldRef") {
            default_zero(field, "apiVersion", "v1");
        }
    }
}

/// Drops fields of disabled features.
pub(crate) fn drop_disabled(spec: &mut Map<String, Value>) {
    spec.remove("schedulingGroup");
    for list in CONTAINERS {
        for container in children(spec, list) {
            if let Some(lifecycle) = child(container, "lifecycle") {
                lifecycle.remove("stopSignal");
            }
        }
    }
    for volume in children(spec, "volumes") {
        let Some(projected) = child(volume, "projected") else { continue };
        for source in children(projected, "sources") {
            source.remove("clusterTrustBundle");
            source.remove("podCertificate");
        }
    }
}
