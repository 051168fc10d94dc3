//! Permissions, and the minimal set of RBAC rules that grants them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// A set of allowed verbs per resource and per non-resource URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permissions {
    resources: BTreeMap<Target, BTreeSet<String>>,
    urls: BTreeMap<String, BTreeSet<String>>,
}

/// A resource, optionally restricted to objects by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    group: String,
    resource: String,
    /// Empty for all names.
    names: Vec<String>,
}

/// The key by which resources share a rule: group, names and verbs.
type Same<'a> = (&'a str, &'a [String], &'a BTreeSet<String>);

impl Permissions {
    pub(crate) fn allow(&mut self, group: &str, resource: &str, names: &[String], verbs: &[&str]) {
        let target = Target { group: group.to_owned(), resource: resource.to_owned(), names: names.to_vec() };
        self.resources.entry(target).or_default().extend(verbs.iter().map(|verb| (*verb).to_owned()));
    }

    /// Adds a rule of a role.
    ///
    /// If `is_own` matches one of its names, that name depends on the release's, which is not known yet: the rule then
    /// applies to all names.
    pub(crate) fn allow_rule(&mut self, rule: &Value, is_own: impl Fn(&str) -> bool) {
        let verbs = texts(rule, "verbs");
        let verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
        for url in texts(rule, "nonResourceURLs") {
            self.urls.entry(url).or_default().extend(verbs.iter().map(|verb| (*verb).to_owned()));
        }
        let mut names = texts(rule, "resourceNames");
        if names.iter().any(|name| is_own(name)) {
            names.clear();
        }
        names.sort();
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                self.allow(&group, &resource, &names, &verbs);
            }
        }
    }

    /// Adds all of another set's permissions.
    pub(crate) fn extend(&mut self, others: Self) {
        for (target, verbs) in others.resources {
            self.resources.entry(target).or_default().extend(verbs);
        }
        for (url, verbs) in others.urls {
            self.urls.entry(url).or_default().extend(verbs);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.urls.is_empty()
    }

    /// Returns the rules: resources of a group with the same names and verbs share one.
    pub(crate) fn rules(&self) -> Vec<Value> {
        let mut merged: BTreeMap<Same<'_>, Vec<&str>> = BTreeMap::new();
        for (target, verbs) in &self.resources {
            // Permissions for all names make those for single names redundant.
            let all = Target { names: Vec::new(), ..target.clone() };
            let is_covered = !target.names.is_empty()
                && self.resources.get(&all).is_some_and(|more| verbs.is_subset(more));
            if !is_covered {
                merged.entry((&target.group, &target.names, verbs)).or_default().push(&target.resource);
            }
        }
        let mut rules = Vec::new();
        for ((group, names, verbs), resources) in merged {
            let mut rule = json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
            if !names.is_empty() {
                rule["resourceNames"] = json!(names);
            }
            rules.push(rule);
        }
        let mut by_verbs: BTreeMap<&BTreeSet<String>, Vec<&str>> = BTreeMap::new();
        for (url, verbs) in &self.urls {
            by_verbs.entry(verbs).or_default().push(url);
        }
        rules.extend(
            by_verbs.into_iter().map(|(verbs, urls)| json!({ "nonResourceURLs": urls, "verbs": verbs })),
        );
        rules
    }
}

fn texts(rule: &Value, key: &str) -> Vec<String> {
    let list = rule.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_merged() {
        let mut permissions = Permissions::default();
        permissions.allow("apps", "deployments", &[], &["get", "list"]);
        permissions.allow("apps", "daemonsets", &[], &["list", "get"]);
        permissions.allow("", "pods", &[], &["get"]);
        permissions.allow("", "pods", &["one".into()], &["get"]);
        permissions.allow("", "secrets", &["one".into()], &["get"]);
        let rule = json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]});
        permissions.allow_rule(&rule, |_| false);
        assert_eq!(
            permissions.rules(),
            [
                json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}),
                json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["one"]}),
                json!({"apiGroups": ["apps"], "resources": ["daemonsets", "deployments"], "verbs": ["get", "list"]}),
                rule,
            ]
        );
    }

    #[test]
    fn names_that_the_release_makes_are_all_names() {
        let mut permissions = Permissions::default();
        let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["rel-x"]});
        permissions.allow_rule(&rule, |name| name.starts_with("rel"));
        assert_eq!(
            permissions.rules(),
            [json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]})]
        );
    }
}
