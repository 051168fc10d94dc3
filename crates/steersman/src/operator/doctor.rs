//! The start-up doctor: reports what is stale or missing in the cluster, one line each.

use std::fmt;

use base64::Engine as _;
use k8s_openapi::{
    api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use serde_json::{Value, json};

use crate::{error::Result, kind::Kind, manifests::Declarations};

/// A problem in the cluster, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub problem: String,
    /// How to fix it.
    pub fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (fix: {})", self.problem, self.fix)
    }
}

pub(super) async fn install(declarations: &Declarations<'_>, client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    // Plain `kubectl apply` refuses large CRDs, since it copies them into an annotation.
    let params = PatchParams::apply(declarations.name).force();
    for crd in declarations.converting_crds(client.default_namespace())? {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        api.patch(name, &params, &Patch::Apply(&crd)).await?;
    }
    Ok(())
}

/// Publishes the CA bundle of an operator's webhooks to the cluster.
///
/// The configurations are installed and removed with the manifests: one that the operator created would outlive it, and
/// reject every write of its kinds. So the operator fills in the CA bundle of existing configurations, and creates none.
pub(super) struct Announcement {
    pub(super) operator: String,
    pub(super) client: Client,
    /// Whether to apply whole configurations, since the manifests do not contain the webhooks' URL.
    pub(super) whole: bool,
}

impl Announcement {
    /// Fills in the CA bundle of the webhooks' certificate. Sends nothing where it is up to date.
    pub(super) async fn make(&self, configurations: Vec<(Kind, Value)>, authority: &[u8]) -> Result<()> {
        let bundle = base64::engine::general_purpose::STANDARD.encode(authority);
        for (kind, mut object) in configurations {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), kind.resource());
            for config in client_configs(&mut object) {
                config["caBundle"] = bundle.as_str().into();
            }
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if self.whole {
                let params = PatchParams::apply(&self.operator).force();
                api.patch(&name, &params, &Patch::Apply(&object)).await?;
                continue;
            }
            let Some(live) = api.get_opt(&name).await? else {
                tracing::warn!(
                    %kind, name, fix = "apply the output of the command manifests",
                    "the webhooks are not called: their configuration is not in the cluster"
                );
                continue;
            };
            let params = PatchParams { field_manager: Some(self.operator.clone()), ..PatchParams::default() };
            match authorities(&object, &live.data) {
                Some(Authorities::Admission(patch)) => {
                    api.patch(&name, &params, &Patch::Strategic(&patch)).await?;
                }
                Some(Authorities::Conversion(patch)) => {
                    api.patch(&name, &params, &Patch::Merge(&patch)).await?;
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// Returns the client configs of a webhook configuration or a CRD.
fn client_configs(object: &mut Value) -> Vec<&mut Value> {
    if object.get("webhooks").is_some() {
        let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten();
        return webhooks.filter_map(|webhook| webhook.get_mut("clientConfig")).collect();
    }
    object.pointer_mut("/spec/conversion/webhook/clientConfig").into_iter().collect()
}

/// A patch that sets the CA bundle.
enum Authorities {
    Admission(Value),
    Conversion(Value),
}

/// Returns what a live configuration lacks. `None`: nothing, or nothing that can be filled in.
fn authorities(wanted: &Value, live: &Value) -> Option<Authorities> {
    if let Some(conversion) = wanted.pointer("/spec/conversion") {
        // As a whole: a CRD that was installed without it would not call the webhook.
        let patch = json!({"spec": {"conversion": conversion}});
        return (!includes(&live["spec"]["conversion"], conversion))
            .then_some(Authorities::Conversion(patch));
    }
    let there = live["webhooks"].as_array().cloned().unwrap_or_default();
    let lacking = wanted["webhooks"].as_array().into_iter().flatten().filter_map(|webhook| {
        let live = there.iter().find(|other| other["name"] == webhook["name"])?;
        let bundle = &webhook["clientConfig"]["caBundle"];
        (live["clientConfig"]["caBundle"] != *bundle)
            .then(|| json!({"name": webhook["name"], "clientConfig": {"caBundle": bundle}}))
    });
    let lacking: Vec<Value> = lacking.collect();
    (!lacking.is_empty()).then(|| Authorities::Admission(json!({"webhooks": lacking})))
}

/// Whether a value includes everything of another one; the API server adds defaults.
fn includes(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| live.get(name).is_some_and(|live| includes(live, value)))
        }
        _ => live == wanted,
    }
}

pub(super) async fn examine(declarations: &Declarations<'_>, client: &Client) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in declarations.crds() {
        let name = crd.name_any();
        let fix = "start with --install-crds, or apply the output of the command crds".to_owned();
        match api.get_opt(&name).await {
            Ok(None) => findings.push(Finding { problem: format!("CRD {name} is not in the cluster"), fix }),
            Ok(Some(live)) => {
                let missing = missing_fields(&crd, &live);
                if !missing.is_empty() {
                    let problem = format!(
                        "CRD {name} in the cluster is older than this binary: {} would be dropped silently",
                        missing.join(", ")
                    );
                    findings.push(Finding { problem, fix: fix.clone() });
                }
                let converting = |crd: &CustomResourceDefinition| {
                    crd.spec.conversion.as_ref().is_some_and(|conversion| conversion.strategy == "Webhook")
                };
                if declarations.serves_webhooks && declarations.converts(&crd) && !converting(&live) {
                    let problem = format!("CRD {name} does not say that the operator converts its versions");
                    findings.push(Finding { problem, fix });
                }
            }
            // Reading CRDs is optional: the operator works without this permission.
            Err(kube::Error::Api(status)) if status.is_forbidden() => {}
            Err(error) => return Err(error.into()),
        }
    }
    if declarations.serves_webhooks && declarations.webhook_url.is_none() {
        findings.extend(missing_configurations(declarations, client).await?);
    }
    findings.extend(permissions(declarations, client).await?);
    Ok(findings)
}

/// Reports missing admission webhook configurations: without them the webhooks are not called.
async fn missing_configurations(declarations: &Declarations<'_>, client: &Client) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (kind, object) in declarations.admission_configurations(client.default_namespace()) {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), kind.resource());
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match api.get_opt(name).await {
            Ok(Some(_)) => {}
            Ok(None) => findings.push(Finding {
                problem: format!("{} {name} is not in the cluster", kind.name()),
                fix: "apply the output of the command manifests".to_owned(),
            }),
            Err(kube::Error::Api(status)) if status.is_forbidden() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(findings)
}

/// Returns the schema fields that the binary has and the cluster lacks, by version.
fn missing_fields(ours: &CustomResourceDefinition, live: &CustomResourceDefinition) -> Vec<String> {
    let mut missing = Vec::new();
    for version in &ours.spec.versions {
        let Some(other) = live.spec.versions.iter().find(|other| other.name == version.name) else {
            missing.push(format!("version {}", version.name));
            continue;
        };
        let schema = |version: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion| {
            version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.clone()).unwrap_or_default()
        };
        compare(&schema(version), &schema(other), "", &mut missing, 0);
        let has_status = |version: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion| {
            version.subresources.as_ref().is_some_and(|all| all.status.is_some())
        };
        if has_status(version) && !has_status(other) {
            missing.push("the status subresource".to_owned());
        }
    }
    missing
}

fn compare(
    ours: &JSONSchemaProps,
    live: &JSONSchemaProps,
    path: &str,
    missing: &mut Vec<String>,
    depth: usize,
) {
    if depth > 64 || live.x_kubernetes_preserve_unknown_fields == Some(true) {
        return;
    }
    for (name, schema) in ours.properties.iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match live.properties.as_ref().and_then(|properties| properties.get(name)) {
            Some(other) => compare(schema, other, &path, missing, depth + 1),
            None => missing.push(path),
        }
    }
    let items = |schema: &JSONSchemaProps| {
        match &schema.items {
        Some(k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaPropsOrArray::Schema(
            items,
        )) => Some((**items).clone()),
        _ => None,
    }
    };
    if let (Some(ours), Some(live)) = (items(ours), items(live)) {
        compare(&ours, &live, &format!("{path}[]"), missing, depth + 1);
    }
}

/// Reports the permissions that the operator needs and lacks.
async fn permissions(declarations: &Declarations<'_>, client: &Client) -> Result<Vec<Finding>> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let namespaces = match declarations.namespaces {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    };
    let own = [Some(client.default_namespace().to_owned())];
    let everywhere = declarations.rules().into_iter().map(|rule| (rule, &*namespaces));
    let at_home = declarations.own_rules().into_iter().map(|rule| (rule, &own[..]));
    let mut findings = Vec::new();
    for (rule, namespaces) in everywhere.chain(at_home) {
        let groups = rule.api_groups.unwrap_or_default();
        let object = rule.resource_names.as_ref().and_then(|names| names.first());
        for (group, resource) in groups
            .iter()
            .flat_map(|group| rule.resources.iter().flatten().map(move |resource| (group, resource)))
        {
            let (name, subresource) = match resource.split_once('/') {
                Some((name, subresource)) => (name, Some(subresource.to_owned())),
                None => (resource.as_str(), None),
            };
            for namespace in namespaces {
                let mut denied = Vec::new();
                for verb in &rule.verbs {
                    let attributes = ResourceAttributes {
                        group: Some(group.clone()),
                        resource: Some(name.to_owned()),
                        subresource: subresource.clone(),
                        name: object.cloned(),
                        verb: Some(verb.clone()),
                        namespace: namespace.clone(),
                        ..ResourceAttributes::default()
                    };
                    let review = SelfSubjectAccessReview {
                        spec: SelfSubjectAccessReviewSpec {
                            resource_attributes: Some(attributes),
                            ..SelfSubjectAccessReviewSpec::default()
                        },
                        ..SelfSubjectAccessReview::default()
                    };
                    let answer = api.create(&PostParams::default(), &review).await?;
                    if !answer.status.is_some_and(|status| status.allowed) {
                        denied.push(verb.as_str());
                    }
                }
                if !denied.is_empty() {
                    let dot = if group.is_empty() { "" } else { "." };
                    let place =
                        namespace.as_ref().map_or(String::new(), |name| format!(" in namespace {name}"));
                    let which = object.map_or(String::new(), |name| format!(" {name}"));
                    findings.push(Finding {
                        problem: format!(
                            "not allowed: {} {resource}{dot}{group}{which}{place}",
                            denied.join(", ")
                        ),
                        fix: "apply the output of the command rbac".to_owned(),
                    });
                }
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(properties: Value, status: bool, versions: &[&str]) -> CustomResourceDefinition {
        let versions: Vec<Value> = versions
            .iter()
            .map(|name| {
                let schema = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
                let subresources = if status { json!({"status": {}}) } else { json!({}) };
                json!({"name": name, "served": true, "storage": true, "schema": schema, "subresources": subresources})
            })
            .collect();
        let names = json!({"kind": "Widget", "plural": "widgets"});
        serde_json::from_value(json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
        }))
        .unwrap()
    }

    #[test]
    fn fields_that_the_cluster_does_not_know_are_named() {
        let text = json!({"type": "string"});
        let object = |properties: Value| json!({"type": "object", "properties": properties});
        let list = |items: Value| json!({"type": "array", "items": items});
        let ours = json!({
            "a": text, "b": object(json!({"c": text, "d": text})), "l": list(object(json!({"x": text, "y": text}))),
        });
        let missing = |live: Value| {
            missing_fields(&definition(ours.clone(), false, &["v1"]), &definition(live, false, &["v1"]))
        };
        assert!(missing(ours.clone()).is_empty());
        let mut more = ours.clone();
        more["e"] = text.clone();
        assert!(missing(more).is_empty(), "a field that only the cluster knows is none");
        let live = json!({"b": object(json!({"c": text})), "l": list(object(json!({"x": text})))});
        assert_eq!(missing(live), ["a", "b.d", "l[].y"]);
        assert_eq!(missing(json!({})), ["a", "b", "l"]);
        let nested =
            |properties: Value| definition(json!({"m": list(list(object(properties)))}), false, &["v1"]);
        assert_eq!(missing_fields(&nested(json!({"x": text})), &nested(json!({}))), ["m[][].x"]);
        // A schema that preserves unknown fields drops none.
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut live = ours.clone();
        live["b"] = open;
        assert!(missing(live).is_empty());
    }

    #[test]
    fn versions_and_statuses_that_the_cluster_does_not_know_are_named() {
        let of = |status: bool, versions: &[&str]| definition(json!({}), status, versions);
        assert_eq!(missing_fields(&of(false, &["v1", "v2"]), &of(false, &["v1"])), ["version v2"]);
        assert!(missing_fields(&of(false, &["v1"]), &of(false, &["v1", "v2"])).is_empty());
        assert_eq!(missing_fields(&of(true, &["v1"]), &of(false, &["v1"])), ["the status subresource"]);
        assert!(missing_fields(&of(false, &["v1"]), &of(true, &["v1"])).is_empty());
        assert!(missing_fields(&of(true, &["v1"]), &of(true, &["v1"])).is_empty());
    }

    #[test]
    fn schemas_are_compared_to_some_depth() {
        let deep = |leaf: Value, depth: usize| {
            (0..depth).fold(leaf, |inner, _| json!({"a": {"type": "object", "properties": inner}}))
        };
        let missing = |depth: usize| {
            let ours = definition(deep(json!({"x": {"type": "string"}}), depth), false, &["v1"]);
            missing_fields(&ours, &definition(deep(json!({}), depth), false, &["v1"])).len()
        };
        assert_eq!((missing(3), missing(64), missing(65)), (1, 1, 0));
    }

    #[test]
    fn authorities_are_filled_in_where_they_are_missing() {
        let webhook = |name: &str, bundle: &str| json!({"name": name, "clientConfig": {"caBundle": bundle}});
        let wanted = json!({"webhooks": [webhook("a", "new"), webhook("b", "new"), webhook("c", "new")]});
        let live = json!({"webhooks": [webhook("b", "old"), webhook("a", "new"), webhook("other", "old")]});
        match authorities(&wanted, &live) {
            Some(Authorities::Admission(patch)) => {
                assert_eq!(patch, json!({"webhooks": [webhook("b", "new")]}));
            }
            _ => panic!("an admission webhook lacks its authority"),
        }
        assert!(authorities(&wanted, &wanted).is_none());
        assert!(authorities(&wanted, &json!({})).is_none(), "there is nothing to fill in");

        let conversion =
            |bundle: &str| json!({"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": bundle}}});
        let wanted = json!({"spec": {"conversion": conversion("new")}});
        for live in [json!({"spec": {"conversion": conversion("old")}}), json!({"spec": {}})] {
            match authorities(&wanted, &live) {
                Some(Authorities::Conversion(patch)) => assert_eq!(patch, wanted),
                _ => panic!("the conversion lacks its authority"),
            }
        }
        let mut more = wanted.clone();
        more["spec"]["conversion"]["webhook"]["conversionReviewVersions"] = json!(["v1"]);
        assert!(authorities(&wanted, &more).is_none(), "defaults are no difference");
    }

    #[test]
    fn both_sorts_of_webhooks_say_how_they_are_reached() {
        let mut admission =
            json!({"webhooks": [{"clientConfig": {"n": 1}}, {"name": "x"}, {"clientConfig": {"n": 2}}]});
        let found: Vec<Value> =
            client_configs(&mut admission).into_iter().map(|config| config["n"].take()).collect();
        assert_eq!(found, [1, 2]);
        let mut conversion = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"n": 3}}}}});
        assert_eq!(client_configs(&mut conversion).len(), 1);
        assert!(client_configs(&mut json!({"spec": {}})).is_empty());
    }

    #[test]
    fn a_finding_says_what_helps() {
        let finding = Finding { problem: "it broke".into(), fix: "glue".into() };
        assert_eq!(finding.to_string(), "it broke (fix: glue)");
    }
}
