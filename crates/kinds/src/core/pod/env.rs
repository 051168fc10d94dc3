//! Validation of environment variables and their sources.

use serde_json::Value;

use super::volume;
use crate::check::{self, Errors, FieldErrors, FieldPath, Read};
use steersman_api::names;

/// Pod fields available to `downwardAPI` volumes.
pub(super) const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Pod fields available to environment variables.
const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn validate(at: FieldPath<'_>, variables: &[Value], errors: &mut Errors) {
    for (index, variable) in variables.iter().enumerate() {
        let at = at.index(index);
        match variable.str("name") {
            "" => errors.required(at.field("name"), ""),
            name => errors.all(&at.field("name"), name, check::variable_name(name)),
        }
        if let Some(source) = variable.opt("valueFrom") {
            value_from(at.field("valueFrom"), source, variable.str("value"), errors);
        }
    }
}

fn value_from(at: FieldPath<'_>, source: &Value, value: &str, errors: &mut Errors) {
    let mut found = 0;
    if let Some(field) = source.opt("fieldRef") {
        found += 1;
        object_field(at.field("fieldRef"), field, &VARIABLE_FIELDS, errors);
    }
    if let Some(resource) = source.opt("resourceFieldRef") {
        found += 1;
        resource_field(at.field("resourceFieldRef"), resource, false, errors);
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        let Some(reference) = source.opt(field) else { continue };
        found += 1;
        let at = at.field(field);
        let name = reference.str("name");
        errors.all(&at.field("name"), name, names::subdomain(name));
        match reference.str("key") {
            "" => errors.required(at.field("key"), ""),
            key => errors.all(&at.field("key"), key, check::config_key(key)),
        }
    }
    if let Some(file) = source.opt("fileKeyRef") {
        found += 1;
        let at = at.field("fileKeyRef");
        match file.str("key") {
            "" => errors.required(at.field("key"), ""),
            key => errors.all(&at.field("key"), key, check::variable_name(key)),
        }
        match file.str("volumeName") {
            "" => errors.required(at.field("volumeName"), ""),
            name => errors.all(&at.field("volumeName"), name, names::label(name)),
        }
        match file.str("path") {
            "" => errors.required(at.field("path"), ""),
            path => volume::no_backsteps(at.field("path"), path, errors),
        }
    }
    if found == 0 {
        errors.invalid(
            at,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    } else if !value.is_empty() {
        errors.invalid(at, "", "may not be specified when `value` is not empty");
    } else if found > 1 {
        errors.invalid(at, "", MORE_THAN_ONE);
    }
}

const MORE_THAN_ONE: &str = "may not have more than one field specified at a time";

/// Pod fields available to the downward API.
const KNOWN_FIELDS: [&str; 11] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.annotations",
    "metadata.labels",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
];

pub(super) fn object_field(at: FieldPath<'_>, field: &Value, supported: &[&str], errors: &mut Errors) {
    let version = field.str("apiVersion");
    if version.is_empty() {
        return errors.required(at.field("apiVersion"), "");
    }
    let path = field.str("fieldPath");
    if path.is_empty() {
        return errors.required(at.field("fieldPath"), "");
    }
    let place = at.field("fieldPath");
    if version != "v1" {
        let why = format!("error converting fieldPath: unsupported pod version: {version}");
        return errors.invalid(place, path, why);
    }
    if let Some((base, rest)) = path.split_once("['")
        && let Some(key) = rest.strip_suffix("']")
    {
        return match base {
            "metadata.annotations" => {
                let key = key.to_lowercase();
                errors.all(&at, &key, names::qualified(&key));
            }
            "metadata.labels" => errors.all(&at, key, names::qualified(key)),
            _ => {
                let why =
                    format!("error converting fieldPath: field label does not support subscript: {path}");
                errors.invalid(place, path, why);
            }
        };
    }
    let path = if path == "spec.host" { "spec.nodeName" } else { path };
    let known =
        KNOWN_FIELDS.contains(&path) || matches!(path, "status.hostIPs" | "status.podIP" | "status.podIPs");
    if !known {
        let why = format!("error converting fieldPath: field label not supported: {path}");
        return errors.invalid(place, path, why);
    }
    if !supported.contains(&path) {
        errors.unsupported(place, path, supported);
    }
}

pub(super) fn resource_field(at: FieldPath<'_>, field: &Value, in_volume: bool, errors: &mut Errors) {
    let resource = field.str("resource");
    let huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if in_volume && field.str("containerName").is_empty() {
        errors.required(at.field("containerName"), "");
    } else if resource.is_empty() {
        errors.required(at.field("resource"), "");
    } else if !huge && !RESOURCES.contains(&resource) {
        errors.unsupported(at.field("resource"), resource, &RESOURCES);
    }
    let divisor = field.str("divisor");
    if matches!(divisor, "" | "0") {
        return;
    }
    let units = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let what = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => {
            if !matches!(divisor, "1m" | "1") {
                let why = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.invalid(at.field("divisor"), resource, why);
            }
            return;
        }
        "memory" => "memory",
        "ephemeral-storage" => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return,
    };
    if !units.contains(&divisor) {
        let why = format!(
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the {what} resource"
        );
        errors.invalid(at.field("divisor"), resource, why);
    }
}

pub(super) fn validate_from(at: FieldPath<'_>, sources: &[Value], errors: &mut Errors) {
    for (index, source) in sources.iter().enumerate() {
        let here = at.index(index);
        let prefix = source.str("prefix");
        if !prefix.is_empty() {
            errors.all(&here.field("prefix"), prefix, check::variable_name(prefix));
        }
        let mut found = 0;
        for field in ["configMapRef", "secretRef"] {
            let Some(reference) = source.opt(field) else { continue };
            found += 1;
            let here = here.field(field);
            match reference.str("name") {
                "" => errors.required(here.field("name"), ""),
                name => {
                    let complaints = names::check(names::NameRule::Subdomain, name, true);
                    errors.all(&here.field("name"), name, complaints);
                }
            }
        }
        match found {
            0 => errors.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(at, "", MORE_THAN_ONE),
        }
    }
}
