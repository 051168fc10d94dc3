//! One webhook of a configuration: what it wants to hear of.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use steersman_cel::Program;

use super::condition;
use crate::{
    admission::Operation,
    catalog::{Catalog, Resource},
    object,
    selector::LabelSelector,
};

/// A webhook, ready to be asked.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) ignores_failure: bool,
    pub(super) side_effects: bool,
    pub(super) timeout: Duration,
    pub(super) reinvocable: bool,
    /// The first known version of the questions, `v1` or `v1beta1`.
    pub(super) version: Option<&'static str>,
    /// The expressions, and what they compile to.
    pub(super) conditions: Vec<(String, Result<Program, String>)>,
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
    equivalent: bool,
    rules: Vec<Rule>,
}

/// Where a webhook is, as its configuration says.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) url: Option<String>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) ca_bundle: Vec<u8>,
}

impl Client {
    pub(crate) fn new(config: &Value) -> Self {
        let service = &config["service"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            url: config["url"].as_str().map(str::to_owned),
            namespace: text(&service["namespace"]),
            name: text(&service["name"]),
            port: service["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(443),
            path: text(&service["path"]),
            ca_bundle: STANDARD.decode(text(&config["caBundle"])).unwrap_or_default(),
        }
    }
}

#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
}

/// A write as far as hooks choose by it.
pub(super) struct Subject<'a> {
    pub(super) operation: Operation,
    pub(super) resource: &'a Arc<Resource>,
    pub(super) subresource: &'a str,
    /// The object's namespace; a namespace is in itself.
    pub(super) namespace: &'a str,
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}

impl Hook {
    pub(super) fn new(value: &Value) -> Self {
        let rules = value["rules"].as_array().into_iter().flatten();
        let conditions = value["matchConditions"].as_array().into_iter().flatten();
        Self {
            name: value["name"].as_str().unwrap_or_default().to_owned(),
            client: Client::new(&value["clientConfig"]),
            ignores_failure: value["failurePolicy"] == "Ignore",
            side_effects: !matches!(value["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            timeout: Duration::from_secs(value["timeoutSeconds"].as_u64().unwrap_or(10)),
            reinvocable: value["reinvocationPolicy"] == "IfNeeded",
            version: texts(&value["admissionReviewVersions"]).iter().find_map(|version| {
                match version.as_str() {
                    "v1" => Some("v1"),
                    "v1beta1" => Some("v1beta1"),
                    _ => None,
                }
            }),
            conditions: conditions
                .map(|condition| {
                    let text = |key: &str| condition[key].as_str().unwrap_or_default();
                    (text("expression").to_owned(), condition::compile(text("expression")))
                })
                .collect(),
            namespaces: LabelSelector::from_object(&value["namespaceSelector"]),
            objects: LabelSelector::from_object(&value["objectSelector"]),
            equivalent: value["matchPolicy"] != "Exact",
            rules: rules
                .map(|rule| Rule {
                    operations: texts(&rule["operations"]),
                    groups: texts(&rule["apiGroups"]),
                    versions: texts(&rule["apiVersions"]),
                    resources: texts(&rule["resources"]),
                    scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
                })
                .collect(),
        }
    }

    /// The resource as which the hook wants to hear of a write: its own, or the same in another version.
    pub(super) fn wants(&self, subject: &Subject<'_>, catalog: &Catalog) -> Option<Arc<Resource>> {
        if self.rules.iter().any(|rule| rule.fits(subject, subject.resource)) {
            return Some(Arc::clone(subject.resource));
        }
        if !self.equivalent {
            return None;
        }
        let own = subject.resource;
        let same = |other: &&Arc<Resource>| {
            other.storage == own.storage && (&other.group, &other.version) != (&own.group, &own.version)
        };
        let others: Vec<&Arc<Resource>> = catalog.resources().filter(same).collect();
        let found = self.rules.iter().find_map(|rule| others.iter().find(|other| rule.fits(subject, other)));
        found.map(|other| Arc::clone(other))
    }

    /// Whether the labels of the object, as it was or as it will be, are of interest.
    pub(super) fn selects_object(&self, subject: &Subject<'_>) -> Result<bool, String> {
        let selector = self.objects.as_ref().map_err(Clone::clone)?;
        if selector.is_empty() {
            return Ok(true);
        }
        let selected = |object: Option<&Value>| object.is_some_and(|object| selector.selects(object));
        Ok(selected(subject.object) || selected(subject.old))
    }

    /// The selector of namespaces, if it leaves any out.
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
        scope
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
    /// The word that configurations and questions use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The object's labels decide.
impl LabelSelector {
    fn selects(&self, value: &Value) -> bool {
        self.matches(&labels(value))
    }
}

/// An object's labels.
pub(super) fn labels(value: &Value) -> Vec<crate::store::Pair> {
    object::get(value, &["metadata", "labels"])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
        .collect()
}
