//! Converts objects of API versions that Kubernetes has removed to the current ones.

use serde_json::{Map, Value, json};

/// The API versions of a converted object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The removed version.
    pub from: String,
    /// The current version.
    pub to: String,
}

impl std::fmt::Display for Mapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is no longer served: applied as {}", self.from, self.to)
    }
}

/// Converts an object of a removed API version, including fields that have moved.
pub fn map_removed_api(object: &mut Value) -> Option<Mapped> {
    let before = object["apiVersion"].as_str()?.to_owned();
    let kind = object["kind"].as_str()?.to_owned();
    let after = match (before.as_str(), kind.as_str()) {
        ("policy/v1beta1", "PodDisruptionBudget") => "policy/v1",
        (
            "rbac.authorization.k8s.io/v1beta1" | "rbac.authorization.k8s.io/v1alpha1",
            "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding",
        ) => "rbac.authorization.k8s.io/v1",
        ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition") => {
            definition(object);
            "apiextensions.k8s.io/v1"
        }
        ("extensions/v1beta1" | "networking.k8s.io/v1beta1", "Ingress") => {
            ingress(object);
            "networking.k8s.io/v1"
        }
        ("networking.k8s.io/v1beta1", "IngressClass") | ("extensions/v1beta1", "NetworkPolicy") => {
            "networking.k8s.io/v1"
        }
        ("batch/v1beta1" | "batch/v2alpha1", "CronJob") => "batch/v1",
        (
            "extensions/v1beta1" | "apps/v1beta1" | "apps/v1beta2",
            "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet",
        ) => {
            workload(object);
            "apps/v1"
        }
        ("storage.k8s.io/v1beta1", "StorageClass" | "VolumeAttachment" | "CSIDriver" | "CSINode") => {
            "storage.k8s.io/v1"
        }
        ("scheduling.k8s.io/v1beta1" | "scheduling.k8s.io/v1alpha1", "PriorityClass") => {
            "scheduling.k8s.io/v1"
        }
        ("autoscaling/v2beta1" | "autoscaling/v2beta2", "HorizontalPodAutoscaler") => "autoscaling/v2",
        (
            "admissionregistration.k8s.io/v1beta1",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => {
            webhooks(object);
            "admissionregistration.k8s.io/v1"
        }
        _ => return None,
    };
    object["apiVersion"] = after.into();
    Some(Mapped { from: format!("{before} {kind}"), to: format!("{after} {kind}") })
}

/// Workloads: the selector, which used to be optional, defaults to the pods' labels.
fn workload(object: &mut Value) {
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    if let (Some(spec), Some(labels)) = (object.get_mut("spec").and_then(Value::as_object_mut), labels) {
        spec.entry("selector").or_insert_with(|| json!({ "matchLabels": labels }));
        spec.remove("rollbackTo");
    }
}

/// Ingress: `serviceName` and `servicePort` become a nested backend; every path needs a type.
fn ingress(object: &mut Value) {
    fn backend(value: &mut Value) {
        let Some(old) = value.as_object_mut() else { return };
        let (Some(name), port) = (old.remove("serviceName"), old.remove("servicePort")) else { return };
        let port = match port {
            Some(Value::String(name)) => match name.parse::<i64>() {
                Ok(number) => json!({ "number": number }),
                Err(_) => json!({ "name": name }),
            },
            Some(number) => json!({ "number": number }),
            None => json!({}),
        };
        old.insert("service".into(), json!({ "name": name, "port": port }));
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(mut default) = spec.remove("backend") {
        backend(&mut default);
        spec.insert("defaultBackend".into(), default);
    }
    for rule in spec.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        let paths = rule.pointer_mut("/http/paths").and_then(Value::as_array_mut);
        for path in paths.into_iter().flatten() {
            if let Some(path) = path.as_object_mut() {
                path.entry("pathType").or_insert_with(|| "ImplementationSpecific".into());
                if let Some(one) = path.get_mut("backend") {
                    backend(one);
                }
            }
        }
    }
}

fn webhooks(object: &mut Value) {
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(webhook) = webhook.as_object_mut() {
            webhook.entry("sideEffects").or_insert_with(|| "None".into());
            webhook.entry("admissionReviewVersions").or_insert_with(|| json!(["v1", "v1beta1"]));
        }
    }
}

/// CustomResourceDefinition: top-level fields move into each version; every version needs a schema.
fn definition(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let schema = spec.remove("validation");
    let subresources = spec.remove("subresources");
    let columns = spec.remove("additionalPrinterColumns");
    let preserves = spec.remove("preserveUnknownFields") != Some(Value::Bool(false));
    let single = spec.remove("version");
    let versions = spec.entry("versions").or_insert_with(|| json!([]));
    if let (Some(list), Some(name)) = (versions.as_array_mut(), single)
        && list.is_empty()
    {
        list.push(json!({ "name": name, "served": true, "storage": true }));
    }
    for version in versions.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        let given = version.remove("schema").or_else(|| schema.clone()).unwrap_or_else(|| json!({}));
        version.insert("schema".into(), structural(given, preserves));
        if let Some(subresources) = &subresources {
            version.entry("subresources").or_insert_with(|| subresources.clone());
        }
        let own = version.remove("additionalPrinterColumns").or_else(|| columns.clone());
        if let Some(mut columns) = own {
            for column in columns.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                if let Some(path) = column.remove("JSONPath") {
                    column.insert("jsonPath".into(), path);
                }
            }
            version.insert("additionalPrinterColumns".into(), columns);
        }
    }
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut)
        && let Some(client) = conversion.remove("webhookClientConfig")
    {
        let reviews = conversion.remove("conversionReviewVersions").unwrap_or_else(|| json!(["v1beta1"]));
        conversion
            .insert("webhook".into(), json!({ "clientConfig": client, "conversionReviewVersions": reviews }));
    }
    // Groups in Kubernetes' own domains need the API approval annotation.
    let group = spec.get("group").and_then(Value::as_str).unwrap_or_default();
    if group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io") {
        let annotations = [("api-approved.kubernetes.io", "unapproved, of a definition in v1beta1")];
        crate::task::insert_strings(object, "", "annotations", &annotations);
    }
}

/// Makes the root schema an object, which preserves unknown fields if the definition did.
fn structural(schema: Value, preserves: bool) -> Value {
    let mut root = schema.get("openAPIV3Schema").and_then(Value::as_object).cloned().unwrap_or_default();
    complete(&mut root, 0);
    root.insert("type".into(), "object".into());
    if preserves {
        root.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
    }
    json!({ "openAPIV3Schema": root })
}

/// Whether the alternatives are integer and string, which `x-kubernetes-int-or-string` replaces.
fn is_int_or_string(choices: &Value) -> bool {
    let types: Vec<&str> =
        choices.as_array().into_iter().flatten().filter_map(|choice| choice["type"].as_str()).collect();
    matches!(types.as_slice(), ["integer", "string"] | ["string", "integer"])
}

/// Strips structure from the alternatives of a schema: in a structural schema they may only validate.
fn validation_only(schema: &mut Value, depth: usize) {
    if depth > 64 {
        return;
    }
    match schema {
        Value::Array(all) => all.iter_mut().for_each(|one| validation_only(one, depth + 1)),
        Value::Object(one) => {
            for key in ["type", "description", "title", "default", "nullable", "additionalProperties"] {
                one.remove(key);
            }
            for key in ["anyOf", "oneOf", "allOf", "not", "items"] {
                if let Some(inner) = one.get_mut(key) {
                    validation_only(inner, depth + 1);
                }
            }
            let properties = one.get_mut("properties").and_then(Value::as_object_mut);
            properties.into_iter().flatten().for_each(|(_, inner)| validation_only(inner, depth + 1));
        }
        _ => {}
    }
}

/// Completes a schema: every part needs a type, and one without preserves unknown fields.
fn complete(schema: &mut Map<String, Value>, depth: usize) {
    if depth > 64 {
        return;
    }
    if !schema.contains_key("type") && schema.get("anyOf").is_some_and(is_int_or_string) {
        schema.remove("anyOf");
        schema.insert("x-kubernetes-int-or-string".into(), true.into());
    }
    for key in ["anyOf", "oneOf", "allOf", "not"] {
        if let Some(choices) = schema.get_mut(key) {
            validation_only(choices, 0);
        }
    }
    for part in ["properties"] {
        let parts = schema.get_mut(part).and_then(Value::as_object_mut);
        for (_, value) in parts.into_iter().flatten() {
            if let Some(inner) = value.as_object_mut() {
                complete(inner, depth + 1);
            }
        }
    }
    for part in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(part).and_then(Value::as_object_mut) {
            complete(inner, depth + 1);
        }
    }
    let is_typed = schema.contains_key("type")
        || schema.contains_key("x-kubernetes-int-or-string")
        || schema.contains_key("x-kubernetes-preserve-unknown-fields");
    if !is_typed {
        if schema.contains_key("properties") || schema.contains_key("additionalProperties") {
            schema.insert("type".into(), "object".into());
        } else {
            schema.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
        }
    }
}
