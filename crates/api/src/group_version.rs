//! API groups and versions, and their string forms in paths, objects and errors.

/// A resource by its group and plural name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupResource<'a> {
    /// API group, empty for the core group.
    pub group: &'a str,
    /// Plural name as in paths.
    pub resource: &'a str,
}

impl GroupResource<'_> {
    /// Returns `plural.group`, or the plural alone in the core group.
    #[must_use]
    pub fn qualified(&self) -> String {
        qualified(self.resource, self.group)
    }
}

/// A kind by its group and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupKind<'a> {
    /// API group, empty for the core group.
    pub group: &'a str,
    /// Kind of one object.
    pub kind: &'a str,
}

/// Returns `name.group`, or the name alone in the core group.
#[must_use]
pub fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// Returns `group/version`, or the version alone in the core group.
#[must_use]
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Splits an apiVersion into group and version.
#[must_use]
#[inline]
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Returns the Go package of a built-in group's internal types, as printed in kube-apiserver's errors.
#[must_use]
pub fn internal_package(group: &str) -> &str {
    match group.split('.').next().unwrap_or_default() {
        "" => "core",
        "internal" => "apiserverinternal",
        first => first,
    }
}
