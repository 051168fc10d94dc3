//! Manifests of an operator, generated from what its code declares, so that the two can't drift apart.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        authentication::v1::TokenReview,
        authorization::v1::SubjectAccessReview,
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
    controller::{ControllerSpec, Relation},
    error::{Error, Result},
    kind::Kind,
    webhook::{Webhook, Webhooks},
};

/// What an operator declares.
pub(crate) struct Declarations<'a> {
    pub(crate) name: &'a str,
    pub(crate) controllers: &'a [ControllerSpec],
    pub(crate) crds: &'a [CustomResourceDefinition],
    pub(crate) rules: &'a [PolicyRule],
    pub(crate) namespaces: &'a [String],
    pub(crate) webhooks: &'a Webhooks,
    /// URL of the webhooks, if they are not behind the operator's Service.
    pub(crate) webhook_url: Option<&'a str>,
    /// Whether it serves its webhooks.
    pub(crate) serves_webhooks: bool,
    /// Whether it issues the webhooks' certificate itself.
    pub(crate) own_certificate: bool,
    /// The Lease of leader election, if there is one.
    pub(crate) lease: Option<&'a str>,
    /// Whether its replicas share the objects.
    pub(crate) sharded: bool,
    /// Whether readers of its metrics are authorized by the API server.
    pub(crate) reviews_access: bool,
}

/// The verbs that are allowed on resources.
#[derive(Default)]
struct Verbs(BTreeMap<Resources, BTreeSet<&'static str>>);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Resources {
    group: String,
    resource: String,
    /// Names of the objects. Empty: all.
    names: Vec<String>,
}

impl Verbs {
    fn allow(&mut self, kind: &Kind, subresource: &str, more: &[&'static str]) {
        self.allow_named(kind, subresource, Vec::new(), more);
    }

    /// Allows verbs on objects of these names only. That is not possible for `create`: the object has no name yet.
    fn allow_named(&mut self, kind: &Kind, subresource: &str, names: Vec<String>, more: &[&'static str]) {
        let group = kind.resource().group.clone();
        let resource = format!("{}{subresource}", kind.resource().plural);
        self.0.entry(Resources { group, resource, names }).or_default().extend(more);
    }

    /// Converts to rules: resources of one group with the same verbs and names share one.
    fn rules(self) -> Vec<PolicyRule> {
        type Shared<'a> = (String, Vec<&'a str>, Vec<String>);
        let mut merged: BTreeMap<Shared<'_>, Vec<String>> = BTreeMap::new();
        for (Resources { group, resource, names }, verbs) in self.0 {
            merged.entry((group, verbs.into_iter().collect(), names)).or_default().push(resource);
        }
        let rules = merged.into_iter().map(|((group, verbs, names), resources)| PolicyRule {
            api_groups: Some(vec![group]),
            resources: Some(resources),
            resource_names: (!names.is_empty()).then_some(names),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            ..PolicyRule::default()
        });
        rules.collect()
    }
}

const READ: [&str; 3] = ["get", "list", "watch"];
// Everything is applied, and an apply is a patch: the runtime needs `update` only for its leases and its Secret.
const OWN: [&str; 3] = ["create", "delete", "patch"];

impl Declarations<'_> {
    /// Returns the CRDs; those added explicitly replace the derived ones.
    pub(crate) fn crds(&self) -> Vec<CustomResourceDefinition> {
        let derived = self.controllers.iter().filter_map(|controller| controller.crd.map(|crd| crd()));
        let mut crds: BTreeMap<String, CustomResourceDefinition> =
            derived.map(|crd| (crd.name_any(), crd)).collect();
        for crd in self.crds {
            crds.insert(crd.name_any(), crd.clone());
        }
        crds.into_values().collect()
    }

    /// Returns the permissions for the watched namespaces, in as few rules as possible.
    pub(crate) fn rules(&self) -> Vec<PolicyRule> {
        let (mut rules, outside) = self.scoped_rules();
        rules.extend(outside);
        rules
    }

    /// Returns the permissions for namespaced and for cluster-scoped resources.
    fn scoped_rules(&self) -> (Vec<PolicyRule>, Vec<PolicyRule>) {
        let (mut inside, mut outside) = (Verbs::default(), Verbs::default());
        let mut allow = |kind: &Kind, subresource: &str, more: &[&'static str]| {
            let verbs = if kind.namespaced() { &mut inside } else { &mut outside };
            verbs.allow(kind, subresource, more);
        };
        for controller in self.controllers {
            let kind = &controller.primary.kind;
            allow(kind, "", &READ);
            allow(kind, "", &["patch"]);
            allow(kind, "/status", &["patch"]);
            // Owner references with `blockOwnerDeletion` need this permission.
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
        allow(&Kind::of::<Event>(), "", &["create", "patch"]);
        if self.own_certificate {
            // The CA bundle goes into the configurations that the manifests install.
            for (kind, object) in self.webhook_configurations("") {
                let names = vec![object["metadata"]["name"].as_str().unwrap_or_default().to_owned()];
                outside.allow_named(&kind, "", names, &["get", "patch"]);
            }
        }
        if self.reviews_access {
            outside.allow(&Kind::of::<TokenReview>(), "", &["create"]);
            outside.allow(&Kind::of::<SubjectAccessReview>(), "", &["create"]);
        }
        let mut inside = inside.rules();
        inside.extend(self.rules.iter().cloned());
        (inside, outside.rules())
    }

    /// Returns the permissions in the operator's own namespace, whichever namespaces it watches. They are for leases, to
    /// lead or to share the objects, and for the Secret with the webhooks' certificate.
    pub(crate) fn own_rules(&self) -> Vec<PolicyRule> {
        let mut verbs = Verbs::default();
        let leases = Kind::of::<Lease>();
        if self.sharded {
            // The replicas choose the names of their leases.
            verbs.allow(&leases, "", &["create", "delete", "get", "list", "patch", "update"]);
        } else if let Some(lease) = self.lease {
            verbs.allow(&leases, "", &["create"]);
            verbs.allow_named(&leases, "", vec![lease.to_owned()], &["get", "update"]);
        }
        if self.keeps_certificate() {
            let names = vec![self.webhook_service()];
            verbs.allow_named(&Kind::of::<Secret>(), "", names, &["get", "update"]);
        }
        verbs.rules()
    }

    /// Returns all permissions, including those in the operator's own namespace.
    pub(crate) fn all_rules(&self) -> Vec<PolicyRule> {
        let mut rules = self.rules();
        rules.extend(self.own_rules());
        rules
    }

    /// Whether the operator keeps a certificate for its webhooks in a secret.
    fn keeps_certificate(&self) -> bool {
        self.own_certificate && !self.webhooks.is_empty()
    }

    /// Returns the CRDs, with the conversion webhook where the operator converts versions. Without it the API server
    /// would store objects of other versions unconverted, and drop the fields that the storage version does not have.
    pub(crate) fn converting_crds(&self, namespace: &str) -> Result<Vec<Value>> {
        let crds = self.crds().into_iter().map(|crd| {
            let converts = self.converts(&crd);
            let mut object = serde_json::to_value(crd)
                .map_err(|source| Error::Convert { what: "a definition".into(), source })?;
            if converts {
                object["spec"]["conversion"] = json!({
                    "strategy": "Webhook",
                    "webhook": {
                        "conversionReviewVersions": ["v1"],
                        "clientConfig": self.client_config(namespace, "/convert"),
                    },
                });
            }
            Ok(object)
        });
        crds.collect()
    }

    /// Whether the operator converts between the versions of a CRD.
    pub(crate) fn converts(&self, crd: &CustomResourceDefinition) -> bool {
        self.webhooks.conversions.iter().any(|conversion| {
            let resource = conversion.hub.resource();
            resource.group == crd.spec.group && resource.kind == crd.spec.names.kind
        })
    }

    pub(crate) fn crd_manifests(&self, namespace: &str) -> Result<String> {
        documents(&self.converting_crds(namespace)?)
    }

    pub(crate) fn rbac_manifests(&self, namespace: &str) -> Result<String> {
        documents(&self.rbac(namespace))
    }

    pub(crate) fn webhook_documents(&self, namespace: &str) -> Result<String> {
        documents(&self.webhook_manifests(namespace))
    }

    /// Returns all manifests as YAML.
    pub(crate) fn manifests(&self, namespace: &str, image: &str) -> Result<String> {
        let mut text = self.crd_manifests(namespace)?;
        text.push_str(&self.rbac_manifests(namespace)?);
        text.push_str(&self.webhook_documents(namespace)?);
        text.push_str(&documents(&[self.deployment(namespace, image)])?);
        text.push_str(&documents(&[self.metrics_service(namespace)])?);
        if !self.webhooks.is_empty() {
            text.push_str(&documents(&[self.service(namespace)])?);
        }
        Ok(text)
    }

    /// Name of the webhooks' Service, and of the Secret with their certificate.
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

    fn metrics_service(&self, namespace: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": format!("{}-metrics", self.name), "namespace": namespace, "labels": self.labels()},
            "spec": {
                "selector": {"app.kubernetes.io/name": self.name, "control-plane": "controller-manager"},
                "ports": [{"name": "https", "port": 8443, "targetPort": "metrics"}],
            },
        })
    }

    /// Returns the webhooks' Secret and configurations, installed and removed with the other manifests. The operator
    /// itself fills in its certificate and the CA bundle; those fields are absent here, so that an update leaves them
    /// alone.
    pub(crate) fn webhook_manifests(&self, namespace: &str) -> Vec<Value> {
        let secret = self.keeps_certificate().then(|| {
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": self.webhook_service(), "namespace": namespace, "labels": self.labels()},
            })
        });
        let admission = self.admission_configurations(namespace).into_iter().map(|(_, object)| object);
        secret.into_iter().chain(admission).collect()
    }

    /// Returns the client config by which the API server reaches a webhook.
    fn client_config(&self, namespace: &str, path: &str) -> Value {
        match self.webhook_url {
            Some(url) => json!({"url": format!("{}{path}", url.trim_end_matches('/'))}),
            None => {
                json!({"service": {"name": self.webhook_service(), "namespace": namespace, "path": path}})
            }
        }
    }

    /// Returns every object that makes the API server call the operator's webhooks, without the CA bundle. Those are
    /// admission webhook configurations, and CRDs whose versions the operator converts.
    pub(crate) fn webhook_configurations(&self, namespace: &str) -> Vec<(Kind, Value)> {
        let mut all = self.admission_configurations(namespace);
        let crds = self.converting_crds(namespace).unwrap_or_default().into_iter();
        let converting = crds.filter(|crd| crd.pointer("/spec/conversion/webhook").is_some());
        all.extend(converting.map(|crd| (Kind::of::<CustomResourceDefinition>(), crd)));
        all
    }

    /// Returns the admission webhook configurations.
    pub(crate) fn admission_configurations(&self, namespace: &str) -> Vec<(Kind, Value)> {
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
            // Only for the namespaces that the operator watches.
            configuration["namespaceSelector"] = json!({"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": self.namespaces},
            ]});
        }
        configuration
    }

    /// Returns the operator's ServiceAccount, roles and bindings.
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
        if self.reviews_access {
            // For scrapers: the operator itself does not need it.
            all.push(json!({
                "apiVersion": api_version, "kind": "ClusterRole",
                "metadata": {"name": format!("{name}-metrics-reader"), "labels": labels},
                "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
            }));
        }
        all
    }

    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.name, "app.kubernetes.io/managed-by": "steersman"})
    }

    fn deployment(&self, namespace: &str, image: &str) -> Value {
        let name = self.name;
        // Replicas that share the objects are all active.
        let (mode, replicas) = if self.sharded { ("--shard", 2) } else { ("--leader-elect", 1) };
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
                            "args": ["run", mode, "--metrics-bind-address=:8443"],
                            "env": env,
                            "ports": [
                                {"name": "metrics", "containerPort": 8443},
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

/// Writes objects as YAML documents, without null fields, which other tools report as drift forever.
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
