//! Discovery: the resource of an object's kind, and the content of `.Capabilities`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;
use kube::api::ApiResource;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};
use steersman_chart::{Capabilities, KubeVersion};
use tokio::sync::{Mutex, RwLock};

use crate::error::{Error, Result};

/// A kind that the cluster serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The resource of its objects.
    pub resource: ApiResource,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
}

/// Cached discovery: queried once, and again when a kind is missing. Cheap to clone; clones share the cache.
#[derive(Clone)]
pub struct Kinds {
    client: Client,
    discovered: Arc<RwLock<Option<Arc<Discovered>>>>,
    refreshing: Arc<Mutex<()>>,
}

#[derive(Debug)]
struct Discovered {
    kinds: HashMap<(String, String), Kind>,
    capabilities: Capabilities,
}

impl Kinds {
    /// Creates an empty cache.
    pub fn new(client: Client) -> Self {
        Self { client, discovered: Arc::default(), refreshing: Arc::default() }
    }

    /// Returns the `.Capabilities` of this cluster.
    ///
    /// # Errors
    /// Fails if the cluster cannot be queried.
    pub fn capabilities(&self) -> BoxFuture<'_, Result<Capabilities>> {
        Box::pin(async move { Ok(self.discovered().await?.capabilities.clone()) })
    }

    /// Returns the kind of this name and version. Discovery is repeated if it is missing: its CRD may be new.
    ///
    /// # Errors
    /// Fails if the cluster does not serve the kind, or cannot be queried.
    pub async fn find(&self, api_version: &str, kind: &str) -> Result<Kind> {
        match self.find_opt(api_version, kind).await? {
            Some(found) => Ok(found),
            None => Err(Error::UnknownKind { kind: kind.to_owned(), api_version: api_version.to_owned() }),
        }
    }

    /// As [`Kinds::find`], with `None` for a kind that the cluster does not serve.
    ///
    /// # Errors
    /// Fails if the cluster cannot be queried.
    pub async fn find_opt(&self, api_version: &str, kind: &str) -> Result<Option<Kind>> {
        let wanted = (api_version.to_owned(), kind.to_owned());
        let discovered = self.discovered().await?;
        if let Some(found) = discovered.kinds.get(&wanted) {
            return Ok(Some(found.clone()));
        }
        let discovered = self.refresh(&discovered).await?;
        Ok(discovered.kinds.get(&wanted).cloned())
    }

    /// As [`Kinds::find_opt`], without another discovery for a kind that is missing.
    ///
    /// # Errors
    /// Fails if discovery fails.
    pub(crate) async fn find_known(&self, api_version: &str, kind: &str) -> Result<Option<Kind>> {
        let wanted = (api_version.to_owned(), kind.to_owned());
        Ok(self.discovered().await?.kinds.get(&wanted).cloned())
    }

    /// Returns the kind of this name in a group, in any version that the cluster serves.
    ///
    /// # Errors
    /// Fails if the cluster cannot be queried.
    pub async fn find_in_group(&self, group: &str, kind: &str) -> Result<Option<Kind>> {
        let discovered = self.discovered().await?;
        let fits = |found: &&Kind| found.resource.group == group && found.resource.kind == kind;
        // Deterministic; all versions of a kind return the same objects.
        let found =
            discovered.kinds.values().filter(fits).min_by(|a, b| a.resource.version.cmp(&b.resource.version));
        Ok(found.cloned())
    }

    /// Invalidates the cache: the next lookup runs discovery.
    pub async fn invalidate(&self) {
        *self.discovered.write().await = None;
    }

    async fn discovered(&self) -> Result<Arc<Discovered>> {
        if let Some(discovered) = self.discovered.read().await.as_ref() {
            return Ok(Arc::clone(discovered));
        }
        self.discover(None).await
    }

    async fn refresh(&self, seen: &Arc<Discovered>) -> Result<Arc<Discovered>> {
        self.discover(Some(seen)).await
    }

    /// Runs discovery, unless another task just did.
    async fn discover(&self, seen: Option<&Arc<Discovered>>) -> Result<Arc<Discovered>> {
        let _refreshing = self.refreshing.lock().await;
        if let Some(discovered) = self.discovered.read().await.as_ref()
            && seen.is_none_or(|seen| !Arc::ptr_eq(seen, discovered))
        {
            return Ok(Arc::clone(discovered));
        }
        let discovered = Arc::new(discover(&self.client).await?);
        *self.discovered.write().await = Some(Arc::clone(&discovered));
        Ok(discovered)
    }
}

async fn discover(client: &Client) -> Result<Discovered> {
    let failed = Error::kube("Kubernetes cluster unreachable");
    let version = client.apiserver_version().await.map_err(failed)?;
    let failed = Error::kube("could not get apiVersions from Kubernetes");
    let (core, named) =
        tokio::try_join!(client.list_core_api_versions_aggregated(), client.list_api_groups_aggregated())
            .map_err(failed)?;
    let mut kinds = HashMap::new();
    let mut versions = BTreeSet::new();
    for group in core.items.iter().chain(&named.items) {
        read_group(group, &mut kinds, &mut versions);
    }
    let kube_version =
        KubeVersion { version: version.git_version, major: version.major, minor: version.minor };
    let api_versions = versions.into_iter().collect();
    let capabilities = Capabilities { kube_version, api_versions, ..Capabilities::default() };
    Ok(Discovered { kinds, capabilities })
}

fn read_group(
    group: &APIGroupDiscovery,
    kinds: &mut HashMap<(String, String), Kind>,
    versions: &mut BTreeSet<String>,
) {
    let name = group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default();
    for version in &group.versions {
        let number = version.version.as_deref().unwrap_or_default();
        let api_version = if name.is_empty() { number.to_owned() } else { format!("{name}/{number}") };
        for resource in &version.resources {
            let subresources = resource.subresources.iter().filter_map(|sub| sub.response_kind.as_ref());
            for kind in resource.response_kind.iter().chain(subresources) {
                versions.insert(format!("{api_version}/{}", kind.kind.as_deref().unwrap_or_default()));
            }
            if let Some((kind, found)) = read_resource(name, number, &api_version, resource) {
                kinds.entry((api_version.clone(), kind)).or_insert(found);
            }
        }
        versions.insert(api_version);
    }
}

fn read_resource(
    group: &str,
    version: &str,
    api_version: &str,
    resource: &APIResourceDiscovery,
) -> Option<(String, Kind)> {
    let kind = resource.response_kind.as_ref()?.kind.clone()?;
    let resource_name = resource.resource.clone()?;
    let found = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.clone(),
        plural: resource_name,
    };
    let namespaced = resource.scope.as_deref() == Some("Namespaced");
    Some((kind, Kind { resource: found, namespaced }))
}
