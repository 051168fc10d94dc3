//! Validation of containers, init containers and ephemeral containers.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    env, probe, security,
    volume::{self, Volumes},
};
use crate::{
    check::{self, Errors, FieldErrors, FieldPath, Read},
    resources,
};
use steersman_api::{fields::FieldError, names};

/// Parts of a pod needed to validate its containers.
pub(super) struct Pod<'a> {
    pub(super) spec: &'a Value,
    pub(super) volumes: Volumes<'a>,
    pub(super) claims: Vec<&'a str>,
    /// Termination grace period, in seconds.
    pub(super) grace: Option<i64>,
}

impl Pod<'_> {
    fn uses_host_users(&self) -> bool {
        self.spec.at("hostUsers").as_bool() != Some(false)
    }
}

pub(super) fn validate_main(at: FieldPath<'_>, containers: &[Value], pod: &Pod<'_>, errors: &mut Errors) {
    if containers.is_empty() {
        return errors.required(at, "");
    }
    let mut names = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = at.index(index);
        common(at, container, pod, errors);
        if !names.insert(container.str("name")) {
            errors.duplicate(at.field("name"), container.str("name"));
        }
        probe::all(at, container, pod, errors);
        restart_policy(at, container, errors);
    }
    host_ports(at, containers, errors);
}

pub(super) fn validate_init(at: FieldPath<'_>, containers: &[Value], pod: &Pod<'_>, errors: &mut Errors) {
    if containers.is_empty() {
        return;
    }
    let mut names: HashSet<&str> = pod.spec.list("containers").iter().map(|c| c.str("name")).collect();
    for (index, container) in containers.iter().enumerate() {
        let here = at.index(index);
        common(here, container, pod, errors);
        match container.opt_str("restartPolicy") {
            None if !container.list("restartPolicyRules").is_empty() => {
                errors.required(here.field("restartPolicy"), RULES_NEED_POLICY);
            }
            None => {}
            Some(_) => restart_policy(here, container, errors),
        }
        let name = container.str("name");
        if names.contains(name) {
            errors.duplicate(here.field("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        // kube-apiserver validates host ports as a list of one, so errors always have index 0.
        host_ports(at, std::slice::from_ref(container), errors);
        let sidecar = container.opt_str("restartPolicy") == Some("Always");
        if sidecar {
            probe::all(here, container, pod, errors);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.opt(field).is_some() {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    errors.forbidden(here.field(field), why);
                }
            }
            for (entry, policy) in container.list("resizePolicy").iter().enumerate() {
                if policy.str("restartPolicy") == "RestartContainer" {
                    let list = here.field("resizePolicy");
                    let place = list.index(entry);
                    let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    errors.invalid(place.field("restartPolicy"), "RestartContainer", why);
                }
            }
        }
    }
}

/// Container fields that ephemeral containers can't have.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

pub(super) fn validate_ephemeral(
    at: FieldPath<'_>,
    containers: &[Value],
    pod: &Pod<'_>,
    errors: &mut Errors,
) {
    if containers.is_empty() {
        return;
    }
    let lists = [pod.spec.list("containers"), pod.spec.list("initContainers")];
    let others: HashSet<&str> = lists.iter().flat_map(|list| list.iter()).map(|c| c.str("name")).collect();
    let mut names = others.clone();
    for (index, container) in containers.iter().enumerate() {
        let at = at.index(index);
        common(at, container, pod, errors);
        image_spaces(at, container, errors);
        if !names.insert(container.str("name")) {
            errors.duplicate(at.field("name"), container.str("name"));
        }
        let target = container.str("targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(at.field("targetContainerName"), target);
        }
        let why = "cannot be set for an Ephemeral Container";
        for field in NOT_EPHEMERAL {
            let empty = match container.at(field) {
                Value::Null => true,
                Value::Array(list) => list.is_empty(),
                Value::Object(map) => field == "resources" && map.is_empty(),
                _ => false,
            };
            if !empty {
                errors.forbidden(at.field(field), why);
            }
        }
        let list = at.field("volumeMounts");
        for (index, mount) in container.list("volumeMounts").iter().enumerate() {
            let at = list.index(index);
            for field in ["subPath", "subPathExpr"] {
                if !mount.str(field).is_empty() {
                    errors.forbidden(at.field(field), why);
                }
            }
        }
    }
}

/// Reports leading and trailing spaces in an image name. Not called for templates.
pub(super) fn image_spaces(at: FieldPath<'_>, container: &Value, errors: &mut Errors) {
    let image = container.str("image");
    if image.trim().len() != image.len() {
        errors.invalid(at.field("image"), image, "must not have leading or trailing whitespace");
    }
}

fn common(at: FieldPath<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Errors) {
    match container.str("name") {
        "" => errors.required(at.field("name"), ""),
        name => errors.all(&at.field("name"), name, names::label(name)),
    }
    if container.str("image").is_empty() {
        errors.required(at.field("image"), "");
    }
    let message = container.str("terminationMessagePolicy");
    errors.one_of(at.field("terminationMessagePolicy"), message, &["File", "FallbackToLogsOnError"]);
    ports(at.field("ports"), container.list("ports"), errors);
    env::validate(at.field("env"), container.list("env"), errors);
    env::validate_from(at.field("envFrom"), container.list("envFrom"), errors);
    mounts(at.field("volumeMounts"), container, &pod.volumes, errors);
    devices(at.field("volumeDevices"), container, &pod.volumes, errors);
    let policies = ["Always", "IfNotPresent", "Never"];
    errors.one_of(at.field("imagePullPolicy"), container.str("imagePullPolicy"), &policies);
    resources::requirements(
        at.field("resources"),
        container.at("resources"),
        resources::container_name,
        &pod.claims,
        errors,
    );
    resize_policy(at.field("resizePolicy"), container.list("resizePolicy"), pod, errors);
    if let Some(context) = container.opt("securityContext") {
        security::validate_container(at.field("securityContext"), context, pod.uses_host_users(), errors);
    }
}

fn ports(at: FieldPath<'_>, ports: &[Value], errors: &mut Errors) {
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = at.index(index);
        let name = port.str("name");
        if !name.is_empty() {
            let complaints = check::port_name(name);
            if complaints.is_empty() {
                if !names.insert(name) {
                    errors.duplicate(at.field("name"), name);
                }
            } else {
                errors.all(&at.field("name"), name, complaints);
            }
        }
        match port.int("containerPort") {
            0 => errors.required(at.field("containerPort"), ""),
            number => errors.in_range(at.field("containerPort"), number, 1, 65_535),
        }
        let host = port.int("hostPort");
        if host != 0 {
            errors.in_range(at.field("hostPort"), host, 1, 65_535);
        }
        errors.one_of(at.field("protocol"), port.str("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn host_ports(at: FieldPath<'_>, containers: &[Value], errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = at.index(index);
        let list = at.field("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            if port.int("hostPort") == 0 {
                continue;
            }
            let key = format!("{}/{}/{}", port.str("protocol"), port.str("hostIP"), port.int("hostPort"));
            let at = list.index(index);
            if taken.contains(&key) {
                errors.duplicate(at.field("hostPort"), key);
            } else {
                taken.insert(key);
            }
        }
    }
}

fn mounts(at: FieldPath<'_>, container: &Value, volumes: &Volumes<'_>, errors: &mut Errors) {
    let devices = container.list("volumeDevices");
    let mut paths = HashSet::new();
    for (index, mount) in container.list("volumeMounts").iter().enumerate() {
        let here = at.index(index);
        let (name, path) = (mount.str("name"), mount.str("mountPath"));
        if name.is_empty() {
            errors.required(here.field("name"), "");
        }
        if !volumes.contains_key(name) {
            errors.not_found(here.field("name"), name);
        }
        if path.is_empty() {
            errors.required(here.field("mountPath"), "");
        }
        if !paths.insert(path) {
            errors.invalid(here.field("mountPath"), path, "must be unique");
        }
        if devices.iter().any(|device| device.str("name") == name) {
            errors.invalid(here.field("name"), name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| device.str("devicePath") == path) {
            let why = "must not already exist as a path in volumeDevices";
            errors.invalid(here.field("mountPath"), path, why);
        }
        let (sub, expression) = (mount.str("subPath"), mount.str("subPathExpr"));
        if !sub.is_empty() {
            volume::local_path(at.field("subPath"), sub, errors);
        }
        if !expression.is_empty() {
            if !sub.is_empty() {
                let why = "subPathExpr and subPath are mutually exclusive";
                errors.invalid(here.field("subPathExpr"), expression, why);
            }
            volume::local_path(at.field("subPathExpr"), expression, errors);
        }
        propagation(at.field("mountPropagation"), mount, container, errors);
        recursive_read_only(at.field("recursiveReadOnly"), mount, errors);
    }
}

fn propagation(at: FieldPath<'_>, mount: &Value, container: &Value, errors: &mut Errors) {
    let Some(mode) = mount.opt_str("mountPropagation") else { return };
    let modes = ["Bidirectional", "HostToContainer", "None"];
    if !modes.contains(&mode) {
        errors.unsupported(at, mode, &modes);
    }
    if mode == "Bidirectional" && !container.at("securityContext").flag("privileged") {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        errors.forbidden(at, why);
    }
}

fn recursive_read_only(at: FieldPath<'_>, mount: &Value, errors: &mut Errors) {
    match mount.opt_str("recursiveReadOnly") {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.flag("readOnly") {
                errors.forbidden(at, "may only be specified when readOnly is true");
            }
            if mount.opt_str("mountPropagation").is_some_and(|mode| mode != "None") {
                errors.forbidden(at, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => errors.unsupported(at, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn devices(at: FieldPath<'_>, container: &Value, volumes: &Volumes<'_>, errors: &mut Errors) {
    let mounts = container.list("volumeMounts");
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for (index, device) in container.list("volumeDevices").iter().enumerate() {
        let at = at.index(index);
        let (name, path) = (device.str("name"), device.str("devicePath"));
        let (name_at, path_at) = (at.field("name"), at.field("devicePath"));
        if name.is_empty() {
            errors.required(name_at, "");
        }
        if names.contains(name) {
            errors.invalid(name_at, name, "must be unique");
        }
        match volumes.get(name) {
            None => errors.not_found(name_at, name),
            Some(volume) => {
                if volume.opt("persistentVolumeClaim").is_none() && volume.opt("ephemeral").is_none() {
                    let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.invalid(name_at, name, why);
                }
            }
        }
        if path.is_empty() {
            errors.required(path_at, "");
        }
        if paths.contains(path) {
            errors.invalid(path_at, path, "must be unique");
        }
        if path.split('/').any(|part| part == "..") {
            errors.invalid(path_at, path, "can not contain backsteps ('..')");
        } else {
            paths.insert(path);
        }
        if mounts.iter().any(|mount| mount.str("name") == name) {
            errors.invalid(name_at, name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| mount.str("mountPath") == path) {
            errors.invalid(path_at, path, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn resize_policy(at: FieldPath<'_>, policies: &[Value], pod: &Pod<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, policy) in policies.iter().enumerate() {
        let (resource, restart) = (policy.str("resourceName"), policy.str("restartPolicy"));
        if !seen.insert(resource) {
            errors.duplicate(at.index(index), resource);
        }
        errors.one_of(at, resource, &["cpu", "memory"]);
        errors.one_of(at, restart, &["NotRequired", "RestartContainer"]);
        if pod.spec.str("restartPolicy") == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(at, restart, why);
        }
    }
}

const RULES_NEED_POLICY: &str = "must specify restartPolicy when restart rules are used";

fn restart_policy(at: FieldPath<'_>, container: &Value, errors: &mut Errors) {
    let rules = container.list("restartPolicyRules");
    let policies = ["Always", "Never", "OnFailure"];
    match container.opt_str("restartPolicy") {
        None if rules.is_empty() => return,
        None => errors.required(at.field("restartPolicy"), RULES_NEED_POLICY),
        Some(policy) if !policies.contains(&policy) => {
            errors.unsupported(at.field("restartPolicy"), policy, &policies);
        }
        Some(_) => {}
    }
    let list = at.field("restartPolicyRules");
    if rules.len() > 20 {
        errors.push(FieldError::too_many(list, rules.len(), 20));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = list.index(index);
        let actions = ["Restart", "RestartAllContainers"];
        if !actions.contains(&rule.str("action")) {
            errors.unsupported(at.field("action"), rule.str("action"), &actions);
        }
        let place = at.field("exitCodes");
        let Some(codes) = rule.opt("exitCodes") else {
            errors.required(place, "must be specified");
            continue;
        };
        let operators = ["In", "NotIn"];
        if !operators.contains(&codes.str("operator")) {
            errors.unsupported(place.field("operator"), codes.str("operator"), &operators);
        }
        let count = codes.list("values").len();
        if count > 255 {
            errors.push(FieldError::too_many(place.field("values"), count, 255));
        }
    }
}
