//! Pod and its templates.

pub(crate) mod affinity;
mod columns;
mod container;
pub(crate) mod defaults;
mod env;
mod probe;
mod security;
mod spec;
mod update;
pub(crate) mod volume;
mod warnings;

use serde_json::{Value, json};

use crate::{
    check::{self, Errors, FieldErrors, FieldPath, Read},
    kind::{Change, Column, Kind, Rules, Selectable},
};
use steersman_api::{
    environment::EnvironmentExt as _, names, object, schema::quantity, status::ApiResult, strategy::Hook,
};

pub(crate) use warnings::{deprecated_label, node_term as warnings_of_node_term, of as warnings_of};

pub(super) const KIND: Kind = Kind {
    rules: &Pod,
    has_generation: true,
    has_status: true,
    reset_fields: &[(
        "status",
        &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
    )],
    selectable: &[
        Selectable::new("spec.nodeName", &["spec", "nodeName"]),
        Selectable::new("spec.restartPolicy", &["spec", "restartPolicy"]),
        Selectable::new("spec.schedulerName", &["spec", "schedulerName"]),
        Selectable::new("spec.serviceAccountName", &["spec", "serviceAccountName"]),
        Selectable::new("spec.hostNetwork", &["spec", "hostNetwork"]).or("false"),
        Selectable::new("status.phase", &["status", "phase"]),
        Selectable::new("status.podIP", &["status", "podIP"]),
        Selectable::new("status.nominatedNodeName", &["status", "nominatedNodeName"]),
    ],
    columns: &[
        Column::NAME,
        Column::string("Ready"),
        Column::string("Status"),
        Column::string("Restarts"),
        Column::AGE,
        Column::string("IP").wide(),
        Column::string("Node").wide(),
        Column::string("Nominated Node").wide(),
        Column::string("Readiness Gates").wide(),
    ],
    cell: columns::cell,
    ..Kind::new("", "pods")
};

struct Pod;

impl Rules for Pod {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|grace| grace < 0) {
            spec.insert("terminationGracePeriodSeconds".into(), 1.into());
        }
        defaults::spec(spec);
        defaults::pod(spec);
    }

    fn prepare_create(&self, hook: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        defaults::drop_disabled(object::child(object, "spec"));
        let mut status = json!({"phase": "Pending", "qosClass": quality(object.at("spec"))});
        if !object.at("spec").list("schedulingGates").is_empty() {
            status["conditions"] = json!([{
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": hook.environment.now_string(),
            }]);
        }
        object::ensure(object).insert("status".into(), status);
        let spec = object.at("spec");
        if spec.opt("affinity").is_some() || spec.opt("topologySpreadConstraints").is_some() {
            let labels = object.path(&["metadata", "labels"]).clone();
            merge_label_keys(object::child(object, "spec"), &labels);
        }
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        update::prepare(hook.subresource, object, old);
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate_whole(object, errors);
        let at = FieldPath::root("spec");
        let spec = object.at("spec");
        if !spec.list("ephemeralContainers").is_empty() {
            errors.forbidden(at.field("ephemeralContainers"), "cannot be set on create");
        }
        if !spec.str("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
            let why = "cannot be set until all schedulingGates have been cleared";
            errors.forbidden(at.field("nodeName"), why);
        }
        security::annotations_match(at, object.at("metadata"), spec, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        match change.subresource {
            Some("status") => update::validate_status(change, errors),
            Some("ephemeralcontainers") => update::validate_ephemeral(change, errors),
            Some("resize") => update::validate_resize(change, errors),
            // A binding only assigns a node.
            Some("binding") => {}
            _ => update::validate(change, errors),
        }
    }

    fn grace_seconds(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        Some(grace_seconds(object, asked))
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        let complaints = names::label(object::name(object));
        if !complaints.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
                complaints.join(" ")
            ));
        }
        warnings.extend(warnings_of("", object));
        warnings
    }
}

/// Validates a pod, without the rules for creates only.
fn validate_whole(object: &Value, errors: &mut Errors) {
    let metadata = FieldPath::root("metadata");
    let at = FieldPath::root("spec");
    let spec = object.at("spec");
    security::annotations(
        metadata.field("annotations"),
        object.path(&["metadata", "annotations"]),
        spec,
        errors,
    );
    spec::validate(at, spec, Some(object.at("metadata")), errors);
    if spec.str("serviceAccountName").is_empty() {
        for (index, volume) in spec.list("volumes").iter().enumerate() {
            for (entry, source) in volume.at("projected").list("sources").iter().enumerate() {
                if source.opt("serviceAccountToken").is_some() {
                    errors.forbidden(
                        format!("spec.volumes[{index}].projected.sources[{entry}].serviceAccountToken"),
                        "must not be specified when serviceAccountName is not set",
                    );
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        let at = at.field(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            container::image_spaces(at.index(index), container, errors);
        }
    }
}

/// Validates a pod template.
pub(crate) fn validate_template(at: FieldPath<'_>, template: &Value, errors: &mut Errors) {
    let metadata = template.at("metadata");
    check::labels(at.field("labels"), metadata.pairs("labels"), errors);
    check::annotations(at.field("annotations"), metadata.at("annotations"), errors);
    let spec = template.at("spec");
    security::annotations(at.field("annotations"), metadata.at("annotations"), spec, errors);
    let place = at.field("spec");
    spec::validate(place, spec, None, errors);
    security::annotations_match(place, metadata, spec, errors);
    if !spec.list("ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        errors.forbidden(place.field("ephemeralContainers"), why);
    }
}

/// Merges matchLabelKeys and mismatchLabelKeys into label selectors, with the pod's own values.
fn merge_label_keys(spec: &mut serde_json::Map<String, Value>, labels: &Value) {
    let merge = |term: &mut Value| {
        if term.opt("labelSelector").is_none() {
            return;
        }
        let mut added = Vec::new();
        for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            for key in term.strs(field) {
                if let Some(value) = labels.opt_str(key) {
                    added.push(json!({"key": key, "operator": operator, "values": [value]}));
                }
            }
        }
        if added.is_empty() {
            return;
        }
        let selector = object::child(term, "labelSelector");
        let list = selector.entry("matchExpressions").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.extend(added);
        }
    };
    let items = |value: Option<&mut Value>, visit: &dyn Fn(&mut Value)| {
        value.and_then(Value::as_array_mut).into_iter().flatten().for_each(visit);
    };
    items(spec.get_mut("topologySpreadConstraints"), &merge);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|a| a.get_mut(kind)) else { continue };
        items(affinity.get_mut("requiredDuringSchedulingIgnoredDuringExecution"), &merge);
        items(affinity.get_mut("preferredDuringSchedulingIgnoredDuringExecution"), &|term| {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                merge(term);
            }
        });
    }
}

/// Returns the grace period of a pod's deletion, in seconds.
fn grace_seconds(object: &Value, asked: Option<i64>) -> i64 {
    let own = object.at("spec").opt_int("terminationGracePeriodSeconds");
    let period = asked.or(own).unwrap_or_default();
    let unscheduled = object.at("spec").str("nodeName").is_empty();
    let over = matches!(object.at("status").str("phase"), "Succeeded" | "Failed");
    // There is no kubelet to wait for.
    if unscheduled || over {
        0
    } else if period < 0 {
        1
    } else {
        period
    }
}

/// Returns the QoS class.
fn quality(spec: &Value) -> &'static str {
    let whole = spec.opt("resources").map(|_| std::slice::from_ref(spec));
    let lists = match whole {
        Some(pod) => [pod, &[]],
        None => [spec.list("containers"), spec.list("initContainers")],
    };
    let (mut requests, mut limits) = ([0_i128; 2], [0_i128; 2]);
    let mut guaranteed = true;
    for container in lists.into_iter().flatten() {
        let resources = container.at("resources");
        for (index, name) in ["cpu", "memory"].into_iter().enumerate() {
            let of = |list: &str| quantity::nanos(resources.at(list).str(name)).max(0);
            let limit = of("limits");
            guaranteed &= limit > 0;
            if let (Some(asked), Some(most)) = (requests.get_mut(index), limits.get_mut(index)) {
                *asked += of("requests");
                *most += limit;
            }
        }
    }
    if requests == [0; 2] && limits == [0; 2] {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
