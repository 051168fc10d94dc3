//! The ClusterServiceVersion of a bundle.

use serde_json::{Map, Value, json};

use super::{BundleOptions, SUPPORTED, is_scorecard, text};
use crate::error::{Error, Result};
use crate::project::Project;

/// The manifests of a bundle.
pub(super) struct Parts {
    /// The ClusterServiceVersion.
    pub(super) version: Value,
    /// The objects next to it.
    pub(super) beside: Vec<Value>,
}

/// Maximum depth of spec fields that get descriptors.
const MAX_DEPTH: usize = 2;

pub(super) fn of_objects(
    project: &Project,
    package: &str,
    objects: &[Value],
    options: &BundleOptions,
) -> Result<Parts> {
    let deployments: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Deployment").collect();
    if deployments.is_empty() {
        return Err(Error::usage(
            "the manifests have no Deployment",
            "config/manager has the operator's one",
        ));
    }
    let accounts: Vec<&str> =
        deployments.iter().map(|one| text(one, "/spec/template/spec/serviceAccountName")).collect();
    let definitions: Vec<&Value> =
        objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition").collect();
    let is_sample = |object: &&Value| definitions.iter().any(|crd| is_of(object, crd));
    let samples: Vec<&Value> = objects.iter().filter(is_sample).collect();
    let permissions = |binding: &str, role: &str| permissions(objects, &accounts, binding, role);
    let (cluster, inside) = (
        permissions("ClusterRoleBinding", "ClusterRole"),
        [permissions("RoleBinding", "Role"), permissions("RoleBinding", "ClusterRole")].concat(),
    );
    let used: Vec<&Value> = objects.iter().filter(|object| is_folded(object, objects, &accounts)).collect();
    let mut beside = Vec::new();
    for object in objects {
        let kind = text(object, "/kind");
        if kind == "Namespace" || used.contains(&object) || is_sample(&object) || is_scorecard(object) {
            continue;
        }
        if !SUPPORTED.contains(&kind) {
            return Err(Error::usage(
                format!("{kind}/{} cannot be part of a bundle", text(object, "/metadata/name")),
                format!(
                    "take it out of config/manifests; the Operator Lifecycle Manager installs {}",
                    SUPPORTED.join(", ")
                ),
            ));
        }
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // The Operator Lifecycle Manager sets the namespace.
            metadata.remove("namespace");
        }
        beside.push(object);
    }
    let owned: Vec<Value> = definitions.iter().flat_map(|crd| owned(crd, &samples)).collect();
    let examples = serde_json::to_string_pretty(&samples)
        .map_err(|error| Error::usage(error.to_string(), "the samples are in config/samples"))?;
    let own_namespace = project.is_namespaced();
    let mode = |name: &str, supported: bool| json!({"type": name, "supported": supported});
    let mut install = json!({
        "deployments": deployments.iter().map(|one| json!({
            "name": text(one, "/metadata/name"), "label": one.pointer("/metadata/labels"), "spec": one["spec"],
        })).collect::<Vec<_>>(),
    });
    for (key, rules) in [("clusterPermissions", cluster), ("permissions", inside)] {
        if !rules.is_empty() {
            install[key] = rules.into();
        }
    }
    let mut version = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{package}.v{}", options.version),
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": examples,
                "capabilities": "Basic Install",
                "operators.operatorframework.io/builder": concat!("steer-v", env!("CARGO_PKG_VERSION")),
                "operators.operatorframework.io/project_layout": project.plugin()?.key(),
            },
        },
        "spec": {
            "displayName": title(package),
            "description": format!("The operator {package}."),
            "version": options.version,
            "maturity": "alpha",
            "keywords": [package],
            "provider": {"name": project.domain()},
            "links": [{"name": title(package), "url": link(project)}],
            "maintainers": [{"name": project.name(), "email": format!("maintainers@{}", project.domain())}],
            "icon": [{"base64data": "", "mediatype": ""}],
            "installModes": [
                mode("OwnNamespace", own_namespace), mode("SingleNamespace", own_namespace),
                mode("MultiNamespace", false), mode("AllNamespaces", !own_namespace),
            ],
            "apiservicedefinitions": {},
            "customresourcedefinitions": {"owned": owned},
            "install": {"strategy": "deployment", "spec": install},
        },
    });
    let webhooks =
        webhooks(objects, text(deployments.first().copied().unwrap_or(&Value::Null), "/metadata/name"));
    if !webhooks.is_empty() {
        version["spec"]["webhookdefinitions"] = webhooks.into();
    }
    Ok(Parts { version, beside })
}

fn is_of(object: &Value, crd: &Value) -> bool {
    let (group, version) = text(object, "/apiVersion").split_once('/').unwrap_or_default();
    let served = crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    text(crd, "/spec/group") == group
        && text(crd, "/spec/names/kind") == text(object, "/kind")
        && served.into_iter().any(|one| one["name"] == version)
}

/// Whether an object becomes part of the ClusterServiceVersion itself.
///
/// These are the operator's service accounts with their RBAC, its deployments and its webhooks.
fn is_folded(object: &Value, objects: &[Value], accounts: &[&str]) -> bool {
    let name = text(object, "/metadata/name");
    match text(object, "/kind") {
        "Deployment" | "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => true,
        "ServiceAccount" => accounts.contains(&name),
        "RoleBinding" | "ClusterRoleBinding" => is_bound(object, accounts),
        kind @ ("Role" | "ClusterRole") => objects.iter().any(|binding| {
            text(binding, "/kind").ends_with("Binding")
                && is_bound(binding, accounts)
                && text(binding, "/roleRef/kind") == kind
                && text(binding, "/roleRef/name") == name
        }),
        _ => false,
    }
}

/// Whether a binding has one of the operator's service accounts as a subject.
fn is_bound(binding: &Value, accounts: &[&str]) -> bool {
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    subjects.into_iter().any(|one| one["kind"] == "ServiceAccount" && accounts.contains(&text(one, "/name")))
}

/// Returns the rules that bindings of a kind grant to each service account.
fn permissions(objects: &[Value], accounts: &[&str], binding: &str, role: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for account in accounts {
        let mut rules: Vec<Value> = Vec::new();
        for one in objects.iter().filter(|one| one["kind"] == binding && is_bound(one, &[account])) {
            let wanted = text(one, "/roleRef/name");
            let found = objects.iter().find(|object| {
                object["kind"] == role
                    && text(one, "/roleRef/kind") == role
                    && text(object, "/metadata/name") == wanted
            });
            rules.extend(found.and_then(|found| found["rules"].as_array()).cloned().unwrap_or_default());
        }
        if !rules.is_empty() {
            all.push(json!({"serviceAccountName": account, "rules": rules}));
        }
    }
    all
}

/// Returns the versions of a definition as owned definitions, with descriptors for their fields.
fn owned(crd: &Value, samples: &[&Value]) -> Vec<Value> {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default();
    let kind = text(crd, "/spec/names/kind");
    let served = versions.iter().filter(|version| version["served"] == true);
    served
        .map(|version| {
            let schema = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default();
            let described =
                schema["description"].as_str().map_or_else(|| format!("A {kind}."), str::to_owned);
            let has_sample = samples.iter().any(|sample| sample["kind"] == kind);
            let mut owned = json!({
                "name": text(crd, "/metadata/name"), "kind": kind, "version": version["name"],
                "displayName": title(kind), "description": described,
                "specDescriptors": descriptors(&schema["properties"]["spec"], "", 0),
                "statusDescriptors": descriptors(&schema["properties"]["status"], "", 0),
            });
            if has_sample {
                owned["resources"] = json!([{"kind": "Deployment", "version": "v1", "name": ""}]);
            }
            owned
        })
        .collect()
}

fn descriptors(schema: &Value, prefix: &str, depth: usize) -> Vec<Value> {
    let mut all = Vec::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let described = field["description"].as_str().unwrap_or_default();
        let mut descriptor = Map::new();
        descriptor.insert("path".into(), path.clone().into());
        descriptor.insert("displayName".into(), title(name).into());
        descriptor.insert("description".into(), described.into());
        all.push(Value::Object(descriptor));
        if depth + 1 < MAX_DEPTH {
            all.extend(descriptors(field, &path, depth + 1));
        }
    }
    all
}

/// Returns the webhooks as `webhookdefinitions`, which the Operator Lifecycle Manager configures.
fn webhooks(objects: &[Value], deployment: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for (kind, admission) in [
        ("MutatingWebhookConfiguration", "MutatingAdmissionWebhook"),
        ("ValidatingWebhookConfiguration", "ValidatingAdmissionWebhook"),
    ] {
        let webhooks = objects.iter().filter(|object| object["kind"] == kind);
        for webhook in webhooks.flat_map(|object| object["webhooks"].as_array().into_iter().flatten()) {
            all.push(json!({
                "type": admission, "generateName": webhook["name"], "deploymentName": deployment,
                "containerPort": 443, "targetPort": 9443, "sideEffects": webhook["sideEffects"],
                "failurePolicy": webhook["failurePolicy"], "admissionReviewVersions": webhook["admissionReviewVersions"],
                "rules": webhook["rules"], "webhookPath": webhook.pointer("/clientConfig/service/path"),
            }));
        }
    }
    all
}

fn link(project: &Project) -> String {
    match project.repo() {
        "" => format!("https://{}", project.domain()),
        repo if repo.contains("://") => repo.to_owned(),
        repo => format!("https://{repo}"),
    }
}

/// Converts a name such as `replicaCount` or `shop-operator` to capitalized words.
fn title(name: &str) -> String {
    let mut words = String::new();
    let mut start = true;
    for c in name.chars() {
        if matches!(c, '-' | '_' | '.') {
            words.push(' ');
            start = true;
        } else if start {
            words.extend(c.to_uppercase());
            start = false;
        } else {
            if c.is_ascii_uppercase() && words.ends_with(|last: char| last.is_ascii_lowercase()) {
                words.push(' ');
            }
            words.push(c);
        }
    }
    words
}
