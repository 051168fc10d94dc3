//! NetworkPolicy.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{object, table::Cell};

use crate::{
    cells::{self, or_none},
    check::{self, Errors, FieldErrors, FieldPath, Read, children, default, made},
    ip,
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &NetworkPolicy,
    has_generation: true,
    notices_empty: true,
    columns: &[Column::NAME, Column::string("Pod-Selector"), Column::AGE],
    cell,
    ..Kind::new("networking.k8s.io", "networkpolicies")
};

struct NetworkPolicy;

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
            warnings.extend(ip::cidr_warnings(&format!("{at}.ipBlock.cidr"), block.str("cidr")));
            for (index, except) in block.strs("except").into_iter().enumerate() {
                warnings.extend(ip::cidr_warnings(&format!("{at}.ipBlock.except[{index}]"), except));
            }
        }
        warnings
    }
}

/// Returns the IP blocks of a policy, with the paths of their peers.
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
    let at = FieldPath::root("spec");
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

fn policy_port(at: FieldPath<'_>, port: &Value, errors: &mut Errors) {
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

fn policy_peer(at: FieldPath<'_>, peer: &Value, known: &[String], errors: &mut Errors) {
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

fn address_block(at: FieldPath<'_>, block: &Value, known: &[String], errors: &mut Errors) {
    let whole = block.str("cidr");
    if whole.is_empty() {
        return errors.required(at.field("cidr"), "");
    }
    let is_known = |text: &str| known.iter().any(|other| other == text);
    if !is_known(whole) {
        ip::legacy_cidr(at.field("cidr"), whole, errors);
    }
    let Some((address, length)) = ip::parse_cidr(whole) else { return };
    let list = at.field("except");
    for (index, text) in block.strs("except").into_iter().enumerate() {
        let at = list.index(index);
        if !is_known(text) {
            ip::legacy_cidr(at, text, errors);
        }
        let Some((part, part_length)) = ip::parse_cidr(text) else { continue };
        let inside = part.is_ipv4() == address.is_ipv4()
            && ip::masked(part, length.min(part_length)) == ip::masked(address, length);
        if !inside || length >= part_length {
            errors.invalid(at, text, "must be a strict subset of `cidr`");
        }
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let pods = || object::get(object, &["spec", "podSelector"]).map(cells::selector).unwrap_or_default();
    (column == "Pod-Selector").then(|| or_none(pods()))
}
