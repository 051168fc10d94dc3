//! Pipe tasks: a pod's init container writes files, which are stored as Secrets or ConfigMaps.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::api::{PipeSpec, annotation};
use crate::reason;
use crate::task::{Failure, TaskPosition};

/// The name of the container that keeps the pod alive while files are read.
pub const WAITER: &str = "waiter";
/// The maximum size of a stored file, in bytes.
pub const MAX_FILE: usize = 1 << 20;

/// Returns the name of the Secret or ConfigMap for a key.
#[must_use]
pub fn artifact_name(place: &TaskPosition<'_>, key: &str) -> String {
    let parts = [place.run.instance, place.run.plan_name, place.phase, place.step, place.task, key];
    parts.map(plain).join(".")
}

/// Returns the name of the pod.
#[must_use]
pub fn pod_name(place: &TaskPosition<'_>) -> String {
    artifact_name(place, "pipepod")
}

/// Reduces a string to lower-case letters and digits.
fn plain(text: &str) -> String {
    text.to_lowercase().chars().filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit()).collect()
}

/// Returns the path of a file within its pod.
#[must_use]
pub fn path(spec: &PipeSpec) -> &str {
    if spec.file.is_empty() { &spec.env_file } else { &spec.file }
}

/// Turns the pod that the template renders into the one that runs.
///
/// # Errors
/// Fails if the pod does not meet the requirements of a Pipe task.
pub fn pod(place: &TaskPosition<'_>, mut object: Value, files: &[PipeSpec]) -> Result<Value, Failure> {
    let wrong = |why: &str| Failure::new(reason::RESOURCE_VALIDATION, why);
    let spec = &object["spec"];
    let list = |name: &str| spec[name].as_array().map(Vec::as_slice).unwrap_or_default();
    if object["kind"] != "Pod" {
        return Err(wrong("a pipe's template must be a Pod"));
    }
    if !list("containers").is_empty() {
        return Err(wrong(
            "pipe pod should not have containers. pipe artifacts are generated in the init container",
        ));
    }
    let [init] = list("initContainers") else {
        return Err(wrong("pipe pod should define one init container that generated artifacts defined"));
    };
    if !matches!(spec["restartPolicy"].as_str().unwrap_or_default(), "" | "OnFailure") {
        return Err(wrong("pipe pod RestartPolicy should be OnFailure"));
    }
    let shared: Vec<&str> = list("volumes")
        .iter()
        .filter(|volume| volume.get("emptyDir").is_some())
        .filter_map(|volume| volume["name"].as_str())
        .collect();
    let [volume] = shared.as_slice() else {
        return Err(wrong(
            "pipe pod should define one emptyDir shared volume where the artifacts are temporary stored",
        ));
    };
    let mounts = init["volumeMounts"].as_array().into_iter().flatten();
    let mount = mounts.filter(|mount| mount["name"] == *volume).find_map(|mount| mount["mountPath"].as_str());
    let Some(mount) = mount.map(str::to_owned) else {
        return Err(wrong(&format!("pipe pod should save generated artifacts in {volume}")));
    };
    let volume = (*volume).to_owned();
    for file in files.iter().map(path) {
        let below = file.strip_prefix(mount.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
        if below.is_none_or(|rest| rest.is_empty() || rest.split('/').any(|part| part == ".." || part == "."))
        {
            return Err(wrong(&format!("pipe file {file} should be a child of {mount} mount path")));
        }
        let base = base_name(file);
        if !base.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
            return Err(wrong(&format!(
                "pipe file name {base} should only contain alphanumeric characters, '.', '_' and '-'"
            )));
        }
    }
    object["metadata"]["name"] = pod_name(place).into();
    if !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    object["metadata"]["annotations"][annotation::PIPE_POD] = "true".into();
    object["spec"]["restartPolicy"] = "OnFailure".into();
    object["spec"]["containers"] = json!([{
        "name": WAITER, "image": "busybox", "command": ["/bin/sh", "-c"], "args": ["sleep infinity"],
        "volumeMounts": [{ "name": volume, "mountPath": mount }],
    }]);
    Ok(object)
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Builds the Secret or ConfigMap that stores a file.
///
/// # Errors
/// Fails if the file is too large, or an env file has a line that is not a variable.
pub fn artifact(place: &TaskPosition<'_>, spec: &PipeSpec, content: &[u8]) -> Result<Value, Failure> {
    let failed = |why: String| Failure::new(reason::PIPE_TASK, why);
    if content.len() > MAX_FILE {
        return Err(failed(format!(
            "pipe file {} size {} exceeds maximum file size of {MAX_FILE} bytes",
            path(spec),
            content.len()
        )));
    }
    let name = artifact_name(place, &spec.key);
    let mut object = json!({ "apiVersion": "v1", "kind": spec.kind, "metadata": { "name": name } });
    let is_secret = spec.kind == "Secret";
    if is_secret {
        object["type"] = "Opaque".into();
    }
    if spec.env_file.is_empty() {
        let field = if is_secret { "data" } else { "binaryData" };
        object[field] = json!({ base_name(&spec.file): BASE64_STANDARD.encode(content) });
        return Ok(object);
    }
    let mut values = Map::new();
    let text = std::str::from_utf8(content).map_err(|_| failed(format!("{}: not UTF-8", spec.env_file)))?;
    for (index, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_name = |key: &str| {
            !key.is_empty()
                && !key.starts_with(|c: char| c.is_ascii_digit())
                && key.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
        };
        match line.split_once('=') {
            Some((key, value)) if is_name(key) => {
                let value = if is_secret { BASE64_STANDARD.encode(value) } else { value.to_owned() };
                values.insert(key.to_owned(), value.into());
            }
            _ => {
                let place = format!("{}:{}", spec.env_file, index + 1);
                return Err(failed(format!("{place}: not a valid env var definition (KEY=VAL)")));
            }
        }
    }
    object["data"] = values.into();
    Ok(object)
}
