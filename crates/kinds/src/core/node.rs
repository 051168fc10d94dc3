//! Node.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{
    fields::{FieldError, FieldErrorKind},
    names, object,
    table::Cell,
};

use crate::{
    cells::{list, or_none, text},
    check::{Errors, FieldErrors, FieldPath, Read, default},
    kind::{Change, Column, Kind, Rules, Selectable},
};

pub(super) const KIND: Kind = Kind {
    rules: &Node,
    has_status: true,
    keeps_status: true,
    selectable: &[Selectable::new("spec.unschedulable", &["spec", "unschedulable"]).or("false")],
    columns: &[
        Column::NAME,
        Column::string("Status"),
        Column::string("Roles"),
        Column::AGE,
        Column::string("Version"),
        Column::string("Internal-IP").wide(),
        Column::string("External-IP").wide(),
        Column::string("OS-Image").wide(),
        Column::string("Kernel-Version").wide(),
        Column::string("Container-Runtime").wide(),
    ],
    cell,
    ..Kind::new("", "nodes")
};

struct Node;

impl Rules for Node {
    fn default(&self, _: &str, object: &mut Value) {
        let capacity = object.path(&["status", "capacity"]).clone();
        if !capacity.is_null() {
            default(object::child(object, "status"), "allocatable", capacity);
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        taints(FieldPath::root("metadata").field("taints"), object.at("spec").list("taints"), errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        // kube-apiserver validates twice, but only once for status updates.
        if !change.is_status() {
            self.validate(change.object, errors);
        }
        self.validate(change.object, errors);
    }
}

const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn taints(at: FieldPath<'_>, taints: &[Value], errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let at = at.index(index);
        let (key, value, effect) = (taint.str("key"), taint.str("value"), taint.str("effect"));
        errors.all(&at.field("key"), key, names::qualified(key));
        let complaints = names::label_value(value);
        if !complaints.is_empty() {
            errors.invalid(at.field("value"), value, complaints.join(";"));
        }
        errors.one_of(at.field("effect"), effect, &TAINT_EFFECTS);
        if seen.contains(&(key, effect)) {
            errors.push(FieldError {
                kind: FieldErrorKind::Duplicate(taint.clone()),
                detail: "taints must be unique by key and effect pair".into(),
                field: at.into(),
            });
        }
        seen.insert((key, effect));
    }
}

fn cell(column: &str, node: &Value, _: Timestamp) -> Option<Cell> {
    let address = |kind: &str| {
        let found = list(node, &["status", "addresses"]).iter().find(|a| a["type"] == kind);
        or_none(found.and_then(|a| a["address"].as_str()).unwrap_or_default())
    };
    let info = |field: &str| match object::text(node, &["status", "nodeInfo", field]).unwrap_or_default() {
        "" => "<unknown>".into(),
        text => text.into(),
    };
    Some(match column {
        "Status" => {
            let ready = list(node, &["status", "conditions"]).iter().find(|c| c["type"] == "Ready");
            let mut words = vec![match ready {
                Some(c) if c["status"] == "True" => "Ready",
                Some(_) => "NotReady",
                None => "Unknown",
            }];
            if object::get(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
                words.push("SchedulingDisabled");
            }
            words.join(",").into()
        }
        "Roles" => {
            let all = object::get(node, &["metadata", "labels"]).and_then(Value::as_object);
            let mut roles: Vec<&str> = all
                .into_iter()
                .flatten()
                .filter_map(|(k, v)| match k.strip_prefix("node-role.kubernetes.io/") {
                    Some(role) => Some(role).filter(|r| !r.is_empty()),
                    None if k == "kubernetes.io/role" => v.as_str(),
                    None => None,
                })
                .collect();
            roles.sort_unstable();
            or_none(roles.join(","))
        }
        "Version" => text(node, &["status", "nodeInfo", "kubeletVersion"]),
        "Internal-IP" => address("InternalIP"),
        "External-IP" => address("ExternalIP"),
        "OS-Image" => info("osImage"),
        "Kernel-Version" => info("kernelVersion"),
        "Container-Runtime" => info("containerRuntimeVersion"),
        _ => return None,
    })
}
