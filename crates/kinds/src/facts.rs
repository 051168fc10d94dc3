//! Facts about built-in kinds that need no code.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

use crate::{names::NameRule, table::Column};

type Key<'a> = (&'a str, &'a str);

/// Whether `metadata.generation` counts changes.
pub(super) fn has_generation(key: Key<'_>) -> bool {
    match key {
        ("apps", plural) => plural != "controllerrevisions",
        ("batch" | "flowcontrol.apiserver.k8s.io" | "admissionregistration.k8s.io" | "policy", _)
        | ("", "pods" | "podtemplates" | "replicationcontrollers")
        | ("networking.k8s.io", "ingresses" | "ingressclasses" | "networkpolicies")
        | ("discovery.k8s.io", "endpointslices")
        | ("scheduling.k8s.io", "priorityclasses")
        | ("resource.k8s.io", "resourceslices" | "deviceclasses")
        | ("apiextensions.k8s.io", "customresourcedefinitions") => true,
        _ => false,
    }
}

/// Whether an update may leave the resourceVersion out.
pub(super) fn allows_unconditional_update(key: Key<'_>) -> bool {
    !matches!(
        key,
        (
            "node.k8s.io"
                | "policy"
                | "coordination.k8s.io"
                | "admissionregistration.k8s.io"
                | "apiextensions.k8s.io"
                | "apiregistration.k8s.io",
            _
        ) | ("storage.k8s.io", "csidrivers" | "csistoragecapacities" | "volumeattachments" | "csinodes")
    )
}

/// Whether an update of an absent object creates it.
pub(super) fn allows_create_on_update(key: Key<'_>) -> bool {
    matches!(
        key,
        ("rbac.authorization.k8s.io" | "coordination.k8s.io" | "events.k8s.io", _)
            | ("node.k8s.io", "runtimeclasses")
            | ("", "limitranges" | "events" | "services" | "endpoints")
    )
}

/// Which rule names follow.
pub(super) fn name_rule(key: Key<'_>) -> NameRule {
    match key {
        ("", "namespaces") => NameRule::Label,
        ("", "services") | ("apps", "statefulsets") => NameRule::Label,
        // Judged by the kind.
        ("networking.k8s.io", "ipaddresses") => NameRule::PathSegment,
        ("policy", _) => NameRule::PathSegment,
        ("rbac.authorization.k8s.io" | "apiregistration.k8s.io", _) => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

/// The warning of a deprecated kind.
pub(super) fn deprecation(key: Key<'_>) -> Option<&'static str> {
    match key {
        ("", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// Whether finalizers without a domain must be known ones.
pub(super) fn checks_finalizers(key: Key<'_>) -> bool {
    !matches!(key, ("policy" | "coordination.k8s.io" | "apiextensions.k8s.io", _) | ("", "events"))
}

/// Whether there is a status that ordinary updates leave alone.
pub(super) fn has_status(key: Key<'_>) -> bool {
    match key {
        ("", plural) => matches!(
            plural,
            "namespaces"
                | "nodes"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "pods"
                | "replicationcontrollers"
                | "resourcequotas"
                | "services"
        ),
        ("apps", plural) => plural != "controllerrevisions",
        (
            "batch"
            | "autoscaling"
            | "policy"
            | "flowcontrol.apiserver.k8s.io"
            | "certificates.k8s.io"
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io",
            _,
        )
        | ("networking.k8s.io", "ingresses" | "servicecidrs")
        | ("storage.k8s.io", "volumeattachments")
        | ("resource.k8s.io", "resourceclaims")
        | ("admissionregistration.k8s.io", "validatingadmissionpolicies") => true,
        _ => false,
    }
}

/// Whether a new object's status is dropped.
pub(super) fn resets_status(key: Key<'_>) -> bool {
    has_status(key) && key != ("", "nodes")
}

/// What a write through `subresource` can't change.
pub(super) fn reset_fields(key: Key<'_>, subresource: &str) -> &'static [&'static [&'static str]] {
    match (key, subresource) {
        (("certificates.k8s.io", _), "") => &[&["spec"], &["status"]],
        (("certificates.k8s.io", _), "status") => &[&["spec"], &["status", "conditions"]],
        (("certificates.k8s.io", _), "approval") => &[&["spec"], &["status", "certificate"]],
        (("", "pods"), "status") => {
            &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
        }
        (("apps", "deployments"), "status") => &[&["spec"], &["metadata", "labels"]],
        (
            ("networking.k8s.io", "servicecidrs")
            | (
                "resource.k8s.io"
                | "flowcontrol.apiserver.k8s.io"
                | "apiextensions.k8s.io"
                | "storage.k8s.io"
                | "apiregistration.k8s.io"
                | "admissionregistration.k8s.io",
                _,
            ),
            "status",
        ) => &[&["metadata"], &["spec"]],
        (_, "status") => &[&["spec"]],
        (key, "") if has_status(key) => &[&["status"]],
        _ => &[],
    }
}

/// Selectable fields besides name and namespace, with where they are.
pub(super) fn selectable(key: Key<'_>) -> &'static [(&'static str, &'static [&'static str])] {
    match key {
        ("", "pods") => &[
            ("spec.nodeName", &["spec", "nodeName"]),
            ("spec.restartPolicy", &["spec", "restartPolicy"]),
            ("spec.schedulerName", &["spec", "schedulerName"]),
            ("spec.serviceAccountName", &["spec", "serviceAccountName"]),
            ("spec.hostNetwork", &["spec", "hostNetwork"]),
            ("status.phase", &["status", "phase"]),
            ("status.podIP", &["status", "podIP"]),
            ("status.nominatedNodeName", &["status", "nominatedNodeName"]),
        ],
        ("", "nodes") => &[("spec.unschedulable", &["spec", "unschedulable"])],
        ("", "namespaces") => &[("status.phase", &["status", "phase"])],
        ("", "secrets") => &[("type", &["type"])],
        ("", "services") => &[("spec.clusterIP", &["spec", "clusterIP"]), ("spec.type", &["spec", "type"])],
        ("", "replicationcontrollers") => &[("status.replicas", &["status", "replicas"])],
        ("batch", "jobs") => &[("status.successful", &["status", "succeeded"])],
        ("certificates.k8s.io", "certificatesigningrequests") => {
            &[("spec.signerName", &["spec", "signerName"])]
        }
        ("resource.k8s.io", "resourceslices") => {
            &[("spec.nodeName", &["spec", "nodeName"]), ("spec.driver", &["spec", "driver"])]
        }
        ("" | "events.k8s.io", "events") => &[
            ("involvedObject.kind", &["involvedObject", "kind"]),
            ("involvedObject.namespace", &["involvedObject", "namespace"]),
            ("involvedObject.name", &["involvedObject", "name"]),
            ("involvedObject.uid", &["involvedObject", "uid"]),
            ("involvedObject.apiVersion", &["involvedObject", "apiVersion"]),
            ("involvedObject.resourceVersion", &["involvedObject", "resourceVersion"]),
            ("involvedObject.fieldPath", &["involvedObject", "fieldPath"]),
            ("reason", &["reason"]),
            ("reportingComponent", &["reportingComponent"]),
            ("source", &["source", "component"]),
            ("type", &["type"]),
        ],
        _ => &[],
    }
}

/// What selectable fields are called in a group that stores its objects in another one's form.
pub(super) fn renamed(key: Key<'_>) -> &'static [(&'static str, &'static str)] {
    match key {
        ("events.k8s.io", "events") => &[
            ("regarding.kind", "involvedObject.kind"),
            ("regarding.namespace", "involvedObject.namespace"),
            ("regarding.name", "involvedObject.name"),
            ("regarding.uid", "involvedObject.uid"),
            ("regarding.apiVersion", "involvedObject.apiVersion"),
            ("regarding.resourceVersion", "involvedObject.resourceVersion"),
            ("regarding.fieldPath", "involvedObject.fieldPath"),
            ("reason", "reason"),
            ("reportingController", "reportingComponent"),
            ("type", "type"),
        ],
        _ => &[],
    }
}

/// The text of a selectable field.
pub(super) fn value(object: &Value, path: &[&str]) -> String {
    match crate::object::get(object, path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => match path.last() {
            Some(&("unschedulable" | "hostNetwork")) => "false".into(),
            Some(&("replicas" | "succeeded")) => "0".into(),
            // Events of the newer form say it elsewhere.
            Some(&"component") => value(object, &["reportingComponent"]),
            _ => String::new(),
        },
        Some(other) => other.to_string(),
    }
}

/// The printed columns.
pub(super) fn columns(group: &str, version: &str, plural: &str) -> Vec<Column> {
    type Data = HashMap<String, Vec<(String, String, String, i64)>>;
    // The file is part of the program; a test parses it.
    static COLUMNS: LazyLock<Data> =
        LazyLock::new(|| serde_json::from_str(include_str!("../data/columns.json")).unwrap_or_default());
    match COLUMNS.get(&format!("{group}/{version}/{plural}")) {
        Some(columns) => columns.iter().map(|(n, t, f, p)| Column::new(n, t, f, *p)).collect(),
        None => vec![Column::new("Name", "string", "name", 0), Column::new("Created At", "date", "", 0)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_an_event_is_who_reports_it() {
        let path = &["source", "component"];
        let old = serde_json::json!({"source": {"component": "old"}, "reportingComponent": "new"});
        assert_eq!(value(&old, path), "old");
        assert_eq!(value(&serde_json::json!({"reportingComponent": "new"}), path), "new");
        assert_eq!(value(&serde_json::json!({}), path), "");
    }

    #[test]
    fn the_data_file_parses() {
        assert_eq!(columns("", "v1", "configmaps").len(), 3);
        assert_eq!(columns("no", "such", "thing").len(), 2);
    }
}
