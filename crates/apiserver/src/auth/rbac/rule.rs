//! RBAC rules: what they allow, whether they cover other rules, and how errors show them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use steersman_api::status::quote;

use crate::auth::Attributes;

/// Matches everything.
const ALL: &str = "*";

/// A `PolicyRule`. A request matches if one value of each list matches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    #[serde(deserialize_with = "or_default")]
    pub(crate) verbs: Vec<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) api_groups: Vec<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(crate) paths: Vec<String>,
}

/// Deserializes null as the default: typed encoders write absent lists as null.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted)
}

fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

/// Whether a path matches a pattern, which may end in `*`.
fn path_fits(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

impl Rule {
    /// Returns the rules that allow everything.
    pub(super) fn full_authority() -> [Self; 2] {
        let all = || vec![ALL.to_owned()];
        [
            Self { verbs: all(), api_groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), paths: all(), ..Self::default() },
        ]
    }

    /// Whether the rule allows the action.
    pub(super) fn allows(&self, asked: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, asked.verb) {
            return false;
        }
        if !asked.is_resource() {
            return self.paths.iter().any(|pattern| path_fits(pattern, asked.path));
        }
        has_or_all(&self.api_groups, asked.group)
            && self.resources.iter().any(|r| resource_fits(r, asked.resource, asked.subresource))
            && (self.resource_names.is_empty() || has(&self.resource_names, asked.name))
    }

    /// Returns the number of rules that [`Rule::atoms`] returns.
    fn atom_count(&self) -> usize {
        let resources = self.api_groups.len().saturating_mul(self.resources.len());
        let named = resources.saturating_mul(self.resource_names.len().max(1));
        named.saturating_add(self.paths.len()).saturating_mul(self.verbs.len())
    }

    /// Splits the rule into rules with one value per list.
    fn atoms(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let names: Vec<Vec<String>> = if self.resource_names.is_empty() {
            vec![Vec::new()]
        } else {
            self.resource_names.iter().map(one).collect()
        };
        let mut atoms = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    atoms.extend(names.iter().map(|name| Self {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names: name.clone(),
                        paths: Vec::new(),
                    }));
                }
            }
        }
        for path in &self.paths {
            let atom = |verb| Self { verbs: one(verb), paths: one(path), ..Self::default() };
            atoms.extend(self.verbs.iter().map(atom));
        }
        atoms
    }

    /// Whether this rule alone allows everything that `other` allows.
    fn covers(&self, other: &Self) -> bool {
        let all_in = |own: &[String], wanted: &[String]| has(own, ALL) || wanted.iter().all(|w| has(own, w));
        let names = match other.resource_names.as_slice() {
            [] => self.resource_names.is_empty(),
            names => self.resource_names.is_empty() || names.iter().all(|n| has(&self.resource_names, n)),
        };
        names
            && all_in(&self.verbs, &other.verbs)
            && all_in(&self.api_groups, &other.api_groups)
            && other.resources.iter().all(|wanted| {
                has_or_all(&self.resources, wanted)
                    || wanted.split_once('/').is_some_and(|(_, sub)| {
                        self.resources.iter().any(|r| r.strip_prefix("*/") == Some(sub))
                    })
            })
            && other.paths.iter().all(|wanted| self.paths.iter().any(|own| path_fits(own, wanted)))
    }

    /// Formats the rule as error messages show it.
    fn describe(&self) -> String {
        let lists = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<String> = lists
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", quote_list(list)))
            .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

fn resource_fits(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    // Extra keys of impersonated users are subresources that may contain slashes; only the first slash separates.
    rule.strip_suffix(subresource)
        .and_then(|head| head.strip_suffix('/'))
        .is_some_and(|head| head == resource || head == ALL)
}

/// Formats a list as Go prints quoted strings.
pub(crate) fn quote_list(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|item| quote(item)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Rules with more combinations than this are compared as a whole.
const MANY: usize = 100_000;

/// Returns the parts of `wanted` not covered by `owned`, one line per resource and kind of access.
pub(super) fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<String> {
    let covered = |rule: &Rule| owned.iter().any(|own| own.covers(rule));
    let mut lines = Vec::new();
    // Group verbs by resource to keep errors short.
    let mut simple: BTreeMap<[Vec<String>; 3], Vec<String>> = BTreeMap::new();
    for rule in wanted.iter().filter(|rule| !covered(rule)) {
        if rule.atom_count() > MANY {
            lines.push(rule.describe());
            continue;
        }
        for atom in rule.atoms().into_iter().filter(|atom| !covered(atom)) {
            if atom.paths.is_empty() {
                let about = [atom.api_groups, atom.resources, atom.resource_names];
                simple.entry(about).or_default().extend(atom.verbs);
            } else {
                lines.push(atom.describe());
            }
        }
    }
    lines.extend(simple.into_iter().map(|([api_groups, resources, resource_names], verbs)| {
        Rule { verbs, api_groups, resources, resource_names, paths: Vec::new() }.describe()
    }));
    lines.sort();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]) -> Rule {
        let list = |items: &[&str]| items.iter().map(|i| (*i).to_owned()).collect();
        Rule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: list(names),
            paths: Vec::new(),
        }
    }

    #[test]
    fn resources_fit_by_name_star_and_subresource() {
        for (pattern, resource, sub, fits) in [
            ("pods", "pods", "", true),
            ("pods", "pods", "log", false),
            ("pods/log", "pods", "log", true),
            ("*/log", "pods", "log", true),
            ("*/log", "pods", "", false),
            ("*", "pods", "log", true),
            ("pods/*", "pods", "log", false),
            ("xpods/log", "pods", "log", false),
            ("userextras/a.b/c", "userextras", "a.b/c", true),
        ] {
            assert_eq!(resource_fits(pattern, resource, sub), fits, "{pattern} {resource} {sub}");
        }
    }

    #[test]
    fn what_is_missing_is_named_briefly() {
        let owned = [rule(&[""], &["pods", "*/status"], &[], &["get"])];
        assert!(missing(&owned, &[rule(&[""], &["pods", "nodes/status"], &["x"], &["get"])]).is_empty());
        let wanted =
            [rule(&["", "apps"], &["pods"], &[], &["get", "list"]), rule(&[""], &["pods"], &[], &["*"])];
        assert_eq!(
            missing(&owned, &wanted),
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "*"]}"#,
                r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}"#,
            ]
        );
        let named = [rule(&[""], &["pods"], &["a"], &["get"])];
        assert_eq!(missing(&named, &[rule(&[""], &["pods"], &[], &["get"])]).len(), 1);
    }

    #[test]
    fn a_path_may_end_in_a_star() {
        let rule = Rule { verbs: vec!["get".into()], paths: vec!["/api/*".into()], ..Rule::default() };
        let asked = |path| Attributes { verb: "get", path, ..Attributes::default() };
        assert!(rule.allows(&asked("/api/v1")));
        assert!(!rule.allows(&asked("/api")));
        assert!(!rule.allows(&Attributes { verb: "post", ..asked("/api/v1") }));
    }
}
