//! What an operator needs in a cluster, generated from what its code declares, so that the two can't drift apart.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::rbac::v1::PolicyRule,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    controller::{Blueprint, Relation},
    error::{Error, Result},
    kind::Kind,
};

/// What an operator declares.
pub(crate) struct Declarations<'a> {
    pub(crate) name: &'a str,
    pub(crate) controllers: &'a [Blueprint],
    pub(crate) crds: &'a [CustomResourceDefinition],
    pub(crate) rules: &'a [PolicyRule],
    pub(crate) namespaces: &'a [String],
}

const READ: [&str; 3] = ["get", "list", "watch"];
const CHANGE: [&str; 2] = ["patch", "update"];
const OWN: [&str; 4] = ["create", "delete", "patch", "update"];

impl Declarations<'_> {
    /// The definitions, those given by hand instead of the derived ones.
    pub(crate) fn crds(&self) -> Vec<CustomResourceDefinition> {
        let derived = self.controllers.iter().filter_map(|controller| controller.crd.map(|crd| crd()));
        let mut crds: BTreeMap<String, CustomResourceDefinition> =
            derived.map(|crd| (crd.name_any(), crd)).collect();
        for crd in self.crds {
            crds.insert(crd.name_any(), crd.clone());
        }
        crds.into_values().collect()
    }

    /// The permissions, as few rules as possible.
    pub(crate) fn rules(&self) -> Vec<PolicyRule> {
        let mut verbs: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
        let mut allow = |kind: &Kind, subresource: &str, more: &[&'static str]| {
            let resource = kind.resource();
            let name = format!("{}{subresource}", resource.plural);
            verbs.entry((resource.group.clone(), name)).or_default().extend(more);
        };
        for controller in self.controllers {
            let kind = &controller.primary.kind;
            allow(kind, "", &READ);
            allow(kind, "", &CHANGE);
            allow(kind, "/status", &["get", "patch", "update"]);
            // Owner references that block deletion need this one.
            allow(kind, "/finalizers", &["update"]);
            for watch in &controller.watches {
                allow(&watch.kind, "", &READ);
                if matches!(watch.relation, Relation::Owned) {
                    allow(&watch.kind, "", &OWN);
                }
            }
            for (kind, _) in &controller.secondary {
                allow(kind, "", &READ);
                allow(kind, "", &OWN);
            }
        }
        verbs.entry(("events.k8s.io".into(), "events".into())).or_default().extend(["create", "patch"]);
        let mut merged: BTreeMap<(String, Vec<&str>), Vec<String>> = BTreeMap::new();
        for ((group, resource), verbs) in verbs {
            merged.entry((group, verbs.into_iter().collect())).or_default().push(resource);
        }
        let mut rules: Vec<PolicyRule> = merged
            .into_iter()
            .map(|((group, verbs), resources)| PolicyRule {
                api_groups: Some(vec![group]),
                resources: Some(resources),
                verbs: verbs.into_iter().map(str::to_owned).collect(),
                ..PolicyRule::default()
            })
            .collect();
        rules.extend(self.rules.iter().cloned());
        rules
    }

    pub(crate) fn crd_manifests(&self) -> Result<String> {
        documents(&self.crds())
    }

    pub(crate) fn rbac_manifests(&self, namespace: &str) -> Result<String> {
        documents(&self.rbac(namespace))
    }

    /// Everything.
    pub(crate) fn manifests(&self, namespace: &str, image: &str) -> Result<String> {
        let mut text = self.crd_manifests()?;
        text.push_str(&self.rbac_manifests(namespace)?);
        text.push_str(&documents(&[self.deployment(namespace, image)])?);
        Ok(text)
    }

    fn rbac(&self, namespace: &str) -> Vec<Value> {
        let name = self.name;
        let labels = self.labels();
        let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
        let group = "rbac.authorization.k8s.io";
        let api_version = "rbac.authorization.k8s.io/v1";
        let election = format!("{name}-leader-election");
        let mut all = vec![json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
        })];
        if self.namespaces.is_empty() {
            all.push(json!({
                "apiVersion": api_version, "kind": "ClusterRole",
                "metadata": {"name": name, "labels": labels}, "rules": self.rules(),
            }));
            all.push(json!({
                "apiVersion": api_version, "kind": "ClusterRoleBinding",
                "metadata": {"name": name, "labels": labels}, "subjects": subjects,
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            }));
        }
        for watched in self.namespaces {
            all.push(json!({
                "apiVersion": api_version, "kind": "Role",
                "metadata": {"name": name, "namespace": watched, "labels": labels}, "rules": self.rules(),
            }));
            all.push(json!({
                "apiVersion": api_version, "kind": "RoleBinding",
                "metadata": {"name": name, "namespace": watched, "labels": labels}, "subjects": subjects,
                "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            }));
        }
        all.push(json!({
            "apiVersion": api_version, "kind": "Role",
            "metadata": {"name": election, "namespace": namespace, "labels": labels},
            "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                "verbs": ["get", "create", "update"]}],
        }));
        all.push(json!({
            "apiVersion": api_version, "kind": "RoleBinding",
            "metadata": {"name": election, "namespace": namespace, "labels": labels}, "subjects": subjects,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": election},
        }));
        all
    }

    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.name, "app.kubernetes.io/managed-by": "steersman"})
    }

    fn deployment(&self, namespace: &str, image: &str) -> Value {
        let name = self.name;
        let selector = json!({"app.kubernetes.io/name": name, "control-plane": "controller-manager"});
        let mut env =
            vec![json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})];
        if !self.namespaces.is_empty() {
            env.push(json!({"name": "WATCH_NAMESPACE", "value": self.namespaces.join(",")}));
        }
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace, "labels": self.labels()},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": selector},
                "template": {
                    "metadata": {"labels": selector},
                    "spec": {
                        "serviceAccountName": name,
                        "terminationGracePeriodSeconds": 40,
                        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                        "containers": [{
                            "name": "manager",
                            "image": image,
                            "args": ["run", "--leader-elect"],
                            "env": env,
                            "ports": [
                                {"name": "metrics", "containerPort": 8080},
                                {"name": "probes", "containerPort": 8081},
                            ],
                            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "probes"},
                                "initialDelaySeconds": 15, "periodSeconds": 20},
                            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"},
                                "initialDelaySeconds": 5, "periodSeconds": 10},
                            "resources": {"limits": {"cpu": "500m", "memory": "128Mi"},
                                "requests": {"cpu": "10m", "memory": "32Mi"}},
                            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                "capabilities": {"drop": ["ALL"]}},
                        }],
                    },
                },
            },
        })
    }
}

/// Writes objects as YAML documents, without the empty fields that make other tools see differences for ever.
fn documents(objects: &[impl Serialize]) -> Result<String> {
    let mut text = String::new();
    for object in objects {
        let convert = |source| Error::Convert { what: "a manifest".into(), source };
        let mut value = serde_json::to_value(object).map_err(convert)?;
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        text.push_str("---\n");
        text.push_str(&steersman_yaml::to_string(&value).map_err(Error::other)?);
    }
    Ok(text)
}
