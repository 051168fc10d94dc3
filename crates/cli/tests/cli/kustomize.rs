//! Overlays of projects render the same as with `kubectl kustomize`.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{Steer, outcome};

/// kubectl, from the search path or from the cache that `oracles/kubernetes/build` fills.
fn kubectl() -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        Command::new(path).args(["version", "--client"]).output().is_ok_and(|run| run.status.success())
    };
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cache = std::env::var_os("STEERSMAN_CACHE").map(PathBuf::from).or_else(|| {
        Some(
            std::env::var_os("XDG_CACHE_HOME")
                .map_or_else(|| home.join(".cache"), PathBuf::from)
                .join("steersman"),
        )
    });
    let cached = std::fs::read_dir(cache?.join("kubernetes")).into_iter().flatten().filter_map(Result::ok);
    let cached = cached.filter(|entry| entry.file_name().to_string_lossy().starts_with("kubectl-v"));
    let mut candidates: Vec<PathBuf> = cached.map(|entry| entry.path().join("kubectl")).collect();
    candidates.push("kubectl".into());
    candidates.into_iter().find(runs)
}

const MANAGER: &str = "\
apiVersion: v1
kind: Namespace
metadata:
  name: system
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: controller-manager
  namespace: system
  labels: {control-plane: controller-manager}
spec:
  selector:
    matchLabels: {control-plane: controller-manager}
  template:
    metadata:
      labels: {control-plane: controller-manager}
    spec:
      serviceAccountName: controller-manager
      initContainers:
      - {name: wait, image: 'busybox:1.36'}
      containers:
      - name: proxy
        image: localhost:5000/proxy
      - name: manager
        image: controller:latest
        args: [--leader-elect]
        ports: [{containerPort: 8443, name: https}, {containerPort: 53, protocol: UDP}]
        env:
        - {name: A, valueFrom: {secretKeyRef: {name: settings, key: a}}}
        - {name: B, value: '1'}
        volumeMounts: [{mountPath: /a, name: a}]
      volumes:
      - name: a
        secret: {secretName: settings}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller-manager, namespace: system}
---
apiVersion: v1
kind: Secret
metadata: {name: settings, namespace: system}
stringData: {a: '{{ x }}', b: \"yes\", c: \"0x1F\", long: 'one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen'}
---
apiVersion: v1
kind: Service
metadata: {name: webhook-service, namespace: system}
spec:
  selector: {control-plane: controller-manager}
  ports: [{port: 443, targetPort: 9443}]
";

const RBAC: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager-role}
rules:
- {apiGroups: [''], resources: [secrets], resourceNames: [settings, other], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: manager-role, namespace: system}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager-role}
subjects:
- {kind: ServiceAccount, name: controller-manager, namespace: system}
- {kind: ServiceAccount, name: default, namespace: elsewhere}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: manager-rolebinding, namespace: system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: manager-role}
subjects:
- {kind: ServiceAccount, name: controller-manager, namespace: system}
- {kind: User, name: jane}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating}
webhooks:
- name: v.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig:
    service: {name: webhook-service, namespace: system, path: /validate}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: monitor, namespace: system}
spec: {endpoints: [{port: https}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: budget, namespace: system}
spec: {selector: {matchLabels: {control-plane: controller-manager}}, maxUnavailable: 1}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: listed}, data: {a: b}}
";

const BASE: (&str, &str) = (
    "base/kustomization.yaml",
    "resources:\n- manager.yaml\n- rbac.yaml\nimages:\n- {name: controller, newTag: v1}\n",
);

/// The kustomization of an overlay, and its other files.
const OVERLAYS: &[(&str, &[(&str, &str)])] = &[
    ("resources: [../base]\nnamespace: shop-system\nnamePrefix: shop-\n", &[]),
    ("resources: [../base]\nnamePrefix: a-\nnameSuffix: -b\n", &[]),
    (
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../base]\nnamespace: s\nlabels:\n- pairs: {a: b}\n- pairs: {c: d}\n  includeSelectors: true\n- pairs: {e: f}\n  includeTemplates: true\n",
        &[],
    ),
    ("resources: [../base]\ncommonLabels: {team: shop}\ncommonAnnotations: {note: 'true'}\n", &[]),
    (
        "resources: [../base]\nimages:\n- {name: controller, newName: example.com/c, newTag: v2}\n- {name: 'localhost:5000/proxy', digest: 'sha256:00'}\n- {name: busybox, newName: busy}\n",
        &[],
    ),
    (
        "resources: [../base]\nnamespace: shop-system\nnamePrefix: shop-\npatches:\n- path: metrics.yaml\n  target: {kind: Deployment}\n- path: strategic.yaml\n- patch: |-\n    - op: replace\n      path: /rules/0/verbs\n      value: [get, list]\n  target: {group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: manager-.*}\n",
        &[
            (
                "metrics.yaml",
                "- op: add\n  path: /spec/template/spec/containers/0/args\n  value: ['--metrics-bind-address=:8443']\n- op: add\n  path: /spec/template/metadata/annotations\n  value: {a/b: c}\n",
            ),
            (
                "strategic.yaml",
                "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: controller-manager\n  namespace: system\nspec:\n  replicas: 2\n  template:\n    spec:\n      serviceAccountName: null\n      containers:\n      - name: manager\n        args: [--other]\n        ports: [{containerPort: 8443, name: metrics}, {containerPort: 9443, name: webhooks}]\n        env: [{name: B, $patch: delete}, {name: C, value: c}]\n        volumeMounts: [{mountPath: /b, name: b, readOnly: true}]\n      - name: extra\n        image: extra\n      volumes:\n      - {name: b, secret: {secretName: settings}}\n",
            ),
        ],
    ),
    (
        "resources: [../base]\npatchesStrategicMerge:\n- delete.yaml\npatchesJson6902:\n- target: {version: v1, kind: Service, name: webhook-service}\n  path: json.yaml\n",
        &[
            (
                "delete.yaml",
                "$patch: delete\napiVersion: v1\nkind: Secret\nmetadata: {name: settings, namespace: system}\n---\napiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: monitor, namespace: system}\nspec: {endpoints: [{port: other}]}\n",
            ),
            ("json.yaml", "- op: remove\n  path: /spec/selector\n"),
        ],
    ),
];

#[test]
fn overlays_are_rendered_as_kubectl_does() {
    let Some(kubectl) = kubectl() else {
        eprintln!(
            "SKIPPED: there is no kubectl to compare with; `oracles/kubernetes/build kubectl` makes it"
        );
        return;
    };
    let steer = Steer::new();
    steer.write("base/manager.yaml", MANAGER);
    steer.write("base/rbac.yaml", RBAC);
    steer.write(BASE.0, BASE.1);
    for (number, (kustomization, files)) in OVERLAYS.iter().enumerate() {
        let overlay = format!("overlay{number}");
        steer.write(&format!("{overlay}/kustomization.yaml"), kustomization);
        for (name, text) in *files {
            steer.write(&format!("{overlay}/{name}"), text);
        }
        let want =
            outcome(Command::new(&kubectl).args(["kustomize", &overlay]).current_dir(steer.home.path()));
        let have = steer.run(&["generate", "kustomize", "--overlay", &overlay]);
        assert_eq!(want.success(), have.success(), "{kustomization}");
    }
    // Scaffolded projects, with all optional components enabled.
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/minimart/helm-charts/minimart");
    let project = Steer::new();
    let directory = project.path("shop");
    std::fs::create_dir(&directory).unwrap();
    let run = |arguments: &[&str]| outcome(project.command(arguments).current_dir(&directory));
    run(&["init", "--plugins", "helm", "--domain", "example.com", "--helm-chart", chart]).success();
    let default = directory.join("config/default/kustomization.yaml");
    let text = std::fs::read_to_string(&default).unwrap().replace("\n#- ../", "\n- ../");
    std::fs::write(&default, text).unwrap();
    for overlay in ["config/default", "config/manifests", "config/crd", "config/samples", "config/scorecard"]
    {
        let want =
            outcome(Command::new(&kubectl).args(["kustomize", overlay]).current_dir(&directory)).success();
        let have = run(&["generate", "kustomize", "--overlay", overlay]).success();
        assert!(want.len() > 100);
        assert_eq!(want, have, "{overlay}");
    }
}

#[test]
fn what_is_not_rendered_is_named() {
    let steer = Steer::new();
    steer.write("base/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    steer.write("outside.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n");
    for (kustomization, words) in [
        (
            "configMapGenerator: [{name: a}]\n",
            &["base/kustomization.yaml", "configMapGenerator is not supported"][..],
        ),
        ("resources: [https://example.com/a.yaml]\n", &["resources: https://example.com/a.yaml is remote"]),
        ("resources: [missing.yaml]\n", &["missing.yaml", "No such file"]),
        ("resources: [../outside.yaml]\n", &["outside.yaml", "or below it"]),
        ("resources: [../base]\n", &["it refers to itself"]),
        ("resources: [a.yaml, a.yaml]\n", &["a.yaml has a second ConfigMap/a"]),
        (
            "resources: [a.yaml]\npatches: [{patch: '[{op: remove, path: /data}]'}]\n",
            &["a JSON patch needs a target"],
        ),
        (
            "resources: [a.yaml]\npatches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: z}}'}]\n",
            &["no resource for the patch of ConfigMap/z"],
        ),
        ("resources: [a.yaml]\nlabels: [{pairs: {a: b}, fields: []}]\n", &["unknown field `fields`"]),
    ] {
        steer.write("base/kustomization.yaml", kustomization);
        let said = steer.run(&["generate", "kustomize", "--overlay", "base"]).failure();
        for word in words {
            assert!(said.contains(word), "{kustomization}: {said}");
        }
    }
}
