//! Validation of Services.

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_api::{fields::FieldError, names};

use crate::{
    check::{self, Errors, FieldErrors, FieldPath, Read},
    core::service::{is_external, is_headless, needs_health_port},
    ip::{self, endpoint_ip, host_name},
};

/// Validates a service on create or update.
pub(crate) fn validate(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
    let annotations = object.path(&["metadata", "annotations"]);
    let hints = "service.kubernetes.io/topology-aware-hints";
    let mode = "service.kubernetes.io/topology-mode";
    if let (Some(hints_value), Some(mode_value)) = (annotations.opt_str(hints), annotations.opt_str(mode))
        && hints_value != mode_value
    {
        let why = format!("must match annotations[{hints}] when both are specified");
        errors.invalid(format!("metadata.annotations[{mode}]"), mode_value, why);
    }
    let kind = spec.str("type");
    let headless = is_headless(spec);
    if spec.list("ports").is_empty() && !headless && kind != "ExternalName" {
        errors.required(at.field("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            let list = at.field("clusterIPs");
            errors.invalid(list.index(0), "None", why);
        }
        "ExternalName" => {
            let why = "may not be set for ExternalName services";
            for field in ["clusterIPs", "ipFamilies"] {
                if !spec.list(field).is_empty() {
                    errors.forbidden(at.field(field), why);
                }
            }
            if spec.opt("ipFamilyPolicy").is_some() {
                errors.forbidden(at.field("ipFamilyPolicy"), why);
            }
            let name = spec.str("externalName");
            match name.strip_suffix('.').unwrap_or(name) {
                "" => errors.required(at.field("externalName"), ""),
                name => errors.all(&at.field("externalName"), name, names::subdomain(name)),
            }
        }
        _ => {}
    }
    ports(at, spec, errors);
    check::labels(at.field("selector"), spec.pairs("selector"), errors);
    affinity(at, spec, errors);
    addresses(object, old, errors);
    let list = at.field("externalIPs");
    let known = old.map(|old| old.at("spec").strs("externalIPs")).unwrap_or_default();
    for (index, address) in spec.strs("externalIPs").into_iter().enumerate() {
        let before = errors.len();
        if !known.contains(&address) {
            ip::legacy_ip(list.index(index), address, errors);
        }
        if errors.len() == before {
            endpoint_ip(list.index(index), address, errors);
        }
    }
    errors.one_of(at.field("type"), kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    repeated_ports(at.field("ports"), spec, errors);
    balancer(at, object, old, errors);
    traffic(at, spec, errors);
}

fn ports(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let ports = spec.list("ports");
    let list = at.field("ports");
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = list.index(index);
        match port.str("name") {
            "" if ports.len() > 1 => errors.required(at.field("name"), ""),
            "" => {}
            name => {
                errors.all(&at.field("name"), name, names::label(name));
                if seen.contains(&name) {
                    errors.duplicate(at.field("name"), name);
                }
                seen.insert(name);
            }
        }
        errors.in_range(at.field("port"), port.int("port"), 1, 65_535);
        errors.one_of(at.field("protocol"), port.str("protocol"), &["SCTP", "TCP", "UDP"]);
        check::port_number_or_name(at.field("targetPort"), port.at("targetPort"), errors);
        if let Some(protocol) = port.opt_str("appProtocol") {
            errors.all(&at.field("appProtocol"), protocol, names::qualified(protocol));
        }
    }
}

fn repeated_ports(list: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let (mut on_nodes, mut own) = (Vec::new(), Vec::new());
    for (index, port) in spec.list("ports").iter().enumerate() {
        let at = list.index(index);
        let (number, protocol) = (port.int("nodePort"), port.str("protocol"));
        if number != 0 {
            if spec.str("type") == "ClusterIP" {
                errors.forbidden(at.field("nodePort"), "may not be used when `type` is 'ClusterIP'");
            }
            if on_nodes.contains(&(number, protocol)) {
                errors.duplicate(at.field("nodePort"), number);
            }
            on_nodes.push((number, protocol));
        }
        let key = (port.int("port"), protocol);
        if own.contains(&key) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                json!(protocol),
                port.int("port")
            );
            errors.push(FieldError::duplicate_shown(at, shown));
        }
        own.push(key);
    }
}

fn affinity(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let affinity = spec.str("sessionAffinity");
    errors.one_of(at.field("sessionAffinity"), affinity, &["ClientIP", "None"]);
    let place = at.field("sessionAffinityConfig");
    let config = spec.opt("sessionAffinityConfig");
    match affinity {
        "ClientIP" => {
            let why = "when session affinity type is ClientIP";
            let Some(config) = config else { return errors.required(place, why) };
            let inner = place.field("clientIP");
            let Some(client) = config.opt("clientIP") else { return errors.required(inner, why) };
            match client.opt_int("timeoutSeconds") {
                None => errors.required(inner.field("timeoutSeconds"), why),
                Some(seconds) if seconds <= 0 || seconds > 86_400 => {
                    let why = "must be greater than 0 and less than 86400";
                    errors.invalid(inner.field("timeoutSeconds"), seconds, why);
                }
                Some(_) => {}
            }
        }
        "None" if config.is_some() => {
            errors.forbidden(place, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

/// Validates cluster IPs and IP families.
pub(crate) fn addresses(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
    if spec.str("type") == "ExternalName" {
        return;
    }
    let list = at.field("clusterIPs");
    let (single, all) = (spec.str("clusterIP"), spec.strs("clusterIPs"));
    let shown = || spec.shown("clusterIPs");
    match (single, all.first()) {
        ("", Some(_)) => errors.invalid(list, shown(), "must be empty when `clusterIP` is not specified"),
        ("", None) => {}
        (_, None) => errors.required(list, ""),
        (single, Some(first)) => {
            if single != *first {
                errors.invalid(list, shown(), "first value must match `clusterIP`");
            }
        }
    }
    let place = at.field("ipFamilies");
    let families = spec.strs("ipFamilies");
    for (index, family) in families.iter().enumerate() {
        if !matches!(*family, "IPv4" | "IPv6") {
            errors.unsupported(place.index(index), *family, &["IPv4", "IPv6"]);
        }
        if families.iter().take(index).any(|other| other == family) {
            errors.duplicate(place.index(index), *family);
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if let Some(policy) = spec.opt_str("ipFamilyPolicy").filter(|policy| !policies.contains(policy)) {
        errors.unsupported(at.field("ipFamilyPolicy"), policy, &policies);
    }
    let known = old.map(|old| old.at("spec").strs("clusterIPs")).unwrap_or_default();
    let mut odd = false;
    for (index, address) in all.iter().enumerate() {
        if index == 0 && *address == "None" {
            if all.len() > 1 {
                odd = true;
                errors.invalid(list, shown(), "'None' must be the first and only value");
            }
            continue;
        }
        if !known.contains(address) {
            let before = errors.len();
            ip::legacy_ip(list.index(index), address, errors);
            odd |= errors.len() > before;
        }
    }
    if all.len() > 2 {
        errors.invalid(list, shown(), "may only hold up to 2 values");
    }
    if odd {
        return;
    }
    let is_v6 = |address: &str| address.contains(':');
    if all.len() > 1 {
        let v6 = all.iter().filter(|address| is_v6(address)).count();
        if v6 == 0 || v6 == all.len() {
            errors.invalid(list, shown(), "may specify no more than one IP for each IP family");
        }
    }
    if is_headless(spec) {
        return;
    }
    for (index, (address, family)) in all.iter().zip(&families).enumerate() {
        if (*family == "IPv4" && is_v6(address)) || (*family == "IPv6" && !is_v6(address)) {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(list.index(index), *address, why);
        }
    }
}

fn balancer(at: FieldPath<'_>, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = object.at("spec");
    let is_balancer = spec.str("type") == "LoadBalancer";
    let ranges = spec.strs("loadBalancerSourceRanges");
    let key = "service.beta.kubernetes.io/load-balancer-source-ranges";
    if !ranges.is_empty() {
        let place = at.field("LoadBalancerSourceRanges");
        if !is_balancer {
            only_for_balancers(place, errors);
        }
        let known = old.map(|old| old.at("spec").strs("loadBalancerSourceRanges")).unwrap_or_default();
        source_ranges(place, &ranges, &known, errors);
    } else if let Some(text) = object.path(&["metadata", "annotations"]).opt_str(key) {
        let metadata = FieldPath::root("metadata");
        let place = metadata.field("annotations");
        let place = place.key(key);
        if !is_balancer {
            only_for_balancers(place, errors);
        }
        let before = old.and_then(|old| old.path(&["metadata", "annotations"]).opt_str(key));
        if before != Some(text) && !text.trim().is_empty() {
            for range in text.trim().split(',') {
                ip::legacy_cidr(place, range.trim(), errors);
            }
        }
    }
    let allocates = spec.opt("allocateLoadBalancerNodePorts");
    if allocates.is_some() && !is_balancer {
        only_for_balancers(at.field("allocateLoadBalancerNodePorts"), errors);
    }
    if is_balancer && allocates.is_none() {
        errors.required("allocateLoadBalancerNodePorts", "");
    }
    balancer_class(at, spec, errors);
}

fn balancer_class(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let Some(class) = spec.opt_str("loadBalancerClass") else { return };
    let place = at.field("loadBalancerClass");
    if spec.str("type") == "LoadBalancer" {
        errors.all(&place, class, names::qualified(class));
    } else {
        only_for_balancers(place, errors);
    }
}

fn traffic(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let policy = spec.str("externalTrafficPolicy");
    let place = at.field("externalTrafficPolicy");
    if is_external(spec) {
        errors.one_of(place, policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        errors.invalid(place, policy, "may only be set for externally-accessible services");
    }
    let port = spec.int("healthCheckNodePort");
    let place = at.field("healthCheckNodePort");
    if !needs_health_port(spec) {
        if port != 0 {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(place, port, why);
        }
    } else if port == 0 {
        errors.required(place, "");
    } else {
        errors.in_range(place, port, 1, 65_535);
    }
    let place = at.field("internalTrafficPolicy");
    match spec.opt_str("internalTrafficPolicy") {
        None => {
            if matches!(spec.str("type"), "NodePort" | "LoadBalancer" | "ClusterIP") {
                errors.required(place, "");
            }
        }
        Some("Cluster" | "Local") => {}
        Some(other) => errors.unsupported(place, other, &["Cluster", "Local"]),
    }
    let words = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(word) = spec.opt_str("trafficDistribution").filter(|word| !words.contains(word)) {
        errors.unsupported(at.field("trafficDistribution"), word, &words);
    }
}

/// Validates the update of a service, except for metadata.
pub(crate) fn validate_update(object: &Value, old: &Value, errors: &mut Errors) {
    let (new, then) = (object.at("spec"), old.at("spec"));
    let at = FieldPath::root("spec");
    let named = new.str("type") == "ExternalName" || then.str("type") == "ExternalName";
    if !named {
        address_change(at, new, then, errors);
        family_change(at, new, then, errors);
    }
    if new.str("type") == "LoadBalancer"
        && then.str("type") == "LoadBalancer"
        && new.at("loadBalancerClass") != then.at("loadBalancerClass")
    {
        let why = "may not change once set";
        errors.invalid(at.field("loadBalancerClass"), new.shown("loadBalancerClass"), why);
    }
    balancer_class(at, new, errors);
    if needs_health_port(new)
        && needs_health_port(then)
        && new.int("healthCheckNodePort") != then.int("healthCheckNodePort")
    {
        errors.forbidden(at.field("healthCheckNodePort"), "field is immutable");
    }
    validate(object, Some(old), errors);
}

const FIXED: &str = "may not change once set";

fn address_change(at: FieldPath<'_>, new: &Value, then: &Value, errors: &mut Errors) {
    if is_headless(new) && is_headless(then) {
        return;
    }
    let list = at.field("clusterIPs");
    let (now, before) = (new.strs("clusterIPs"), then.strs("clusterIPs"));
    let shown = || new.shown("clusterIPs");
    if now.len() == before.len() {
        for (index, _) in now.iter().zip(&before).enumerate().filter(|(_, (a, b))| a != b) {
            errors.invalid(list.index(index), shown(), FIXED);
        }
        return;
    }
    if now.len() < before.len() {
        if now.is_empty() {
            errors.invalid(list.index(0), shown(), "primary clusterIP can not be unset");
        }
        if now.len() == 1 && new.str("ipFamilyPolicy") != "SingleStack" {
            let why = "must be set to 'SingleStack' when releasing the secondary clusterIP";
            errors.invalid(at.field("ipFamilyPolicy"), new.shown("ipFamilyPolicy"), why);
        }
    }
    if let (Some(now), Some(before)) = (now.first(), before.first())
        && now != before
    {
        errors.invalid(list.index(0), shown(), FIXED);
    }
}

fn family_change(at: FieldPath<'_>, new: &Value, then: &Value, errors: &mut Errors) {
    if is_headless(new) || is_headless(then) {
        return;
    }
    let list = at.field("ipFamilies");
    let (now, before) = (new.strs("ipFamilies"), then.strs("ipFamilies"));
    if now.len() == before.len() {
        for _ in now.iter().zip(&before).filter(|(a, b)| a != b) {
            errors.invalid(list.index(0), new.shown("ipFamilies"), FIXED);
        }
        return;
    }
    if now.len() < before.len() {
        if new.list("clusterIPs").is_empty() {
            errors.invalid(list.index(0), new.shown("ipFamilies"), "primary ipFamily can not be unset");
        }
        if now.len() == 1 && new.str("ipFamilyPolicy") != "SingleStack" {
            let why = "must be set to 'SingleStack' when releasing the secondary ipFamily";
            errors.invalid(at.field("ipFamilyPolicy"), new.shown("ipFamilyPolicy"), why);
        }
    }
    if let (Some(now), Some(before)) = (now.first(), before.first())
        && now != before
    {
        errors.invalid(list.index(0), new.shown("clusterIPs"), FIXED);
    }
}

/// Validates the status of a service.
pub(crate) fn validate_status(object: &Value, old: &Value, errors: &mut Errors) {
    let path = ["status", "loadBalancer"];
    let at = FieldPath::root("status");
    let at = at.field("loadBalancer");
    let list = at.field("ingress");
    let entries = object.path(&path).list("ingress");
    if super::service_type(object) != "LoadBalancer" && !entries.is_empty() {
        return errors.forbidden(list, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    let known: Vec<&str> = old.path(&path).list("ingress").iter().map(|entry| entry.str("ip")).collect();
    for (index, entry) in entries.iter().enumerate() {
        let at = list.index(index);
        let address = entry.str("ip");
        if !address.is_empty() && !known.contains(&address) {
            ip::legacy_ip(at.field("ip"), address, errors);
        }
        match entry.opt_str("ipMode") {
            None => {
                if !address.is_empty() {
                    errors.required(at.field("ipMode"), "must be specified when `ip` is set");
                }
            }
            Some(_) if address.is_empty() => {
                errors.forbidden(at.field("ipMode"), "may not be specified when `ip` is not set");
            }
            Some("Proxy" | "VIP") => {}
            Some(other) => errors.unsupported(at.field("ipMode"), other, &["Proxy", "VIP"]),
        }
        let host = entry.str("hostname");
        if !host.is_empty() {
            host_name(at.field("hostname"), host, errors);
        }
    }
}

/// Reports a field that only services of type LoadBalancer can have.
pub(crate) fn only_for_balancers(at: FieldPath<'_>, errors: &mut Errors) {
    errors.forbidden(at, "may only be used when `type` is 'LoadBalancer'");
}

/// Validates a list of CIDRs, except for those stored before.
pub(crate) fn source_ranges(at: FieldPath<'_>, ranges: &[&str], known: &[&str], errors: &mut Errors) {
    for (index, range) in ranges.iter().enumerate() {
        let range = range.trim();
        if !known.iter().any(|other| other.trim() == range) {
            ip::legacy_cidr(at.index(index), range, errors);
        }
    }
}
