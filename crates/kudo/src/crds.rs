//! The CustomResourceDefinitions of the group, and the admission webhook's configuration.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::api::{GROUP, VERSION};

/// Returns the definitions of Operator, OperatorVersion and Instance. Only Instance has a status
/// subresource.
///
/// # Panics
/// Never: the definitions are constant.
#[must_use]
pub fn crds() -> [CustomResourceDefinition; 3] {
    let text = || json!({ "type": "string" });
    let yes = || json!({ "type": "boolean" });
    let list = |items: Value| json!({ "type": "array", "items": items });
    let table = |values: Value| json!({ "type": "object", "additionalProperties": values });
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    let reference = || {
        object(json!({
            "apiVersion": text(), "fieldPath": text(), "kind": text(), "name": text(), "namespace": text(),
            "resourceVersion": text(), "uid": text(),
        }))
    };
    let operator = object(json!({
        "description": text(), "kubernetesVersion": text(), "kudoVersion": text(), "namespaceManifest": text(),
        "url": text(), "maintainers": list(object(json!({ "name": text(), "email": text() }))),
    }));
    let parameter = object(json!({
        "name": text(), "displayName": text(), "description": text(), "default": text(), "required": yes(),
        "trigger": text(), "value-type": text(), "immutable": yes(), "enum": list(text()),
    }));
    let check = object(json!({ "kind": text(), "name": text(), "ready": text(), "failed": text() }));
    let pipe = object(json!({ "file": text(), "envFile": text(), "kind": text(), "key": text() }));
    let task = object(json!({
        "name": text(), "kind": text(),
        "spec": object(json!({
            "resources": list(text()), "parameter": text(), "pod": text(), "pipe": list(pipe), "wantErr": yes(),
            "fatal": yes(), "done": yes(), "package": text(), "instanceName": text(), "appVersion": text(),
            "operatorVersion": text(), "parameterFile": text(), "health": list(check), "chart": text(),
            "releaseName": text(), "valuesFile": text(),
        })),
    }));
    let step = object(json!({ "name": text(), "timeout": text(), "tasks": list(text()) }));
    let phase = object(json!({ "name": text(), "strategy": text(), "steps": list(step) }));
    let plan = object(json!({ "strategy": text(), "timeout": text(), "phases": list(phase) }));
    let operator_version = object(json!({
        "operator": reference(), "version": text(), "appVersion": text(), "templates": table(text()),
        "charts": table(table(text())),
        "tasks": list(task), "parameters": list(parameter), "plans": table(plan), "connectionString": text(),
        "upgradableFrom": list(reference()),
    }));
    let instance = object(json!({
        "operatorVersion": reference(), "parameters": table(text()),
        "planExecution": object(json!({
            "planName": text(), "uid": text(), "status": text(), "parameters": table(text()),
        })),
    }));
    let time = || json!({ "type": "string", "format": "date-time" });
    let step_status =
        object(json!({ "name": text(), "status": text(), "message": text(), "startTime": time() }));
    let phase_status =
        object(json!({ "name": text(), "status": text(), "message": text(), "steps": list(step_status) }));
    let plan_status = object(json!({
        "name": text(), "status": text(), "message": text(), "uid": text(), "phases": list(phase_status),
        "lastUpdatedTimestamp": time(), "startTime": time(),
        "progress": { "type": "integer", "format": "int32" },
    }));
    let condition = object(json!({
        "type": text(), "status": text(), "reason": text(), "message": text(),
        "lastTransitionTime": time(), "observedGeneration": { "type": "integer", "format": "int64" },
    }));
    let run = object(json!({
        "plan": text(), "uid": text(), "status": text(), "message": text(), "operatorVersion": text(),
        "startTime": time(), "endTime": time(),
    }));
    let resource = object(json!({
        "apiVersion": text(), "kind": text(), "name": text(), "operatorVersion": text(), "plan": text(),
        "phase": text(), "step": text(), "task": text(), "uid": text(), "managed": yes(), "digest": text(),
    }));
    let status = object(json!({
        "planStatus": table(plan_status), "conditions": list(condition), "history": list(run),
        "resources": list(resource),
    }));
    [
        definition("Operator", "operators", operator, None),
        definition("OperatorVersion", "operatorversions", operator_version, None),
        definition("Instance", "instances", instance, Some(status)),
    ]
    .map(|crd| serde_json::from_value(crd).expect("a constant definition"))
}

fn definition(kind: &str, plural: &str, spec: Value, status: Option<Value>) -> Value {
    let mut properties = json!({
        "apiVersion": { "type": "string" }, "kind": { "type": "string" }, "metadata": { "type": "object" }, "spec": spec,
    });
    let mut version = json!({ "name": VERSION, "served": true, "storage": true });
    if let Some(status) = status {
        properties["status"] = status;
        version["subresources"] = json!({ "status": {} });
    } else {
        properties["status"] = json!({ "type": "object" });
    }
    version["schema"] = json!({ "openAPIV3Schema": { "type": "object", "properties": properties } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": { "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase() },
            "versions": [version],
        },
    })
}

/// Returns the configuration of the webhook for instances, reached through a service.
#[must_use]
pub fn webhook_configuration(namespace: &str, service: &str, path: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": "kudo-manager-instance-admission-webhook-config" },
        "webhooks": [{
            "name": "instance-admission.kudo.dev",
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "clientConfig": { "service": { "namespace": namespace, "name": service, "path": path } },
            "rules": [{
                "apiGroups": [GROUP], "apiVersions": [VERSION], "resources": ["instances"],
                "operations": ["CREATE", "UPDATE"], "scope": "Namespaced",
            }],
        }],
    })
}
