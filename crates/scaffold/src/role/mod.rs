//! Derives an operator's role: the permissions that the releases of a chart require.

mod explore;
mod kinds;
mod permissions;
mod scan;
mod stub;

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_chart::{Chart, Rendered, split};

use self::kinds::Kinds;
pub(crate) use self::kinds::is_cluster_scoped;
pub(crate) use self::permissions::Permissions;
use crate::error::Result;
use crate::project::Resource;

const KEEP: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
const RBAC: &str = "rbac.authorization.k8s.io";

/// The permissions that an operator needs for a kind: in its watched namespaces, and cluster-wide.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub(crate) inside: Permissions,
    pub(crate) outside: Permissions,
}

/// Returns the permissions that an operator needs to manage releases of a chart for a kind's objects.
pub(crate) fn of_chart(chart: &Chart, resource: &Resource, namespaced: bool) -> Result<Needs> {
    let mut seen = Seen { kinds: Kinds::of_chart(chart), ..Seen::default() };
    explore::explore(chart, &mut |rendered| seen.see(rendered))?;
    for (api_version, kind) in scan::kinds(chart) {
        seen.made.insert((group(&api_version).to_owned(), kind));
    }
    let mut needs = seen.needs();
    let primary = if namespaced { &mut needs.inside } else { &mut needs.outside };
    let Resource { group, plural, .. } = resource;
    primary.allow(group, plural, &[], &["get", "list", "patch", "update", "watch"]);
    primary.allow(group, &format!("{plural}/status"), &[], &["get", "patch", "update"]);
    // Required for owner references with blockOwnerDeletion.
    primary.allow(group, &format!("{plural}/finalizers"), &[], &["update"]);
    Ok(needs)
}

/// What the renders of a chart contained.
#[derive(Debug, Default)]
struct Seen {
    kinds: Kinds,
    /// Group and kind of the created objects.
    made: BTreeSet<(String, String)>,
    /// The rules of created roles: an operator can only grant permissions that it has itself.
    granted: Needs,
    /// Resource and name of roles that are bound but not created.
    bound: BTreeSet<(&'static str, String)>,
    /// Whether roles with an aggregationRule are created.
    aggregates: bool,
    reads_logs: bool,
}

impl Seen {
    fn see(&mut self, rendered: &Rendered) {
        let hooks =
            rendered.hooks.iter().filter(|hook| !hook.events.iter().all(|event| event.as_str() == "test"));
        let mut objects = Vec::new();
        for hook in hooks.clone() {
            self.reads_logs |= !hook.output_log_policies.is_empty();
        }
        for manifest in rendered.manifests.iter().chain(hooks.map(|hook| &hook.manifest)) {
            self.add(&manifest.api_version, &manifest.kind);
            let is_read = group(&manifest.api_version) == RBAC
                || manifest.kind.ends_with("List")
                || manifest.kind == "CustomResourceDefinition";
            if is_read {
                let documents = split(&manifest.content);
                objects.extend(documents.into_iter().filter_map(|text| steersman_yaml::from_str(text).ok()));
            }
        }
        let objects: Vec<Value> = objects.into_iter().flat_map(unfold).collect();
        let made: BTreeSet<(&str, &str)> =
            objects.iter().map(|object| (text(object, "/kind"), text(object, "/metadata/name"))).collect();
        for object in &objects {
            self.add(text(object, "/apiVersion"), text(object, "/kind"));
            self.kinds.define(object);
            if group(text(object, "/apiVersion")) == RBAC {
                self.see_role(object, &made);
            }
        }
    }

    fn add(&mut self, api_version: &str, kind: &str) {
        if !kind.is_empty() && kind != "List" {
            self.made.insert((group(api_version).to_owned(), kind.to_owned()));
        }
    }

    fn see_role(&mut self, object: &Value, made: &BTreeSet<(&str, &str)>) {
        let kind = text(object, "/kind");
        let granted = match kind {
            "Role" => &mut self.granted.inside,
            "ClusterRole" => &mut self.granted.outside,
            "RoleBinding" | "ClusterRoleBinding" => {
                let (kind, name) = (text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
                if !made.contains(&(kind, name)) && !is_own(name) && !name.is_empty() {
                    let resource = if kind == "Role" { "roles" } else { "clusterroles" };
                    self.bound.insert((resource, name.to_owned()));
                }
                return;
            }
            _ => return,
        };
        for rule in object.get("rules").and_then(Value::as_array).into_iter().flatten() {
            granted.allow_rule(rule, is_own);
        }
        self.aggregates |= object.get("aggregationRule").is_some();
    }

    fn needs(mut self) -> Needs {
        let mut needs = std::mem::take(&mut self.granted);
        for (group, kind) in &self.made {
            let served = self.kinds.find(group, kind);
            let permissions = if served.namespaced { &mut needs.inside } else { &mut needs.outside };
            permissions.allow(group, &served.plural, &[], &KEEP);
        }
        if self.kinds.has_definitions() {
            // The operator installs the definitions in crds/ and waits until they are established.
            let verbs = ["create", "get", "list", "patch", "watch"];
            needs.outside.allow("apiextensions.k8s.io", "customresourcedefinitions", &[], &verbs);
        }
        for (resource, name) in &self.bound {
            let permissions = if *resource == "roles" { &mut needs.inside } else { &mut needs.outside };
            permissions.allow(RBAC, resource, std::slice::from_ref(name), &["bind"]);
        }
        if self.aggregates {
            needs.outside.allow(RBAC, "clusterroles", &[], &["escalate"]);
        }
        if self.reads_logs {
            needs.inside.allow("", "pods/log", &[], &["get"]);
        }
        needs
    }
}

/// Returns the items of a List, or the object itself.
fn unfold(object: Value) -> Vec<Value> {
    match object.get("items").and_then(Value::as_array) {
        Some(items) if text(&object, "/kind").ends_with("List") => {
            let kind = text(&object, "/kind").trim_end_matches("List").to_owned();
            let api_version = text(&object, "/apiVersion").to_owned();
            items
                .iter()
                .cloned()
                .map(|mut item| {
                    if item.get("kind").is_none() && item.is_object() && !kind.is_empty() {
                        item["kind"] = kind.as_str().into();
                        item["apiVersion"] = api_version.as_str().into();
                    }
                    item
                })
                .collect()
        }
        _ => vec![object],
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a name is derived from the release's name or namespace.
fn is_own(name: &str) -> bool {
    name.contains(explore::RELEASE) || name.contains(explore::NAMESPACE)
}

/// Returns the group of an API version.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_chart::File;

    use super::*;

    fn resource() -> Resource {
        Resource {
            group: "charts.example.com".into(),
            version: "v1alpha1".into(),
            kind: "Shop".into(),
            plural: "shops".into(),
            short_group: "charts".into(),
        }
    }

    fn needs(values: &str, templates: &[(&str, &str)]) -> Needs {
        let mut files = vec![
            File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 0.1.0}"),
            File::new("values.yaml", values),
        ];
        files.extend(templates.iter().map(|(name, text)| File::new(*name, *text)));
        of_chart(&Chart::from_files(files).unwrap(), &resource(), true).unwrap()
    }

    fn allows(permissions: &Permissions, group: &str, resource: &str, verb: &str) -> bool {
        let has = |rule: &Value, key: &str, wanted: &str| {
            rule[key].as_array().is_some_and(|list| list.iter().any(|one| one == wanted))
        };
        permissions.rules().iter().any(|rule| {
            has(rule, "apiGroups", group) && has(rule, "resources", resource) && has(rule, "verbs", verb)
        })
    }

    #[test]
    fn kinds_behind_switches_are_found() {
        let made = |version: &str, kind: &str, condition: &str| {
            format!(
                "{{{{ if {condition} }}}}\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n{{{{ end }}}}"
            )
        };
        let both = made("example.com/v1", "{{ \"Deep\" }}", "and .Values.a.enabled .Values.a.b.enabled");
        let off = made("example.com/v1", "{{ \"Absent\" }}", "not .Values.on");
        let needs = needs(
            "on: true\na: {enabled: false, b: {enabled: false}}\nlist: []\n",
            &[
                ("templates/a.yaml", &both),
                ("templates/b.yaml", &off),
                ("templates/c.yaml", &made("v1", "ConfigMap", ".Values.list")),
                ("templates/tests/d.yaml", &made("v1", "Pod", "true")),
            ],
        );
        assert!(allows(&needs.inside, "example.com", "deeps", "create"));
        assert!(allows(&needs.inside, "example.com", "absents", "create"));
        assert!(allows(&needs.inside, "", "configmaps", "watch"));
        assert!(allows(&needs.inside, "charts.example.com", "shops/status", "patch"));
    }

    #[test]
    fn switches_that_contradict_each_other_do_not_end_it() {
        let text = "{{ if and .Values.a .Values.b }}{{ fail \"not both\" }}{{ end }}\n\
             apiVersion: v1\nkind: {{ if .Values.a }}{{ \"Service\" }}{{ else }}{{ \"Secret\" }}{{ end }}\n";
        let needs = needs("a: false\nb: false\n", &[("templates/a.yaml", text)]);
        assert!(allows(&needs.inside, "", "services", "create"));
        assert!(allows(&needs.inside, "", "secrets", "create"));
    }

    #[test]
    fn what_roles_grant_is_needed_too() {
        let text = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: '{{ .Release.Name }}-reader'}
rules: [{apiGroups: [''], resources: [nodes], verbs: [get, list]}, {nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: '{{ .Release.Name }}-reader'}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: '{{ .Release.Name }}-reader'}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: '{{ .Release.Name }}-view'}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
";
        let needs = needs("", &[("templates/a.yaml", text)]);
        assert!(allows(&needs.outside, "", "nodes", "list"));
        assert!(allows(&needs.outside, RBAC, "clusterroles", "create"));
        assert!(allows(&needs.inside, RBAC, "rolebindings", "create"));
        let rules = needs.outside.rules();
        let bind = json!({"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["view"]});
        assert!(rules.contains(&bind), "{rules:#?}");
        assert!(rules.contains(&json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]})), "{rules:#?}");
    }
}
