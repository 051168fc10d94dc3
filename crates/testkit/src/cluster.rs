//! Access to a cluster's objects as untyped JSON, so that they are compared exactly as received.

use futures_util::Stream;
use kube::Client;
use kube::api::{
    ApiResource, DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, WatchParams,
};
use kube::core::{Request, WatchEvent};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Characters to percent-encode in a path segment: a test may use names that are not valid.
const PATH_SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// A cluster that steps work on.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
}

/// A kind that the cluster serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Resource {
    resource: ApiResource,
    namespaced: bool,
}

/// The resource, namespace and name that identify an object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectKey {
    pub(crate) resource: Resource,
    /// Empty for cluster-scoped objects.
    pub(crate) namespace: String,
    /// Empty for all objects of the resource.
    pub(crate) name: String,
}

impl ObjectKey {
    fn request(&self) -> Request {
        let Resource { resource, namespaced } = &self.resource;
        let base = match resource.group.as_str() {
            "" => format!("/api/{}", resource.version),
            group => format!("/apis/{group}/{}", resource.version),
        };
        if *namespaced && !self.namespace.is_empty() {
            let namespace = utf8_percent_encode(&self.namespace, PATH_SEGMENT);
            Request::new(format!("{base}/namespaces/{namespace}/{}", resource.plural))
        } else {
            Request::new(format!("{base}/{}", resource.plural))
        }
    }

    /// The name as a path segment.
    fn segment(&self) -> String {
        utf8_percent_encode(&self.name, PATH_SEGMENT).to_string()
    }

    /// The place of a namespace object.
    pub(crate) fn namespace(name: &str) -> Self {
        let resource = ApiResource {
            group: String::new(),
            version: "v1".into(),
            api_version: "v1".into(),
            kind: "Namespace".into(),
            plural: "namespaces".into(),
        };
        let resource = Resource { resource, namespaced: false };
        Self { resource, namespace: String::new(), name: name.to_owned() }
    }

    /// The place of an object of the same kind.
    pub(crate) fn of(&self, object: &Value) -> Self {
        let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        Self { resource: self.resource.clone(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns the object with its namespace filled in, if it has none.
    pub(crate) fn placed(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if !self.namespace.is_empty() {
            if !object["metadata"].is_object() {
                object["metadata"] = serde_json::json!({});
            }
            object["metadata"]["namespace"] = self.namespace.as_str().into();
        }
        object
    }

    /// `Kind:namespace/name`, as kuttl identifies objects.
    pub(crate) fn id(&self) -> String {
        format!("{}:{}/{}", self.resource.resource.kind, self.namespace, self.name)
    }

    pub(crate) fn kind(&self) -> &str {
        &self.resource.resource.kind
    }
}

impl Resource {
    /// Returns an object's place: in its own namespace, else in `otherwise` if the kind is namespaced.
    pub(crate) fn place(self, own: &str, otherwise: &str, name: &str) -> ObjectKey {
        let namespace = match own {
            "" if self.namespaced => otherwise,
            own => own,
        };
        ObjectKey { namespace: namespace.to_owned(), name: name.to_owned(), resource: self }
    }
}

/// Whether the error is 404 Not Found.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Returns the API server's message, without the client's wrapping.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

/// Returns a string field; empty if it is missing or not a string.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns an object's labels as a selector; empty if they are missing or not all strings.
pub(crate) fn label_selector(object: &Value) -> String {
    let Some(labels) = object.pointer("/metadata/labels").and_then(Value::as_object) else {
        return String::new();
    };
    let pairs: Option<Vec<String>> =
        labels.iter().map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    pairs.unwrap_or_default().join(",")
}

impl Cluster {
    /// Looks up the resource of a kind, without a cache: tests create and delete definitions.
    pub(crate) async fn resource(&self, api_version: &str, kind: &str) -> Result<Resource, String> {
        let unknown =
            |why: &str| format!("retrieving API resource for {api_version}, Kind={kind} failed: {why}");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let list = if group.is_empty() {
            self.client.list_core_api_resources(version).await
        } else {
            self.client.list_api_group_resources(api_version).await
        };
        let list = list.map_err(|error| unknown(&said(&error)))?;
        let is_wanted = |name: &str, known: &str| !name.contains('/') && known.eq_ignore_ascii_case(kind);
        let found = list.resources.into_iter().find(|resource| is_wanted(&resource.name, &resource.kind));
        let found = found.ok_or_else(|| unknown("resource type not found"))?;
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: found.kind,
            plural: found.name,
        };
        Ok(Resource { resource, namespaced: found.namespaced })
    }

    /// Returns an object's place: in its own namespace, else in the given one if its kind is namespaced.
    pub(crate) async fn place(&self, object: &Value, namespace: &str) -> Result<ObjectKey, String> {
        let resource = self.resource(text(object, "/apiVersion"), text(object, "/kind")).await?;
        Ok(resource.place(text(object, "/metadata/namespace"), namespace, text(object, "/metadata/name")))
    }

    pub(crate) async fn get(&self, place: &ObjectKey) -> kube::Result<Value> {
        let request = place
            .request()
            .get(&place.segment(), &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    /// Lists objects in the place's namespace, or in all namespaces if it has none.
    pub(crate) async fn list(
        &self,
        place: &ObjectKey,
        labels: &str,
        fields: &str,
    ) -> kube::Result<Vec<Value>> {
        let mut params = ListParams::default();
        if !labels.is_empty() {
            params = params.labels(labels);
        }
        if !fields.is_empty() {
            params = params.fields(fields);
        }
        let request = place.request().list(&params).map_err(kube::Error::BuildRequest)?;
        let mut list: Value = self.client.request(request).await?;
        let items = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        let typed = |mut item: Value| {
            // The items of a list have no apiVersion and kind.
            item["apiVersion"] = place.resource.resource.api_version.as_str().into();
            item["kind"] = place.resource.resource.kind.as_str().into();
            item
        };
        Ok(items.into_iter().map(typed).collect())
    }

    pub(crate) async fn create(&self, place: &ObjectKey, object: &Value) -> kube::Result<Value> {
        let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        let request =
            place.request().create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    pub(crate) async fn merge(&self, place: &ObjectKey, patch: &Value) -> kube::Result<Value> {
        let request = place
            .request()
            .patch(&place.segment(), &PatchParams::default(), &Patch::Merge(patch))
            .map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    pub(crate) async fn delete(&self, place: &ObjectKey) -> kube::Result<()> {
        self.delete_with(place, &DeleteParams::default()).await
    }

    /// Deletes with a grace period of zero.
    pub(crate) async fn kill(&self, place: &ObjectKey) -> kube::Result<()> {
        self.delete_with(place, &DeleteParams::default().grace_period(0)).await
    }

    async fn delete_with(&self, place: &ObjectKey, params: &DeleteParams) -> kube::Result<()> {
        let request = place.request().delete(&place.segment(), params).map_err(kube::Error::BuildRequest)?;
        self.client.request::<Value>(request).await.map(|_| ())
    }

    /// Watches a place, beginning with synthetic events for the existing objects.
    pub(crate) async fn watch(
        &self,
        place: &ObjectKey,
    ) -> kube::Result<impl Stream<Item = kube::Result<WatchEvent<Value>>> + use<>> {
        let mut params = WatchParams::default();
        if !place.name.is_empty() {
            params = params.fields(&format!("metadata.name={}", place.name));
        }
        let request = place.request().watch(&params, "0").map_err(kube::Error::BuildRequest)?;
        self.client.request_events(request).await
    }
}

/// Whether an apply created or updated the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Created,
    Updated,
}

impl Cluster {
    /// Creates an object, or merge-patches it into the existing one. Retries on conflicts.
    pub(crate) async fn apply(&self, place: &ObjectKey, object: &Value) -> Result<Applied, String> {
        if place.name.is_empty() {
            return Err("failed to check object's existence: resource name may not be empty".into());
        }
        loop {
            let attempt = match self.get(place).await {
                Ok(live) => {
                    let mut patch = object.clone();
                    patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
                    self.merge(place, &patch).await.map(|_| Applied::Updated)
                }
                Err(error) if is_not_found(&error) => {
                    self.create(place, object).await.map(|_| Applied::Created)
                }
                Err(error) => return Err(format!("failed to check object's existence: {}", said(&error))),
            };
            match attempt {
                Ok(applied) => return Ok(applied),
                // It was changed or created in between: retry. Admission denies with other reasons.
                Err(kube::Error::Api(status))
                    if matches!(status.reason.as_str(), "Conflict" | "AlreadyExists") => {}
                Err(error) => return Err(said(&error)),
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}
