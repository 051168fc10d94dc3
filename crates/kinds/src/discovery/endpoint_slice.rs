//! EndpointSlice.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{
    fields::FieldError,
    names, object,
    status::{ApiResult, quote},
    strategy::Hook,
    table::Cell,
};

use crate::{
    cells::{first_of, list, plain, text},
    check::{self, Errors, FieldErrors, FieldPath, IMMUTABLE, Read},
    core::endpoints::PROTOCOLS,
    ip::{self, endpoint_ip, ip_warning},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &EndpointSlice,
    has_generation: true,
    columns: &[
        Column::NAME,
        Column::string("AddressType"),
        Column::string("Ports"),
        Column::string("Endpoints"),
        Column::AGE,
    ],
    cell,
    ..Kind::new("discovery.k8s.io", "endpointslices")
};

struct EndpointSlice;

impl Rules for EndpointSlice {
    fn default(&self, _: &str, object: &mut Value) {
        for port in check::children(object::ensure(object), "ports") {
            check::default(port, "name", "");
            check::default(port, "protocol", "TCP");
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        slice(object, errors);
        slice_endpoints(object, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        slice(change.object, errors);
        if change.object.at("endpoints") != change.old.at("endpoints") {
            slice_endpoints(change.object, errors);
        }
        if change.object.str("addressType") != change.old.str("addressType") {
            errors.invalid("addressType", change.object.str("addressType"), IMMUTABLE);
        }
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        drop_topology(object);
        Ok(())
    }

    fn prepare_update(&self, _: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if object.at("endpoints") != old.at("endpoints") {
            drop_topology(object);
        }
        Ok(())
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        !object::same_except(object, old, &[])
            || object.path(&["metadata", "labels"]) != old.path(&["metadata", "labels"])
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if object.str("addressType") == "FQDN" && old.is_none() {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        let manager = object.path(&["metadata", "labels"]).str("endpointslice.kubernetes.io/managed-by");
        if matches!(manager, "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
            return warnings;
        }
        for (index, endpoint) in object.list("endpoints").iter().enumerate() {
            for (entry, address) in endpoint.strs("addresses").into_iter().enumerate() {
                warnings.extend(ip_warning(&format!("endpoints[{index}].addresses[{entry}]"), address));
            }
        }
        warnings
    }
}

/// Drops deprecatedTopology, which can't be set through v1.
fn drop_topology(object: &mut Value) {
    for endpoint in check::children(object::ensure(object), "endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

fn slice(object: &Value, errors: &mut Errors) {
    errors.one_of(FieldPath::root("addressType"), object.str("addressType"), &["FQDN", "IPv4", "IPv6"]);
    let at = FieldPath::root("ports");
    let ports = object.list("ports");
    if ports.len() > 20_000 {
        return errors.push(FieldError::too_many(at, ports.len(), 20_000));
    }
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = at.index(index);
        let name = port.str("name");
        if !name.is_empty() {
            errors.all(&at.field("name"), name, names::label(name));
        }
        if seen.contains(&name) {
            errors.duplicate(at.field("name"), name);
        }
        seen.insert(name);
        match port.opt_str("protocol") {
            None => errors.required(at.field("protocol"), ""),
            Some(protocol) if !PROTOCOLS.contains(&protocol) => {
                errors.unsupported(at.field("protocol"), protocol, &PROTOCOLS);
            }
            Some(_) => {}
        }
        if let Some(protocol) = port.opt_str("appProtocol") {
            errors.all(&at.field("appProtocol"), protocol, names::qualified(protocol));
        }
    }
}

fn slice_endpoints(object: &Value, errors: &mut Errors) {
    let at = FieldPath::root("endpoints");
    let endpoints = object.list("endpoints");
    if endpoints.len() > 1000 {
        return errors.push(FieldError::too_many(at, endpoints.len(), 1000));
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let at = at.index(index);
        let list = at.field("addresses");
        let addresses = endpoint.strs("addresses");
        if addresses.is_empty() {
            errors.required(list, "must contain at least 1 address");
        } else if addresses.len() > 100 {
            errors.push(FieldError::too_many(list, addresses.len(), 100));
        }
        for (index, address) in addresses.into_iter().enumerate() {
            slice_address(list, list.index(index), address, object.str("addressType"), errors);
        }
        if let Some(node) = endpoint.opt_str("nodeName") {
            errors.all(&at.field("nodeName"), node, names::subdomain(node));
        }
        let place = at.field("deprecatedTopology");
        let count = endpoint.pairs("deprecatedTopology").count();
        if count > 16 {
            errors.push(FieldError::too_many(place, count, 16));
        }
        check::labels(place, endpoint.pairs("deprecatedTopology"), errors);
        if let Some(host) = endpoint.opt_str("hostname") {
            errors.all(&at.field("hostname"), host, names::label(host));
        }
        if let Some(hints) = endpoint.opt("hints") {
            slice_hints(at.field("hints"), hints, errors);
        }
    }
}

fn slice_hints(at: FieldPath<'_>, hints: &Value, errors: &mut Errors) {
    for (field, validate) in
        [("forZones", names::label_value as fn(&str) -> Vec<String>), ("forNodes", names::subdomain)]
    {
        let list = at.field(field);
        let entries = hints.list(field);
        if entries.len() > 8 {
            return errors.push(FieldError::too_many(list, entries.len(), 8));
        }
        let mut seen = HashSet::new();
        for (index, entry) in entries.iter().enumerate() {
            let at = list.index(index);
            let name = entry.str("name");
            if seen.contains(&name) {
                errors.duplicate(at.field("name"), name);
            }
            seen.insert(name);
            errors.all(&at.field("name"), name, validate(name));
        }
    }
}

fn slice_address(list: FieldPath<'_>, at: FieldPath<'_>, address: &str, kind: &str, errors: &mut Errors) {
    let before = errors.len();
    match kind {
        "IPv4" | "IPv6" => {
            ip::legacy_ip(at, address, errors);
            if kind == "IPv6"
                && errors.len() == before
                && let Some(parsed) = ip::parse_ip(address)
                && parsed.to_string() != address
            {
                let form = quote(&parsed.to_string());
                errors.invalid(at, address, format!("must be in canonical form ({form})"));
            }
            if errors.len() > before {
                return;
            }
            let v4 = ip::parse_ip(address).is_some_and(|a| a.is_ipv4());
            if v4 != (kind == "IPv4") {
                errors.invalid(list, address, format!("must be an {kind} address"));
            }
            endpoint_ip(at, address, errors);
        }
        "FQDN" => {
            if address.is_empty() {
                return errors.required(at, "");
            }
            let name = address.strip_suffix('.').unwrap_or(address);
            let complaints = names::subdomain(name);
            if !complaints.is_empty() {
                return errors.invalid(at, name, complaints.join(","));
            }
            if !name.contains('.') {
                let why = "should be a domain with at least two segments separated by dots";
                return errors.invalid(at, name, why);
            }
            if let Some(label) = name.split('.').find(|label| !names::label(label).is_empty()) {
                errors.invalid(at, label, names::label(label).join(","));
            }
        }
        _ => {}
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let unset_or = |all: &[String]| -> Cell {
        if all.is_empty() { "<unset>".into() } else { first_of(all, 3, ",").into() }
    };
    Some(match column {
        "AddressType" => text(object, &["addressType"]),
        "Ports" => {
            let ports =
                list(object, &["ports"]).iter().map(|p| match (p["port"].as_i64(), p["name"].as_str()) {
                    (Some(port), _) => port.to_string(),
                    (None, Some(name)) => name.to_owned(),
                    (None, None) => "*".to_owned(),
                });
            unset_or(&ports.collect::<Vec<_>>())
        }
        "Endpoints" => {
            let addresses = list(object, &["endpoints"]).iter().flat_map(|e| list(e, &["addresses"]));
            unset_or(&addresses.map(plain).collect::<Vec<_>>())
        }
        _ => return None,
    })
}
