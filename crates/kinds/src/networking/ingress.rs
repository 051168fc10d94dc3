//! Ingress.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{names, status::quote, table::Cell};

use crate::{
    cells::{list, text_or},
    check::path_segment,
    check::{self, Errors, FieldErrors, FieldPath, Read},
    ip::{self, host_name},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &Ingress,
    has_generation: true,
    has_status: true,
    columns: &[
        Column::NAME,
        Column::string("Class"),
        Column::string("Hosts"),
        Column::string("Address"),
        Column::string("Ports"),
        Column::AGE,
    ],
    cell,
    ..Kind::new("networking.k8s.io", "ingresses")
};

struct Ingress;

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
            let name = quote(CLASS);
            return vec![format!(
                "annotation {name} is deprecated, please use 'spec.ingressClassName' instead"
            )];
        }
        Vec::new()
    }
}

/// Validates the load balancer status. Addresses stored before are not validated again.
fn balancer_status(object: &Value, old: &Value, errors: &mut Errors) {
    let path = ["status", "loadBalancer"];
    let known: Vec<&str> = old.path(&path).list("ingress").iter().map(|entry| entry.str("ip")).collect();
    for (index, entry) in object.path(&path).list("ingress").iter().enumerate() {
        let at = FieldPath::root("status");
        let at = at.field("loadBalancer");
        let at = at.field("ingress");
        let at = at.index(index);
        let (address, host) = (entry.str("ip"), entry.str("hostname"));
        if !address.is_empty() && !known.contains(&address) {
            ip::legacy_ip(at.field("ip"), address, errors);
        }
        if !host.is_empty() {
            host_name(at.field("hostname"), host, errors);
        }
    }
}

fn host_or_wildcard(at: FieldPath<'_>, host: &str, errors: &mut Errors) {
    let complaints =
        if host.contains('*') { check::wildcard_subdomain(host) } else { names::subdomain(host) };
    errors.all(&at, host, complaints);
}

fn validate_ingress(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let at = FieldPath::root("spec");
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
            if ip::parse_ip(host).is_some() {
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

fn http_path(at: FieldPath<'_>, entry: &Value, errors: &mut Errors) {
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

fn backend(at: FieldPath<'_>, backend: &Value, errors: &mut Errors) {
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

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    Some(match column {
        "Class" => text_or(object, &["spec", "ingressClassName"], "<none>"),
        "Hosts" => hosts(list(object, &["spec", "rules"])).into(),
        "Address" => {
            let addresses: BTreeSet<&str> = list(object, &["status", "loadBalancer", "ingress"])
                .iter()
                .filter_map(|i| i["ip"].as_str().or_else(|| i["hostname"].as_str()))
                .collect();
            addresses.into_iter().collect::<Vec<_>>().join(",").into()
        }
        "Ports" if list(object, &["spec", "tls"]).is_empty() => "80".into(),
        "Ports" => "80, 443".into(),
        _ => return None,
    })
}

fn hosts(rules: &[Value]) -> String {
    const MOST: usize = 3;
    let named: Vec<&str> =
        rules.iter().filter_map(|r| r["host"].as_str()).filter(|h| !h.is_empty()).take(MOST).collect();
    if named.is_empty() {
        return "*".into();
    }
    let last = rules.iter().position(|r| r["host"].as_str() == named.last().copied());
    let more = named.len() == MOST && last.is_some_and(|at| at + 1 < rules.len());
    let shown = named.join(",");
    if more { format!("{shown} + {} more...", rules.len() - MOST) } else { shown }
}
