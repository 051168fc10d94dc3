//! Chart.lock: the chosen versions, and the digest of the Chart.yaml that they were chosen for.

use serde_json::json;
use steersman_chart::{Dependency, Lock};

use crate::cache::sha256;
use crate::yaml;

/// Computes the digest that ties a lock file to a Chart.yaml: of both dependency lists in Go's JSON.
pub fn digest(wanted: &[Dependency], locked: &[Dependency]) -> String {
    go_digest([wanted, locked])
}

/// Computes the digest that Helm 2 made of requirements.yaml.
pub(crate) fn helm2_digest(wanted: &[Dependency]) -> String {
    #[derive(serde::Serialize)]
    struct Requirements<'a> {
        dependencies: &'a [Dependency],
    }
    go_digest(Requirements { dependencies: wanted })
}

fn go_digest(lists: impl serde::Serialize) -> String {
    // Serialized straight from the structs: their fields keep Go's order, which a map would not.
    let text = serde_json::to_string(&lists).unwrap_or_default();
    format!("sha256:{}", sha256(escape_like_go(&text).as_bytes()))
}

/// Escapes the characters that Go's JSON encoder escapes; outside of strings they do not occur in JSON.
fn escape_like_go(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Formats a lock file.
pub(crate) fn to_yaml(lock: &Lock) -> String {
    yaml::to_string(&json!({
        "dependencies": lock.dependencies,
        "digest": lock.digest,
        "generated": lock.generated,
    }))
}
