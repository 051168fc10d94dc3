//! The kinds that the cluster serves, from discovery and from CustomResourceDefinitions.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    actions,
    problem::{Problem, Result},
    upstream::{Cluster, encode},
};

/// How long the discovered kinds are cached.
const FRESH: Duration = Duration::from_secs(2);

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A kind in one of its served versions.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    versions: Vec<String>,
    pub(crate) kind: String,
    pub(crate) plural: String,
    singular: String,
    short_names: Vec<String>,
    categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) custom: bool,
    verbs: Vec<String>,
    pub(crate) subresources: Vec<String>,
    /// The CustomResourceDefinition of a custom kind, if the gateway may read definitions.
    definition: Option<Arc<Value>>,
}

impl Kind {
    /// Returns `plural.group`, or the plural alone for the core group.
    pub(crate) fn name(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// Returns the path of its objects in the cluster's API.
    pub(crate) fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", encode(&self.version)),
            group => format!("/apis/{}/{}", encode(group), encode(&self.version)),
        };
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path += &format!("/namespaces/{}", encode(namespace));
        }
        path += &format!("/{}", encode(&self.plural));
        if let Some(name) = name {
            path += &format!("/{}", encode(name));
        }
        path
    }

    /// Returns this version's entry in the definition.
    fn defined_version(&self) -> Option<&Value> {
        let versions = self.definition.as_ref()?.pointer("/spec/versions")?.as_array()?;
        versions.iter().find(|version| version["name"] == self.version.as_str())
    }

    pub(crate) fn schema(&self) -> Option<&Value> {
        self.defined_version()?.pointer("/schema/openAPIV3Schema")
    }

    /// Returns the definition's resourceVersion; empty for built-in kinds.
    pub(crate) fn definition_version(&self) -> &str {
        let version = self.definition.as_ref().and_then(|one| one.pointer("/metadata/resourceVersion"));
        version.and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.definition.as_ref()?.pointer("/metadata/annotations")?.get(name)?.as_str()
    }

    pub(crate) fn scale(&self) -> Option<&Value> {
        self.defined_version()?.pointer("/subresources/scale")
    }

    pub(crate) fn columns(&self) -> Vec<Value> {
        let declared =
            self.defined_version().and_then(|version| version["additionalPrinterColumns"].as_array());
        let age = || json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
        let declared = declared.cloned().unwrap_or_else(|| vec![age()]);
        declared.iter().map(column).collect()
    }

    /// Returns the kind as `GET /v1/kinds` shows it.
    pub(crate) fn document(&self, with_schema: bool) -> Value {
        let description = self.schema().and_then(|schema| schema["description"].as_str()).unwrap_or_default();
        let scale = self.scale().map(|scale| {
            json!({"specReplicasPath": scale["specReplicasPath"], "statusReplicasPath": scale["statusReplicasPath"]})
        });
        let mut document = json!({
            "name": self.name(), "group": self.group, "version": self.version, "versions": self.versions,
            "kind": self.kind, "plural": self.plural, "singular": self.singular, "shortNames": self.short_names,
            "categories": self.categories, "namespaced": self.namespaced, "custom": self.custom,
            "description": description, "verbs": self.verbs,
            "subresources": {"status": self.subresources.iter().any(|name| name == "status"), "scale": scale},
            "columns": self.columns(), "actions": actions::documents(&actions::of(self, None)),
        });
        if with_schema {
            document["schema"] = self.schema().cloned().unwrap_or_default();
        }
        document
    }
}

fn column(column: &Value) -> Value {
    let text = |name: &str| column[name].as_str().unwrap_or_default();
    json!({
        "name": text("name"), "type": text("type"), "format": text("format"), "jsonPath": text("jsonPath"),
        "priority": column["priority"].as_i64().unwrap_or(0), "description": text("description"),
    })
}

/// All kinds by name, each with every served version, the preferred one first.
pub(crate) struct Catalog(BTreeMap<String, Vec<Arc<Kind>>>);

impl Catalog {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.0.values().filter_map(|versions| versions.first())
    }

    pub(crate) fn find(&self, name: &str, version: Option<&str>) -> Option<&Arc<Kind>> {
        let versions = self.0.get(name)?;
        match version {
            None => versions.first(),
            Some(version) => versions.iter().find(|kind| kind.version == version),
        }
    }
}

/// A cache of the discovered kinds.
pub(crate) struct Kinds {
    cluster: Cluster,
    seen: Mutex<Option<(Instant, Arc<Catalog>)>>,
}

impl Kinds {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self { cluster, seen: Mutex::new(None) }
    }

    /// Returns the kinds, at most two seconds old.
    pub(crate) async fn all(&self) -> Result<Arc<Catalog>> {
        let now = Instant::now();
        self.seen_since(now.checked_sub(FRESH).unwrap_or(now)).await
    }

    /// Returns the current kinds.
    pub(crate) async fn now(&self) -> Result<Arc<Catalog>> {
        self.seen_since(Instant::now()).await
    }

    /// Returns the kinds as discovered at `moment` or later. Concurrent callers share one discovery.
    async fn seen_since(&self, moment: Instant) -> Result<Arc<Catalog>> {
        let mut seen = self.seen.lock().await;
        if let Some((at, catalog)) = &*seen
            && *at >= moment
        {
            return Ok(Arc::clone(catalog));
        }
        let begun = Instant::now();
        let catalog = Arc::new(load(&self.cluster).await?);
        *seen = Some((begun, Arc::clone(&catalog)));
        Ok(catalog)
    }

    /// Finds a kind. An unknown one may have just been defined, so discovery is repeated for it.
    pub(crate) async fn find(&self, name: &str, version: Option<&str>) -> Result<Arc<Kind>> {
        let known = self.all().await?.find(name, version).cloned();
        if let Some(kind) = known {
            return Ok(kind);
        }
        self.now().await?.find(name, version).cloned().ok_or_else(|| {
            let version = version.map(|version| format!(" in version {version}")).unwrap_or_default();
            Problem::not_found(format!("the cluster has no kind {name}{version}; GET /v1/kinds lists them"))
        })
    }
}

async fn load(cluster: &Cluster) -> Result<Catalog> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (core, groups, definitions) = futures::join!(
        cluster.get_as("/api", AGGREGATED),
        cluster.get_as("/apis", AGGREGATED),
        cluster.get(definitions)
    );
    // Without permission to read definitions, custom kinds are still served, only without schemas and
    // columns.
    let definitions: BTreeMap<String, Arc<Value>> = match definitions {
        Ok(list) => items(&list).map(|one| (name_of(one).to_owned(), Arc::new(one.clone()))).collect(),
        Err(problem) if problem.status == http::StatusCode::FORBIDDEN => BTreeMap::new(),
        Err(problem) => return Err(problem),
    };
    let (core, groups) = (core?, groups?);
    let mut kinds: BTreeMap<String, Vec<Arc<Kind>>> = BTreeMap::new();
    for group in items(&core).chain(items(&groups)) {
        for version in list(&group["versions"]) {
            for resource in list(&version["resources"]) {
                let kind = kind(group, version, resource, &definitions);
                kinds.entry(kind.name()).or_default().push(Arc::new(kind));
            }
        }
    }
    for versions in kinds.values_mut() {
        let names: Vec<String> = versions.iter().map(|kind| kind.version.clone()).collect();
        for kind in versions {
            Arc::make_mut(kind).versions.clone_from(&names);
        }
    }
    Ok(Catalog(kinds))
}

fn kind(
    group: &Value,
    version: &Value,
    resource: &Value,
    definitions: &BTreeMap<String, Arc<Value>>,
) -> Kind {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| list(value).iter().map(text).collect::<Vec<_>>();
    let mut kind = Kind {
        group: name_of(group).to_owned(),
        version: text(&version["version"]),
        versions: Vec::new(),
        kind: text(&resource["responseKind"]["kind"]),
        plural: text(&resource["resource"]),
        singular: text(&resource["singularResource"]),
        short_names: texts(&resource["shortNames"]),
        categories: texts(&resource["categories"]),
        namespaced: resource["scope"] == "Namespaced",
        custom: false,
        verbs: texts(&resource["verbs"]),
        subresources: list(&resource["subresources"]).iter().map(|one| text(&one["subresource"])).collect(),
        definition: None,
    };
    kind.definition = definitions.get(&kind.name()).cloned();
    kind.custom = kind.definition.is_some() || (definitions.is_empty() && is_custom_group(&kind.group));
    kind
}

/// Whether a group is custom, judged by its name because definitions cannot be read.
fn is_custom_group(group: &str) -> bool {
    group.contains('.') && !group.ends_with(".k8s.io")
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    list(&value["items"]).iter()
}

pub(crate) fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn namespace_of(object: &Value) -> Option<&str> {
    object.pointer("/metadata/namespace").and_then(Value::as_str)
}
