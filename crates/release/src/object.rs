//! Objects of a manifest.

use std::fmt;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use serde_json::{Map, Value, json};
use steersman_chart::split;

use crate::error::{Error, Result};
use crate::kinds::{Kind, Kinds};

pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub(crate) const HELM: &str = "Helm";
pub(crate) const RELEASE_NAME: &str = "meta.helm.sh/release-name";
pub(crate) const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
const RESOURCE_POLICY: &str = "helm.sh/resource-policy";

/// Identity of an object in a cluster: group, kind, namespace and name, without the version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for ObjectId {
    /// Formats it as `Deployment/shop`, with the namespace if it has one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)?;
        if self.namespace.is_empty() { Ok(()) } else { write!(f, " in namespace {}", self.namespace) }
    }
}

/// A desired object of a manifest, with its resolved kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its kind in the cluster.
    pub kind: Kind,
    /// Its identity.
    pub id: ObjectId,
    /// The whole object.
    pub content: Value,
}

impl Object {
    /// Returns the API client for its kind and namespace.
    pub fn api(&self, client: &Client) -> Api<DynamicObject> {
        if self.kind.namespaced {
            Api::namespaced_with(client.clone(), &self.id.namespace, &self.kind.resource)
        } else {
            Api::all_with(client.clone(), &self.kind.resource)
        }
    }

    /// Whether its resource policy keeps it when the release is uninstalled.
    pub fn is_kept(&self) -> bool {
        let policy = annotation(&self.content, RESOURCE_POLICY);
        policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep"))
    }

    /// Returns its name in Helm's messages.
    pub(crate) fn title(&self) -> String {
        format!("{} {:?} in namespace {:?}", self.id.kind, self.id.name, self.id.namespace)
    }

    /// Sets Helm's ownership metadata.
    pub(crate) fn set_ownership(&mut self, release: &str, namespace: &str) {
        set_metadata(&mut self.content, "labels", &[(MANAGED_BY, HELM)]);
        let annotations = [(RELEASE_NAME, release), (RELEASE_NAMESPACE, namespace)];
        set_metadata(&mut self.content, "annotations", &annotations);
    }
}

/// Pods of a namespace as dynamic objects. Decoding `Pod` would be compiled into this crate for a few of its fields.
pub(crate) fn pods(client: Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<Pod>(&()))
}

/// Returns a label or annotation of an object.
pub(crate) fn metadata<'a>(content: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    content.get("metadata")?.get(map)?.get(key)?.as_str()
}

pub(crate) fn annotation<'a>(content: &'a Value, key: &str) -> Option<&'a str> {
    metadata(content, "annotations", key)
}

/// Sets labels or annotations of an object. `map` is `labels` or `annotations`.
pub fn set_metadata(content: &mut Value, map: &str, entries: &[(&str, &str)]) {
    let Some(content) = content.as_object_mut() else { return };
    let metadata = object_at(content, "metadata");
    let map = object_at(metadata, map);
    for (key, value) in entries {
        map.insert((*key).to_owned(), (*value).into());
    }
}

fn object_at<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = parent.entry(key).or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    match slot {
        Value::Object(map) => map,
        // It is an object since the lines above.
        _ => unreachable!("an object"),
    }
}

/// Parses the documents of a manifest, with lists flattened. Kinds are not resolved.
pub fn documents(manifest: &str) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    let texts = split(manifest);
    let last = texts.len().saturating_sub(1);
    for (index, text) in texts.into_iter().enumerate() {
        // A block scalar at the end of a document ends with a line break only if the document does.
        let ending = if index < last || manifest.ends_with('\n') { "\n" } else { "" };
        let document = steersman_yaml::from_str(&format!("{text}{ending}")).map_err(|error| {
            Error::Manifest(format!("unable to build kubernetes objects from release manifest: {error}"))
        })?;
        flatten_lists(document, &mut found)?;
    }
    Ok(found)
}

/// Maximum nesting of lists.
const MAX_LISTS: usize = 8;

fn flatten_lists(document: Value, found: &mut Vec<Value>) -> Result<()> {
    fn inner(document: Value, depth: usize, found: &mut Vec<Value>) -> Result<()> {
        if document.is_null() {
            return Ok(());
        }
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
        let is_list = kind.ends_with("List") && document.get("items").is_some_and(Value::is_array);
        if !is_list {
            found.push(document);
            return Ok(());
        }
        if depth == 0 {
            return Err(Error::Manifest("lists are nested too deeply".into()));
        }
        if let Value::Object(mut list) = document
            && let Some(Value::Array(items)) = list.remove("items")
        {
            for item in items {
                inner(item, depth - 1, found)?;
            }
        }
        Ok(())
    }
    inner(document, MAX_LISTS, found)
}

/// Parses the objects of a manifest and resolves their kinds. The default namespace is the release's.
pub fn parse<'a>(
    manifest: &'a str,
    namespace: &'a str,
    kinds: &'a Kinds,
) -> BoxFuture<'a, Result<Vec<Object>>> {
    Box::pin(async move {
        let mut objects = Vec::new();
        for document in documents(manifest)? {
            objects.push(resolve(document, namespace, kinds).await?);
        }
        Ok(objects)
    })
}

/// As [`parse`], without objects of kinds that the cluster no longer serves: none of them can exist.
pub fn parse_known<'a>(
    manifest: &'a str,
    namespace: &'a str,
    kinds: &'a Kinds,
) -> BoxFuture<'a, Result<Vec<Object>>> {
    Box::pin(async move {
        let mut objects = Vec::new();
        let mut asked = false;
        for document in documents(manifest)? {
            let (api_version, kind) = type_of(&document)?;
            let mut found = kinds.find_known(&api_version, &kind).await?;
            // Once is enough: a manifest may name any number of kinds that never existed.
            if found.is_none() && !asked {
                asked = true;
                found = kinds.find_opt(&api_version, &kind).await?;
            }
            match found {
                Some(found) => objects.push(with_namespace(document, namespace, found)),
                None => tracing::debug!(kind, api_version, "the cluster no longer has this kind"),
            }
        }
        Ok(objects)
    })
}

/// Resolves the kind of an object, and its namespace.
pub async fn resolve(content: Value, namespace: &str, kinds: &Kinds) -> Result<Object> {
    let (api_version, kind) = type_of(&content)?;
    let found = kinds.find(&api_version, &kind).await?;
    Ok(with_namespace(content, namespace, found))
}

/// Returns the API version and kind of an object.
fn type_of(content: &Value) -> Result<(String, String)> {
    let text = |key: &str| content.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let unset = |what: &str| {
        Error::Manifest(format!(
            "unable to build kubernetes objects from release manifest: Object '{what}' is missing"
        ))
    };
    match (text("apiVersion"), text("kind")) {
        (_, kind) if kind.is_empty() => Err(unset("Kind")),
        (api_version, _) if api_version.is_empty() => Err(unset("apiVersion")),
        found => Ok(found),
    }
}

fn with_namespace(mut content: Value, namespace: &str, kind: Kind) -> Object {
    let field = |key: &str| {
        let metadata = content.get("metadata");
        metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let name = field("name");
    let place = match (kind.namespaced, field("namespace")) {
        (false, _) => String::new(),
        (true, own) if own.is_empty() => namespace.to_owned(),
        (true, own) => own,
    };
    if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
        if place.is_empty() {
            metadata.remove("namespace");
        } else {
            metadata.insert("namespace".into(), place.clone().into());
        }
    }
    let group = kind.resource.group.clone();
    let id = ObjectId { group, kind: kind.resource.kind.clone(), namespace: place, name };
    Object { kind, id, content }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_at_the_end_keeps_its_line_break() {
        let document = "kind: ConfigMap\ndata:\n  a: |\n    text";
        let end = |manifest: &str| documents(manifest).unwrap()[0]["data"]["a"].as_str().unwrap().to_owned();
        assert_eq!(end(&format!("---\n{document}\n")), "text\n", "as in a release's manifest");
        assert_eq!(end(document), "text", "as in a hook");
    }

    #[test]
    fn lists_are_unfolded() {
        let items = "kind: List\nitems:\n- {kind: A}\n- {kind: List, items: [{kind: B}]}\n---\n# nothing\n";
        let kinds: Vec<_> = documents(items).unwrap().iter().map(|one| one["kind"].to_string()).collect();
        assert_eq!(kinds, ["\"A\"", "\"B\""]);
    }

    #[test]
    fn only_lists_with_items_are_unfolded() {
        let kinds = |text: &str| -> Vec<Value> {
            documents(text).unwrap().iter().map(|document| document["kind"].clone()).collect()
        };
        assert_eq!(kinds("kind: ConfigMapList\nitems: [{kind: A}]"), [json!("A")]);
        assert_eq!(kinds("kind: AllowList\nspec: {}"), [json!("AllowList")]);
        assert_eq!(kinds("kind: AllowList\nitems: {a: 1}"), [json!("AllowList")]);
        assert_eq!(kinds("kind: Menu\nitems: [{kind: A}]"), [json!("Menu")]);
        assert_eq!(kinds("kind: List\nitems: []\n---\nkind: B"), [json!("B")]);
    }

    #[test]
    fn lists_within_lists_have_a_limit() {
        let nested = |depth: usize| {
            (0..depth).fold(json!({ "kind": "A" }), |item, _| json!({ "kind": "List", "items": [item] }))
        };
        assert_eq!(documents(&nested(8).to_string()).unwrap(), [json!({ "kind": "A" })]);
        let error = documents(&nested(9).to_string()).unwrap_err();
        assert_eq!(error.to_string(), "lists are nested too deeply");
    }

    #[test]
    fn all_documents_but_the_last_end_with_a_line_break() {
        let document = |name: &str| format!("kind: {name}\ndata:\n  a: |\n    text");
        let texts = |manifest: &str| -> Vec<String> {
            documents(manifest)
                .unwrap()
                .iter()
                .map(|one| one["data"]["a"].as_str().unwrap().to_owned())
                .collect()
        };
        let manifest = [document("A"), document("B"), document("C")].join("\n---\n");
        assert_eq!(texts(&manifest), ["text\n", "text\n", "text"]);
        assert_eq!(texts(&format!("{manifest}\n")), ["text\n"; 3]);
    }

    #[test]
    fn what_does_not_parse_says_what_it_was() {
        let error = documents("a: [").unwrap_err().to_string();
        assert!(error.starts_with("unable to build kubernetes objects from release manifest: "), "{error}");
    }

    #[test]
    fn the_type_of_an_object_is_complete() {
        let said = |content: Value| type_of(&content).map_err(|error| error.to_string());
        assert_eq!(said(json!({ "apiVersion": "v1", "kind": "A" })), Ok(("v1".to_owned(), "A".to_owned())));
        for (content, missing) in [
            (json!({ "apiVersion": "v1" }), "Kind"),
            (json!({ "apiVersion": "v1", "kind": "" }), "Kind"),
            (json!({ "kind": "A" }), "apiVersion"),
            (json!({ "kind": "A", "apiVersion": 1 }), "apiVersion"),
            (json!({}), "Kind"),
        ] {
            let expected = format!(
                "unable to build kubernetes objects from release manifest: Object '{missing}' is missing"
            );
            assert_eq!(said(content), Err(expected));
        }
    }

    fn kind(namespaced: bool) -> Kind {
        let resource = ApiResource {
            group: "example.com".into(),
            version: "v1".into(),
            api_version: "example.com/v1".into(),
            kind: "Widget".into(),
            plural: "widgets".into(),
        };
        Kind { resource, namespaced }
    }

    #[test]
    fn an_object_goes_where_it_says() {
        let place = |metadata: Value, namespaced: bool| {
            let object = with_namespace(json!({ "metadata": metadata }), "lab", kind(namespaced));
            assert_eq!((object.id.group.as_str(), object.id.kind.as_str()), ("example.com", "Widget"));
            (object.id.name, object.id.namespace, object.content["metadata"]["namespace"].clone())
        };
        let text = str::to_owned;
        assert_eq!(place(json!({ "name": "a" }), true), (text("a"), text("lab"), json!("lab")));
        assert_eq!(
            place(json!({ "name": "a", "namespace": "" }), true),
            (text("a"), text("lab"), json!("lab"))
        );
        assert_eq!(
            place(json!({ "name": "a", "namespace": "den" }), true),
            (text("a"), text("den"), json!("den"))
        );
        assert_eq!(
            place(json!({ "name": "a", "namespace": "den" }), false),
            (text("a"), text(""), json!(null))
        );
    }

    #[test]
    fn objects_are_named_with_their_place() {
        let object =
            |namespaced| with_namespace(json!({ "metadata": { "name": "a" } }), "lab", kind(namespaced));
        assert_eq!(object(true).id.to_string(), "Widget/a in namespace lab");
        assert_eq!(object(false).id.to_string(), "Widget/a");
        assert_eq!(object(true).title(), "Widget \"a\" in namespace \"lab\"");
    }

    #[test]
    fn what_is_kept_says_so() {
        let kept = |policy: Value| {
            let metadata = json!({ "name": "a", "annotations": { RESOURCE_POLICY: policy } });
            with_namespace(json!({ "metadata": metadata }), "lab", kind(true)).is_kept()
        };
        assert!(kept(json!("keep")) && kept(json!(" KEEP ")));
        assert!(!kept(json!("delete")) && !kept(json!("")) && !kept(json!(true)));
        assert!(!with_namespace(json!({ "metadata": { "name": "a" } }), "lab", kind(true)).is_kept());
    }

    #[test]
    fn marks_are_set_beside_what_is_there() {
        let mut object =
            with_namespace(json!({ "metadata": { "name": "a", "labels": { "x": "1" } } }), "lab", kind(true));
        object.set_ownership("shop", "lab");
        assert_eq!(object.content["metadata"]["labels"], json!({ "x": "1", MANAGED_BY: "Helm" }));
        let annotations =
            json!({ "meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "lab" });
        assert_eq!(object.content["metadata"]["annotations"], annotations);
        assert_eq!(annotation(&object.content, RELEASE_NAME), Some("shop"));
        assert_eq!(metadata(&object.content, "labels", "y"), None);
        // A value that is not a map is replaced by one.
        let mut odd = json!({ "metadata": { "labels": null } });
        set_metadata(&mut odd, "labels", &[("a", "1")]);
        assert_eq!(odd, json!({ "metadata": { "labels": { "a": "1" } } }));
        let mut text = json!("text");
        set_metadata(&mut text, "labels", &[("a", "1")]);
        assert_eq!(text, json!("text"));
    }
}
