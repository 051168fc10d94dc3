//! Services: defaults and allocation.

use serde_json::{Value, json};

use super::Rules;
use crate::{
    fields::FieldError,
    object,
    server::Core,
    status::{ApiError, ApiResult},
    strategy::Hook,
};

pub(super) struct Service;

fn kind(object: &Value) -> &str {
    object::text(object, &["spec", "type"]).unwrap_or("ClusterIP")
}

/// The node ports that a service holds.
pub(super) fn node_ports(service: &Value) -> Vec<u16> {
    let ports = object::get(service, &["spec", "ports"]).and_then(Value::as_array).into_iter().flatten();
    let mut found: Vec<u16> = ports
        .filter_map(|p| p.get("nodePort").and_then(Value::as_u64))
        .chain(object::get(service, &["spec", "healthCheckNodePort"]).and_then(Value::as_u64))
        .filter_map(|p| u16::try_from(p).ok())
        .filter(|p| *p > 0)
        .collect();
    found.dedup();
    found
}

fn wants_node_ports(object: &Value) -> bool {
    match kind(object) {
        "NodePort" => true,
        "LoadBalancer" => {
            object::get(object, &["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool)
                != Some(false)
        }
        _ => false,
    }
}

impl Rules for Service {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        let mut fill = |key: &str, value: Value| {
            spec.entry(key).or_insert(value);
        };
        fill("sessionAffinity", "None".into());
        fill("type", "ClusterIP".into());
        if spec.get("sessionAffinity") == Some(&json!("ClientIP")) {
            let config = object::ensure(spec.entry("sessionAffinityConfig").or_insert(Value::Null));
            let client = object::ensure(config.entry("clientIP").or_insert(Value::Null));
            client.entry("timeoutSeconds").or_insert(10_800.into());
        }
        let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let port = object::ensure(port);
            port.entry("protocol").or_insert("TCP".into());
            let number = port.get("port").cloned().unwrap_or_default();
            let target = port.entry("targetPort").or_insert(number.clone());
            if *target == json!(0) || *target == json!("") {
                *target = number;
            }
        }
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            spec.entry("externalTrafficPolicy").or_insert("Cluster".into());
        }
        if kind != "ExternalName" {
            spec.entry("internalTrafficPolicy").or_insert("Cluster".into());
        }
        if kind == "LoadBalancer" {
            spec.entry("allocateLoadBalancerNodePorts").or_insert(true.into());
        }
    }

    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        object::child(object, "status").insert("loadBalancer".into(), json!({}));
        take(hook, object, None)
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if hook.subresource.is_some() {
            return Ok(());
        }
        // What the server chose stays where the client leaves it out.
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            let absent = object::get(object, &["spec", field]).is_none();
            if absent && kind(object) != "ExternalName" && kind(old) != "ExternalName" {
                let before = object::get(old, &["spec", field]).cloned();
                if let Some(before) = before {
                    object::child(object, "spec").insert(field.into(), before);
                }
            }
        }
        take(hook, object, Some(old))?;
        if !hook.dry_run {
            let now = node_ports(object);
            for port in node_ports(old) {
                if !now.contains(&port) {
                    hook.core.allocators.release_port(port);
                }
            }
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Vec<FieldError>) {
        let ports = object::get(object, &["spec", "ports"]).and_then(Value::as_array);
        let headless = object::text(object, &["spec", "clusterIP"]) == Some("None");
        if ports.is_none_or(Vec::is_empty) && !headless && kind(object) != "ExternalName" {
            errors.push(FieldError::required("spec.ports", ""));
        }
        if !matches!(kind(object), "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName") {
            errors.push(FieldError::not_supported(
                "spec.type",
                kind(object),
                &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
            ));
        }
        for (index, port) in ports.into_iter().flatten().enumerate() {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            if !(1..=65_535).contains(&number) {
                errors.push(FieldError::invalid(
                    format!("spec.ports[{index}].port"),
                    number,
                    "must be between 1 and 65535, inclusive",
                ));
            }
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        let address = |v: &Value| object::text(v, &["spec", "clusterIP"]).unwrap_or_default().to_owned();
        let (now, then) = (address(object), address(old));
        if !then.is_empty() && now != then && kind(object) != "ExternalName" && kind(old) != "ExternalName" {
            errors.push(FieldError::invalid("spec.clusterIPs[0]", json!([now]), "may not change once set"));
        }
    }

    fn release(&self, core: &Core, object: &Value) {
        if let Some(address) = object::text(object, &["spec", "clusterIP"]) {
            core.allocators.release_address(address);
        }
        for port in node_ports(object) {
            core.allocators.release_port(port);
        }
    }
}

/// Takes the address and the ports that the service needs and `old` does not hold already.
fn take(hook: Hook<'_>, object: &mut Value, old: Option<&Value>) -> ApiResult<()> {
    let environment = &*hook.core.environment;
    let allocators = &hook.core.allocators;
    let name = object::name(object).to_owned();
    let refuse = |error: FieldError| ApiError::invalid_kind("", "Service", &name, vec![error]);
    let held = old.map(node_ports).unwrap_or_default();
    let had_address =
        old.is_some_and(|o| object::text(o, &["spec", "clusterIP"]).is_some_and(|a| !a.is_empty()));
    let wants_ports = wants_node_ports(object);
    if kind(object) == "ExternalName" {
        let spec = object::child(object, "spec");
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            spec.remove(field);
        }
        return Ok(());
    }
    let spec = object::child(object, "spec");
    if !had_address {
        let given = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().to_owned();
        let address = match given.as_str() {
            "None" => given,
            "" => allocators
                .address(environment)
                .ok_or_else(|| ApiError::internal("no cluster address is free"))?,
            _ => {
                allocators.take_address(&given).map_err(|why| {
                    refuse(FieldError::invalid(
                        "spec.clusterIPs",
                        json!([given]),
                        format!("failed to allocate IP {given}: {why}"),
                    ))
                })?;
                given
            }
        };
        spec.insert("clusterIPs".into(), json!([address]));
        spec.insert("clusterIP".into(), address.into());
    }
    spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
    spec.entry("ipFamilyPolicy").or_insert_with(|| "SingleStack".into());
    for (index, port) in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten().enumerate()
    {
        let port = object::ensure(port);
        let asked = port.get("nodePort").and_then(Value::as_u64).unwrap_or_default();
        if !wants_ports {
            if asked == 0 || old.is_some() {
                port.remove("nodePort");
            }
            continue;
        }
        if asked == 0 {
            let chosen =
                allocators.port(environment).ok_or_else(|| ApiError::internal("no node port is free"))?;
            port.insert("nodePort".into(), chosen.into());
            continue;
        }
        let asked = u16::try_from(asked).unwrap_or(u16::MAX);
        if !held.contains(&asked) {
            allocators.take_port(asked).map_err(|why| {
                refuse(FieldError::invalid(format!("spec.ports[{index}].nodePort"), asked, why))
            })?;
        }
    }
    Ok(())
}
