//! Adds versions to a custom resource definition.

use serde_json::{Value, json};

/// Adds a version that is a copy of the storage version and replaces it as the storage version.
pub(crate) fn with_next_version(versions: &Value) -> Option<Value> {
    let mut versions = versions.as_array()?.clone();
    let stored = versions.iter().find(|version| version["storage"] == true)?.clone();
    let mut name = stored["name"].as_str()?.to_owned();
    while versions.iter().any(|version| version["name"] == name.as_str()) {
        name = next(&name);
    }
    for version in &mut versions {
        version["storage"] = json!(false);
    }
    let mut added = stored;
    added["name"] = json!(name);
    added["served"] = json!(true);
    versions.push(added);
    Some(versions.into())
}

/// Returns the next version: `v2` after `v1`, `v1beta2` after `v1beta1`.
fn next(version: &str) -> String {
    let head = version.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number: u32 = version.get(head.len()..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    format!("{head}{}", number.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_version_takes_the_place_in_storage() {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
        let versions = json!([version("v1", true), version("v2", false)]);
        let expected = json!([version("v1", false), version("v2", false), version("v3", true)]);
        assert_eq!(with_next_version(&versions), Some(expected));
        assert_eq!(with_next_version(&json!([])), None);
        assert_eq!(next("v1beta1"), "v1beta2");
        assert_eq!(next("stable"), "stable1");
    }
}
