//! Allocation of cluster IPs and node ports for Services.

use serde_json::{Value, json};
use steersman_api::{
    allocator::Allocators,
    fields::FieldError,
    object,
    status::{ApiError, ApiResult},
    strategy::Hook,
};

use crate::{
    check::{Errors, FieldErrors, Read, children, default_zero},
    core::service::{needs_health_port, service_type, validation},
};

/// Returns the node ports of a service.
pub(super) fn node_ports(service: &Value) -> Vec<u16> {
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

/// Returns the cluster IPs of a service.
pub(super) fn addresses(service: &Value) -> Vec<&str> {
    service.at("spec").strs("clusterIPs").into_iter().filter(|a| !matches!(*a, "None" | "")).collect()
}

type Spec = serde_json::Map<String, Value>;

/// Keeps allocated values that an update omits.
pub(super) fn keep_allocated(spec: &mut Spec, old: &Value) {
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

/// Keeps clusterIP and clusterIPs in sync.
pub(super) fn keep_addresses_in_step(spec: &mut Spec, old: &Value) {
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

pub(super) fn needs_node_ports(spec: &Value) -> bool {
    matches!(spec.str("type"), "LoadBalancer" | "NodePort")
}

fn gives_node_ports(spec: &Value) -> bool {
    match spec.str("type") {
        "NodePort" => true,
        "LoadBalancer" => spec.at("allocateLoadBalancerNodePorts").as_bool() != Some(false),
        _ => false,
    }
}

/// Addresses and ports allocated by a request, to be released if it fails.
#[derive(Default)]
pub(super) struct Taken {
    addresses: Vec<String>,
    ports: Vec<u16>,
}

impl Taken {
    /// Releases all of them.
    pub(crate) fn give_back(&self, allocators: &Allocators) {
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

/// Allocates the addresses and ports that the service needs, except for those of `old`.
pub(super) fn allocate(
    hook: Hook<'_>,
    object: &mut Value,
    old: Option<&Value>,
    taken: &mut Taken,
) -> ApiResult<()> {
    if service_type(object) != "ExternalName" {
        families(object, old)?;
        let was_named = old.is_some_and(|old| service_type(old) == "ExternalName");
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
            Ok(0) => hook.allocators.port(hook.environment).ok_or_else(|| {
                ApiError::internal("failed to allocate a HealthCheck NodePort 0: range is full")
            })?,
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

/// Sets ipFamilyPolicy and ipFamilies. The cluster is single-stack IPv4.
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
            .ok_or_else(|| ApiError::internal("failed to allocate a serviceIP: range is full"))?,
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
    let gives_ports = gives_node_ports(object.at("spec"));
    let mut ports: Vec<Value> = object.at("spec").list("ports").to_vec();
    for index in 0..ports.len() {
        let Some(port) = ports.get(index) else { break };
        let (asked, number) = (port.int("nodePort"), port.int("port"));
        if asked == 0 && !gives_ports {
            continue;
        }
        // Entries of the same port with different protocols share a node port.
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
