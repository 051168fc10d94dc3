//! Adopts files of a project whose scaffolded state is not known.

use serde_json::{Value, json};

use super::known;
use crate::files::{insert_before, is_mark};
use crate::helm::yaml;
use crate::layout::ROLE;
use crate::project::Project;
use crate::role::Permissions;

/// The decision about a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Adopted {
    /// Replace it with this content, which includes the user's settings.
    Replace(String),
    /// Keep it, and report that.
    Keep,
    /// Keep it, as nothing would change.
    Unchanged,
    /// Merge it with conflict markers for the user to resolve.
    Merge,
}

/// Prefixes of lines that users are meant to edit, which are carried over into the scaffold's file.
const CARRIED: &[(&str, &[&str])] = &[
    ("Makefile", &["VERSION ?=", "IMAGE_TAG_BASE ?=", "IMG ?="]),
    (DEFAULT, &["namespace:", "namePrefix:"]),
];

const DEFAULT: &str = "config/default/kustomization.yaml";
const MANAGER: &str = "config/manager/manager.yaml";

/// Instructions of operator-sdk's Dockerfiles except FROM, with single spaces.
const INSTRUCTIONS: [&str; 9] = [
    "ENV HOME=/opt/helm",
    "WORKDIR ${HOME}",
    "COPY watches.yaml ${HOME}/watches.yaml",
    "COPY helm-charts ${HOME}/helm-charts",
    "COPY requirements.yml ${HOME}/requirements.yml",
    "RUN ansible-galaxy collection install -r ${HOME}/requirements.yml",
    "&& chmod -R ug+rwx ${HOME}/.ansible",
    "COPY roles/ ${HOME}/roles/",
    "COPY playbooks/ ${HOME}/playbooks/",
];

/// Flags of the operator in operator-sdk's manager.yaml.
const FLAGS: [&str; 9] = [
    "--leader-elect",
    "--leader-election-id",
    "--health-probe-bind-address",
    "--metrics-bind-address",
    "--metrics-secure",
    "--metrics-require-rbac",
    "--config",
    "--enable-http2",
    "--zap-log-level",
];

/// Decides about a file that differs from the scaffold's.
pub(super) fn adopt(project: &Project, path: &str, mine: &str, new: &str) -> Adopted {
    let name = project.name();
    match path {
        "watches.yaml" | "requirements.yml" => return Adopted::Unchanged,
        ".gitignore" | ".dockerignore" => return Adopted::Replace(with_missing_lines(mine, new)),
        ROLE => return with_missing_rules(mine, new).map_or(Adopted::Merge, Adopted::Replace),
        _ => {}
    }
    let carried = carry_over(path, mine, new);
    if known::is_file(path, &drop_carried(path, mine), name) {
        return Adopted::Replace(carried);
    }
    // Comments that users wrote are never dropped.
    let has_own_words = !known::has_known_comments(mine, new, name);
    match path {
        "Makefile" => return Adopted::Merge,
        "Dockerfile" if !has_own_words && is_plain_dockerfile(mine) => return Adopted::Replace(carried),
        MANAGER if !has_own_words => {
            return carry_over_resources(mine, new).map_or(Adopted::Merge, Adopted::Replace);
        }
        DEFAULT if !has_own_words => {
            return carry_over_components(mine, &carried).map_or(Adopted::Merge, Adopted::Replace);
        }
        "Dockerfile" | MANAGER | DEFAULT => return Adopted::Merge,
        path if path.ends_with("/kustomization.yaml") => {
            return with_missing_resources(mine, new).map_or(Adopted::Merge, Adopted::Replace);
        }
        _ => {}
    }
    match (known::substance(mine, name), known::substance(new, name)) {
        (Some(mine), Some(new)) if mine == new && !has_own_words => Adopted::Replace(carried),
        (Some(mine), Some(new)) if mine == new => Adopted::Unchanged,
        // The rest of the project refers to the object by its name, so the user's version works.
        (Some(mine), Some(new)) if identities(&mine) == identities(&new) => Adopted::Keep,
        _ => Adopted::Merge,
    }
}

fn carried_prefixes(path: &str) -> &'static [&'static str] {
    CARRIED.iter().find(|(known, _)| *known == path).map_or(&[], |(_, prefixes)| *prefixes)
}

/// Returns the scaffold's file with the user's values of the editable lines.
fn carry_over(path: &str, mine: &str, new: &str) -> String {
    let prefixes = carried_prefixes(path);
    let find = |prefix: &str| mine.lines().find(|line| line.starts_with(prefix));
    let carried = |line: &str| {
        let prefix = prefixes.iter().find(|prefix| line.starts_with(**prefix));
        prefix.and_then(|prefix| find(prefix)).map_or_else(|| line.to_owned(), |mine| format!("{mine}\n"))
    };
    new.split_inclusive('\n').map(carried).collect()
}

/// Removes the values of the editable lines.
fn drop_carried(path: &str, text: &str) -> String {
    let prefixes = carried_prefixes(path);
    let dropped = |line: &str| match prefixes.iter().find(|prefix| line.starts_with(**prefix)) {
        Some(prefix) => format!("{prefix}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(dropped).collect()
}

/// Adds the scaffold's missing patterns to an ignore file.
fn with_missing_lines(mine: &str, new: &str) -> String {
    let is_pattern = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let has = |line: &str| mine.lines().any(|known| known.trim().trim_matches('/') == line.trim_matches('/'));
    let missing: Vec<&str> = new.lines().filter(is_pattern).filter(|line| !has(line)).collect();
    if missing.is_empty() {
        return mine.to_owned();
    }
    let end = if mine.ends_with('\n') || mine.is_empty() { "" } else { "\n" };
    format!("{mine}{end}\n# What steer writes\n{}\n", missing.join("\n"))
}

/// Adds the scaffold's missing rules to a role.
fn with_missing_rules(mine: &str, new: &str) -> Option<String> {
    let (role, wanted) = (steersman_yaml::from_str(mine).ok()?, steersman_yaml::from_str(new).ok()?);
    let rules = |role: &Value| role.get("rules").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut missing = Permissions::default();
    for rule in rules(&wanted) {
        for (group, resource, verb) in permissions(&rule) {
            if !rules(&role).iter().any(|known| allows(known, group, resource, verb)) {
                missing.allow(group, resource, &[], &[verb]);
            }
        }
    }
    if missing.is_empty() {
        return Some(mine.to_owned());
    }
    let heading = "##\n## Base operator rules, added by steer update\n##\n";
    let added = format!("{heading}{}", yaml(&json!(missing.rules())).ok()?);
    let text = match insert_before(mine, "rules", &added) {
        Some(text) => text,
        None => format!("{}\n{added}# +kubebuilder:scaffold:rules\n", mine.trim_end()),
    };
    // Rules cannot be appended if the list is indented or is not the role's last field.
    let read = steersman_yaml::from_str(&text).ok()?;
    (rules(&read).len() == rules(&role).len() + missing.rules().len()).then_some(text)
}

fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns every (group, resource, verb) that a rule allows.
fn permissions(rule: &Value) -> Vec<(&str, &str, &str)> {
    let mut all = Vec::new();
    for group in texts(rule, "apiGroups") {
        for resource in texts(rule, "resources") {
            all.extend(texts(rule, "verbs").into_iter().map(|verb| (group, resource, verb)));
        }
    }
    all
}

fn allows(rule: &Value, group: &str, resource: &str, verb: &str) -> bool {
    let has = |key: &str, wanted: &str| texts(rule, key).iter().any(|one| *one == wanted || *one == "*");
    rule.get("resourceNames").is_none()
        && has("apiGroups", group)
        && has("resources", resource)
        && has("verbs", verb)
}

/// Adds the scaffold's missing resources to a kustomization, and removes the replaced ones.
fn with_missing_resources(mine: &str, new: &str) -> Option<String> {
    let (read, wanted) = (steersman_yaml::from_str(mine).ok()?, steersman_yaml::from_str(new).ok()?);
    let listed = texts(&read, "resources");
    let replaced = |file: &str| known::REPLACED.iter().any(|path| path.rsplit('/').next() == Some(file));
    let missing: Vec<&str> =
        texts(&wanted, "resources").into_iter().filter(|file| !listed.contains(file)).collect();
    let marks: Vec<&str> = new.lines().filter(|line| line.contains("+kubebuilder:scaffold:")).collect();
    let has_mark = |mark: &str| {
        let name = mark.rsplit(':').next().unwrap_or_default();
        mine.lines().any(|line| is_mark(line, name))
    };
    let item = |line: &str| line.trim().strip_prefix("- ").map(|file| file.trim().to_owned());
    let mut lines: Vec<String> = mine.lines().map(str::to_owned).collect();
    lines.retain(|line| !item(line).is_some_and(|file| replaced(&file)));
    let start = lines.iter().position(|line| line.trim_end().starts_with("resources:"))?;
    if lines
        .get(start)
        .is_some_and(|line| line.trim_end() != "resources:" && line.trim_end() != "resources: []")
    {
        return None;
    }
    if !missing.is_empty() || listed.iter().any(|file| replaced(file)) {
        lines[start] = "resources:".to_owned();
    }
    let is_in_list =
        |line: &String| item(line).is_some() || line.trim().starts_with('#') || line.trim().is_empty();
    let block = lines.iter().skip(start + 1).take_while(|line| is_in_list(line)).count();
    let last = lines[start + 1..start + 1 + block].iter().rposition(|line| item(line).is_some());
    let at = start + 1 + last.map_or(0, |index| index + 1);
    let indent = match last.and_then(|index| lines.get(start + 1 + index)) {
        Some(line) => line.len() - line.trim_start().len(),
        None => 0,
    };
    let added = missing.iter().map(|file| format!("{:indent$}- {file}", ""));
    let marks = marks.iter().filter(|mark| !has_mark(mark) && !mark.ends_with(":patches"));
    let marks = marks.map(|mark| (*mark).to_owned());
    lines.splice(at..at, added.chain(marks).collect::<Vec<_>>());
    let text = lines.join("\n") + "\n";
    let read = steersman_yaml::from_str(&text).ok()?;
    let listed = texts(&read, "resources");
    texts(&wanted, "resources").iter().all(|file| listed.contains(file)).then_some(text)
}

fn is_plain_dockerfile(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.into_iter().all(|line| {
        let words: Vec<&str> = line.trim_end_matches('\\').split_whitespace().collect();
        let line = words.join(" ");
        line.starts_with("FROM quay.io/operator-framework/") || INSTRUCTIONS.contains(&line.as_str())
    })
}

fn has_only(value: &Value, keys: &[&str]) -> bool {
    value.as_object().is_some_and(|fields| fields.keys().all(|key| keys.contains(&key.as_str())))
}

/// Returns the scaffold's manager.yaml with the user's replicas and resources.
///
/// `None` if the user may have changed anything else.
fn carry_over_resources(mine: &str, new: &str) -> Option<String> {
    let objects: Vec<Value> = steersman_chart::split(mine)
        .into_iter()
        .filter_map(|text| steersman_yaml::from_str(text).ok())
        .collect();
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment")?;
    if objects.iter().any(|object| object["kind"] != "Deployment" && object["kind"] != "Namespace") {
        return None;
    }
    let pod = deployment.pointer("/spec/template/spec")?;
    let [container] = pod.get("containers")?.as_array()?.as_slice() else { return None };
    const POD: [&str; 4] =
        ["containers", "securityContext", "serviceAccountName", "terminationGracePeriodSeconds"];
    const CONTAINER: [&str; 10] = [
        "args",
        "command",
        "env",
        "image",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resources",
        "securityContext",
    ];
    let is_known_flag = |argument: &&str| FLAGS.contains(&argument.split('=').next().unwrap_or_default());
    let is_known_env = |env: &Value| {
        ["ANSIBLE_GATHERING", "POD_NAME", "POD_NAMESPACE"].iter().any(|name| env["name"] == *name)
    };
    let env = container.get("env").and_then(Value::as_array);
    let is_scaffolded = has_only(pod, &POD)
        && has_only(container, &CONTAINER)
        && has_only(&deployment["spec"], &["replicas", "selector", "template"])
        && container["image"] == "controller:latest"
        && container.get("command").is_none()
        && texts(container, "args").iter().all(is_known_flag)
        && env.into_iter().flatten().all(is_known_env);
    if !is_scaffolded {
        return None;
    }
    let mut text = new.to_owned();
    if let Some(replicas) = deployment.pointer("/spec/replicas") {
        text = text.replacen("\n  replicas: 1\n", &format!("\n  replicas: {replicas}\n"), 1);
    }
    match container.get("resources") {
        Some(resources) => {
            replace_block(&text, "        resources:\n", &yaml(&json!({ "resources": resources })).ok()?)
        }
        None => Some(text),
    }
}

/// Replaces the block that begins with a line.
fn replace_block(text: &str, first: &str, block: &str) -> Option<String> {
    let start = text.find(first)?;
    let indent = first.len() - first.trim_start().len();
    let (before, after) = text.split_at(start);
    let is_inside = |line: &&str| line.len() - line.trim_start().len() > indent;
    let rest = after.get(first.len()..)?;
    let length: usize = rest.split_inclusive('\n').take_while(is_inside).map(str::len).sum();
    let block: String = block.lines().map(|line| format!("{:indent$}{line}\n", "")).collect();
    Some(format!("{before}{block}{}", rest.get(length..)?))
}

/// Returns the scaffold's overlay with the components that the user enabled.
///
/// `None` if the user may have changed anything else.
fn carry_over_components(mine: &str, new: &str) -> Option<String> {
    let read = steersman_yaml::from_str(mine).ok()?;
    const FIELDS: [&str; 6] =
        ["apiVersion", "kind", "namespace", "namePrefix", "resources", "patchesStrategicMerge"];
    const PLAIN: [&str; 4] = ["../crd", "../rbac", "../manager", "metrics_service.yaml"];
    const SWITCHED: [&str; 2] = ["../prometheus", "../network-policy"];
    let is_replaced = |file: &str| known::REPLACED.iter().any(|path| path.rsplit('/').next() == Some(file));
    let patches = read.get("patches").and_then(Value::as_array).into_iter().flatten();
    let patches_are_known = patches.into_iter().all(|patch| patch["path"].as_str().is_some_and(is_replaced));
    let fields: Vec<&str> = FIELDS.iter().copied().chain(["patches", "bases"]).collect();
    let resources: Vec<&str> = [texts(&read, "resources"), texts(&read, "bases")].concat();
    let is_scaffolded = has_only(&read, &fields)
        && resources.iter().all(|file| PLAIN.contains(file) || SWITCHED.contains(file))
        && texts(&read, "patchesStrategicMerge").iter().all(|file| is_replaced(file))
        && patches_are_known;
    if !is_scaffolded {
        return None;
    }
    let mut text = new.to_owned();
    for component in SWITCHED.iter().filter(|component| resources.contains(component)) {
        text = text.replacen(&format!("#- {component}\n"), &format!("- {component}\n"), 1);
    }
    Some(text)
}

/// Returns kind and name of each object.
fn identities(objects: &[Value]) -> Vec<(String, String)> {
    let text = |object: &Value, pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    objects.iter().map(|object| (text(object, "/kind"), text(object, "/metadata/name"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Plugin;

    fn project() -> Project {
        Project::new("shop-operator", "example.com", Plugin::Helm, "")
    }

    #[test]
    fn rules_that_a_role_lacks_are_added_once() {
        let mine = "kind: ClusterRole\nrules:\n- apiGroups: [\"\"]\n  resources: [secrets]\n  verbs: [\"*\"]\n# +kubebuilder:scaffold:rules\n";
        let new = "kind: ClusterRole\nrules:\n- apiGroups: [\"\"]\n  resources: [secrets]\n  verbs: [get, list]\n\
             - apiGroups: [events.k8s.io]\n  resources: [events]\n  verbs: [create]\n";
        let added = with_missing_rules(mine, new).unwrap();
        assert!(added.starts_with("kind: ClusterRole\nrules:\n- apiGroups: [\"\"]\n"), "{added}");
        assert!(
            added.contains("- events.k8s.io\n  resources:\n  - events\n  verbs:\n  - create\n"),
            "{added}"
        );
        assert!(!added.contains("- list"), "{added}");
        assert_eq!(with_missing_rules(&added, new).unwrap(), added);
        // Rules at the end of an object without a marker.
        let unmarked = mine.replace("# +kubebuilder:scaffold:rules\n", "");
        assert!(with_missing_rules(&unmarked, new).unwrap().ends_with("# +kubebuilder:scaffold:rules\n"));
        let indented =
            "rules:\n  - apiGroups: [a]\n    resources: [b]\n    verbs: [get]\nkind: ClusterRole\n";
        assert_eq!(with_missing_rules(indented, new), None);
    }

    #[test]
    fn kustomizations_get_what_they_lack() {
        let mine = "# Mine.\nresources:\n- service_account.yaml\n- auth_proxy_service.yaml\n- shop_editor_role.yaml\nlabels: []\n";
        let new = "resources:\n- service_account.yaml\n- metrics_auth_role.yaml\n# +kubebuilder:scaffold:rbackustomizeresource\n";
        let text = with_missing_resources(mine, new).unwrap();
        assert_eq!(
            text,
            "# Mine.\nresources:\n- service_account.yaml\n- shop_editor_role.yaml\n- metrics_auth_role.yaml\n\
             # +kubebuilder:scaffold:rbackustomizeresource\nlabels: []\n"
        );
        assert_eq!(with_missing_resources(&text, new).unwrap(), text);
        assert_eq!(with_missing_resources("namespace: x\n", new), None);
    }

    #[test]
    fn a_manager_keeps_the_resources_that_were_chosen() {
        let new = "spec:\n  replicas: 1\n        resources:\n          limits:\n            cpu: 500m\n        # More.\n        volumeMounts: []\n";
        let mine = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: controller-manager}\nspec:\n  replicas: 2\n  template:\n    spec:\n      \
             containers: [{name: manager, image: 'controller:latest', args: [--leader-elect], resources: {limits: {cpu: 2}}}]\n";
        let text = carry_over_resources(mine, new).unwrap();
        assert_eq!(
            text,
            "spec:\n  replicas: 2\n        resources:\n          limits:\n            cpu: 2\n        # More.\n        volumeMounts: []\n"
        );
        assert_eq!(carry_over_resources(&mine.replace("--leader-elect", "--mine"), new), None);
        assert_eq!(carry_over_resources(&mine.replace("args:", "tty: true, args:"), new), None);
    }

    #[test]
    fn dockerfiles_with_steps_of_their_own_are_merged() {
        let plain = "FROM quay.io/operator-framework/helm-operator:v1.42.3\nENV HOME=/opt/helm\nCOPY watches.yaml ${HOME}/watches.yaml\n\
             COPY helm-charts  ${HOME}/helm-charts\nWORKDIR ${HOME}\n";
        assert_eq!(adopt(&project(), "Dockerfile", plain, "FROM x\n"), Adopted::Replace("FROM x\n".into()));
        let more = format!("{plain}RUN curl example.com\n");
        assert_eq!(adopt(&project(), "Dockerfile", &more, "FROM x\n"), Adopted::Merge);
        let words = format!("# Why so.\n{plain}");
        assert_eq!(adopt(&project(), "Dockerfile", &words, "FROM x\n"), Adopted::Merge);
    }

    #[test]
    fn an_overlay_keeps_its_namespace_and_components() {
        let mine = "namespace: shops\nnamePrefix: shop-\nresources:\n- ../crd\n- ../rbac\n- ../manager\n- ../prometheus\n\
             patches:\n- path: manager_metrics_patch.yaml\n";
        let new = "namespace: shop-operator-system\nnamePrefix: shop-operator-\nresources:\n- ../crd\n#- ../prometheus\n";
        let text = "namespace: shops\nnamePrefix: shop-\nresources:\n- ../crd\n- ../prometheus\n";
        assert_eq!(adopt(&project(), DEFAULT, mine, new), Adopted::Replace(text.into()));
        let more = mine.replace("manager_metrics_patch.yaml", "mine.yaml");
        assert_eq!(adopt(&project(), DEFAULT, &more, new), Adopted::Merge);
    }

    #[test]
    fn objects_of_the_same_name_stay_as_they_are() {
        let role = |verb: &str| {
            format!("kind: Role\nmetadata:\n  name: leader-election-role\nrules:\n- verbs: [{verb}]\n")
        };
        let path = "config/rbac/leader_election_role.yaml";
        assert_eq!(adopt(&project(), path, &role("get"), &role("list")), Adopted::Keep);
        let labelled =
            role("get").replace("  name:", "  labels: {app.kubernetes.io/name: shop-operator}\n  name:");
        assert_eq!(adopt(&project(), path, &role("get"), &labelled), Adopted::Replace(labelled.clone()));
        let commented = format!("# Mine.\n{}", role("get"));
        assert_eq!(adopt(&project(), path, &commented, &labelled), Adopted::Unchanged);
        assert_eq!(adopt(&project(), path, "kind: Other\n", &labelled), Adopted::Merge);
    }
}
