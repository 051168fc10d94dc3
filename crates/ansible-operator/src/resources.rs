//! Discovery, cached per group and version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use kube::Client;
use kube::api::ApiResource;
use steersman::Kind;

/// A cache of the cluster's resources. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Resources(Arc<Mutex<HashMap<String, Arc<APIResourceList>>>>);

/// A resource that the cluster serves.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) kind: Kind,
    /// Whether its objects can be read, listed and watched.
    pub(crate) watchable: bool,
}

impl Resources {
    /// Returns the resource with a plural name, as in paths.
    pub(crate) async fn by_plural(
        &self,
        client: &Client,
        api_version: &str,
        plural: &str,
    ) -> kube::Result<Option<Found>> {
        self.find(client, api_version, |resource| resource.name == plural).await
    }

    /// Returns the resource of a kind.
    pub(crate) async fn by_kind(
        &self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> kube::Result<Option<Found>> {
        self.find(client, api_version, |resource| resource.kind == kind && !resource.name.contains('/')).await
    }

    /// Finds a resource; an unknown one is looked up again, since definitions may have been added.
    async fn find(
        &self,
        client: &Client,
        api_version: &str,
        is: impl Fn(&APIResource) -> bool,
    ) -> kube::Result<Option<Found>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(api_version).cloned();
        let found = |list: &APIResourceList| list.resources.iter().find(|one| is(one)).cloned();
        if let Some(resource) = known.as_deref().and_then(found) {
            return Ok(Some(into_found(api_version, resource)));
        }
        let list = match api_version.contains('/') {
            true => client.list_api_group_resources(api_version).await,
            false => client.list_core_api_resources(api_version).await,
        };
        let list = match list {
            Ok(list) => Arc::new(list),
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(error),
        };
        let resource = found(&list);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(api_version.to_owned(), list);
        Ok(resource.map(|resource| into_found(api_version, resource)))
    }
}

fn into_found(api_version: &str, resource: APIResource) -> Found {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let watchable = ["get", "list", "watch"].iter().all(|verb| resource.verbs.iter().any(|one| one == verb));
    let kind = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: resource.kind,
        plural: resource.name,
    };
    Found { kind: Kind::dynamic(kind, resource.namespaced), watchable }
}
