//! Match constraints of webhooks and policies: rules and selectors.

use std::sync::Arc;

use serde_json::Value;

use steersman_api::selector::LabelSelector;

use super::Operation;
use crate::catalog::{Catalog, Resource};

/// The match constraints of a webhook or policy.
#[derive(Debug)]
pub(super) struct Constraints {
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
    equivalent: bool,
    rules: Vec<Rule>,
    /// Rules that exclude writes matched otherwise.
    excluded: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
    /// Object names to match; empty for all.
    names: Vec<String>,
}

impl Rule {
    fn list(rules: &Value) -> Vec<Self> {
        rules
            .as_array()
            .into_iter()
            .flatten()
            .map(|rule| Self {
                operations: texts(&rule["operations"]),
                groups: texts(&rule["apiGroups"]),
                versions: texts(&rule["apiVersions"]),
                resources: texts(&rule["resources"]),
                scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
                names: texts(&rule["resourceNames"]),
            })
            .collect()
    }
}

/// The properties of a write that constraints match on.
pub(super) struct Subject<'a> {
    pub(super) operation: Operation,
    pub(super) resource: &'a Arc<Resource>,
    pub(super) subresource: &'a str,
    /// The object's namespace; for a namespace, its own name.
    pub(super) namespace: &'a str,
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
    pub(super) name: &'a str,
}

pub(super) fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}

impl Constraints {
    /// Parses selectors and match policy from `value`, with the given `rules`.
    pub(super) fn new(value: &Value, rules: &Value) -> Self {
        Self {
            namespaces: LabelSelector::from_object(&value["namespaceSelector"]),
            objects: LabelSelector::from_object(&value["objectSelector"]),
            equivalent: value["matchPolicy"] != "Exact",
            rules: Rule::list(rules),
            excluded: Rule::list(&value["excludeResourceRules"]),
        }
    }

    /// Parses the constraints of a policy binding, which may omit rules to match all writes.
    pub(super) fn any(value: &Value) -> Self {
        let everything = serde_json::json!([
            {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*", "*"]},
        ]);
        let rules = &value["resourceRules"];
        let none = rules.as_array().is_none_or(Vec::is_empty);
        Self::new(value, if none { &everything } else { rules })
    }

    /// Returns the resource, in the API version to send: the write's own or an equivalent one.
    pub(super) fn wants(&self, subject: &Subject<'_>, catalog: &Catalog) -> Option<Arc<Resource>> {
        if self.first(&self.excluded, subject, catalog).is_some() {
            return None;
        }
        self.first(&self.rules, subject, catalog)
    }

    /// Returns the resource, in the API version in which one of the rules matches a write.
    fn first(&self, rules: &[Rule], subject: &Subject<'_>, catalog: &Catalog) -> Option<Arc<Resource>> {
        let own = subject.resource;
        if rules.iter().any(|rule| rule.fits(subject, own)) {
            return Some(Arc::clone(own));
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let others = catalog.stored_as(&own.storage);
        let is_other = |other: &Resource| (&other.group, &other.version) != (&own.group, &own.version);
        let fits = |rule: &Rule| others.iter().find(|other| is_other(other) && rule.fits(subject, other));
        rules.iter().find_map(fits).cloned()
    }

    /// Whether the object selector matches the object, before or after the write.
    pub(super) fn selects_object(&self, subject: &Subject<'_>) -> Result<bool, String> {
        let selector = self.objects.as_ref().map_err(Clone::clone)?;
        if selector.is_empty() {
            return Ok(true);
        }
        let selected = |object: Option<&Value>| object.is_some_and(|object| selector.selects(object));
        Ok(selected(subject.object) || selected(subject.old))
    }

    /// Returns the namespace selector, unless it matches everything.
    pub(super) fn namespace_selector(&self) -> Result<Option<&LabelSelector>, String> {
        let selector = self.namespaces.as_ref().map_err(Clone::clone)?;
        Ok(Some(selector).filter(|selector| !selector.is_empty()))
    }
}

impl Rule {
    fn fits(&self, subject: &Subject<'_>, resource: &Resource) -> bool {
        let one = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let is_namespace = resource.group.is_empty() && resource.plural == "namespaces";
        let in_namespace = !is_namespace && !subject.namespace.is_empty();
        let scope = match self.scope.as_str() {
            "Namespaced" => in_namespace,
            "Cluster" => !in_namespace,
            _ => true,
        };
        let named = self.names.is_empty() || self.names.iter().any(|name| name == subject.name);
        scope
            && named
            && one(&self.operations, subject.operation.name())
            && one(&self.groups, &resource.group)
            && one(&self.versions, &resource.version)
            && self.resources.iter().any(|pattern| {
                let (plural, part) = pattern.split_once('/').unwrap_or((pattern, ""));
                (plural == "*" || plural == resource.plural) && (part == "*" || part == subject.subresource)
            })
    }
}

impl Operation {
    /// Returns the name used in configurations and reviews.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}
