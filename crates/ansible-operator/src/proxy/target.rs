//! The resource that a request's path refers to.

/// A resource of the API, or one object of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) api_version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Target {
    /// Parses a path. None if it does not refer to a resource, but to discovery, schemas or health.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let decoded =
            |part: &str| percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned();
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let api_version = match parts.next()? {
            "api" => parts.next()?.to_owned(),
            "apis" => format!("{}/{}", parts.next()?, parts.next()?),
            _ => return None,
        };
        let parts: Vec<&str> = parts.collect();
        // `namespaces/x/status` refers to the namespace itself.
        let (namespace, rest) = match parts.as_slice() {
            ["namespaces", namespace, rest @ ..]
                if !rest.is_empty() && !matches!(rest, ["status" | "finalize"]) =>
            {
                (Some(decoded(namespace)), rest)
            }
            rest => (None, rest),
        };
        let (resource, rest) = rest.split_first()?;
        Some(Self {
            api_version,
            namespace,
            resource: decoded(resource),
            name: rest.first().map(|name| decoded(name)),
            subresource: rest.get(1..).filter(|rest| !rest.is_empty()).map(|rest| rest.join("/")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let text = |path: &str| {
            Target::of(path).map(|target| {
                let part = |part: Option<String>| part.unwrap_or_else(|| "-".into());
                let Target { api_version, namespace, resource, name, subresource } = target;
                format!("{api_version} {} {resource} {} {}", part(namespace), part(name), part(subresource))
            })
        };
        for (path, expected) in [
            ("/api/v1/pods", Some("v1 - pods - -")),
            ("/api/v1/namespaces/lab/pods/x/log", Some("v1 lab pods x log")),
            ("/apis/apps/v1/namespaces/lab/deployments", Some("apps/v1 lab deployments - -")),
            ("/api/v1/namespaces/lab", Some("v1 - namespaces lab -")),
            ("/api/v1/namespaces/lab/status", Some("v1 - namespaces lab status")),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
                Some("rbac.authorization.k8s.io/v1 - clusterroles a:b -"),
            ),
            ("/apis/apps/v1", None),
            ("/api", None),
            ("/version", None),
        ] {
            assert_eq!(text(path).as_deref(), expected, "{path}");
        }
    }
}
