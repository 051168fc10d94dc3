//! Whether two revisions, or an object and what is wanted of it, really differ.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use steersman_chart::{Chart, Values};

use crate::error::Result;
use crate::object::documents;
use crate::record::Release;
use crate::releases::{Options, Releases};

/// The deepest nesting that is followed.
const MAX_DEPTH: usize = 128;

impl Releases {
    /// The revision that an upgrade from `current` to a chart and values would make, without looking at the objects in
    /// the cluster. See [`Release::differs`].
    ///
    /// # Errors
    /// Fails if the chart does not render.
    pub async fn candidate(
        &self,
        current: &Release,
        chart: &Chart,
        values: &Values,
        options: &Options,
    ) -> Result<Release> {
        Ok(self.next(current, current.version.saturating_add(1), chart, values, options).await?.release)
    }
}

impl Release {
    /// Whether an object or a hook of the other revision really is another: not whether the texts differ.
    ///
    /// # Errors
    /// Fails if one of the manifests does not parse.
    pub fn differs(&self, other: &Self) -> Result<bool> {
        Ok(self.objects_differ(other)? || hooks(self)? != hooks(other)?)
    }

    /// Whether an object of the other revision really is another; hooks are not looked at.
    ///
    /// # Errors
    /// Fails if one of the manifests does not parse.
    pub fn objects_differ(&self, other: &Self) -> Result<bool> {
        Ok(self.manifest != other.manifest && bundle(&self.manifest)? != bundle(&other.manifest)?)
    }
}

/// What hooks say: when they run, in which order, and what they are.
type HookBundle = Vec<(Vec<String>, i64, BTreeMap<String, Value>)>;

fn hooks(release: &Release) -> Result<HookBundle> {
    let said =
        release.hooks.iter().map(|hook| Ok((hook.events.clone(), hook.weight, bundle(&hook.manifest)?)));
    said.collect()
}

/// The objects of a manifest by what they are. The order of objects, and fields that are null, say nothing.
fn bundle(manifest: &str) -> Result<BTreeMap<String, Value>> {
    let mut objects = BTreeMap::new();
    for mut document in documents(manifest)? {
        crate::merge::strip_nulls(&mut document);
        let part = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"].map(part).join("|");
        objects.insert(key, document);
    }
    Ok(objects)
}

/// Whether a live object has everything that is wanted of it. Fields that only the live one has say nothing, nor does
/// another spelling of the same quantity. `ignored` are JSON pointers to leave out.
pub fn covers(live: &Value, wanted: &Value, ignored: &[String]) -> bool {
    covered(live, wanted, "", ignored, MAX_DEPTH)
}

fn covered(live: &Value, wanted: &Value, path: &str, ignored: &[String], depth: usize) -> bool {
    if !path.is_empty() && ignored.iter().any(|pointer| pointer == path) {
        return true;
    }
    let Some(depth) = depth.checked_sub(1) else { return live == wanted };
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => covered_map(live, wanted, path, ignored, depth),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live.iter().zip(wanted).enumerate().all(|(index, (live, wanted))| {
                    covered(live, wanted, &format!("{path}/{index}"), ignored, depth)
                })
        }
        (live, wanted) => live == wanted || same_quantity(live, wanted),
    }
}

fn covered_map(
    live: &Map<String, Value>,
    wanted: &Map<String, Value>,
    path: &str,
    ignored: &[String],
    depth: usize,
) -> bool {
    wanted.iter().all(|(key, wanted)| {
        let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        match live.get(key) {
            Some(live) => covered(live, wanted, &path, ignored, depth),
            None => is_empty(wanted) || ignored.contains(&path),
        }
    })
}

/// What the server leaves out: to say it is to say nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
    }
}

fn same_quantity(one: &Value, two: &Value) -> bool {
    match (quantity(one), quantity(two)) {
        (Some(one), Some(two)) => (one - two).abs() <= f64::EPSILON * one.abs().max(two.abs()),
        _ => false,
    }
}

fn quantity(value: &Value) -> Option<f64> {
    const UNITS: &[(&str, f64)] = &[
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
    ];
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => {
            let (digits, factor) = UNITS
                .iter()
                .find_map(|(unit, factor)| text.strip_suffix(unit).map(|digits| (digits, *factor)))
                .unwrap_or((text, 1.0));
            // Words such as "infinity" are no quantities.
            let plain = digits
                .bytes()
                .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E'));
            if plain && !digits.is_empty() {
                digits.parse::<f64>().ok().map(|number| number * factor)
            } else {
                None
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn revisions_differ_by_what_they_say() {
        let release = |manifest: &str| Release { manifest: manifest.into(), ..Release::default() };
        let one =
            release("---\n# Source: a\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1', y: null}\n");
        let two = release("---\nkind: ConfigMap\ndata:\n  x: \"1\"\nmetadata:\n  name: a\n");
        assert!(!one.differs(&two).unwrap());
        let three = release("---\nkind: ConfigMap\ndata:\n  x: \"2\"\nmetadata:\n  name: a\n");
        assert!(one.differs(&three).unwrap());
    }

    #[test]
    fn a_live_object_may_have_more() {
        let live =
            json!({ "spec": { "replicas": 2, "cpu": "500m", "list": [{ "a": 1, "b": 2 }] }, "status": {} });
        let covers =
            |wanted: Value| covers(&live, &wanted, &["/spec/free".to_owned(), "/spec/replicas".to_owned()]);
        assert!(covers(json!({ "spec": { "cpu": 0.5, "list": [{ "a": 1 }], "off": false, "none": {} } })));
        assert!(covers(json!({ "spec": { "replicas": 3, "free": 1 } })), "these are ignored");
        assert!(!covers(json!({ "spec": { "cpu": "600m" } })));
        assert!(!covers(json!({ "spec": { "list": [{ "a": 1 }, { "a": 2 }] } })));
        assert!(!covers(json!({ "spec": { "name": "x" } })));
    }
}
