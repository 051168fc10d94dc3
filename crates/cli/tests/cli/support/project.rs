//! Projects in separate directories, and one with operator-sdk's layout.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::{Outcome, Steer, outcome};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn minimart() -> String {
    root().join("examples/minimart/helm-charts/minimart").display().to_string()
}

/// A directory for a project, empty at first.
pub struct Place {
    pub steer: Steer,
    pub directory: PathBuf,
}

impl Place {
    pub fn new(name: &str) -> Self {
        let steer = Steer::new();
        let directory = steer.path(name);
        fs::create_dir(&directory).unwrap();
        Self { steer, directory }
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        outcome(self.steer.command(arguments).current_dir(&self.directory).stdin(Stdio::null()))
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.directory.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn yaml(&self, path: &str) -> Value {
        steersman_yaml::from_str(&self.read(path)).unwrap()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Returns all files with their contents.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut left = vec![self.directory.clone()];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else {
                files
                    .insert(path.strip_prefix(&self.directory).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
        files
    }
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// A project as operator-sdk lays it out, for the chart of examples/nginx.
pub const OPERATOR_SDK: &[(&str, &str)] = &[
    (
        "PROJECT",
        "cliVersion: 1.42.3
domain: example.com
layout:
- helm.sdk.operatorframework.io/v1
plugins:
  manifests.sdk.operatorframework.io/v2: {}
  scorecard.sdk.operatorframework.io/v2: {}
projectName: nginx-operator
resources:
- api:
    crdVersion: v1
    namespaced: true
  domain: example.com
  group: demo
  kind: Nginx
  version: v1alpha1
version: \"3\"
",
    ),
    (
        "watches.yaml",
        "# Use the 'create api' subcommand to add watches to this file.
- group: demo.example.com
  version: v1alpha1
  kind: Nginx
  chart: helm-charts/nginx
# +kubebuilder:scaffold:watch
",
    ),
    (
        "config/crd/bases/demo.example.com_nginxes.yaml",
        "---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: nginxes.demo.example.com
spec:
  group: demo.example.com
  names:
    kind: Nginx
    listKind: NginxList
    plural: nginxes
    singular: nginx
  scope: Namespaced
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
    served: true
    storage: true
    subresources:
      status: {}
",
    ),
    (
        "config/crd/kustomization.yaml",
        "resources:\n- bases/demo.example.com_nginxes.yaml\n# +kubebuilder:scaffold:crdkustomizeresource\n",
    ),
    (
        "config/samples/kustomization.yaml",
        "resources:\n- demo_v1alpha1_nginx.yaml\n# +kubebuilder:scaffold:manifestskustomizesamples\n",
    ),
    (
        "config/samples/demo_v1alpha1_nginx.yaml",
        "apiVersion: demo.example.com/v1alpha1
kind: Nginx
metadata:
  name: nginx-sample
spec:
  replicaCount: 1
",
    ),
    (
        "config/rbac/kustomization.yaml",
        "resources:\n- service_account.yaml\n- role.yaml\n- role_binding.yaml\n",
    ),
    (
        "config/rbac/service_account.yaml",
        "apiVersion: v1
kind: ServiceAccount
metadata:
  name: controller-manager
  namespace: system
",
    ),
    (
        "config/rbac/role_binding.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: manager-rolebinding
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: manager-role
subjects:
- kind: ServiceAccount
  name: controller-manager
  namespace: system
",
    ),
    (
        "config/rbac/role.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: manager-role
rules:
##
## Base operator rules
##
# We need to get namespaces so the operator can read namespaces to ensure they exist
- apiGroups: [\"\"]
  resources: [namespaces]
  verbs: [get]
# We need to manage Helm release secrets
- apiGroups: [\"\"]
  resources: [secrets]
  verbs: [\"*\"]
# We need to create events on CRs about things happening during reconciliation
- apiGroups: [\"\"]
  resources: [events]
  verbs: [create]
##
## Rules for demo.example.com/v1alpha1, Kind: Nginx
##
- apiGroups: [demo.example.com]
  resources: [nginxes, nginxes/status, nginxes/finalizers]
  verbs: [create, delete, get, list, patch, update, watch]
- verbs: [\"*\"]
  apiGroups: [\"\"]
  resources: [configmaps, pods, serviceaccounts, services]
- verbs: [\"*\"]
  apiGroups: [apps]
  resources: [deployments]
# +kubebuilder:scaffold:rules
",
    ),
];
