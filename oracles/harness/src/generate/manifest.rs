//! Rendered documents: splitting, parsing, sorting, and separating hooks.

use serde_json::{Map, Value as Json, json};

use super::{Gen, yaml};

const KINDS: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "Zebra",
    "Alpaca",
    "secret",
    "",
];

/// Generates a chart with templates that contain documents and no actions.
pub fn request(g: &mut Gen) -> Json {
    let mut files = Map::new();
    files.insert("Chart.yaml".into(), json!("apiVersion: v2\nname: top\nversion: 1.0.0\n"));
    for path in ["templates/a.yaml", "templates/b.yaml", "templates/d/c.yaml", "templates/A.yaml"] {
        if g.chance(60) {
            files.insert(path.into(), json!(stream(g)));
        }
    }
    let mut request = json!({ "op": "helm-template", "files": files });
    if g.chance(10) {
        request["skip_tests"] = json!(true);
    }
    if g.chance(5) {
        request["show_only"] = json!([g.pick(&[
            "templates/a.yaml",
            "templates/*.yaml",
            "templates/*/c.yaml",
            "templates/[ab].yaml",
            "templates/?.yaml",
            "templates/[a",
            "x"
        ])]);
    }
    request
}

fn stream(g: &mut Gen) -> String {
    let mut out = String::new();
    for _ in 0..=g.below(4) {
        out += &document(g);
        out += g.mostly(
            &["\n---\n", "\n---\n", "---\n", "\n--- \n", "\n---\n---\n", "\n\n---\n\n"],
            12,
            &["\n---", " ---\n", "\n--- # c\n", "\n----\n", "\n---a\n", "\t---\n", "\n...\n", "\r\n---\r\n"],
        );
    }
    out
}

fn document(g: &mut Gen) -> String {
    if g.chance(8) {
        return g
            .pick(&[
                "",
                "# only a comment",
                "   ",
                "null",
                "text",
                "[]",
                "- a",
                "a",
                "{}",
                "kind: Pod\nkind: Pod",
                "\u{feff}kind: Pod",
            ])
            .to_owned();
    }
    if g.chance(4) {
        return yaml::document(g).replace("{{", "{ {");
    }
    let mut out = format!(
        "{}apiVersion: v1\nkind: {}\nmetadata:\n  name: {}\n",
        g.pick(&["", "", "# c\n", "\n"]),
        g.pick(KINDS),
        g.mostly(&["a", "b", "c", "\"q\""], 4, &["1", "[x]", "null", "{a: b}", "true", "1.5"])
    );
    if g.chance(35) {
        out += "  annotations:\n";
        out += &format!(
            "    {}: {}\n",
            g.mostly(&["helm.sh/hook", "\"helm.sh/hook\""], 10, &["helm.sh/Hook", "x"]),
            g.mostly(
                &[
                    "pre-install",
                    "post-install",
                    "test",
                    "pre-upgrade,post-upgrade",
                    "\"pre-delete, post-delete\"",
                    "pre-rollback",
                    "test-success",
                    "crd-install",
                    "PRE-INSTALL"
                ],
                10,
                &["nope", "\"\"", "1", "[a]", "null", "true", "pre-install,", "test,nope"]
            )
        );
        if g.chance(50) {
            out += &format!(
                "    helm.sh/hook-weight: {}\n",
                g.mostly(
                    &["\"1\"", "\"-5\"", "\"0\"", "\"10\""],
                    15,
                    &["5", "x", "\"1.5\"", "\"+3\"", "\" 1\"", "\"99999999999999999999\""]
                )
            );
        }
        if g.chance(40) {
            out += &format!(
                "    helm.sh/hook-delete-policy: {}\n",
                g.pick(&[
                    "before-hook-creation",
                    "hook-succeeded,hook-failed",
                    "Hook-Succeeded",
                    "nope",
                    "\"a , b\"",
                    "\"\""
                ])
            );
        }
        if g.chance(15) {
            out += "    helm.sh/hook-output-log-policy: hook-succeeded, hook-failed\n";
        }
    }
    if g.chance(20) {
        out += g.pick(&[
            "data: {a: b}\n",
            "spec:\n  text: |\n    ---\n    x\n",
            "data:\n  x: |\n    a\n---b\n",
            "  labels: {a: 1}\n",
            "items: [1, 2]\n",
            "# tail\n",
            "x: 'a\n\n  b'\n",
        ]);
    }
    if g.chance(4) {
        g.damage(&out, &[":", "-", "  ", "\t", "\n", "---\n", "{", "[", "\"", "#"]).replace("{{", "{ {")
    } else {
        out
    }
}
