//! Endpoints and EndpointSlices.

use std::net::IpAddr;

use serde_json::Value;

use super::{
    Change, Rules,
    check::{self, At, Complain, Errors, IMMUTABLE, Read},
};
use crate::{fields::FieldError, names, object, status::ApiResult, strategy::Hook};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) struct Endpoints;

impl Rules for Endpoints {
    fn default(&self, _: &str, object: &mut Value) {
        for subset in check::children(object::ensure(object), "subsets") {
            for port in check::children(subset, "ports") {
                check::default_zero(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        subsets(object, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        change.whole_metadata(errors);
        if change.object.at("subsets") != change.old.at("subsets") {
            subsets(change.object, errors);
        }
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let labels = object.path(&["metadata", "labels"]);
        if labels.str("endpoints.kubernetes.io/managed-by") == "endpoint-controller" {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for (index, subset) in object.list("subsets").iter().enumerate() {
            for list in ["addresses", "notReadyAddresses"] {
                for (entry, address) in subset.list(list).iter().enumerate() {
                    let at = format!("subsets[{index}].{list}[{entry}].ip");
                    warnings.extend(ip_warning(&at, address.str("ip")));
                }
            }
        }
        warnings
    }
}

/// What is odd about the way an address is written.
pub(super) fn ip_warning(at: &str, text: &str) -> Option<String> {
    let address = check::parse_ip(text)?;
    let mapped = matches!(address, IpAddr::V6(a) if a.to_ipv4_mapped().is_some());
    let quote = crate::status::quote;
    if text.parse::<IpAddr>().is_err() || mapped {
        let plain = match address {
            IpAddr::V6(a) => a.to_ipv4_mapped().map_or_else(|| a.to_string(), |a| a.to_string()),
            IpAddr::V4(a) => a.to_string(),
        };
        let plain = quote(&plain);
        return Some(format!("{at}: non-standard IP address {} is invalid: use {plain}", quote(text)));
    }
    if address.is_ipv6() && address.to_string() != text {
        return Some(format!(
            "{at}: IPv6 address {} should be in RFC 5952 canonical format ({})",
            quote(text),
            quote(&address.to_string())
        ));
    }
    None
}

fn subsets(object: &Value, errors: &mut Errors) {
    let at = At::root("subsets");
    for (index, subset) in object.list("subsets").iter().enumerate() {
        let at = at.index(index);
        if subset.list("addresses").is_empty() && subset.list("notReadyAddresses").is_empty() {
            errors.required(at, "must specify `addresses` or `notReadyAddresses`");
        }
        for field in ["addresses", "notReadyAddresses"] {
            let list = at.field(field);
            for (index, address) in subset.list(field).iter().enumerate() {
                let at = list.index(index);
                check::legacy_ip(at.field("ip"), address.str("ip"), errors);
                let host = address.str("hostname");
                if !host.is_empty() {
                    errors.all(&at.field("hostname"), host, names::label(host));
                }
                if let Some(node) = address.opt_str("nodeName") {
                    errors.all(&at.field("nodeName"), node, names::subdomain(node));
                }
                endpoint_ip(at.field("ip"), address.str("ip"), errors);
            }
        }
        let ports = subset.list("ports");
        let list = at.field("ports");
        for (index, port) in ports.iter().enumerate() {
            let at = list.index(index);
            match port.str("name") {
                "" if ports.len() > 1 => errors.required(at.field("name"), ""),
                "" => {}
                name => errors.all(&at.field("name"), name, names::label(name)),
            }
            errors.in_range(at.field("port"), port.int("port"), 1, 65_535);
            errors.one_of(at.field("protocol"), port.str("protocol"), &PROTOCOLS);
            if let Some(protocol) = port.opt_str("appProtocol") {
                errors.all(&at.field("appProtocol"), protocol, names::qualified(protocol));
            }
        }
    }
}

/// Judges an address that traffic can be sent to.
pub(super) fn endpoint_ip(at: At<'_>, text: &str, errors: &mut Errors) {
    let Some(address) = check::parse_ip(text) else {
        return errors.invalid(at, text, "must be a valid IP address");
    };
    if address.is_unspecified() {
        errors.invalid(at, text, format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        errors.invalid(at, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, multicast) = match address {
        IpAddr::V4(a) => (a.is_link_local(), matches!(a.octets(), [224, 0, 0, _])),
        IpAddr::V6(a) => {
            let first = a.segments().first().copied().unwrap_or_default();
            (first & 0xffc0 == 0xfe80, first & 0xff0f == 0xff02)
        }
    };
    if link_local {
        errors.invalid(at, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        let why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.invalid(at, text, why);
    }
}

pub(super) struct EndpointSlice;

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

/// Version 1 has no topology; it can't be written.
fn drop_topology(object: &mut Value) {
    for endpoint in check::children(object::ensure(object), "endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

fn slice(object: &Value, errors: &mut Errors) {
    errors.one_of(At::root("addressType"), object.str("addressType"), &["FQDN", "IPv4", "IPv6"]);
    let at = At::root("ports");
    let ports = object.list("ports");
    if ports.len() > 20_000 {
        return errors.push(FieldError::too_many(at, ports.len(), 20_000));
    }
    let mut seen = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let at = at.index(index);
        let name = port.str("name");
        if !name.is_empty() {
            errors.all(&at.field("name"), name, names::label(name));
        }
        if seen.contains(&name) {
            errors.duplicate(at.field("name"), name);
        }
        seen.push(name);
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
    let at = At::root("endpoints");
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

fn slice_hints(at: At<'_>, hints: &Value, errors: &mut Errors) {
    for (field, judge) in
        [("forZones", names::label_value as fn(&str) -> Vec<String>), ("forNodes", names::subdomain)]
    {
        let list = at.field(field);
        let entries = hints.list(field);
        if entries.len() > 8 {
            return errors.push(FieldError::too_many(list, entries.len(), 8));
        }
        let mut seen = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let at = list.index(index);
            let name = entry.str("name");
            if seen.contains(&name) {
                errors.duplicate(at.field("name"), name);
            }
            seen.push(name);
            errors.all(&at.field("name"), name, judge(name));
        }
    }
}

fn slice_address(list: At<'_>, at: At<'_>, address: &str, kind: &str, errors: &mut Errors) {
    let before = errors.len();
    match kind {
        "IPv4" | "IPv6" => {
            check::legacy_ip(at, address, errors);
            if kind == "IPv6"
                && errors.len() == before
                && let Some(parsed) = check::parse_ip(address)
                && parsed.to_string() != address
            {
                let form = crate::status::quote(&parsed.to_string());
                errors.invalid(at, address, format!("must be in canonical form ({form})"));
            }
            if errors.len() > before {
                return;
            }
            let v4 = check::parse_ip(address).is_some_and(|a| a.is_ipv4());
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
