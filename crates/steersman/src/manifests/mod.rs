//! What an operator needs in a cluster, generated from what its code declares, so that the two can't drift apart.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
        rbac::v1::PolicyRule,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    controller::{Blueprint, Relation},
    error::{Error, Result},
    kind::Kind,
    webhook::Webhooks,
};

/// What an operator declares.
pub(crate) struct Declarations<'a> {
    pub(crate) name: &'a str,
    pub(crate) controllers: &'a [Blueprint],
    pub(crate) crds: &'a [CustomResourceDefinition],
    pub(crate) rules: &'a [PolicyRule],
    pub(crate) namespaces: &'a [String],
    pub(crate) webhooks: &'a Webhooks,
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
        if !self.webhooks.is_empty() {
            // The own certificate, and its announcement.
            allow(&Kind::of::<Secret>(), "", &["create", "get", "update"]);
            allow(&Kind::of::<MutatingWebhookConfiguration>(), "", &["create", "get", "patch"]);
            allow(&Kind::of::<ValidatingWebhookConfiguration>(), "", &["create", "get", "patch"]);
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
        if !self.webhooks.is_empty() {
            text.push_str(&documents(&[self.service(namespace)])?);
        }
        Ok(text)
    }

    /// The name of the webhooks' service, and of the secret with their certificate.
    pub(crate) fn webhook_service(&self) -> String {
        format!("{}-webhook", self.name)
    }

    fn service(&self, namespace: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": self.webhook_service(), "namespace": namespace, "labels": self.labels()},
            "spec": {
                "selector": {"app.kubernetes.io/name": self.name, "control-plane": "controller-manager"},
                "ports": [{"name": "webhooks", "port": 443, "targetPort": 9443}],
            },
        })
    }

    /// The configurations that send reviews to the operator. It applies them itself when the certificate is its own.
    pub(crate) fn webhook_configurations(
        &self,
        namespace: &str,
        authority: Option<&[u8]>,
    ) -> Vec<(Kind, Value)> {
        use base64::Engine as _;
        let bundle = authority.map(|pem| base64::engine::general_purpose::STANDARD.encode(pem));
        let mut all = Vec::new();
        for (mutating, kind) in [
            (true, Kind::of::<MutatingWebhookConfiguration>()),
            (false, Kind::of::<ValidatingWebhookConfiguration>()),
        ] {
            let webhooks: Vec<Value> = self
                .webhooks
                .admission
                .iter()
                .filter(|webhook| webhook.mutating == mutating)
                .map(|webhook| {
                    let resource = webhook.kind.resource();
                    let mut config = json!({
                        "service": {"name": self.webhook_service(), "namespace": namespace, "path": webhook.path()},
                    });
                    if let Some(bundle) = &bundle {
                        config["caBundle"] = bundle.as_str().into();
                    }
                    json!({
                        "name": webhook.name(), "admissionReviewVersions": ["v1"], "sideEffects": "None",
                        "failurePolicy": "Fail", "clientConfig": config,
                        "rules": [{"apiGroups": [resource.group], "apiVersions": [resource.version],
                            "resources": [resource.plural], "operations": webhook.operations}],
                    })
                })
                .collect();
            if !webhooks.is_empty() {
                let object = json!({
                    "apiVersion": kind.resource().api_version, "kind": kind.name(),
                    "metadata": {"name": self.webhook_service(), "labels": self.labels()}, "webhooks": webhooks,
                });
                all.push((kind, object));
            }
        }
        if let Some(bundle) = &bundle {
            all.extend(self.conversions(namespace, bundle));
        }
        all
    }

    /// The definitions whose versions the operator converts, with the way to it.
    fn conversions(&self, namespace: &str, bundle: &str) -> Vec<(Kind, Value)> {
        let converted = |crd: &CustomResourceDefinition| {
            self.webhooks.conversions.iter().any(|conversion| {
                let resource = conversion.hub.resource();
                resource.group == crd.spec.group && resource.kind == crd.spec.names.kind
            })
        };
        self.crds()
            .into_iter()
            .filter(converted)
            .filter_map(|crd| {
                let mut object = serde_json::to_value(crd).ok()?;
                object["spec"]["conversion"] = json!({
                    "strategy": "Webhook",
                    "webhook": {
                        "conversionReviewVersions": ["v1"],
                        "clientConfig": {
                            "service": {"name": self.webhook_service(), "namespace": namespace, "path": "/convert"},
                            "caBundle": bundle,
                        },
                    },
                });
                Some((Kind::of::<CustomResourceDefinition>(), object))
            })
            .collect()
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
                                {"name": "webhooks", "containerPort": 9443},
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
