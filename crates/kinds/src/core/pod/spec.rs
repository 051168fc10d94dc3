//! Validation of pod specs, in pods and pod templates.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    affinity,
    container::{self, Pod},
    security, volume,
};
use crate::{
    check::{self, Errors, FieldErrors, FieldPath, Read},
    internal, ip, resources,
};
use steersman_api::{fields::FieldError, names};

/// Validates a pod's spec. `metadata` is `None` for templates.
pub(super) fn validate(at: FieldPath<'_>, spec: &Value, metadata: Option<&Value>, errors: &mut Errors) {
    let grace = spec.opt_int("terminationGracePeriodSeconds");
    if grace.is_none() {
        errors.required(at.field("terminationGracePeriodSeconds"), "");
    }
    let name = metadata.map_or("", |metadata| metadata.str("name"));
    let volumes =
        volume::validate(at.field("volumes"), spec.list("volumes"), name, metadata.is_some(), errors);
    let claims: Vec<&str> =
        spec.list("resourceClaims").iter().map(|claim| claim.str("name")).filter(|n| !n.is_empty()).collect();
    resource_claims(at.field("resourceClaims"), spec.list("resourceClaims"), errors);
    let pod = Pod { spec, volumes, claims, grace };
    container::validate_main(at.field("containers"), spec.list("containers"), &pod, errors);
    container::validate_init(at.field("initContainers"), spec.list("initContainers"), &pod, errors);
    container::validate_ephemeral(
        at.field("ephemeralContainers"),
        spec.list("ephemeralContainers"),
        &pod,
        errors,
    );
    resources::of_pod(at, spec, &pod.claims, errors);
    if spec.flag("hostNetwork") {
        host_network_ports(at.field("containers"), spec, metadata.is_some(), errors);
    }
    let restarts = ["Always", "OnFailure", "Never"];
    errors.one_of(at.field("restartPolicy"), spec.str("restartPolicy"), &restarts);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.one_of(at.field("dnsPolicy"), spec.str("dnsPolicy"), &policies);
    check::labels(at.field("nodeSelector"), spec.pairs("nodeSelector"), errors);
    if let Some(context) = spec.opt("securityContext") {
        security::validate_pod(at.field("securityContext"), context, spec, errors);
    }
    affinity::validate(at.field("affinity"), spec.at("affinity"), errors);
    dns(at.field("dnsConfig"), spec, errors);
    let list = at.field("readinessGates");
    for (index, gate) in spec.list("readinessGates").iter().enumerate() {
        let at = list.index(index);
        let kind = gate.str("conditionType");
        errors.all(&at.field("conditionType"), kind, names::qualified(kind));
    }
    let list = at.field("schedulingGates");
    let mut seen = HashSet::new();
    for (index, gate) in spec.list("schedulingGates").iter().enumerate() {
        let name = gate.str("name");
        errors.all(&list.index(index), name, names::qualified(name));
        if seen.contains(&name) {
            errors.duplicate(list.index(index), name);
        }
        seen.insert(name);
    }
    affinity::spread(at.field("topologySpreadConstraints"), spec.list("topologySpreadConstraints"), errors);
    security::host_process(at, spec, errors);
    security::own_users(at, spec, errors);
    host_name(at, spec, errors);
    named(at, spec, errors);
    affinity::tolerations(at.field("tolerations"), spec.list("tolerations"), errors);
    host_aliases(at.field("hostAliases"), spec.list("hostAliases"), errors);
    if let Some(overhead) = spec.opt("overhead") {
        let limits = serde_json::json!({ "limits": overhead });
        resources::requirements(at.field("overhead"), &limits, resources::container_name, &[], errors);
    }
    security::operating_system(at, spec, errors);
    security::file_references(at, spec, errors);
}

/// Validates names of other objects, and fields with simple rules.
fn named(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let mut judge = |field: &str, judge: fn(&str) -> Vec<String>| {
        let text = spec.str(field);
        if !text.is_empty() {
            errors.all(&at.field(field), text, judge(text));
        }
    };
    judge("serviceAccountName", names::subdomain);
    judge("nodeName", names::subdomain);
    judge("hostname", names::label);
    judge("subdomain", names::label);
    judge("priorityClassName", names::subdomain);
    if let Some(class) = spec.opt_str("runtimeClassName") {
        errors.all(&at.field("runtimeClassName"), class, names::subdomain(class));
    }
    if let Some(seconds) = spec.opt_int("activeDeadlineSeconds") {
        errors.in_range(at.field("activeDeadlineSeconds"), seconds, 1, i64::from(i32::MAX));
    }
    if let Some(policy) = spec.opt_str("preemptionPolicy") {
        errors.one_of(at.field("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
}

fn resource_claims(at: FieldPath<'_>, claims: &[Value], errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let at = at.index(index);
        match claim.str("name") {
            "" => errors.required(at.field("name"), ""),
            name if seen.contains(&name) => errors.duplicate(at.field("name"), name),
            name => {
                errors.all(&at.field("name"), name, names::label(name));
                seen.insert(name);
            }
        }
        let (direct, template) =
            (claim.opt_str("resourceClaimName"), claim.opt_str("resourceClaimTemplateName"));
        let shown = || internal::show("core.PodResourceClaim", claim);
        if direct.is_some() && template.is_some() {
            let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            errors.invalid_shown(at, shown(), why);
        }
        if direct.is_none() && template.is_none() {
            let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            errors.invalid_shown(at, shown(), why);
        }
        for (field, name) in [("resourceClaimName", direct), ("resourceClaimTemplateName", template)] {
            if let Some(name) = name {
                errors.all(&at.field(field), name, names::subdomain(name));
            }
        }
    }
}

fn host_network_ports(at: FieldPath<'_>, spec: &Value, is_pod: bool, errors: &mut Errors) {
    for (index, container) in spec.list("containers").iter().enumerate() {
        let at = at.index(index);
        let list = at.field("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let (host, own) = (port.int("hostPort"), port.int("containerPort"));
            if (is_pod || host != 0) && host != own {
                let at = list.index(index);
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(at.field("hostPort"), host, why);
            }
        }
    }
}

fn host_name(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let Some(name) = spec.opt_str("hostnameOverride") else { return };
    let at_name = at.field("hostnameOverride");
    if spec.flag("setHostnameAsFQDN") {
        errors.forbidden(at_name, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.flag("hostNetwork") {
        errors.forbidden(at_name, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        errors.push(FieldError::too_long(at_name, 64));
    }
    errors.all(&at_name, name, names::subdomain(name));
}

fn host_aliases(at: FieldPath<'_>, aliases: &[Value], errors: &mut Errors) {
    for (index, alias) in aliases.iter().enumerate() {
        let at = at.index(index);
        ip::legacy_ip(at.field("ip"), alias.str("ip"), errors);
        let list = at.field("hostnames");
        for (index, name) in alias.strs("hostnames").into_iter().enumerate() {
            errors.all(&list.index(index), name, names::subdomain(name));
        }
    }
}

fn dns(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let config = spec.opt("dnsConfig");
    if spec.str("dnsPolicy") == "None" {
        let Some(config) = config else {
            return errors.required(at, "must provide `dnsConfig` when `dnsPolicy` is None");
        };
        if config.list("nameservers").is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(at.field("nameservers"), why);
        }
    }
    let Some(config) = config else { return };
    let list = at.field("nameservers");
    let servers = config.strs("nameservers");
    if servers.len() > 3 {
        errors.invalid(list, config.shown("nameservers"), "must not have more than 3 nameservers");
    }
    for (index, server) in servers.into_iter().enumerate() {
        ip::legacy_ip(list.index(index), server, errors);
    }
    let list = at.field("searches");
    let searches = config.strs("searches");
    if searches.len() > 32 {
        errors.invalid(list, config.shown("searches"), "must not have more than 32 search paths");
    }
    if searches.join(" ").len() > 2048 {
        let why = "must not have more than 2048 characters (including spaces) in the search list";
        errors.invalid(list, config.shown("searches"), why);
    }
    for (index, search) in searches.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.all(&list.index(index), search, underscored_subdomain(search));
    }
    let list = at.field("options");
    for (index, option) in config.list("options").iter().enumerate() {
        if option.str("name").is_empty() {
            errors.required(list.index(index), "must not be empty");
        }
    }
}

/// Validates a subdomain that may contain underscores.
fn underscored_subdomain(text: &str) -> Vec<String> {
    let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let sound = text.split('.').all(|label| {
        let bytes = label.strip_prefix('_').unwrap_or(label).as_bytes();
        bytes.first().is_some_and(|c| word(*c))
            && bytes.last().is_some_and(|c| word(*c))
            && bytes.iter().all(|c| word(*c) || matches!(c, b'-' | b'_'))
    });
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    if !sound {
        errors.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    errors
}
