//! Service.

mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{
    allocator::Allocators,
    fields::FieldError,
    names::NameRule,
    object,
    status::{ApiError, ApiResult},
    strategy::Hook,
    table::Cell,
};

use crate::{
    cells::{labels, list, number, or_none, text, text_or_none},
    check::{Complain, Errors, Read, children, default, default_zero},
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

pub(crate) fn kind(object: &Value) -> &str {
    object.at("spec").opt_str("type").unwrap_or("ClusterIP")
}

/// Whether the service has no address of its own.
pub(crate) fn is_headless(spec: &Value) -> bool {
    matches!(spec.strs("clusterIPs").as_slice(), ["None"])
}

/// Whether the service can be reached from outside.
pub(crate) fn is_external(spec: &Value) -> bool {
    let kind = spec.str("type");
    matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && !spec.list("externalIPs").is_empty())
}

/// Whether load balancers ask each node for its health.
pub(crate) fn needs_health_port(spec: &Value) -> bool {
    spec.str("type") == "LoadBalancer" && spec.str("externalTrafficPolicy") == "Local"
}

fn needs_node_ports(spec: &Value) -> bool {
    matches!(spec.str("type"), "LoadBalancer" | "NodePort")
}

fn gives_node_ports(spec: &Value) -> bool {
    match spec.str("type") {
        "NodePort" => true,
        "LoadBalancer" => spec.at("allocateLoadBalancerNodePorts").as_bool() != Some(false),
        _ => false,
    }
}

/// Takes the addresses and ports that a restored service holds.
pub fn claim(allocators: &Allocators, service: &Value) {
    allocators.claim(service.at("spec").at("clusterIP").as_str(), node_ports(service));
}

/// The node ports that a service holds.
pub(crate) fn node_ports(service: &Value) -> Vec<u16> {
    let spec = service.at("spec");
    let mut found: Vec<u16> = spec
        .list("ports")
        .iter()
        .map(|port| port.int("nodePort"))
        .chain([spec.int("healthCheckNodePort")])
        .filter_map(|port| u16::try_from(port).ok())
        .filter(|port| *port > 0)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The addresses that a service holds.
fn addresses(service: &Value) -> Vec<&str> {
    service.at("spec").strs("clusterIPs").into_iter().filter(|a| !matches!(*a, "None" | "")).collect()
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
            // It will be refused: what was taken is free again.
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
    let headless = kind(object) == "ClusterIP" && spec.str("clusterIP") == "None";
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
    let named = kind(object) == "ExternalName";
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

type Spec = serde_json::Map<String, Value>;

/// What the server chose stays where the client leaves it out.
fn keep_allocated(spec: &mut Spec, old: &Value) {
    let text = |spec: &Spec, key: &str| spec.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = text(spec, "type");
    if kind != "ExternalName" && old.str("type") != "ExternalName" {
        if text(spec, "clusterIP").is_empty() && !old.str("clusterIP").is_empty() {
            spec.insert("clusterIP".into(), old.shown("clusterIP"));
        }
        let empty = spec.get("clusterIPs").and_then(Value::as_array).is_none_or(Vec::is_empty);
        if empty && !old.list("clusterIPs").is_empty() {
            spec.insert("clusterIPs".into(), old.shown("clusterIPs"));
        }
    }
    let needs = |kind: &str| matches!(kind, "LoadBalancer" | "NodePort");
    if needs(&kind) && needs_node_ports(old) {
        let held: Vec<i64> = old.list("ports").iter().map(|port| port.int("nodePort")).collect();
        let used: Vec<i64> = children(spec, "ports")
            .filter_map(|port| port.get("nodePort").and_then(Value::as_i64))
            .filter(|port| held.contains(port))
            .collect();
        for port in children(spec, "ports") {
            if port.get("nodePort").and_then(Value::as_i64).unwrap_or_default() != 0 {
                continue;
            }
            let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
            let before = old.list("ports").iter().rfind(|other| other.str("name") == name);
            let number = before.map_or(0, |port| port.int("nodePort"));
            if number != 0 && !used.contains(&number) {
                port.insert("nodePort".into(), number.into());
            }
        }
    }
    let local = text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local";
    if local && needs_health_port(old) {
        default_zero(spec, "healthCheckNodePort", old.int("healthCheckNodePort"));
    }
}

/// The single address and the list of addresses say the same.
fn keep_addresses_in_step(spec: &mut Spec, old: &Value) {
    let new_address = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = spec.get("clusterIPs").cloned().unwrap_or_default();
    let empty = list.as_array().is_none_or(Vec::is_empty);
    let before = old.str("clusterIP");
    if !old.list("clusterIPs").is_empty() && empty && before == new_address {
        spec.insert("clusterIPs".into(), old.shown("clusterIPs"));
    }
    if before == new_address {
        return;
    }
    let same = spec.get("clusterIPs").cloned().unwrap_or_default() == *old.at("clusterIPs");
    if !same {
        return;
    }
    if !before.is_empty() && new_address.is_empty() {
        spec.remove("clusterIPs");
    } else {
        spec.insert("clusterIPs".into(), json!([new_address]));
    }
}

/// Drops what only the old type needed, unless the client says something about it.
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

/// What an attempt has taken and must give back if it fails.
#[derive(Default)]
struct Taken {
    addresses: Vec<String>,
    ports: Vec<u16>,
}

impl Taken {
    fn give_back(&self, allocators: &Allocators) {
        for address in &self.addresses {
            allocators.release_address(address);
        }
        for port in &self.ports {
            allocators.release_port(*port);
        }
    }
}

fn refuse(object: &Value, errors: Errors) -> ApiError {
    ApiError::invalid_kind("", "Service", object::name(object), errors)
}

/// Takes the addresses and the ports that the service needs and `old` does not hold already.
fn allocate(hook: Hook<'_>, object: &mut Value, old: Option<&Value>, taken: &mut Taken) -> ApiResult<()> {
    if kind(object) != "ExternalName" {
        families(object, old)?;
        let was_named = old.is_some_and(|old| kind(old) == "ExternalName");
        if old.is_none() || was_named {
            take_address(hook, object, taken)?;
        }
    }
    if needs_node_ports(object.at("spec")) {
        take_ports(hook, object, old, taken)?;
    }
    let needed = old.is_some_and(|old| needs_health_port(old.at("spec")));
    if needs_health_port(object.at("spec")) && !needed {
        let asked = object.at("spec").int("healthCheckNodePort");
        let port = match u16::try_from(asked) {
            Ok(0) => hook
                .allocators
                .port(hook.environment)
                .ok_or_else(|| ApiError::internal("no node port is free"))?,
            asked => {
                let port = asked.unwrap_or(u16::MAX);
                hook.allocators.take_port(port).map_err(|why| {
                    ApiError::internal(format!(
                        "failed to allocate requested HealthCheck NodePort {port}: {why}"
                    ))
                })?;
                port
            }
        };
        taken.ports.push(port);
        object::child(object, "spec").insert("healthCheckNodePort".into(), port.into());
    }
    Ok(())
}

/// Fills in which families of addresses the service has. There is one: IPv4.
fn families(object: &mut Value, old: Option<&Value>) -> ApiResult<()> {
    let headless =
        object.at("spec").str("clusterIP") == "None" && object.at("spec").pairs("selector").next().is_none();
    if object.at("spec").opt("ipFamilyPolicy").is_none() {
        let before = old.and_then(|old| old.at("spec").opt("ipFamilyPolicy").cloned());
        let policy =
            before.unwrap_or_else(|| if headless { json!("RequireDualStack") } else { json!("SingleStack") });
        object::child(object, "spec").insert("ipFamilyPolicy".into(), policy);
    }
    let mut errors = Errors::new();
    validation::addresses(object, old, &mut errors);
    if !errors.is_empty() {
        return Err(refuse(object, errors));
    }
    let spec = object.at("spec");
    let policy = spec.str("ipFamilyPolicy").to_owned();
    let single = policy == "SingleStack";
    let mut known = spec.strs("ipFamilies").into_iter().map(str::to_owned).collect::<Vec<_>>();
    if single {
        if spec.list("clusterIPs").len() == 2 {
            let why =
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified";
            errors.invalid("spec.ipFamilyPolicy", policy.as_str(), why);
        }
        if known.len() == 2 {
            let why =
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
            errors.invalid("spec.ipFamilyPolicy", policy.as_str(), why);
        }
    }
    for (index, address) in spec.strs("clusterIPs").into_iter().enumerate() {
        if address == "None" {
            break;
        }
        if index >= known.len() {
            if address.contains(':') {
                let why = "IPv6 is not configured on this cluster";
                errors.invalid(format!("spec.clusterIPs[{index}]"), spec.shown("clusterIPs"), why);
            } else {
                known.push("IPv4".to_owned());
            }
        }
    }
    if !errors.is_empty() {
        return Err(refuse(object, errors));
    }
    if headless {
        if known.is_empty() {
            known.push("IPv4".to_owned());
        }
        if known.len() < 2 && !single {
            let other = if known.first().is_some_and(|first| first == "IPv4") { "IPv6" } else { "IPv4" };
            known.push(other.to_owned());
        }
    } else {
        if policy == "RequireDualStack" {
            let why = "this cluster is not configured for dual-stack services";
            errors.invalid("spec.ipFamilyPolicy", policy.as_str(), why);
        }
        for (index, family) in known.iter().enumerate().filter(|(_, family)| *family != "IPv4") {
            let why = "not configured on this cluster";
            errors.invalid(format!("spec.ipFamilies[{index}]"), family.as_str(), why);
        }
        if !errors.is_empty() {
            return Err(refuse(object, errors));
        }
        if known.is_empty() {
            known.push("IPv4".to_owned());
        }
    }
    object::child(object, "spec").insert("ipFamilies".into(), json!(known));
    Ok(())
}

fn take_address(hook: Hook<'_>, object: &mut Value, taken: &mut Taken) -> ApiResult<()> {
    let given = object.at("spec").strs("clusterIPs").first().copied().unwrap_or_default().to_owned();
    let address = match given.as_str() {
        "None" => return Ok(()),
        "" => hook
            .allocators
            .address(hook.environment)
            .ok_or_else(|| ApiError::internal("no cluster address is free"))?,
        _ => {
            hook.allocators.take_address(&given).map_err(|why| {
                let why = format!("failed to allocate IP {given}: {why}");
                let shown = object.at("spec").shown("clusterIPs");
                refuse(object, vec![FieldError::invalid("spec.clusterIPs", shown, why)])
            })?;
            given
        }
    };
    taken.addresses.push(address.clone());
    let spec = object::child(object, "spec");
    spec.insert("clusterIPs".into(), json!([address]));
    spec.insert("clusterIP".into(), address.into());
    Ok(())
}

fn take_ports(hook: Hook<'_>, object: &mut Value, old: Option<&Value>, taken: &mut Taken) -> ApiResult<()> {
    let held = old.map(node_ports).unwrap_or_default();
    let gives = gives_node_ports(object.at("spec"));
    let mut ports: Vec<Value> = object.at("spec").list("ports").to_vec();
    for index in 0..ports.len() {
        let Some(port) = ports.get(index) else { break };
        let (asked, number) = (port.int("nodePort"), port.int("port"));
        if asked == 0 && !gives {
            continue;
        }
        // A port that is served by several protocols has one node port.
        let shared = old.is_none().then(|| {
            ports
                .iter()
                .filter(|other| other.int("port") == number)
                .map(|other| other.int("nodePort"))
                .find(|p| *p != 0)
        });
        let wanted = if asked != 0 { asked } else { shared.flatten().unwrap_or_default() };
        let chosen = if wanted == 0 {
            let chosen = hook
                .allocators
                .port(hook.environment)
                .ok_or_else(|| ApiError::internal("failed to allocate a nodePort: range is full"))?;
            taken.ports.push(chosen);
            chosen
        } else {
            let wanted = u16::try_from(wanted).unwrap_or(u16::MAX);
            if !held.contains(&wanted) && !taken.ports.contains(&wanted) {
                hook.allocators.take_port(wanted).map_err(|why| {
                    let place = format!("spec.ports[{index}].nodePort");
                    refuse(
                        object,
                        vec![FieldError::invalid(place, port.int("nodePort").max(i64::from(wanted)), why)],
                    )
                })?;
                taken.ports.push(wanted);
            }
            wanted
        };
        if let Some(port) = ports.get_mut(index) {
            object::ensure(port).insert("nodePort".into(), chosen.into());
        }
    }
    object::child(object, "spec").insert("ports".into(), Value::Array(ports));
    Ok(())
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
