//! Service.

mod allocation;
mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{
    allocator::Allocators, names::NameRule, object, status::ApiResult, strategy::Hook, table::Cell,
};

use crate::{
    cells::{labels, list, number, or_none, text, text_or_none},
    check::{Errors, Read, children, default, default_zero},
    core::service::allocation::{
        Taken, addresses, allocate, keep_addresses_in_step, keep_allocated, needs_node_ports, node_ports,
    },
    ip,
    kind::{Change, Column, Kind, Rules, Selectable},
};

pub(super) const KIND: Kind = Kind {
    rules: &Service,
    names: NameRule::Label,
    has_status: true,
    allows_create_on_update: true,
    selectable: &[
        Selectable::new("spec.clusterIP", &["spec", "clusterIP"]),
        Selectable::new("spec.type", &["spec", "type"]),
    ],
    columns: &[
        Column::NAME,
        Column::string("Type"),
        Column::string("Cluster-IP"),
        Column::string("External-IP"),
        Column::string("Port(s)"),
        Column::AGE,
        Column::string("Selector").wide(),
    ],
    cell,
    ..Kind::new("", "services")
};

struct Service;

/// Returns the type of a service.
fn service_type(object: &Value) -> &str {
    object.at("spec").opt_str("type").unwrap_or("ClusterIP")
}

/// Whether the service is headless.
fn is_headless(spec: &Value) -> bool {
    matches!(spec.strs("clusterIPs").as_slice(), ["None"])
}

/// Whether the service can be reached from outside of the cluster.
fn is_external(spec: &Value) -> bool {
    let kind = spec.str("type");
    matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && !spec.list("externalIPs").is_empty())
}

/// Whether the service needs a healthCheckNodePort.
fn needs_health_port(spec: &Value) -> bool {
    spec.str("type") == "LoadBalancer" && spec.str("externalTrafficPolicy") == "Local"
}

impl Rules for Service {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_zero(spec, "sessionAffinity", "None");
        match spec.get("sessionAffinity").and_then(Value::as_str) {
            Some("None") => {
                spec.remove("sessionAffinityConfig");
            }
            Some("ClientIP") => {
                let config = spec.get("sessionAffinityConfig").unwrap_or(&Value::Null);
                if config.at("clientIP").opt("timeoutSeconds").is_none() {
                    spec.insert(
                        "sessionAffinityConfig".into(),
                        json!({"clientIP": {"timeoutSeconds": 10_800}}),
                    );
                }
            }
            _ => {}
        }
        default_zero(spec, "type", "ClusterIP");
        for port in children(spec, "ports") {
            default_zero(port, "protocol", "TCP");
            let number = port.get("port").cloned().unwrap_or_else(|| json!(0));
            default_zero(port, "targetPort", number);
        }
        let whole = Value::Object(std::mem::take(spec));
        let (external, kind) = (is_external(&whole), whole.str("type").to_owned());
        if let Value::Object(whole) = whole {
            *spec = whole;
        }
        if external {
            default_zero(spec, "externalTrafficPolicy", "Cluster");
        }
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
            default(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            default(spec, "allocateLoadBalancerNodePorts", true);
            let ingress = object.pointer_mut("/status/loadBalancer/ingress").and_then(Value::as_array_mut);
            for entry in ingress.into_iter().flatten().filter_map(Value::as_object_mut) {
                if entry.get("ip").and_then(Value::as_str).is_some_and(|ip| !ip.is_empty()) {
                    default(entry, "ipMode", "VIP");
                }
            }
        }
    }

    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        object::ensure(object).insert("status".into(), json!({"loadBalancer": {}}));
        let spec = object::child(object, "spec");
        let address = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().to_owned();
        let several = spec.get("clusterIPs").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        if !address.is_empty() && !several {
            spec.insert("clusterIPs".into(), json!([address]));
        }
        let mut taken = Taken::default();
        let result = allocate(hook, object, None, &mut taken);
        if result.is_err() {
            taken.give_back(hook.allocators);
        }
        result
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if hook.subresource.is_some() {
            return Ok(());
        }
        keep_allocated(object::child(object, "spec"), old.at("spec"));
        keep_addresses_in_step(object::child(object, "spec"), old.at("spec"));
        let mut taken = Taken::default();
        let result = allocate(hook, object, Some(old), &mut taken);
        if result.is_err() {
            taken.give_back(hook.allocators);
            return result;
        }
        drop_unneeded(object, old);
        let mut errors = Errors::new();
        validation::validate_update(object, old, &mut errors);
        if !errors.is_empty() || hook.dry_run {
            // The update fails validation or is a dry run, so release its allocations.
            taken.give_back(hook.allocators);
            return Ok(());
        }
        let (ports, held) = (node_ports(object), addresses(object));
        for port in node_ports(old).into_iter().filter(|port| !ports.contains(port)) {
            hook.allocators.release_port(port);
        }
        for address in addresses(old).into_iter().filter(|address| !held.contains(address)) {
            hook.allocators.release_address(address);
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        validation::validate(object, None, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return validation::validate_status(change.object, change.old, errors);
        }
        validation::validate_update(change.object, change.old, errors);
    }

    fn claim(&self, allocators: &Allocators, object: &Value) {
        allocators.claim(object.at("spec").at("clusterIP").as_str(), node_ports(object));
    }

    fn release(&self, allocators: &Allocators, object: &Value) {
        for address in addresses(object) {
            allocators.release_address(address);
        }
        for port in node_ports(object) {
            allocators.release_port(port);
        }
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        warnings(object)
    }
}

fn warnings(object: &Value) -> Vec<String> {
    let spec = object.at("spec");
    let mut warnings = Vec::new();
    let hints = "service.kubernetes.io/topology-aware-hints";
    if object.path(&["metadata", "annotations"]).opt(hints).is_some() {
        warnings.push(format!(
            "annotation {hints} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    if !matches!(spec.str("clusterIP"), "" | "None") {
        for (index, address) in spec.strs("clusterIPs").into_iter().enumerate() {
            warnings.extend(ip::ip_warning(&format!("spec.clusterIPs[{index}]"), address));
        }
    }
    let external = spec.strs("externalIPs");
    let headless = service_type(object) == "ClusterIP" && spec.str("clusterIP") == "None";
    if headless {
        if !spec.str("loadBalancerIP").is_empty() {
            warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if !external.is_empty() {
            warnings.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if spec.str("sessionAffinity") != "None" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    for (index, address) in external.iter().enumerate() {
        warnings.extend(ip::ip_warning(&format!("spec.externalIPs[{index}]"), address));
    }
    let named = service_type(object) == "ExternalName";
    if !external.is_empty() && !headless && !named {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    if !spec.str("loadBalancerIP").is_empty() {
        warnings.extend(ip::ip_warning("spec.loadBalancerIP", spec.str("loadBalancerIP")));
    }
    for (index, range) in spec.strs("loadBalancerSourceRanges").into_iter().enumerate() {
        warnings.extend(ip::cidr_warnings(&format!("spec.loadBalancerSourceRanges[{index}]"), range));
    }
    if named && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !named && !spec.str("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.opt_str("trafficDistribution") == Some("PreferClose") {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    warnings
}

/// Drops fields that only the old type needed, unless the client changed them.
fn drop_unneeded(object: &mut Value, old: &Value) {
    let before = old.at("spec");
    let now = object.at("spec").clone();
    let spec = object::child(object, "spec");
    let needs_address = |spec: &Value| spec.str("type") != "ExternalName";
    if needs_address(before) && !needs_address(&now) {
        if before.at("clusterIP") == now.at("clusterIP") && before.at("clusterIPs") == now.at("clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if before.at(field) == now.at(field) {
                spec.remove(field);
            }
        }
    }
    if needs_node_ports(before) && !needs_node_ports(&now) {
        let held: Vec<i64> = before.list("ports").iter().map(|port| port.int("nodePort")).collect();
        let new = now.list("ports").iter().map(|port| port.int("nodePort"));
        if new.filter(|port| *port != 0).all(|port| held.contains(&port)) {
            for port in children(spec, "ports") {
                port.remove("nodePort");
            }
        }
    }
    if needs_health_port(before)
        && !needs_health_port(&now)
        && before.int("healthCheckNodePort") == now.int("healthCheckNodePort")
    {
        spec.remove("healthCheckNodePort");
    }
    if before.str("type") == "LoadBalancer" && now.str("type") != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if before.at(field) == now.at(field) {
                spec.remove(field);
            }
        }
    }
    if is_external(before)
        && !is_external(&now)
        && before.str("externalTrafficPolicy") == now.str("externalTrafficPolicy")
    {
        spec.remove("externalTrafficPolicy");
    }
    if now.str("type") != "LoadBalancer" {
        object::child(object, "status").insert("loadBalancer".into(), json!({}));
    }
}

fn cell(column: &str, service: &Value, _: Timestamp) -> Option<Cell> {
    let kind = object::text(service, &["spec", "type"]).unwrap_or_default();
    Some(match column {
        "Type" => kind.into(),
        "Cluster-IP" => text_or_none(service, &["spec", "clusterIP"]),
        "External-IP" => external(kind, service),
        "Port(s)" => {
            let ports: Vec<String> = list(service, &["spec", "ports"])
                .iter()
                .map(|p| {
                    let protocol = p["protocol"].as_str().unwrap_or("TCP");
                    match number(p, &["nodePort"]) {
                        0 => format!("{}/{protocol}", number(p, &["port"])),
                        node => format!("{}:{node}/{protocol}", number(p, &["port"])),
                    }
                })
                .collect();
            or_none(ports.join(","))
        }
        "Selector" => or_none(labels(object::get(service, &["spec", "selector"]))),
        _ => return None,
    })
}

fn external(kind: &str, service: &Value) -> Cell {
    let fixed: Vec<&str> = list(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect();
    match kind {
        "ExternalName" => text(service, &["spec", "externalName"]),
        "LoadBalancer" => {
            let ingress = list(service, &["status", "loadBalancer", "ingress"]).iter();
            let mut found: Vec<&str> =
                ingress.filter_map(|i| i["ip"].as_str().or(i["hostname"].as_str())).collect();
            found.extend(fixed);
            if found.is_empty() { "<pending>".into() } else { found.join(",").into() }
        }
        _ => or_none(fixed.join(",")),
    }
}
