//! Endpoints.

use std::net::Ipv6Addr;

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{names, object, table::Cell};

use crate::{
    cells::{first_of, list},
    check::{self, Errors, FieldErrors, FieldPath, Read},
    ip::{self, endpoint_ip, ip_warning},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &Endpoints,
    allows_create_on_update: true,
    deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    columns: &[Column::NAME, Column::string("Endpoints"), Column::AGE],
    cell,
    ..Kind::new("", "endpoints")
};

pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

struct Endpoints;

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

fn subsets(object: &Value, errors: &mut Errors) {
    let at = FieldPath::root("subsets");
    for (index, subset) in object.list("subsets").iter().enumerate() {
        let at = at.index(index);
        if subset.list("addresses").is_empty() && subset.list("notReadyAddresses").is_empty() {
            errors.required(at, "must specify `addresses` or `notReadyAddresses`");
        }
        for field in ["addresses", "notReadyAddresses"] {
            let list = at.field(field);
            for (index, address) in subset.list(field).iter().enumerate() {
                let at = list.index(index);
                ip::legacy_ip(at.field("ip"), address.str("ip"), errors);
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

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    (column == "Endpoints").then(|| addresses(object).into())
}

fn addresses(object: &Value) -> String {
    let subsets = list(object, &["subsets"]);
    if subsets.is_empty() {
        return "<none>".into();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = || list(subset, &["addresses"]).iter().map(|a| a["ip"].as_str().unwrap_or_default());
        let ports = list(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = &port["port"];
            all.extend(addresses().map(|ip| match ip.parse::<Ipv6Addr>() {
                Ok(_) => format!("[{ip}]:{port}"),
                Err(_) => format!("{ip}:{port}"),
            }));
        }
    }
    first_of(&all, 3, ",")
}
