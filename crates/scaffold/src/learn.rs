//! Learns an operator's role from the requests that it made in a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::ansible;
use crate::error::{Error, Result};
use crate::files::{Existing, Plan, Written};
use crate::helm::{self, heading, yaml};
use crate::layout::{self, ROLE};
use crate::project::{Plugin, Project};
use crate::role::Permissions;
use crate::templates::{render, template};

const CLUSTER_ROLE: &str = "config/rbac/cluster_role.yaml";
const MARK: &str = "# +kubebuilder:scaffold:rules\n";

/// RBAC verbs that never occur as the verb of a request: they grant additional rights on its resources.
const SILENT_VERBS: [&str; 7] = ["approve", "attest", "bind", "escalate", "impersonate", "sign", "use"];

/// Verbs of requests that name an object.
const NAMED_VERBS: [&str; 4] = ["delete", "get", "patch", "update"];

/// Resources that other roles of a project grant, or that every user may access.
const ELSEWHERE: [(&str, &str); 6] = [
    ("coordination.k8s.io", "leases"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// A request that an operator made, in the terms of an RBAC rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservedRequest {
    /// The API verb.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The resource, with the subresource after a slash.
    pub resource: String,
    /// The namespace; empty for requests across all namespaces and for cluster-scoped resources.
    pub namespace: String,
    /// The object's name, if the request has one.
    pub name: String,
}

impl ObservedRequest {
    /// Parses requests from an audit log with one `audit.k8s.io` event as JSON per line.
    ///
    /// Only users that `is_meant` accepts count, and requests denied with 401 or 403 do not.
    ///
    /// # Errors
    /// Fails with the number of the first line that is not an audit event.
    pub fn from_audit_log(text: &str, is_meant: impl Fn(&str) -> bool) -> Result<Vec<Self>, String> {
        let mut requests = BTreeSet::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let event: Value =
                serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))?;
            if event["kind"] != "Event" || event.get("verb").is_none() {
                return Err(format!("line {}: not an audit.k8s.io event", index + 1));
            }
            let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let code = event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or(200);
            if !is_meant(text("/user/username"))
                || code == 403
                || code == 401
                || text("/objectRef/resource").is_empty()
            {
                continue;
            }
            let resource = match text("/objectRef/subresource") {
                "" => text("/objectRef/resource").to_owned(),
                subresource => format!("{}/{subresource}", text("/objectRef/resource")),
            };
            let request = Self {
                verb: text("/verb").to_owned(),
                group: text("/objectRef/apiGroup").to_owned(),
                resource,
                namespace: text("/objectRef/namespace").to_owned(),
                name: text("/objectRef/name").to_owned(),
            };
            // An apply that creates its object also requires the verb create.
            if request.verb == "patch" && code == 201 {
                requests.insert(Self { verb: "create".to_owned(), name: String::new(), ..request.clone() });
            }
            requests.insert(request);
        }
        Ok(requests.into_iter().collect())
    }
}

/// The options of learning a role.
#[derive(Clone, Debug, Default)]
pub struct LearnOptions {
    /// Rules of the roles that the operator creates or binds. Default: none.
    ///
    /// An operator can only grant permissions that it has itself.
    pub granted: Vec<Value>,
    /// The operator's own namespace: rules for objects in it use resourceNames. Default: none.
    pub own_namespace: String,
    /// Whether to replace a role that was edited by hand. Default: no.
    pub force: bool,
    /// Whether to write nothing. Default: no.
    pub dry_run: bool,
}

/// A learnt role.
#[derive(Clone, Debug)]
pub struct LearnedRole {
    /// The files and their outcomes.
    pub written: Vec<Written>,
    /// The changes as unified diffs.
    pub differences: Vec<(String, String)>,
    /// Files that were edited by hand, which are kept unless [`LearnOptions::force`] is set.
    pub edited: Vec<String>,
}

/// Writes a role that allows exactly the requests into the project in a directory.
///
/// Permissions that no request shows are kept from the current role: `update` of finalizers, and verbs such as `bind`.
///
/// # Errors
/// Fails if there is no project, its role is generated from code, or a file cannot be written.
pub fn learn_rbac(root: &Path, requests: &[ObservedRequest], options: &LearnOptions) -> Result<LearnedRole> {
    let project = Project::load(root)?;
    if project.plugin()? == Plugin::Rust {
        return Err(Error::usage(
            "the role of a project in Rust follows from its code",
            "`cargo run -- rbac --least-privilege FILE` compares it with a run that had --record-requests FILE",
        ));
    }
    let present = Plan::default();
    let current = [ROLE, CLUSTER_ROLE].map(|path| present.text(root, path));
    let [role, cluster_role] = current;
    let (role, cluster_role) = (role?.unwrap_or_default(), cluster_role?);
    let is_namespaced = project.is_namespaced();
    let mut inside = Permissions::default();
    let mut outside = Permissions::default();
    let in_namespaces: BTreeSet<(&str, &str)> = requests
        .iter()
        .filter(|request| !request.namespace.is_empty())
        .map(|request| (request.group.as_str(), request.resource.as_str()))
        .collect();
    let names = nameable(requests, &options.own_namespace);
    for request in requests.iter().filter(|request| !is_elsewhere(request)) {
        let key = (request.group.as_str(), request.resource.as_str());
        let permissions = match is_namespaced && !in_namespaces.contains(&key) {
            true => &mut outside,
            false => &mut inside,
        };
        let known = names.get(&key).filter(|_| NAMED_VERBS.contains(&request.verb.as_str()));
        permissions.allow(
            &request.group,
            &request.resource,
            known.map_or(&[], Vec::as_slice),
            &[&request.verb],
        );
        if let Some(verb) = beside(request) {
            permissions.allow(&request.group, &request.resource, &[], &[verb]);
        }
    }
    for rule in &options.granted {
        inside.allow_rule(rule, |_| false);
    }
    for (text, permissions) in [(Some(&role), &mut inside), (cluster_role.as_ref(), &mut outside)] {
        for rule in silent_rules(text.map_or("", String::as_str))? {
            permissions.allow_rule(&rule, |_| false);
        }
    }
    let mut plan = Plan::default();
    let mut edited = Vec::new();
    let expected = scaffolded(root, &project)?;
    let mut put = |path: &'static str, current: &str, rules: &[Value]| -> Result<()> {
        let text = with_rules(&project, current, rules)?;
        let is_scaffolded = expected.get(path).is_some_and(|expected| expected == current);
        let is_edited = !is_scaffolded && !is_learned(current);
        if is_edited && text != current {
            edited.push(path.to_owned());
        }
        let existing = if is_edited && !options.force { Existing::Keep } else { Existing::Replace };
        plan.put(root, path, text, existing)
    };
    put(ROLE, &role, &inside.rules())?;
    if !outside.is_empty() || cluster_role.is_some() {
        let current = match cluster_role {
            Some(text) => text,
            None => render(template!("config/rbac/cluster_role.yaml"), &layout::values(&project))?,
        };
        put(CLUSTER_ROLE, &current, &outside.rules())?;
        helm::list(
            root,
            &mut plan,
            "config/rbac/kustomization.yaml",
            "cluster_role.yaml",
            "rbackustomizeresource",
        )?;
    }
    let mut shown = Plan::default();
    // For a role that is kept, the diff shows what it would become.
    for (path, rules) in [(ROLE, inside.rules()), (CLUSTER_ROLE, outside.rules())] {
        if let Some(current) = plan.text(root, path)?.filter(|_| edited.iter().any(|one| one == path)) {
            shown.put(root, path, with_rules(&project, &current, &rules)?, Existing::Replace)?;
        }
    }
    let mut differences = plan.differences(root)?;
    differences.extend(
        shown.differences(root)?.into_iter().filter(|(path, _)| !options.force && edited.contains(path)),
    );
    let written = if options.dry_run { plan.preview() } else { plan.write(root)? };
    Ok(LearnedRole { written, differences, edited })
}

/// Returns the verb that the same operation uses at other times, if any.
///
/// This is `list` for a watch, where lists are not streamed, and `patch` for an event that recurs.
fn beside(request: &ObservedRequest) -> Option<&'static str> {
    match (request.verb.as_str(), request.resource.as_str()) {
        ("watch", _) => Some("list"),
        ("create", "events") => Some("patch"),
        _ => None,
    }
}

fn is_elsewhere(request: &ObservedRequest) -> bool {
    ELSEWHERE.iter().any(|(group, resource)| request.group == *group && request.resource == *resource)
}

/// Returns names for resourceNames, where the observed ones are all that can occur.
///
/// That is so for definitions and for objects in the operator's own namespace.
fn nameable<'a>(
    requests: &'a [ObservedRequest],
    own_namespace: &str,
) -> BTreeMap<(&'a str, &'a str), Vec<String>> {
    let mut names: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    let mut open: BTreeSet<(&str, &str)> = BTreeSet::new();
    for request in requests.iter().filter(|request| NAMED_VERBS.contains(&request.verb.as_str())) {
        let key = (request.group.as_str(), request.resource.as_str());
        let is_fixed = request.resource == "customresourcedefinitions"
            || (!own_namespace.is_empty() && request.namespace == own_namespace);
        match is_fixed && !request.name.is_empty() && request.resource != "events" {
            true => drop(names.entry(key).or_default().insert(request.name.clone())),
            false => drop(open.insert(key)),
        }
    }
    names.retain(|key, _| !open.contains(key));
    names.into_iter().map(|(key, names)| (key, names.into_iter().collect())).collect()
}

/// Returns the rules of a role that no request shows.
fn silent_rules(role: &str) -> Result<Vec<Value>> {
    if role.is_empty() {
        return Ok(Vec::new());
    }
    let broken =
        |error: steersman_yaml::Error| Error::Broken { path: ROLE.into(), reason: error.to_string() };
    let mut rules = Vec::new();
    for document in steersman_chart::split(role) {
        let document = steersman_yaml::from_str(document).map_err(broken)?;
        for rule in document.get("rules").and_then(Value::as_array).into_iter().flatten() {
            let texts = |key: &str| -> Vec<String> {
                let list = rule.get(key).and_then(Value::as_array).into_iter().flatten();
                list.filter_map(Value::as_str).map(str::to_owned).collect()
            };
            let silent: Vec<String> =
                texts("verbs").into_iter().filter(|verb| SILENT_VERBS.contains(&verb.as_str())).collect();
            if !silent.is_empty() {
                let mut kept = rule.clone();
                kept["verbs"] = silent.into();
                rules.push(kept);
            }
            let finalizers: Vec<String> =
                texts("resources").into_iter().filter(|resource| resource.ends_with("/finalizers")).collect();
            if !finalizers.is_empty() {
                rules.push(
                    json!({"apiGroups": texts("apiGroups"), "resources": finalizers, "verbs": ["update"]}),
                );
            }
        }
    }
    Ok(rules)
}

/// Returns the roles as the scaffold writes them for the project's kinds.
fn scaffolded(root: &Path, project: &Project) -> Result<BTreeMap<&'static str, String>> {
    let mut plan = Plan::default();
    // A directory that does not exist, so that everything is written; charts are read from the project.
    let nowhere = root.join(".steer/no-project");
    for (path, text) in layout::files(project)? {
        if path == ROLE || path == "config/rbac/kustomization.yaml" {
            plan.put(&nowhere, path, text, Existing::Replace)?;
        }
    }
    match project.plugin()? {
        Plugin::Helm => crate::generate::plan_rbac(root, &nowhere, &mut plan, project)?,
        Plugin::Ansible => ansible::plan_rbac(root, &nowhere, &mut plan, project)?,
        Plugin::Rust => {}
    }
    let mut texts = BTreeMap::new();
    for path in [ROLE, CLUSTER_ROLE] {
        if let Some(text) = plan.text(&nowhere, path)? {
            texts.insert(path, text);
        }
    }
    Ok(texts)
}

/// Replaces the rules of a role.
///
/// The headings of all kinds are kept above them, so that generators find existing rules.
fn with_rules(project: &Project, role: &str, rules: &[Value]) -> Result<String> {
    let broken = || Error::Broken { path: ROLE.into(), reason: "line `rules:` not found".to_owned() };
    let (before, after) = role.split_once("\nrules:").ok_or_else(broken)?;
    // A role can be followed by its binding in the same file.
    let rest = after.find("\n---\n").map_or("", |at| &after[at + 1..]);
    let kinds: String = project.resources().iter().map(heading).collect();
    let body = match rules {
        [] => String::new(),
        rules => yaml(&json!(rules))?,
    };
    let digest = digest(&body);
    Ok(format!(
        "{before}\nrules:\n##\n## What a run needed, by `steer rbac learn` ({digest})\n{kinds}##\n{body}{MARK}{rest}"
    ))
}

/// Whether a role has exactly the rules that were learnt: it was not edited since.
fn is_learned(role: &str) -> bool {
    let Some((_, after)) = role.split_once("by `steer rbac learn` (") else { return false };
    let Some((known, after)) = after.split_once(")\n") else { return false };
    let Some((body, _)) = after.split_once(MARK) else { return false };
    let body: String = body.split_inclusive('\n').filter(|line| !line.starts_with("##")).collect();
    digest(&body) == known
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use steersman_chart::{Chart, File};

    use super::*;
    use crate::{ApiOptions, InitOptions, init};

    fn request(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> ObservedRequest {
        ObservedRequest {
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    fn project(namespaced: bool) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let chart = Chart::from_files([
            File::new("Chart.yaml", "{apiVersion: v2, name: hello, version: 0.1.0}"),
            File::new("values.yaml", "a: b"),
            File::new("templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        ]);
        let options = InitOptions {
            project_name: Some("hello-operator".into()),
            namespaced,
            domain: "example.com".into(),
            ..InitOptions::new(Plugin::Helm)
        };
        init(root.path(), &options, Some(&ApiOptions::default().of_chart(chart.unwrap()))).unwrap();
        root
    }

    fn role(root: &Path, path: &str) -> Value {
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        steersman_yaml::from_str(steersman_chart::split(&text)[0]).unwrap()
    }

    #[test]
    fn a_role_allows_what_was_asked_for() {
        let root = project(false);
        let requests = [
            request("watch", "", "configmaps", "", ""),
            request("patch", "", "configmaps", "default", "x"),
            request("get", "", "secrets", "system", "signing-key"),
            request(
                "get",
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                "",
                "hellos.charts.example.com",
            ),
            request("update", "coordination.k8s.io", "leases", "system", "hello"),
        ];
        let options = LearnOptions { own_namespace: "system".into(), ..LearnOptions::default() };
        let learned = learn_rbac(root.path(), &requests, &options).unwrap();
        assert!(learned.edited.is_empty(), "{:?}", learned.edited);
        assert!(learned.differences[0].1.contains("-  - delete\n"), "{:?}", learned.differences);
        let rules = role(root.path(), ROLE)["rules"].clone();
        assert_eq!(
            rules,
            json!([
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "patch", "watch"]},
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["signing-key"]},
                {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get"],
                    "resourceNames": ["hellos.charts.example.com"]},
                {"apiGroups": ["charts.example.com"], "resources": ["hellos/finalizers"], "verbs": ["update"]},
            ])
        );
        // A second run changes nothing, and neither do the generators.
        let again = learn_rbac(root.path(), &requests, &options).unwrap();
        assert!(again.differences.is_empty() && again.edited.is_empty(), "{again:?}");
        assert!(crate::generate_rbac(root.path(), false).unwrap().is_empty());
        // More requests add rules, as nothing was edited.
        let more = [requests.to_vec(), vec![request("delete", "", "pods", "default", "p")]].concat();
        assert!(learn_rbac(root.path(), &more, &options).unwrap().edited.is_empty());
    }

    #[test]
    fn a_role_that_was_edited_stays_unless_asked_for() {
        let root = project(false);
        let path = root.path().join(ROLE);
        let edited = std::fs::read_to_string(&path).unwrap() + "# Mine.\n";
        std::fs::write(&path, &edited).unwrap();
        let requests = [request("list", "", "configmaps", "", "")];
        let learned = learn_rbac(root.path(), &requests, &LearnOptions::default()).unwrap();
        assert_eq!(learned.edited, [ROLE]);
        assert_eq!(learned.differences.len(), 1);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), edited);
        let options = LearnOptions { force: true, ..LearnOptions::default() };
        assert_eq!(learn_rbac(root.path(), &requests, &options).unwrap().edited, [ROLE]);
        assert_ne!(std::fs::read_to_string(&path).unwrap(), edited);
    }

    #[test]
    fn what_is_outside_of_namespaces_gets_a_role_of_its_own() {
        let root = project(true);
        let requests =
            [request("list", "", "configmaps", "default", ""), request("create", "", "namespaces", "", "")];
        learn_rbac(root.path(), &requests, &LearnOptions::default()).unwrap();
        assert_eq!(role(root.path(), ROLE)["kind"], "Role");
        assert_eq!(role(root.path(), ROLE)["rules"][0]["resources"], json!(["configmaps"]));
        assert_eq!(role(root.path(), CLUSTER_ROLE)["rules"][0]["resources"], json!(["namespaces"]));
        let text = std::fs::read_to_string(root.path().join(CLUSTER_ROLE)).unwrap();
        assert!(text.contains("\n---\n") && text.contains("kind: ClusterRoleBinding\n"), "{text}");
    }

    #[test]
    fn audit_logs_are_read() {
        let log = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"patch","user":{"username":"op"},"objectRef":{"resource":"deployments","namespace":"shop","name":"web","apiGroup":"apps"},"responseStatus":{"code":201}}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","user":{"username":"op"},"objectRef":{"resource":"pods","subresource":"log","name":"p"},"responseStatus":{"code":403}}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"list","user":{"username":"other"},"objectRef":{"resource":"nodes"}}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get","user":{"username":"op"},"requestURI":"/healthz"}
"#;
        let requests = ObservedRequest::from_audit_log(log, |user| user == "op").unwrap();
        let verbs: Vec<&str> = requests.iter().map(|request| request.verb.as_str()).collect();
        assert_eq!(verbs, ["create", "patch"]);
        assert_eq!(requests[1], request("patch", "apps", "deployments", "shop", "web"));
        assert_eq!(
            ObservedRequest::from_audit_log("{}\n", |_| true).unwrap_err(),
            "line 1: not an audit.k8s.io event"
        );
        assert!(ObservedRequest::from_audit_log("\nx\n", |_| true).unwrap_err().starts_with("line 2: "));
    }
}
