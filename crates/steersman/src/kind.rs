//! Kinds, and the keys of their objects.

use std::{any::TypeId, fmt, sync::Arc};

use k8s_openapi::ClusterResourceScope;
use kube::{Resource, core::ApiResource};
use serde::{Serialize, de::DeserializeOwned};

/// A type of objects that is known at compile time. It is any type of `k8s_openapi`, or one derived with
/// `CustomResource`.
pub trait Object:
    Resource<DynamicType = (), Scope: 'static>
    + Serialize
    + DeserializeOwned
    + Clone
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope: 'static>
        + Serialize
        + DeserializeOwned
        + Clone
        + fmt::Debug
        + Send
        + Sync
        + 'static
{
}

/// A kind, known at compile time or only at run time. Cheap to clone.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use steersman::Kind;
///
/// let kind = Kind::of::<Deployment>();
/// assert!(kind.namespaced() && kind.matches("apps/v1", "Deployment"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Kind(Arc<Description>);

#[derive(PartialEq, Eq, Hash)]
struct Description {
    resource: ApiResource,
    namespaced: bool,
}

impl Kind {
    /// Returns the kind of a type.
    #[must_use]
    pub fn of<K: Object>() -> Self {
        let namespaced = TypeId::of::<K::Scope>() != TypeId::of::<ClusterResourceScope>();
        Self::dynamic(ApiResource::erase::<K>(&()), namespaced)
    }

    /// Returns a kind that is known from discovery or a configuration file.
    #[must_use]
    pub fn dynamic(resource: ApiResource, namespaced: bool) -> Self {
        Self(Arc::new(Description { resource, namespaced }))
    }

    /// Group, version, kind and plural.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.0.resource
    }

    /// Whether its objects are namespaced.
    #[must_use]
    pub fn namespaced(&self) -> bool {
        self.0.namespaced
    }

    /// The kind's name, such as `Deployment`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.resource.kind
    }

    /// Whether this API version and kind, as in an owner reference, are this kind in any version.
    #[must_use]
    pub fn matches(&self, api_version: &str, kind: &str) -> bool {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        kind == self.0.resource.kind && group == self.0.resource.group
    }

    /// Returns the URL path of the collection that holds an object.
    pub(crate) fn url(&self, namespace: Option<&str>) -> String {
        let namespace = namespace.filter(|_| self.namespaced());
        kube::core::DynamicObject::url_path(self.resource(), namespace)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `deployments.apps`, as `kubectl` names resources.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ApiResource { plural, group, .. } = self.resource();
        f.write_str(plural)?;
        if group.is_empty() { Ok(()) } else { write!(f, ".{group}") }
    }
}

/// The namespace and name of an object. One allocation, shared by its clones.
///
/// ```
/// use steersman::Key;
///
/// let key = Key::namespaced("default", "web");
/// assert_eq!((key.namespace(), key.name(), key.to_string().as_str()), (Some("default"), "web", "default/web"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Returns the key of a namespaced object.
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// Returns the key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the key of an object whose namespace may be absent.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) if !namespace.is_empty() => Self::namespaced(namespace, name),
            _ => Self::cluster(name),
        }
    }

    /// Returns the key of an object.
    #[must_use]
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
    }

    /// The object's namespace; `None` if it is cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

/// `namespace/name`, or the name alone.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};

    use super::*;

    #[test]
    fn kinds_know_their_scope_and_paths() {
        let deployment = Kind::of::<Deployment>();
        assert!(deployment.namespaced());
        assert_eq!(deployment.to_string(), "deployments.apps");
        assert_eq!(deployment.url(Some("lab")), "/apis/apps/v1/namespaces/lab/deployments");
        let node = Kind::of::<Node>();
        assert!(!node.namespaced());
        assert_eq!(node.url(Some("lab")), "/api/v1/nodes");
        assert!(deployment.matches("apps/v1beta1", "Deployment"));
        assert!(!deployment.matches("v1", "Deployment"));
    }

    #[test]
    fn keys_split_into_namespace_and_name() {
        let key = Key::namespaced("lab", "one");
        assert_eq!((key.namespace(), key.name()), (Some("lab"), "one"));
        let key = Key::new(Some(""), "system:node");
        assert_eq!((key.namespace(), key.name()), (None, "system:node"));
    }
}
