//! What an operator needs in a cluster, generated from what its code declares, so that the two can't drift apart.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        coordination::v1::Lease,
        core::v1::Secret,
        events::v1::Event,
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
    webhook::{Webhook, Webhooks},
};

/// What an operator declares.
pub(crate) struct Declarations<'a> {
    pub(crate) name: &'a str,
    pub(crate) controllers: &'a [Blueprint],
    pub(crate) crds: &'a [CustomResourceDefinition],
    pub(crate) rules: &'a [PolicyRule],
    pub(crate) namespaces: &'a [String],
    pub(crate) webhooks: &'a Webhooks,
    /// Where the webhooks are, if not behind the operator's service.
    pub(crate) webhook_url: Option<&'a str>,
    /// Whether its replicas share the objects.
    pub(crate) sharded: bool,
}

/// What may be done with which resources.
#[derive(Default)]
struct Verbs(BTreeMap<(String, String), BTreeSet<&'static str>>);

impl Verbs {
    fn allow(&mut self, kind: &Kind, subresource: &str, more: &[&'static str]) {
        let resource = kind.resource();
        let name = format!("{}{subresource}", resource.plural);
        self.0.entry((resource.group.clone(), name)).or_default().extend(more);
    }

    /// As rules: resources of one group with the same verbs share one.
    fn rules(self) -> Vec<PolicyRule> {
        let mut merged: BTreeMap<(String, Vec<&str>), Vec<String>> = BTreeMap::new();
        for ((group, resource), verbs) in self.0 {
            merged.entry((group, verbs.into_iter().collect())).or_default().push(resource);
        }
        let rule = |((group, verbs), resources): ((String, Vec<&str>), Vec<String>)| PolicyRule {
            api_groups: Some(vec![group]),
            resources: Some(resources),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            ..PolicyRule::default()
        };
        merged.into_iter().map(rule).collect()
    }
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

    /// The permissions where the operator watches, as few rules as possible.
    pub(crate) fn rules(&self) -> Vec<PolicyRule> {
        let (mut rules, outside) = self.scoped_rules();
        rules.extend(outside);
        rules
    }

    /// The permissions for what lives in namespaces, and for what does not.
    fn scoped_rules(&self) -> (Vec<PolicyRule>, Vec<PolicyRule>) {
        let (mut inside, mut outside) = (Verbs::default(), Verbs::default());
        let mut allow = |kind: &Kind, subresource: &str, more: &[&'static str]| {
            let verbs = if kind.namespaced() { &mut inside } else { &mut outside };
            verbs.allow(kind, subresource, more);
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
            // The announcement of the own certificate.
            allow(&Kind::of::<MutatingWebhookConfiguration>(), "", &["create", "get", "patch"]);
            allow(&Kind::of::<ValidatingWebhookConfiguration>(), "", &["create", "get", "patch"]);
        }
        if !self.webhooks.conversions.is_empty() {
            // The way to a converting webhook stands in the definition.
            allow(&Kind::of::<CustomResourceDefinition>(), "", &["get", "patch"]);
        }
        allow(&Kind::of::<Event>(), "", &["create", "patch"]);
        let mut inside = inside.rules();
        inside.extend(self.rules.iter().cloned());
        (inside, outside.rules())
    }

    /// What the operator needs in its own namespace, wherever it watches: leases, to lead or to share the objects, and the
    /// secret with the webhooks' certificate.
    pub(crate) fn own_rules(&self) -> Vec<PolicyRule> {
        let mut verbs = Verbs::default();
        verbs.allow(&Kind::of::<Lease>(), "", &["create", "get", "update"]);
        if self.sharded {
            verbs.allow(&Kind::of::<Lease>(), "", &["delete", "list", "patch"]);
        }
        if !self.webhooks.is_empty() {
            verbs.allow(&Kind::of::<Secret>(), "", &["create", "get", "update"]);
        }
        verbs.rules()
    }

    /// The permissions, with those in the operator's own namespace.
    pub(crate) fn all_rules(&self) -> Vec<PolicyRule> {
        let mut rules = self.rules();
        rules.extend(self.own_rules());
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

    /// Where the API server finds a webhook.
    fn client_config(&self, namespace: &str, path: &str) -> Value {
        match self.webhook_url {
            Some(url) => json!({"url": format!("{}{path}", url.trim_end_matches('/'))}),
            None => {
                json!({"service": {"name": self.webhook_service(), "namespace": namespace, "path": path}})
            }
        }
    }

    /// The configurations that send reviews to the operator, but for the authority that signs its certificate.
    pub(crate) fn webhook_configurations(&self, namespace: &str) -> Vec<(Kind, Value)> {
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
                .map(|webhook| self.webhook_configuration(webhook, namespace))
                .collect();
            if !webhooks.is_empty() {
                let object = json!({
                    "apiVersion": kind.resource().api_version, "kind": kind.name(),
                    "metadata": {"name": self.webhook_service(), "labels": self.labels()}, "webhooks": webhooks,
                });
                all.push((kind, object));
            }
        }
        all.extend(self.conversions(namespace));
        all
    }

    fn webhook_configuration(&self, webhook: &Webhook, namespace: &str) -> Value {
        let resource = webhook.kind.resource();
        let mut configuration = json!({
            "name": webhook.name(), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "clientConfig": self.client_config(namespace, &webhook.path()),
            "rules": [{"apiGroups": [resource.group], "apiVersions": [resource.version],
                "resources": [resource.plural], "operations": webhook.operations}],
        });
        if webhook.kind.namespaced() && !self.namespaces.is_empty() {
            // What the operator does not watch is none of its business.
            configuration["namespaceSelector"] = json!({"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": self.namespaces},
            ]});
        }
        configuration
    }

    /// The definitions whose versions the operator converts, with the way to it.
    fn conversions(&self, namespace: &str) -> Vec<(Kind, Value)> {
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
                        "clientConfig": self.client_config(namespace, "/convert"),
                    },
                });
                Some((Kind::of::<CustomResourceDefinition>(), object))
            })
            .collect()
    }

    /// The account of the operator, and what it may do.
    pub(crate) fn rbac(&self, namespace: &str) -> Vec<Value> {
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
        let (inside, mut outside) = self.scoped_rules();
        if self.namespaces.is_empty() {
            outside.splice(0..0, inside.iter().cloned());
        }
        if !outside.is_empty() {
            all.push(json!({
                "apiVersion": api_version, "kind": "ClusterRole",
                "metadata": {"name": name, "labels": labels}, "rules": outside,
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
                "metadata": {"name": name, "namespace": watched, "labels": labels}, "rules": inside,
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
            "rules": self.own_rules(),
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
        // Replicas that share the objects all work at once.
        let (arguments, replicas) =
            if self.sharded { (vec!["run", "--shard"], 2) } else { (vec!["run", "--leader-elect"], 1) };
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
                "replicas": replicas,
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
                            "args": arguments,
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
