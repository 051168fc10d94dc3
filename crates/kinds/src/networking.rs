//! Ingresses, their classes, NetworkPolicies, IPAddresses and ServiceCIDRs.

use serde_json::{Value, json};

use super::{
    Change, Rules,
    check::{self, At, Complain, Errors, IMMUTABLE, Read, child, children, default, made},
};
use crate::{fields::FieldError, names, object};

fn path_segment(at: At<'_>, text: &str, errors: &mut Errors) {
    if text.is_empty() {
        return errors.required(at, "");
    }
    errors.all(&at, text, names::check(names::NameRule::PathSegment, text, false));
}

pub(super) struct Ingress;

const CLASS: &str = "kubernetes.io/ingress.class";

impl Rules for Ingress {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate_ingress(object.at("spec"), None, errors);
        let annotation = object.path(&["metadata", "annotations"]).opt_str(CLASS);
        let class = object.at("spec").opt_str("ingressClassName");
        if let (Some(annotation), Some(class)) = (annotation, class)
            && annotation != class
        {
            let why = "must match `ingressClassName` when both are specified";
            errors.invalid(format!("annotations.{CLASS}"), annotation, why);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return balancer_status(change.object, change.old, errors);
        }
        change.whole_metadata(errors);
        validate_ingress(change.object.at("spec"), Some(change.old.at("spec")), errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = object.path(&["metadata", "annotations"]).opt(CLASS).is_some();
        if old.is_none() && annotated && object.at("spec").opt("ingressClassName").is_none() {
            let name = crate::status::quote(CLASS);
            return vec![format!(
                "annotation {name} is deprecated, please use 'spec.ingressClassName' instead"
            )];
        }
        Vec::new()
    }
}

/// Judges names and addresses of what balances load, apart from those that were there before.
fn balancer_status(object: &Value, old: &Value, errors: &mut Errors) {
    let path = ["status", "loadBalancer"];
    let known: Vec<&str> = old.path(&path).list("ingress").iter().map(|entry| entry.str("ip")).collect();
    for (index, entry) in object.path(&path).list("ingress").iter().enumerate() {
        let at = At::root("status");
        let at = at.field("loadBalancer");
        let at = at.field("ingress");
        let at = at.index(index);
        let (address, host) = (entry.str("ip"), entry.str("hostname"));
        if !address.is_empty() && !known.contains(&address) {
            check::legacy_ip(at.field("ip"), address, errors);
        }
        if !host.is_empty() {
            host_name(at.field("hostname"), host, errors);
        }
    }
}

/// Judges a name that must not be an address.
pub(super) fn host_name(at: At<'_>, host: &str, errors: &mut Errors) {
    errors.all(&at, host, names::subdomain(host));
    if check::parse_ip(host).is_some() {
        errors.invalid(at, host, "must be a DNS name, not an IP address");
    }
}

fn host_or_wildcard(at: At<'_>, host: &str, errors: &mut Errors) {
    let complaints =
        if host.contains('*') { check::wildcard_subdomain(host) } else { names::subdomain(host) };
    errors.all(&at, host, complaints);
}

fn validate_ingress(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let at = At::root("spec");
    let rules = spec.list("rules");
    if rules.is_empty() && spec.opt("defaultBackend").is_none() {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(at, spec.shown("rules"), why);
    }
    if let Some(target) = spec.opt("defaultBackend") {
        backend(at.field("defaultBackend"), target, errors);
    }
    let list = at.field("rules");
    for (index, rule) in rules.iter().enumerate() {
        let at = list.index(index);
        let host = rule.str("host");
        if !host.is_empty() {
            if check::parse_ip(host).is_some() {
                errors.invalid(at.field("host"), host, "must be a DNS name, not an IP address");
            }
            host_or_wildcard(at.field("host"), host, errors);
        }
        if let Some(http) = rule.opt("http") {
            let at = at.field("http");
            let list = at.field("paths");
            if http.list("paths").is_empty() {
                errors.required(list, "");
            }
            for (index, path) in http.list("paths").iter().enumerate() {
                http_path(list.index(index), path, errors);
            }
        }
    }
    let list = at.field("tls");
    let sound = |name: &str| name.is_empty() || names::subdomain(name).is_empty();
    let lenient = old.is_some_and(|old| old.list("tls").iter().any(|tls| !sound(tls.str("secretName"))));
    for (index, tls) in spec.list("tls").iter().enumerate() {
        let at = list.index(index);
        let hosts = at.field("hosts");
        for (index, host) in tls.strs("hosts").into_iter().enumerate() {
            host_or_wildcard(hosts.index(index), host, errors);
        }
        let name = tls.str("secretName");
        if !lenient && !name.is_empty() {
            errors.all(&at.field("secretName"), name, names::subdomain(name));
        }
    }
    if let Some(class) = spec.opt_str("ingressClassName") {
        errors.all(&at.field("ingressClassName"), class, names::subdomain(class));
    }
}

fn http_path(at: At<'_>, entry: &Value, errors: &mut Errors) {
    let Some(kind) = entry.opt_str("pathType") else {
        return errors.required(at.field("pathType"), "pathType must be specified");
    };
    let (path, place) = (entry.str("path"), at.field("path"));
    match kind {
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                errors.invalid(place, path, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.contains(part) {
                    errors.invalid(place, path, format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if path.ends_with(end) {
                    errors.invalid(place, path, format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.starts_with('/') {
                errors.invalid(place, path, "must be an absolute path");
            }
        }
        other => {
            let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.unsupported(at.field("pathType"), other, &kinds);
        }
    }
    backend(at.field("backend"), entry.at("backend"), errors);
}

fn backend(at: At<'_>, backend: &Value, errors: &mut Errors) {
    match (backend.opt("resource"), backend.opt("service")) {
        (Some(_), Some(_)) => errors.invalid(at, "", "cannot set both resource and service backends"),
        (Some(resource), None) => {
            let at = at.field("resource");
            if let Some(group) = resource.opt_str("apiGroup") {
                errors.all(&at.field("apiGroup"), group, names::subdomain(group));
            }
            path_segment(at.field("kind"), resource.str("kind"), errors);
            path_segment(at.field("name"), resource.str("name"), errors);
        }
        (None, Some(service)) => {
            let here = at.field("service");
            match service.str("name") {
                "" => errors.required(here.field("name"), ""),
                name => errors.all(&here.field("name"), name, names::label(name)),
            }
            let place = here.field("port");
            let port = service.at("port");
            match (port.str("name"), port.int("number")) {
                ("", 0) => errors.required(at, "port name or number is required"),
                ("", number) => errors.in_range(place.field("number"), number, 1, 65_535),
                (name, 0) => errors.all(&place.field("name"), name, check::port_name(name)),
                _ => errors.invalid(at, "", "cannot set both port name & port number"),
            }
        }
        (None, None) => errors.invalid(at, "", "resource or service backend is required"),
    }
}

pub(super) struct IngressClass;

impl Rules for IngressClass {
    fn default(&self, _: &str, object: &mut Value) {
        if let Some(parameters) = child(object::child(object, "spec"), "parameters") {
            default(parameters, "scope", "Cluster");
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (At::root("spec"), object.at("spec"));
        let controller = spec.str("controller");
        if controller.len() > 250 {
            errors.push(FieldError::too_long(at.field("controller"), 250));
        }
        check::domain_path(at.field("controller"), controller, errors);
        let Some(parameters) = spec.opt("parameters") else { return };
        let at = at.field("parameters");
        if let Some(group) = parameters.opt_str("apiGroup") {
            errors.all(&at.field("apiGroup"), group, names::subdomain(group));
        }
        path_segment(at.field("kind"), parameters.str("kind"), errors);
        path_segment(at.field("name"), parameters.str("name"), errors);
        let namespace = parameters.opt_str("namespace");
        match parameters.opt_str("scope") {
            None => errors.required(at.field("scope"), ""),
            Some("Namespace") => match namespace {
                None => errors.required(at.field("namespace"), "`parameters.scope` is set to 'Namespace'"),
                Some(name) => errors.all(&at.field("namespace"), name, names::label(name)),
            },
            Some("Cluster") => {
                if namespace.is_some() {
                    errors.forbidden(at.field("namespace"), "`parameters.scope` is set to 'Cluster'");
                }
            }
            Some(other) => errors.unsupported(at.field("scope"), other, &["Cluster", "Namespace"]),
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        let controller = |object: &Value| object.at("spec").str("controller").to_owned();
        if controller(change.object) != controller(change.old) {
            errors.invalid("spec.controller", controller(change.object), IMMUTABLE);
        }
        change.whole_metadata(errors);
        self.validate(change.object, errors);
    }
}

pub(super) struct NetworkPolicy;

impl Rules for NetworkPolicy {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        for list in ["ingress", "egress"] {
            for rule in children(spec, list) {
                for port in children(rule, "ports") {
                    default(port, "protocol", "TCP");
                }
            }
        }
        if spec.get("policyTypes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let leaves = spec.get("egress").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
            let kinds = if leaves { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            spec.insert("policyTypes".into(), kinds);
        }
        made(spec, "podSelector");
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate_policy(object.at("spec"), &[], errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        let mut known = Vec::new();
        for (_, block) in blocks(change.old.at("spec")) {
            known.push(block.str("cidr").to_owned());
            known.extend(block.strs("except").into_iter().map(str::to_owned));
        }
        validate_policy(change.object.at("spec"), &known, errors);
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (at, block) in blocks(object.at("spec")) {
            warnings.extend(cidr_warnings(&format!("{at}.ipBlock.cidr"), block.str("cidr")));
            for (index, except) in block.strs("except").into_iter().enumerate() {
                warnings.extend(cidr_warnings(&format!("{at}.ipBlock.except[{index}]"), except));
            }
        }
        warnings
    }
}

/// What is odd about the way a network is written.
pub(super) fn cidr_warnings(at: &str, text: &str) -> Vec<String> {
    let quote = crate::status::quote;
    let Some((address, length)) = check::parse_cidr(text) else { return Vec::new() };
    let first = check::masked(address, length);
    let mut warnings = Vec::new();
    if first != address {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        warnings.push(format!(
            "{at}: CIDR value {} is ambiguous in this context (should be {} or {}?)",
            quote(text),
            quote(&format!("{first}/{length}")),
            quote(&format!("{address}/{bits}"))
        ));
    }
    let plain = text.split_once('/').map_or("", |(plain, _)| plain);
    if plain.parse::<std::net::IpAddr>().is_err() {
        let form = quote(&format!("{first}/{length}"));
        warnings.push(format!("{at}: non-standard CIDR value {} is invalid: use {form}", quote(text)));
    } else if warnings.is_empty() && address.is_ipv6() && format!("{address}/{length}") != text {
        warnings.push(format!(
            "{at}: IPv6 CIDR value {} should be in RFC 5952 canonical format ({})",
            quote(text),
            quote(&format!("{address}/{length}"))
        ));
    }
    warnings
}

/// The blocks of addresses in a policy, with the places of their peers.
fn blocks(spec: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in spec.list(list).iter().enumerate() {
            for (entry, peer) in rule.list(peers).iter().enumerate() {
                if let Some(block) = peer.opt("ipBlock") {
                    found.push((format!("spec.{list}[{index}].{peers}[{entry}]"), block));
                }
            }
        }
    }
    found
}

fn validate_policy(spec: &Value, known: &[String], errors: &mut Errors) {
    let at = At::root("spec");
    check::label_selector(at.field("podSelector"), spec.at("podSelector"), errors);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        let place = at.field(list);
        for (index, rule) in spec.list(list).iter().enumerate() {
            let at = place.index(index);
            let ports = at.field("ports");
            for (index, port) in rule.list("ports").iter().enumerate() {
                policy_port(ports.index(index), port, errors);
            }
            let place = at.field(peers);
            for (index, peer) in rule.list(peers).iter().enumerate() {
                policy_peer(place.index(index), peer, known, errors);
            }
        }
    }
    let kinds = spec.strs("policyTypes");
    let list = at.field("policyTypes");
    if kinds.len() > 2 {
        let why = "may not specify more than two policyTypes";
        return errors.invalid(list, spec.shown("policyTypes"), why);
    }
    for (index, kind) in kinds.into_iter().enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            errors.unsupported(list.index(index), kind, &["Ingress", "Egress"]);
        }
    }
}

fn policy_port(at: At<'_>, port: &Value, errors: &mut Errors) {
    let protocols = ["TCP", "UDP", "SCTP"];
    if let Some(protocol) = port.opt_str("protocol").filter(|protocol| !protocols.contains(protocol)) {
        errors.unsupported(at.field("protocol"), protocol, &protocols);
    }
    let end = port.opt_int("endPort");
    match port.at("port") {
        Value::Null => {
            if let Some(end) = end {
                let why = "may not be specified when `port` is not specified";
                errors.invalid(at.field("endPort"), end, why);
            }
        }
        Value::String(name) => {
            if let Some(end) = end {
                let why = "may not be specified when `port` is non-numeric";
                errors.invalid(at.field("endPort"), end, why);
            }
            errors.all(&at.field("port"), name, check::port_name(name));
        }
        number => {
            let number = number.as_i64().unwrap_or_default();
            errors.in_range(at.field("port"), number, 1, 65_535);
            if let Some(end) = end {
                if end < number {
                    let why = "must be greater than or equal to `port`";
                    errors.invalid(at.field("endPort"), number, why);
                }
                errors.in_range(at.field("endPort"), end, 1, 65_535);
            }
        }
    }
}

fn policy_peer(at: At<'_>, peer: &Value, known: &[String], errors: &mut Errors) {
    let mut found = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = peer.opt(field) {
            found += 1;
            check::label_selector(at.field(field), selector, errors);
        }
    }
    if let Some(block) = peer.opt("ipBlock") {
        found += 1;
        address_block(at.field("ipBlock"), block, known, errors);
        if found > 1 {
            errors.forbidden(at, "may not specify both ipBlock and another peer");
        }
    }
    if found == 0 {
        errors.required(at, "must specify a peer");
    }
}

fn address_block(at: At<'_>, block: &Value, known: &[String], errors: &mut Errors) {
    let whole = block.str("cidr");
    if whole.is_empty() {
        return errors.required(at.field("cidr"), "");
    }
    let is_known = |text: &str| known.iter().any(|other| other == text);
    if !is_known(whole) {
        check::legacy_cidr(at.field("cidr"), whole, errors);
    }
    let Some((address, length)) = check::parse_cidr(whole) else { return };
    let list = at.field("except");
    for (index, text) in block.strs("except").into_iter().enumerate() {
        let at = list.index(index);
        if !is_known(text) {
            check::legacy_cidr(at, text, errors);
        }
        let Some((part, part_length)) = check::parse_cidr(text) else { continue };
        let inside = part.is_ipv4() == address.is_ipv4()
            && check::masked(part, length.min(part_length)) == check::masked(address, length);
        if !inside || length >= part_length {
            errors.invalid(at, text, "must be a strict subset of `cidr`");
        }
    }
}

/// Judges an address that must be written in one way only.
fn strict_ip(at: At<'_>, text: &str, errors: &mut Errors) {
    let before = errors.len();
    check::legacy_ip(at, text, errors);
    if errors.len() == before
        && let Some(parsed) = check::parse_ip(text)
        && parsed.to_string() != text
    {
        let form = crate::status::quote(&parsed.to_string());
        errors.invalid(at, text, format!("must be in canonical form ({form})"));
    }
}

pub(super) struct IpAddress;

impl Rules for IpAddress {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        let metadata = At::root("metadata");
        strict_ip(metadata.field("name"), object.at("metadata").str("name"), errors);
        let at = At::root("spec");
        let Some(parent) = object.at("spec").opt("parentRef") else {
            return errors.required(at.field("parentRef"), "");
        };
        let at = at.field("parentRef");
        let group = parent.str("group");
        if !group.is_empty() {
            errors.all(&at.field("group"), group, names::subdomain(group));
        }
        path_segment(at.field("resource"), parent.str("resource"), errors);
        path_segment(at.field("name"), parent.str("name"), errors);
        let namespace = parent.str("namespace");
        if !namespace.is_empty() {
            path_segment(at.field("namespace"), namespace, errors);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        let path = ["spec", "parentRef"];
        if change.object.path(&path) != change.old.path(&path) {
            errors.invalid("spec.parentRef", change.object.path(&path).clone(), IMMUTABLE);
        }
    }
}

pub(super) struct ServiceCidr;

impl Rules for ServiceCidr {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        let at = At::root("spec");
        let at = at.field("cidrs");
        let cidrs = object.at("spec").strs("cidrs");
        if cidrs.is_empty() {
            return errors.required(at, "at least one CIDR required");
        }
        if cidrs.len() > 2 {
            let shown = format!("{{\"CIDRs\":{}}}", object.path(&["spec", "cidrs"]));
            return errors.invalid_shown(at, shown, "may only hold up to 2 values");
        }
        for (index, text) in cidrs.iter().enumerate() {
            check::legacy_cidr(at.index(index), text, errors);
        }
        let family = |text: &str| check::parse_cidr(text).map(|(address, _)| address.is_ipv4());
        if let [first, second] = cidrs.as_slice()
            && family(first).is_some()
            && family(first) == family(second)
        {
            let why =
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            errors.invalid(at, object.path(&["spec", "cidrs"]).clone(), why);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return;
        }
        let at = At::root("spec");
        let at = at.field("cidrs");
        let (new, old) = (change.object.at("spec").strs("cidrs"), change.old.at("spec").strs("cidrs"));
        if new.len() == old.len() || (old.len() == 1 && new.len() == 2) {
            for (index, (now, then)) in new.iter().zip(&old).enumerate() {
                if now != then {
                    errors.invalid(at.index(index), *now, IMMUTABLE);
                }
            }
            if new.len() > old.len() {
                self.validate(change.object, errors);
            }
        } else {
            errors.invalid(at, change.object.path(&["spec", "cidrs"]).clone(), IMMUTABLE);
        }
    }
}
