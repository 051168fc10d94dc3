//! Validation of security contexts.

use std::collections::HashSet;

use serde_json::Value;

use super::volume;
use crate::{
    check::{Errors, FieldErrors, FieldPath, Read},
    internal,
};
use steersman_api::{fields::FieldError, names};

/// Validates a pod's security context, and the related fields of its spec.
pub(super) fn validate_pod(at: FieldPath<'_>, context: &Value, spec: &Value, errors: &mut Errors) {
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        identity(at.field(field), context.opt_int(field), errors);
    }
    let groups = at.field("supplementalGroups");
    for (index, group) in context.list("supplementalGroups").iter().enumerate() {
        identity(groups.index(index), group.as_i64(), errors);
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(at.field("shareProcessNamespace"), true, why);
    }
    sysctls(at.field("sysctls"), context.list("sysctls"), spec, errors);
    supported(at, "fsGroupChangePolicy", context, &["Always", "OnRootMismatch"], errors);
    seccomp(at.field("seccompProfile"), context.at("seccompProfile"), errors);
    windows(at.field("windowsOptions"), context.at("windowsOptions"), errors);
    app_armor(at.field("appArmorProfile"), context.at("appArmorProfile"), errors);
    supported(at, "supplementalGroupsPolicy", context, &["Merge", "Strict"], errors);
    supported(at, "seLinuxChangePolicy", context, &["Recursive"], errors);
}

/// Reports a field with an unsupported value.
fn supported(at: FieldPath<'_>, field: &str, value: &Value, words: &[&str], errors: &mut Errors) {
    if let Some(word) = value.opt_str(field).filter(|word| !words.contains(word)) {
        errors.unsupported(at.field(field), word, words);
    }
}

fn identity(at: FieldPath<'_>, number: Option<i64>, errors: &mut Errors) {
    if let Some(number) = number {
        errors.in_range(at, number, 0, i64::from(i32::MAX));
    }
}

fn sysctls(at: FieldPath<'_>, list: &[Value], spec: &Value, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, entry) in list.iter().enumerate() {
        let at = at.index(index);
        let at = at.field("name");
        let name = entry.str("name");
        if name.is_empty() {
            errors.required(at, "");
        } else if !is_sysctl(name) {
            let why = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(at, name, why);
        } else if seen.contains(name) {
            errors.duplicate(at, name);
        }
        let plain = name.replace('/', ".");
        if spec.flag("hostNetwork") && plain.starts_with("net.") {
            errors.invalid(at, name, "may not be specified when 'hostNetwork' is true");
        } else if spec.flag("hostIPC")
            && (plain.starts_with("kernel.shm")
                || plain.starts_with("kernel.msg")
                || plain.starts_with("fs.mqueue.")
                || plain == "kernel.sem")
        {
            errors.invalid(at, name, "may not be specified when 'hostIPC' is true");
        }
        seen.insert(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|part| {
            let bytes = part.as_bytes();
            bytes.first().is_some_and(|c| word(*c))
                && bytes.last().is_some_and(|c| word(*c))
                && bytes.iter().all(|c| word(*c) || matches!(c, b'-' | b'_'))
        })
}

/// Validates the security context of a container.
pub(super) fn validate_container(at: FieldPath<'_>, context: &Value, host_users: bool, errors: &mut Errors) {
    for field in ["runAsUser", "runAsGroup"] {
        identity(at.field(field), context.opt_int(field), errors);
    }
    if let Some(mount) = context.opt_str("procMount") {
        let kinds = ["Default", "Unmasked"];
        if !kinds.contains(&mount) {
            errors.unsupported(at.field("procMount"), mount, &kinds);
        }
        if host_users && mount == "Unmasked" {
            let why = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(at.field("procMount"), mount, why);
        }
    }
    seccomp(at.field("seccompProfile"), context.at("seccompProfile"), errors);
    if context.at("allowPrivilegeEscalation").as_bool() == Some(false) {
        let shown = || internal::show("core.SecurityContext", context);
        if context.flag("privileged") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid_shown(at, shown(), why);
        }
        for _ in context.at("capabilities").strs("add").iter().filter(|name| **name == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid_shown(at, shown(), why);
        }
    }
    windows(at.field("windowsOptions"), context.at("windowsOptions"), errors);
    app_armor(at.field("appArmorProfile"), context.at("appArmorProfile"), errors);
}

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

fn seccomp(at: FieldPath<'_>, profile: &Value, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let kind = profile.str("type");
    match kind {
        "" => errors.required(at.field("type"), "type is required when seccompProfile is set"),
        _ if !PROFILES.contains(&kind) => errors.unsupported(at.field("type"), kind, &PROFILES),
        _ => {}
    }
    let local = profile.opt_str("localhostProfile");
    let place = at.field("localhostProfile");
    match (kind, local) {
        ("Localhost", None) => errors.required(place, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(path)) => volume::local_path(place, path, errors),
        (_, Some(_)) => {
            let shown = internal::show("core.SeccompProfile", profile);
            errors.invalid_shown(place, shown, "can only be set when seccomp type is Localhost");
        }
        (_, None) => {}
    }
}

fn app_armor(at: FieldPath<'_>, profile: &Value, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let local = profile.opt_str("localhostProfile");
    let place = at.field("localhostProfile");
    match profile.str("type") {
        "Localhost" => {
            let missing = "must be set when AppArmor type is Localhost";
            match local {
                None => errors.required(place, missing),
                Some(name) if name.trim() != name => {
                    errors.invalid(place, name, "must not be padded with whitespace");
                }
                Some("") => errors.required(place, missing),
                Some(_) => {}
            }
            if local.is_some_and(|name| name.len() > 4095) {
                errors.push(FieldError::too_long(place, 4095));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if let Some(name) = local {
                errors.invalid(place, name, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(at.field("type"), "type is required when appArmorProfile is set"),
        other => errors.unsupported(at.field("type"), other, &PROFILES),
    }
}

fn windows(at: FieldPath<'_>, options: &Value, errors: &mut Errors) {
    if let Some(name) = options.opt_str("gmsaCredentialSpecName") {
        errors.all(&at.field("gmsaCredentialSpecName"), name, names::subdomain(name));
    }
    if let Some(spec) = options.opt_str("gmsaCredentialSpec") {
        if spec.is_empty() {
            let why = "gmsaCredentialSpec cannot be an empty string";
            errors.invalid(at.field("gmsaCredentialSpec"), spec, why);
        } else if spec.len() > 64 * 1024 {
            let why = "gmsaCredentialSpec size must be under 64 KiB";
            errors.invalid(at.field("gmsaCredentialSpec"), spec, why);
        }
    }
    if let Some(name) = options.opt_str("runAsUserName") {
        windows_user(at.field("runAsUserName"), name, errors);
    }
}

fn windows_user(at: FieldPath<'_>, name: &str, errors: &mut Errors) {
    let mut complain = |why: &str| errors.invalid(at, name, why);
    if name.is_empty() {
        return complain("runAsUserName cannot be an empty string");
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return complain("runAsUserName cannot contain control characters");
    }
    let (domain, user) = match name.split('\\').collect::<Vec<_>>().as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return complain("runAsUserName cannot contain more than one backslash"),
    };
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            complain("runAsUserName's Domain length must be under 256 characters");
        }
        let odd = |c: char| "\\/:*?\"<>|".contains(c);
        let net_bios =
            (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && !domain.contains(odd);
        let dns = domain.split('.').all(|label| {
            let bytes = label.as_bytes();
            (1..=63).contains(&bytes.len())
                && bytes.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        });
        if !net_bios && !dns {
            complain("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        complain("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        complain("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        complain("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        complain("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
}

/// Calls `visit` for each container of a pod, with its list and index; init containers first.
fn each_container<'a>(spec: &'a Value, mut visit: impl FnMut(&str, usize, &'a Value)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in spec.list(list).iter().enumerate() {
            visit(list, index, container);
        }
    }
}

/// Validates Windows HostProcess settings across a pod and its containers.
pub(super) fn host_process(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let of = |value: &Value| value.path(&["securityContext", "windowsOptions", "hostProcess"]).as_bool();
    let pod = of(spec);
    let (mut all, mut host) = (0, 0);
    each_container(spec, |list, index, container| {
        all += 1;
        let own = of(container);
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let why = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            let place = format!("{at}.{list}[{index}].securityContext.windowsOptions.hostProcess");
            errors.invalid(place, own, why);
        }
        host += i32::from(own.or(pod) == Some(true));
    });
    if host == 0 {
        return;
    }
    if host != all {
        let why =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(at, "", why);
    }
    if !spec.flag("hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(at.field("hostNetwork"), false, why);
    }
}

/// Reports fields that are not available on the pod's operating system.
pub(super) fn operating_system(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let Some(os) = spec.opt("os") else { return };
    match os.str("name") {
        "" => {
            let at = at.field("os");
            errors.required(at.field("name"), "");
        }
        "linux" => {
            let why = "windows options cannot be set for a linux pod";
            let mut complain = |place: String, context: &Value| {
                if context.opt("windowsOptions").is_some() {
                    errors.forbidden(format!("{place}.windowsOptions"), why);
                }
            };
            complain(format!("{at}.securityContext"), spec.at("securityContext"));
            each_container(spec, |list, index, container| {
                complain(format!("{at}.{list}[{index}].securityContext"), container.at("securityContext"));
            });
        }
        "windows" => windows_pod(at, spec, errors),
        other => errors.unsupported(at.field("os"), other, &["linux", "windows"]),
    }
}

fn windows_pod(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let why = "cannot be set for a windows pod";
    let set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(list) => !list.is_empty(),
        _ => true,
    };
    let context = spec.at("securityContext");
    for field in [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ] {
        if set(context.at(field)) {
            errors.forbidden(format!("{at}.securityContext.{field}"), why);
        }
    }
    for field in ["hostUsers", "shareProcessNamespace"] {
        if spec.opt(field).is_some() {
            errors.forbidden(at.field(field), why);
        }
    }
    for field in ["hostPID", "hostIPC"] {
        if spec.flag(field) {
            errors.forbidden(at.field(field), why);
        }
    }
    each_container(spec, |list, index, container| {
        let context = container.at("securityContext");
        for field in [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "capabilities",
            "readOnlyRootFilesystem",
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "runAsUser",
            "runAsGroup",
        ] {
            if context.opt(field).is_some() {
                errors.forbidden(format!("{at}.{list}[{index}].securityContext.{field}"), why);
            }
        }
    });
}

/// Reports fields that a pod with its own user namespace (`hostUsers: false`) can't have.
pub(super) fn own_users(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    if spec.at("hostUsers").as_bool() != Some(false) {
        return;
    }
    let why = "when `hostUsers` is false";
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.flag(field) {
            errors.forbidden(at.field(shown), why);
        }
    }
    each_container(spec, |list, index, container| {
        if !container.list("volumeDevices").is_empty() {
            errors.forbidden(format!("{at}.{list}[{index}].volumeDevices"), why);
        }
    });
}

/// Validates that each `fileKeyRef` refers to an emptyDir volume.
pub(super) fn file_references(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    each_container(spec, |list, index, container| {
        for (entry, variable) in container.list("env").iter().enumerate() {
            let Some(file) = variable.at("valueFrom").opt("fileKeyRef") else { continue };
            let name = file.str("volumeName");
            let place = format!("{at}.{list}[{index}].env[{entry}].valueFrom.fileKeyRef.volumeName");
            match spec.list("volumes").iter().rfind(|volume| volume.str("name") == name) {
                None => errors.not_found(place, name),
                Some(volume) if volume.opt("emptyDir").is_none() => {
                    errors.invalid(place, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}

/// Validates that the legacy seccomp and AppArmor annotations agree with the fields.
pub(super) fn annotations_match(at: FieldPath<'_>, metadata: &Value, spec: &Value, errors: &mut Errors) {
    const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
    const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
    const ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
    let annotations = metadata.at("annotations");
    if annotations.is_null() {
        return;
    }
    let pod = spec.at("securityContext");
    if let Some(text) = annotations.opt_str(SECCOMP) {
        profile_matches(
            &format!("{at}.securityContext.seccompProfile"),
            text,
            pod.at("seccompProfile"),
            "seccomp",
            errors,
        );
    }
    let windows = spec.at("os").str("name") == "windows";
    each_container(spec, |list, index, container| {
        let name = container.str("name");
        let place = || format!("{at}.{list}[{index}].securityContext");
        let context = container.at("securityContext");
        let about = |prefix: &str| {
            let mut all = annotations.as_object().into_iter().flatten();
            all.find(|(key, _)| key.strip_prefix(prefix) == Some(name)).and_then(|(_, text)| text.as_str())
        };
        if let Some(text) = about(SECCOMP_CONTAINER) {
            let place = format!("{}.seccompProfile", place());
            profile_matches(&place, text, context.at("seccompProfile"), "seccomp", errors);
        }
        if let Some(text) = about(ARMOR).filter(|_| !windows) {
            let profile = context.opt("appArmorProfile").unwrap_or_else(|| pod.at("appArmorProfile"));
            profile_matches(&format!("{}.appArmorProfile", place()), text, profile, "apparmor", errors);
        }
    });
}

fn profile_matches(place: &str, text: &str, profile: &Value, what: &str, errors: &mut Errors) {
    let kind = profile.str("type");
    let same = match kind {
        "Unconfined" => text == "unconfined",
        "RuntimeDefault" => text == "runtime/default" || (what == "seccomp" && text == "docker/default"),
        "Localhost" => match text.strip_prefix("localhost/") {
            Some(name) if Some(name) != profile.opt_str("localhostProfile") => {
                let why = format!("{what} profile in annotation and field must match");
                return errors.forbidden(format!("{place}.localhostProfile"), why);
            }
            found => found.is_some(),
        },
        _ => true,
    };
    if !same {
        let why = format!("{what} type in annotation and field must match");
        errors.forbidden(format!("{place}.type"), why);
    }
}

/// Validates the annotations that are specific to pods.
pub(super) fn annotations(at: FieldPath<'_>, annotations: &Value, spec: &Value, errors: &mut Errors) {
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        if key == "kubernetes.io/config.mirror" && spec.str("nodeName").is_empty() {
            errors.invalid(at.key(key), value, "must set spec.nodeName if mirror pod annotation is set");
        }
        if key == "controller.kubernetes.io/pod-deletion-cost" && !is_deletion_cost(value) {
            errors.invalid(at.key(key), value, "must be a 32bit integer");
        }
        if key == "seccomp.security.alpha.kubernetes.io/pod"
            || key.starts_with("container.seccomp.security.alpha.kubernetes.io/")
        {
            match value {
                "runtime/default" | "docker/default" | "unconfined" => {}
                _ => match value.strip_prefix("localhost/") {
                    Some(path) => volume::local_path(at.field(key), path, errors),
                    None => errors.invalid(at.field(key), value, "must be a valid seccomp profile"),
                },
            }
        }
        if let Some(name) = key.strip_prefix("container.apparmor.security.beta.kubernetes.io/") {
            let mut known = false;
            each_container(spec, |_, _, container| known |= container.str("name") == name);
            if !known {
                errors.invalid(at.key(key), name, "container not found");
            }
            let sound =
                matches!(value, "" | "runtime/default" | "unconfined") || value.starts_with("localhost/");
            if !sound {
                let why = format!("invalid AppArmor profile name: {}", steersman_api::status::quote(value));
                errors.invalid(at.key(key), value, why);
            }
        }
    }
}

fn is_deletion_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty()
        && digits.bytes().all(|c| c.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
        && text != "-0";
    plain && text.parse::<i32>().is_ok()
}
