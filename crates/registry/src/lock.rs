//! Chart.lock: which versions were chosen, and for which Chart.yaml.

use serde_json::json;
use steersman_chart::{Dependency, Lock};

use crate::cache::sha256;
use crate::yaml;

/// The digest that ties a lock file to a Chart.yaml: of both lists of dependencies as Go writes them in JSON.
pub fn digest(wanted: &[Dependency], locked: &[Dependency]) -> String {
    go_digest([wanted, locked])
}

/// The digest that Helm 2 made of requirements.yaml.
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

/// Go's JSON writes these as escapes, wherever they stand; in JSON they only stand in strings.
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

/// The text of a lock file.
pub(crate) fn to_yaml(lock: &Lock) -> String {
    yaml::to_string(&json!({
        "dependencies": lock.dependencies,
        "digest": lock.digest,
        "generated": lock.generated,
    }))
}
