//! Charts with the mistakes that `helm lint` looks for.

use serde_json::{Map, Value as Json, json};

use super::{Gen, schema, semver, value};

/// Generates a chart to lint.
pub fn request(g: &mut Gen) -> Json {
    let mut files = Map::new();
    files.insert("Chart.yaml".into(), json!(metadata(g)));
    if g.chance(75) {
        let text = g.mostly(
            &["{}", "a: 1\nname: x\n", "replicas: 2\nimage: {tag: v1}\n", ""],
            8,
            &["[]", "a: [", "x", "a: 1\na: 2\n", "null", "\ta: 1"],
        );
        files.insert("values.yaml".into(), json!(text));
    }
    if g.chance(10) {
        files.insert("values.schema.json".into(), json!(schema::schema(g).to_string()));
    }
    for path in ["templates/a.yaml", "templates/b.yml", "templates/sub/c.yaml"] {
        if g.chance(55) {
            files.insert(path.into(), json!(template(g)));
        }
    }
    if g.chance(15) {
        let path = g.pick(&[
            "templates/NOTES.txt",
            "templates/_x.tpl",
            "templates/x.json",
            "templates/x.foo",
            "templates/x",
        ]);
        files.insert(path.into(), json!(template(g)));
    }
    for (path, content) in [
        ("crds/c.yaml", "kind: CustomResourceDefinition\n"),
        ("crds/bad.yaml", "a: [\n"),
        ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
        ("charts/other/Chart.yaml", "apiVersion: v2\nname: other\nversion: x\n"),
        ("charts/empty/values.yaml", "a: 1\n"),
        ("requirements.yaml", "dependencies: [{name: sub, version: 1.0.0}]\n"),
    ] {
        if g.chance(6) {
            files.insert(path.into(), json!(content));
        }
    }
    let mut request = json!({ "op": "lint", "files": files });
    if g.chance(25) {
        request["value_files"] = json!([Json::Object(value::map(g, 2)).to_string()]);
    }
    if g.chance(20) {
        request["kube_version"] = json!(g.pick(&["1.15", "v1.22.0", "1.25.0", "1.33", "v1.16.0"]));
    }
    request
}

fn metadata(g: &mut Gen) -> String {
    if g.chance(3) {
        return g.pick(&["", "x", "[]", "a: [", "name: a\nname: b\n", "apiVersion: v2"]).to_owned();
    }
    let mut out = String::new();
    if g.chance(96) {
        out += &format!("apiVersion: {}\n", g.mostly(&["v2", "v2", "v1"], 5, &["v3", "1", "[]", "\"\""]));
    }
    if g.chance(96) {
        out += &format!(
            "name: {}\n",
            g.mostly(
                &["top", "my-chart"],
                10,
                &["Top", "a/b", "1", "\"\"", "a_b", "..", "a.b", "null", "[x]", "dir/top"]
            )
        );
    }
    if g.chance(96) {
        let odd = json!(semver::version(g)).to_string();
        out += &format!("version: {}\n", if g.chance(75) { "1.2.3" } else { &odd });
    }
    for (key, values) in [
        ("description", &["d", "1", "[a]"][..]),
        ("icon", &["https://example.org/i.png", "x", "\"\"", "http://a b/", "file:///x"]),
        ("type", &["application", "library", "other", "1", "\"\""]),
        ("appVersion", &["1.0", "\"1.0\"", "v1", "1", "true"]),
        ("home", &["https://example.org", "nonsense"]),
        ("sources", &["[https://example.org/x]", "[x, y]", "[\"\"]", "x", "[1]"]),
        ("keywords", &["[a]", "a"]),
        ("deprecated", &["true", "\"yes\""]),
        ("kubeVersion", &["\">=1.20\"", "bad", "\"<1.0\""]),
        (
            "maintainers",
            &[
                "[{name: m, email: e@x.org}]",
                "[{email: e}]",
                "[{name: m, email: bad}]",
                "[{name: m, url: bad}]",
                "[null]",
                "[{name: m, url: 'https://x.org'}]",
            ],
        ),
        ("annotations", &["{a: b}", "{a: 1}"]),
        (
            "dependencies",
            &[
                "[{name: sub, version: 1.0.0}]",
                "[{name: sub, version: 1.0.0, repository: 'https://x'}, {name: sub, version: 2.0.0, repository: 'https://x'}]",
                "[]",
                "[{name: nope, version: x}]",
                "[{version: 1.0.0}]",
            ],
        ),
        ("unknown", &["1"]),
    ] {
        if g.chance(16) {
            out += &format!("{key}: {}\n", g.pick(values));
        }
    }
    out
}

fn template(g: &mut Gen) -> String {
    if g.chance(30) {
        return g
            .pick(&[
                "{{ .Values.missing.x }}",
                "{{ required \"need\" .Values.missing }}",
                "{{ fail \"no\" }}",
                "{{ nofunc }}",
                "{{ if }}",
                "a: {{ .Values.a }}\n",
                "a: [\n",
                "",
                "  \n",
                "- a\n",
                "text",
                "a: b\n c: d\n",
                "\ta: b\n",
                "kind: Secret\nkind: Secret\n",
                "{{ lookup \"v1\" \"Pod\" \"a\" \"b\" }}",
                "{{ .Release.Name }}: {{ .Release.Service }} {{ .Capabilities.KubeVersion }}\n",
                "{{ include \"nope\" . }}",
                "---\n---\n",
                "{{/* c */}}",
                "# c\n",
                "{{ toYaml .Values }}",
                "a: 1\n---\na: [\n",
                "   a: 1\n",
            ])
            .to_owned();
    }
    let (api, kind) = *g.one(&[
        ("v1", "ConfigMap"),
        ("apps/v1", "Deployment"),
        ("extensions/v1beta1", "Deployment"),
        ("extensions/v1beta1", "Ingress"),
        ("networking.k8s.io/v1beta1", "Ingress"),
        ("policy/v1beta1", "PodSecurityPolicy"),
        ("policy/v1beta1", "PodDisruptionBudget"),
        ("batch/v1beta1", "CronJob"),
        ("apps/v1beta2", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"),
        ("autoscaling/v2beta1", "HorizontalPodAutoscaler"),
        ("v1", "List"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("rbac.authorization.k8s.io/v1beta1", "Role"),
        ("v1", "Namespace"),
        ("apps/v1", "ReplicaSet"),
        ("certificates.k8s.io/v1", "CertificateSigningRequest"),
        ("v1", "Service"),
        ("example.org/v1", "Thing"),
        ("storage.k8s.io/v1", "StorageClass"),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema"),
    ]);
    let name = g.mostly(
        &["ok", "{{ .Release.Name }}", "a-b", "x.y"],
        15,
        &["Bad", "under_score", "\"\"", "-x", "1", "this-name-is-very-long-and-goes-on-and-on-until-it-has-more-letters-than-the-two-hundred-and-fifty-three-that-are-allowed-for-the-names-of-most-things-in-kubernetes-which-takes-quite-a-few-words-to-reach-but-here-we-are-at-last-almost-there-now-yes", "system:x", "a%b", "{{ .Values.missing }}", "null", "[x]"],
    );
    let mut out = format!("apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n");
    if g.chance(10) {
        out += g.pick(&[
            "  generateName: x-\n",
            "  namespace: other\n",
            "  annotations: {\"helm.sh/hook\": test}\n",
            "  annotations: {a: 1}\n",
            "  annotations:\n    helm.sh/resource-policy: keep\n",
        ]);
    }
    if g.chance(30) {
        out += g.pick(&[
            "spec:\n  template: {}\n",
            "spec:\n  selector: {matchLabels: {a: b}}\n",
            "items:\n- metadata: {annotations: {helm.sh/resource-policy: keep}}\n",
            "items: []\n",
            "data: {a: 1}\n",
            "spec: {replicas: {{ .Values.replicas | default 1 }}}\n",
            "spec: null\n",
        ]);
    }
    if g.chance(15) {
        out += "---\napiVersion: v1\nkind: Secret\nmetadata: {name: second}\n";
    }
    out
}
