//! Parses the target of a request from its path.

use std::fmt;

use http::Uri;

/// The target of a request: a resource, and an object if the path names one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) group: String,
    /// The plural name; empty if the path is not that of a resource, such as discovery.
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Target {
    pub(crate) fn of(uri: &Uri) -> Self {
        let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
        let group = match parts.next() {
            Some("api") => String::new(),
            Some("apis") => parts.next().unwrap_or_default().to_owned(),
            _ => return Self::default(),
        };
        let _version = parts.next();
        let mut rest: Vec<String> = parts.map(str::to_owned).collect();
        let mut namespace = None;
        // `/namespaces/NAME`, alone or with a subresource of Namespace, addresses the namespace itself.
        let is_subresource = |part: &String| matches!(part.as_str(), "status" | "finalize");
        if rest.len() > 2 && rest[0] == "namespaces" && !is_subresource(&rest[2]) {
            namespace = Some(rest[1].clone());
            rest.drain(..2);
        }
        let mut rest = rest.into_iter();
        Self {
            group,
            namespace,
            resource: rest.next().unwrap_or_default(),
            name: rest.next(),
            subresource: rest.next(),
        }
    }

    /// Returns the resource with its group: `deployments.apps`, or `pods`.
    pub(crate) fn group_resource(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }

    /// Returns the object's key, `resource.group/namespace/name`, if the request names one.
    pub(crate) fn key(&self) -> Option<String> {
        let (resource, name) = (self.group_resource(), self.name.as_ref()?);
        Some(match &self.namespace {
            Some(namespace) => format!("{resource}/{namespace}/{name}"),
            None => format!("{resource}/{name}"),
        })
    }

    pub(crate) fn is_lease(&self) -> bool {
        self.resource == "leases"
    }

    /// Whether writes do not count as effects: events and access reviews.
    pub(crate) fn is_not_counted(&self) -> bool {
        self.resource == "events" || self.resource.ends_with("reviews")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.group_resource())?;
        if let Some(namespace) = &self.namespace {
            write!(f, " {namespace}")?;
        }
        if let Some(name) = &self.name {
            write!(f, "{}{name}", if self.namespace.is_some() { "/" } else { " " })?;
        }
        self.subresource.iter().try_for_each(|subresource| write!(f, " ({subresource})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_what_they_are_about() {
        let of = |path: &str| Target::of(&path.parse().unwrap()).to_string();
        assert_eq!(of("/api/v1/namespaces/a/pods/b/status"), "pods a/b (status)");
        assert_eq!(of("/apis/apps/v1/namespaces/a/deployments"), "deployments.apps a");
        assert_eq!(of("/api/v1/namespaces/a"), "namespaces a");
        assert_eq!(of("/api/v1/namespaces/a/finalize"), "namespaces a (finalize)");
        assert_eq!(of("/apis/apps/v1/deployments"), "deployments.apps");
        assert_eq!(of("/version"), "");
    }
}
