//! Whole charts: subcharts, dependencies, conflicting values, hooks, files and notes.

use serde_json::{Map, Value as Json, json};

use super::{Gen, semver, value};

/// Generates a `helm template` request for a random chart.
pub fn request(g: &mut Gen) -> Json {
    let mut request = json!({ "op": "helm-template", "files": chart(g, "top", 2) });
    if g.chance(60) {
        let count = 1 + g.below(2);
        request["value_files"] = (0..count).map(|_| Json::String(as_yaml(&overrides(g)))).collect();
    }
    for flag in ["set", "set_string", "set_json"] {
        if g.chance(15) {
            let kind = flag.strip_prefix("set_").unwrap_or("set");
            request[flag] = json!([super::set::text(g, kind)]);
        }
    }
    for flag in ["include_crds", "skip_tests", "no_hooks", "is_upgrade"] {
        if g.chance(10) {
            request[flag] = json!(true);
        }
    }
    if g.chance(12) {
        request["kube_version"] = json!(g.pick(&[
            "1.20",
            "v1.33.0",
            "1.28.3-gke.1",
            "v1.30.0+k3s1",
            "1",
            "x",
            "1.29.0-rc.1",
            "v2"
        ]));
    }
    if g.chance(5) {
        request["show_only"] = json!([g.pick(&[
            "templates/a.yaml",
            "templates/*.yaml",
            "templates/nope.yaml",
            "charts/sub/templates/a.yaml",
            "templates/tests/t.yaml"
        ])]);
    }
    request
}

/// Generates a request for the values that a random chart's templates see.
pub fn values_request(g: &mut Gen) -> Json {
    let mut files = chart(g, "top", 2);
    files.retain(|path, _| !path.contains("templates/") && !path.ends_with("schema.json"));
    json!({ "op": "coalesce", "do": "render", "files": files, "values": overrides(g) })
}

/// Generates a chart's files, with subcharts at most `depth` deep.
pub fn chart(g: &mut Gen, name: &str, depth: usize) -> Map<String, Json> {
    let mut files = Map::new();
    let mut metadata = format!(
        "apiVersion: {}\nname: {name}\nversion: 1.{}.0\n",
        g.pick(&["v2", "v2", "v2", "v1"]),
        g.below(5)
    );
    if g.chance(20) {
        metadata += "appVersion: 1.10\n";
    }
    if g.chance(8) {
        metadata += &format!(
            "kubeVersion: {}\n",
            json!(g.pick(&[">=1.20.0", ">=1.20.0-0", "<1.10", "~1.37", "1.x", "bad range"]))
        );
    }
    if g.chance(3) {
        metadata += g.pick(&[
            "type: library\n",
            "type: application\n",
            "type: other\n",
            "deprecated: true\n",
            "icon: x\n",
            "unknown: 1\n",
            "version: 1\n",
            "keywords: [a, b]\nmaintainers: [{name: m, email: e}]\n",
        ]);
    }
    let mut dependencies = String::new();
    if depth > 0 {
        let subcharts: &[&str] = &["sub", "other", "lib"];
        for sub in subcharts.iter().take(g.below(4)) {
            let inner = chart(g, sub, depth - 1);
            for (path, content) in inner {
                files.insert(format!("charts/{sub}/{path}"), content);
            }
            if g.chance(70) {
                dependencies += &dependency(g, sub);
                if g.chance(10) {
                    dependencies += &dependency(g, sub);
                }
            }
        }
        if g.chance(4) {
            dependencies += "- name: absent\n  version: 1.0.0\n  repository: https://example.org\n";
        }
    }
    if !dependencies.is_empty() {
        if metadata.starts_with("apiVersion: v1") {
            files.insert("requirements.yaml".into(), json!(format!("dependencies:\n{dependencies}")));
        } else {
            metadata += &format!("dependencies:\n{dependencies}");
        }
    }
    files.insert("Chart.yaml".into(), json!(metadata));
    if g.chance(90) {
        files.insert("values.yaml".into(), json!(as_yaml(&overrides(g))));
    }
    templates(g, name, &mut files);
    files
}

fn dependency(g: &mut Gen, name: &str) -> String {
    let version = if g.chance(75) { "\">=0\"".into() } else { json!(semver::constraint(g)).to_string() };
    let mut out = format!("- name: {name}\n  version: {version}\n");
    if g.chance(30) {
        out += &format!(
            "  condition: {}\n",
            g.pick(&["a", "b", "a,b", "sub.enabled", "global.on", "x.y", "missing", "name", "sub.a, b", ""])
        );
    }
    if g.chance(25) {
        out += &format!("  tags: {}\n", g.pick(&["[t1]", "[t1, t2]", "[t2]", "[missing]"]));
    }
    if g.chance(20) {
        out += &format!("  alias: {}\n", g.mostly(&["nick", "al", "sub2"], 3, &["bad.alias", "c"]));
    }
    if g.chance(30) {
        out += &format!(
            "  import-values: {}\n",
            g.pick(&[
                "[data]",
                "[data, more]",
                "[{child: a, parent: b}]",
                "[{child: x, parent: x}]",
                "[{child: missing, parent: q}]",
                "[{child: a, parent: .}]",
                "[{child: ., parent: imp}]",
                "[1]",
                "[{child: name, parent: p}]",
                "[{child: a.b, parent: c.d.e}]"
            ])
        );
    }
    out
}

/// Generates values with keys shared by charts, subcharts and globals.
pub fn overrides(g: &mut Gen) -> Json {
    let mut out = values_map(g, 2);
    for sub in ["sub", "other", "lib", "nick", "al"] {
        if g.chance(25) {
            let inner = if g.chance(92) { Json::Object(values_map(g, 2)) } else { value::scalar(g) };
            out.insert(sub.into(), inner);
        }
    }
    if g.chance(35) {
        let global = if g.chance(92) { Json::Object(values_map(g, 1)) } else { value::scalar(g) };
        out.insert("global".into(), global);
    }
    if g.chance(25) {
        out.insert("tags".into(), json!({ "t1": g.chance(50), "t2": g.chance(50) }));
    }
    if g.chance(25) {
        out.insert("exports".into(), json!({ "data": values_map(g, 1), "more": values_map(g, 1) }));
    }
    Json::Object(out)
}

fn values_map(g: &mut Gen, depth: usize) -> Map<String, Json> {
    let count = g.below(5);
    (0..count)
        .map(|_| {
            let key = g.pick(&["a", "b", "c", "x", "name", "enabled", "on"]).to_owned();
            let value = match g.below(10) {
                0 | 1 => Json::Null,
                2 | 3 => Json::Bool(g.chance(50)),
                4 | 5 if depth > 0 => Json::Object(values_map(g, depth - 1)),
                6 => (0..g.below(3)).map(|_| value::scalar(g)).collect(),
                _ => value::scalar(g),
            };
            (key, value)
        })
        .collect()
}

/// Formats values as JSON, which both sides parse identically as YAML. YAML has an area of its own.
fn as_yaml(values: &Json) -> String {
    values.to_string()
}

const MANIFESTS: &[&str] = &[
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-a\ndata:\n  values: |\n{{ toYaml .Values | indent 4 }}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Chart.Name }}\ndata: {{ toJson .Values }}\n",
    "{{- range $k, $v := .Values }}\n---\nkind: Service\nmetadata:\n  name: {{ $k | quote }}\nspec: {{ toJson $v }}\n{{- end }}\n",
    "kind: Namespace\nmetadata: {name: z}\n---\nkind: Pod\nmetadata: {name: p}\n---\n# only a comment\n---\nkind: Unknown\nmetadata: {name: u}\n",
    "kind: Job\nmetadata:\n  name: hook\n  annotations:\n    \"helm.sh/hook\": {{ .Values.hook | default \"pre-install,post-upgrade\" }}\n    \"helm.sh/hook-weight\": \"{{ .Values.weight | default -5 }}\"\n    helm.sh/hook-delete-policy: before-hook-creation\n",
    "{{ if .Values.enabled }}kind: Secret\nmetadata: {name: s}\nstringData: {x: {{ .Values.name | default \"d\" | quote }}}\n{{ end }}",
    "{{ include \"lbl\" . }}\nglobal: {{ .Values.global | toJson }}\n",
    "release: {{ .Release | toJson }}\nchart: {{ .Chart | toJson }}\ntemplate: {{ .Template | toJson }}\n",
    "capabilities: {{ .Capabilities.KubeVersion.Version }} {{ .Capabilities.KubeVersion.Minor }} {{ .Capabilities.APIVersions.Has \"apps/v1\" }} {{ len .Capabilities.APIVersions }}\n",
    "subcharts: {{ range $n, $s := .Subcharts }}{{ $n }}={{ $s.Chart.Version }}/{{ $s.Values | toJson }}; {{ end }}\n",
    "{{ .Values.a.b.c }}",
    "x: {{ required \"need x\" .Values.x }}\n",
    "{{ fail \"no\" }}",
    "bad: [yaml\n",
    "{{ template \"missing\" . }}",
    "{{ .Values.name.first }}",
    "{{ nofunc }}",
    "{{ if }}",
    "a: {{ tpl (.Values.name | toString) . | quote }}\n",
    "",
    "  \n",
    "kind: List\nitems: []\n",
    "---\n---\n",
    "{{ set .Values \"added\" 1 | len }}: x\n",
    "added: {{ .Values.added }}\n",
    "files: {{ (.Files.Glob \"files/*\").AsConfig | nindent 2 }}\nsecrets: {{ (.Files.Glob \"**.txt\").AsSecrets | nindent 2 }}\n",
    "lines: {{ .Files.Lines \"files/a.txt\" | toJson }} {{ .Files.Get \"files/b.txt\" | quote }} {{ .Files.GetBytes \"files/a.txt\" | len }} {{ range $p, $_ := .Files }}{{ $p }},{{ end }}\n",
    "kind: Pod\nmetadata:\n  name: t\n  annotations: {\"helm.sh/hook\": test}\n",
    "kind: Pod\nmetadata:\n  annotations: {\"helm.sh/hook\": nonsense}\n",
    "kind: A\nmetadata:\n  annotations: {\"helm.sh/hook\": \"test-success,  PRE-DELETE\", \"helm.sh/hook-weight\": x}\n",
    "isroot: {{ .Chart.IsRoot }} {{ .Chart.Type }} {{ .Chart.AppVersion | quote }} {{ .Chart.Annotations }} {{ .Chart.Dependencies | len }}\n",
    "name: {{ .Values.name | trunc 3 }}\n",
    "kind: [1]\n",
    "metadata: x\n",
    "- a\n- b\n",
    "{{- define \"local\" }}L{{ . }}{{ end }}{{ include \"local\" 1 }}: {{ include \"local\" .Values.x }}\n",
    "v: {{ .Capabilities.HelmVersion.Version }} {{ .Capabilities.HelmVersion.GoVersion | hasPrefix \"go1\" }}\n",
];

fn templates(g: &mut Gen, name: &str, files: &mut Map<String, Json>) {
    files.insert(
        "templates/_helpers.tpl".into(),
        json!(format!(
            "{{{{ define \"lbl\" }}}}{name}-{{{{ .Chart.Name }}}}: {{{{ .Template.Name }}}}{{{{ end }}}}"
        )),
    );
    let sound = MANIFESTS.len();
    for path in ["templates/a.yaml", "templates/b.yaml", "templates/sub/c.yaml", "templates/tests/t.yaml"] {
        if g.chance(45) {
            let at = if g.chance(80) { g.below(10) } else { g.below(sound) };
            files.insert(path.into(), json!(MANIFESTS[at]));
        }
    }
    if g.chance(20) {
        files.insert(
            "templates/NOTES.txt".into(),
            json!("Notes of {{ .Chart.Name }}: {{ .Values | toJson }} {{ .Release.IsInstall }}\n"),
        );
    }
    if g.chance(15) {
        files.insert("files/a.txt".into(), json!("one\ntwo\n"));
        files.insert("files/b.txt".into(), json!("no newline"));
    }
    if g.chance(10) {
        files.insert("crds/crd.yaml".into(), json!("kind: CustomResourceDefinition\nmetadata: {name: x}\n"));
    }
    if g.chance(5) {
        files.insert(
            ".helmignore".into(),
            json!(g.pick(&[
                "*.txt\n",
                "files/\n",
                "templates/b.yaml\n",
                "!a.txt\n",
                "/templates/sub\n",
                "**\n",
                "[a\n",
                "# c\n\ncrds\n"
            ])),
        );
    }
    if g.chance(6) {
        files.insert("values.schema.json".into(), schema(g));
    }
}

fn schema(g: &mut Gen) -> Json {
    let property = |g: &mut Gen| {
        json!(*g.one(&[
            &json!({ "type": "string" }),
            &json!({ "type": "integer", "minimum": 1 }),
            &json!({ "type": "object", "additionalProperties": false }),
            &json!({ "enum": ["a", 1, null] }),
            &json!({ "type": ["boolean", "null"] }),
            &json!({ "type": "array", "items": { "type": "number" }, "minItems": 1 }),
            &json!({ "pattern": "^[a-z]+$", "minLength": 2 }),
        ]))
    };
    let mut schema = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": { "a": property(g), "name": property(g), "x": property(g) } });
    if g.chance(40) {
        schema["required"] = json!(["name", "b"]);
    }
    json!(schema.to_string())
}
