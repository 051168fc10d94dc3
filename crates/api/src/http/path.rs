//! Parsing of request paths.

use percent_encoding::percent_decode_str;

/// The target of a request path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `/api`.
    CoreRoot,
    /// `/apis`.
    GroupsRoot,
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/VERSION` or `/apis/GROUP/VERSION`.
    GroupVersion(String, String),
    /// A resource, an object or a subresource.
    Resource(Target),
    /// Any other path.
    Other(String),
}

/// A resource, an object or a subresource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// API group, empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace, or empty. For a Namespace object, its own name.
    pub namespace: String,
    /// Whether the path is namespaced: `namespaces/NAMESPACE/PLURAL`.
    pub namespaced: bool,
    /// Plural name of the resource.
    pub plural: String,
    /// Name of the object, or empty.
    pub name: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Path after the subresource, for proxies.
    pub rest: String,
    /// Whether the path has the deprecated `/watch/` prefix.
    pub watch: bool,
}

impl Route {
    /// Parses the path of a request.
    #[must_use]
    pub fn parse(path: &str) -> Self {
        let Some(parts) = segments(path) else { return Self::Other(path.to_owned()) };
        // Percent-decoding inspects every byte, and is needed for hardly any path.
        if memchr::memchr(b'%', path.as_bytes()).is_none() {
            return Self::of(path, &parts);
        }
        let decoded: Vec<_> = parts.iter().map(|part| percent_decode_str(part).decode_utf8_lossy()).collect();
        let parts: Vec<&str> = decoded.iter().map(AsRef::as_ref).collect();
        Self::of(path, &parts)
    }

    fn of(path: &str, parts: &[&str]) -> Self {
        match parts {
            ["api"] => Self::CoreRoot,
            ["apis"] => Self::GroupsRoot,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", version] => Self::GroupVersion(String::new(), (*version).to_owned()),
            ["apis", group, version] => Self::GroupVersion((*group).to_owned(), (*version).to_owned()),
            ["api", version, rest @ ..] => Self::Resource(Target::parse("", version, rest)),
            ["apis", group, version, rest @ ..] => Self::Resource(Target::parse(group, version, rest)),
            _ => Self::Other(path.trim_end_matches('/').to_owned()),
        }
    }
}

/// Splits a path at slashes. `None` if it contains an empty segment.
fn segments(path: &str) -> Option<Vec<&str>> {
    let mut segments = Vec::with_capacity(8);
    let mut start = 0;
    for slash in memchr::memchr_iter(b'/', path.as_bytes()) {
        match path.get(start..slash) {
            Some("") if slash > 0 => return None,
            Some("") | None => {}
            Some(segment) => segments.push(segment),
        }
        start = slash + 1;
    }
    segments.extend(path.get(start..).filter(|last| !last.is_empty()));
    Some(segments)
}

impl Target {
    fn parse(group: &str, version: &str, mut rest: &[&str]) -> Self {
        let mut target = Self { group: group.to_owned(), version: version.to_owned(), ..Self::default() };
        if let ["watch", inner @ ..] = rest {
            target.watch = true;
            rest = inner;
        }
        if let ["namespaces", namespace, inner @ ..] = rest {
            target.namespace = (*namespace).to_owned();
            // A Namespace is itself an object, with two subresources.
            if !inner.is_empty() && !matches!(inner, ["status" | "finalize", ..]) {
                target.namespaced = true;
                rest = inner;
            }
        }
        let mut rest = rest.iter();
        let mut next = || rest.next().map(|s| (*s).to_owned()).unwrap_or_default();
        target.plural = next();
        target.name = next();
        target.subresource = next();
        target.rest = rest.copied().collect::<Vec<_>>().join("/");
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> [String; 6] {
        match Route::parse(path) {
            Route::Resource(t) => [t.group, t.version, t.namespace, t.plural, t.name, t.subresource],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn paths_name_resources() {
        assert_eq!(target("/api/v1/pods"), ["", "v1", "", "pods", "", ""]);
        assert_eq!(target("/api/v1/namespaces/a"), ["", "v1", "a", "namespaces", "a", ""]);
        assert_eq!(target("/api/v1/namespaces/a/status"), ["", "v1", "a", "namespaces", "a", "status"]);
        assert_eq!(target("/api/v1/namespaces/a/pods/b/log"), ["", "v1", "a", "pods", "b", "log"]);
        assert_eq!(
            target("/apis/apps/v1/namespaces/a/deployments/b%3Ac"),
            ["apps", "v1", "a", "deployments", "b:c", ""]
        );
        assert_eq!(Route::parse("/apis/apps/"), Route::Group("apps".into()));
        assert_eq!(Route::parse("/healthz/"), Route::Other("/healthz".into()));
        for path in ["//api/v1/pods", "/api//v1/pods", "/api/v1/pods//", "//"] {
            assert_eq!(Route::parse(path), Route::Other(path.into()));
        }
        assert_eq!(Route::parse("/"), Route::Other(String::new()));
        assert_eq!(target("api/v1/pods/%E2%82%AC/"), ["", "v1", "", "pods", "€", ""]);
    }
}
