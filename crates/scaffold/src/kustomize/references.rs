//! Updates references: fields that refer to a renamed object get its new name.

use std::path::Path;

use serde_json::Value;

use super::resource::{Id, Resource};
use super::transform::{FieldSpec, visit};
use crate::error::{Error, Result};

/// A referenced kind, and the fields that refer to it.
struct Reference {
    group: &'static str,
    kind: &'static str,
    from: &'static [FieldSpec],
    /// Fields of pod specs, in every kind that has one.
    in_pods: &'static [&'static str],
}

const fn at(group: &'static str, kind: &'static str, path: &'static str) -> FieldSpec {
    FieldSpec { group, kind, path, create: false }
}

const SCALED: &[FieldSpec] = &[at("", "HorizontalPodAutoscaler", "spec/scaleTargetRef/name")];
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const REFERENCES: &[Reference] = &[
    Reference { group: "", kind: "Deployment", from: SCALED, in_pods: &[] },
    Reference { group: "", kind: "ReplicationController", from: SCALED, in_pods: &[] },
    Reference { group: "", kind: "ReplicaSet", from: SCALED, in_pods: &[] },
    Reference { group: "", kind: "StatefulSet", from: SCALED, in_pods: &[] },
    Reference {
        group: "",
        kind: "ConfigMap",
        from: &[at("", "Role", "rules/resourceNames"), at("", "ClusterRole", "rules/resourceNames")],
        in_pods: &[
            "volumes/configMap/name",
            "containers/env/valueFrom/configMapKeyRef/name",
            "initContainers/env/valueFrom/configMapKeyRef/name",
            "containers/envFrom/configMapRef/name",
            "initContainers/envFrom/configMapRef/name",
            "volumes/projected/sources/configMap/name",
        ],
    },
    Reference {
        group: "",
        kind: "Secret",
        from: &[
            at("", "Role", "rules/resourceNames"),
            at("", "ClusterRole", "rules/resourceNames"),
            at("", "Ingress", "spec/tls/secretName"),
            at("", "ServiceAccount", "imagePullSecrets/name"),
        ],
        in_pods: &[
            "volumes/secret/secretName",
            "containers/env/valueFrom/secretKeyRef/name",
            "initContainers/env/valueFrom/secretKeyRef/name",
            "containers/envFrom/secretRef/name",
            "initContainers/envFrom/secretRef/name",
            "imagePullSecrets/name",
            "volumes/projected/sources/secret/name",
        ],
    },
    Reference {
        group: "",
        kind: "Service",
        from: &[
            at("apps", "StatefulSet", "spec/serviceName"),
            at("", "Ingress", "spec/rules/http/paths/backend/service/name"),
            at("", "Ingress", "spec/defaultBackend/service/name"),
            at("apiregistration.k8s.io", "APIService", "spec/service/name"),
            at(ADMISSION, "ValidatingWebhookConfiguration", "webhooks/clientConfig/service"),
            at(ADMISSION, "MutatingWebhookConfiguration", "webhooks/clientConfig/service"),
        ],
        in_pods: &[],
    },
    Reference { group: RBAC, kind: "Role", from: &[at(RBAC, "RoleBinding", ROLE_NAME)], in_pods: &[] },
    Reference {
        group: RBAC,
        kind: "ClusterRole",
        from: &[at(RBAC, "RoleBinding", ROLE_NAME), at(RBAC, "ClusterRoleBinding", ROLE_NAME)],
        in_pods: &[],
    },
    Reference {
        group: "",
        kind: "ServiceAccount",
        from: &[at(RBAC, "RoleBinding", "subjects"), at(RBAC, "ClusterRoleBinding", "subjects")],
        in_pods: &["serviceAccountName"],
    },
    Reference {
        group: "",
        kind: "PersistentVolumeClaim",
        from: &[],
        in_pods: &["volumes/persistentVolumeClaim/claimName"],
    },
    Reference {
        group: "",
        kind: "PersistentVolume",
        from: &[
            at("", "PersistentVolumeClaim", "spec/volumeName"),
            at("", "ClusterRole", "rules/resourceNames"),
        ],
        in_pods: &[],
    },
    Reference {
        group: "storage.k8s.io",
        kind: "StorageClass",
        from: &[
            at("", "PersistentVolume", "spec/storageClassName"),
            at("", "PersistentVolumeClaim", "spec/storageClassName"),
            at("", "StatefulSet", "spec/volumeClaimTemplates/spec/storageClassName"),
        ],
        in_pods: &[],
    },
    Reference {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        from: &[],
        in_pods: &["priorityClassName"],
    },
    Reference {
        group: ADMISSION,
        kind: "ValidatingAdmissionPolicy",
        from: &[at(ADMISSION, "ValidatingAdmissionPolicyBinding", "spec/policyName")],
        in_pods: &[],
    },
];

const ROLE_NAME: &str = "roleRef/name";

/// Returns the path of a kind's pod spec. Like kustomize, some pairs of kinds are left out.
fn pod_spec(kind: &str, referred: &str) -> Option<&'static str> {
    let of_data = matches!(referred, "ConfigMap" | "Secret");
    match kind {
        "Pod" => Some("spec"),
        "PodTemplate" if of_data => Some("template/spec"),
        "ReplicaSet" if of_data => Some("spec/template/spec"),
        "ReplicationController" if !of_data => Some("spec/template/spec"),
        "Deployment" | "DaemonSet" | "StatefulSet" | "Job" => Some("spec/template/spec"),
        "CronJob" => Some("spec/jobTemplate/spec/template/spec"),
        _ => None,
    }
}

/// Updates all references to the current names of their objects.
pub(super) fn fix(resources: &mut [Resource], directory: &Path) -> Result<()> {
    let all = resources.to_vec();
    for resource in resources {
        let referrer = resource.clone();
        let id = referrer.id();
        for reference in REFERENCES {
            let mut paths: Vec<String> = reference
                .from
                .iter()
                .filter(|spec| spec.applies_to(&id))
                .map(|spec| spec.path.to_owned())
                .collect();
            if let Some(prefix) = pod_spec(&id.kind, reference.kind) {
                paths.extend(reference.in_pods.iter().map(|path| format!("{prefix}/{path}")));
            }
            for path in paths {
                let mut failed = None;
                let lookup = Lookup { all: &all, referrer: &referrer, id: &id, reference, path: &path };
                visit(&mut resource.content, &path, false, &mut |value| {
                    if let Err(reason) = lookup.update(value) {
                        failed = Some(reason);
                    }
                });
                if let Some(reason) = failed {
                    return Err(Error::Broken { path: directory.to_owned(), reason });
                }
            }
        }
    }
    Ok(())
}

/// Looks up the object that a field refers to.
struct Lookup<'a> {
    all: &'a [Resource],
    referrer: &'a Resource,
    id: &'a Id,
    reference: &'a Reference,
    path: &'a str,
}

impl Lookup<'_> {
    fn update(&self, value: &mut Value) -> Result<(), String> {
        match value {
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.update(item)),
            Value::String(name) => {
                if let Some(found) = self.find(name, None)? {
                    *name = found.id().name;
                }
                Ok(())
            }
            Value::Object(fields) => {
                let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
                let Some(name) = text("name") else { return Ok(()) };
                if let Some(found) = self.find(&name, text("namespace").as_deref())? {
                    let id = found.id();
                    fields.insert("name".into(), id.name.into());
                    if !id.namespace.is_empty() {
                        fields.insert("namespace".into(), id.namespace.into());
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Finds the object that had this name, in this namespace if one is given.
    fn find(&self, name: &str, namespace: Option<&str>) -> Result<Option<&Resource>, String> {
        let Reference { group, kind, .. } = self.reference;
        let mut found: Vec<&Resource> = self
            .all
            .iter()
            .filter(|one| {
                one.previous.iter().any(|id| id.name == name)
                    && one
                        .previous
                        .iter()
                        .any(|id| (group.is_empty() || id.group == *group) && id.kind == *kind)
                    && self.fits_role(one)
                    && self.is_in_reach(one)
            })
            .collect();
        if let Some(namespace) = namespace {
            let originally = |one: &&Resource| one.original_id().effective_namespace() == namespace;
            if self.all.iter().any(|one| originally(&one)) {
                found.retain(originally);
            } else {
                found.retain(|one| one.id().effective_namespace() == namespace);
            }
        }
        for allow_empty in [true, false] {
            if found.len() > 1 {
                found.retain(|one| one.has_affixes_of(self.referrer, allow_empty));
            }
        }
        let Some(first) = found.first() else { return Ok(None) };
        let (id, by_namespace) = (first.id(), namespace.is_some());
        let is_same = |one: &&Resource| {
            let other = one.id();
            other.name == id.name && (!by_namespace || other.namespace == id.namespace)
        };
        if !found.iter().all(is_same) {
            return Err(format!(
                "{} {} of {} may be any of several objects named {name}",
                self.path, name, self.id
            ));
        }
        Ok(Some(first))
    }

    /// Whether a candidate has the kind of role (Role or ClusterRole) that the binding's roleRef names.
    fn fits_role(&self, candidate: &Resource) -> bool {
        if self.path != ROLE_NAME {
            return true;
        }
        let role = &self.referrer.content["roleRef"];
        match (role["apiGroup"].as_str(), role["kind"].as_str()) {
            (Some(group), Some(kind)) => {
                candidate.previous.iter().any(|id| (group.is_empty() || id.group == group) && id.kind == kind)
            }
            _ => true,
        }
    }

    /// Whether the object may refer to a candidate.
    ///
    /// It may if both are in the same namespace, if either is cluster-scoped, or if the candidate is a service account.
    fn is_in_reach(&self, candidate: &Resource) -> bool {
        let other = candidate.id();
        self.id.is_cluster_scoped()
            || other.is_cluster_scoped()
            || other.kind == "ServiceAccount"
            || self.id.effective_namespace() == other.effective_namespace()
    }
}
