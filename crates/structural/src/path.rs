//! Formats field paths as error messages show them.

/// Returns the path, or `<nil>` for the object itself.
pub(crate) fn shown(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

/// `path.name`.
pub(crate) fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// `path[key]`.
pub(crate) fn key(path: &str, key: &str) -> String {
    format!("{path}[{key}]")
}

/// `path[index]`.
pub(crate) fn index(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// `path.properties[name]`.
pub(crate) fn property(path: &str, name: &str) -> String {
    key(&child(path, "properties"), name)
}
