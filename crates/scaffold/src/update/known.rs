//! Recognizes files that operator-sdk scaffolded.

use std::sync::LazyLock;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Digests of the files of operator-sdk's projects and of their comments, as computed by [`digest`].
static DIGESTS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let lines = include_str!("../../data/operator-sdk-digests.txt").lines();
    let mut digests: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    digests.sort_unstable();
    digests
});

/// Files of operator-sdk's projects that are obsolete here: the metrics auth proxy and its patches.
pub(super) const REPLACED: [&str; 9] = [
    "config/default/manager_auth_proxy_patch.yaml",
    "config/default/manager_config_patch.yaml",
    "config/default/manager_metrics_patch.yaml",
    "config/manager/controller_manager_config.yaml",
    "config/rbac/auth_proxy_client_clusterrole.yaml",
    "config/rbac/auth_proxy_role.yaml",
    "config/rbac/auth_proxy_role_binding.yaml",
    "config/rbac/auth_proxy_service.yaml",
    "config/rbac/metrics_service.yaml",
];

/// Whether a file is unchanged from what some version of operator-sdk wrote for a project of this name.
pub(super) fn is_file(path: &str, text: &str, project: &str) -> bool {
    is_known(&digest(&format!("{path}\n{}", neutral(text, project))))
}

/// Whether all comments of a file are operator-sdk's, or occur in `other`.
pub(super) fn has_known_comments(text: &str, other: &str, project: &str) -> bool {
    let comments = |text: &str| -> Vec<String> {
        let text = neutral(text, project);
        text.lines().map(str::trim).filter(|line| line.starts_with('#')).map(str::to_owned).collect()
    };
    let others = comments(other);
    comments(text).iter().all(|comment| others.contains(comment) || is_known(&digest(comment)))
}

fn is_known(digest: &str) -> bool {
    DIGESTS.binary_search(&digest).is_ok()
}

/// Returns the first eight bytes of the SHA-256 in hexadecimal.
fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Removes what differs between projects and versions.
///
/// That is the project's name, dotted version numbers, blank lines and trailing whitespace.
pub(super) fn neutral(text: &str, project: &str) -> String {
    let text = if project.is_empty() { text.to_owned() } else { text.replace(project, "<name>") };
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.map(|line| without_versions(line) + "\n").collect()
}

fn without_versions(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let length = from.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(from.len());
        let (number, after) = from.split_at(length);
        out.push_str(before);
        out.push_str(if number.contains('.') { "<v>" } else { number });
        rest = after;
    }
    out + rest
}

/// Parses objects, without versions and recommended labels, which do not affect what an object does.
pub(super) fn substance(text: &str, project: &str) -> Option<Vec<Value>> {
    let neutral = neutral(text, project);
    let documents = steersman_chart::split(&neutral);
    let mut objects = Vec::new();
    for document in documents {
        let mut object = steersman_yaml::from_str(document).ok()?;
        drop_labels(&mut object);
        objects.push(object);
    }
    Some(objects)
}

fn drop_labels(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(labels) = fields.get_mut("labels").and_then(Value::as_object_mut) {
                labels.retain(|key, _| !key.starts_with("app.kubernetes.io/") && key != "control-plane");
                if labels.is_empty() {
                    fields.remove("labels");
                }
            }
            fields.values_mut().for_each(drop_labels);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_labels),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_left_out() {
        let text = "image: quay.io/x/shop-operator:v1.42.3  \n\nport: 8443\ncpu: 0.5\n";
        assert_eq!(neutral(text, "shop-operator"), "image: quay.io/x/<name>:v<v>\nport: 8443\ncpu: <v>\n");
    }

    #[test]
    fn labels_and_comments_are_no_substance() {
        let one = "# A.\nkind: Role\nmetadata: {name: a, labels: {app.kubernetes.io/name: x}}\n";
        let other = "kind: Role\nmetadata: {name: a}\n";
        assert_eq!(substance(one, "x").unwrap(), substance(other, "x").unwrap());
        assert_ne!(
            substance(one, "x").unwrap(),
            substance("kind: Role\nmetadata: {name: b}\n", "x").unwrap()
        );
    }
}
