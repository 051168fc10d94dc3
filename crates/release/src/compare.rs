//! Whether two revisions, or an object and what is wanted of it, really differ.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use steersman_chart::{Chart, Values};
use steersman_formats::quantity::Quantity;

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
        Ok(self
            .next_revision(current, current.version.saturating_add(1), chart, values, options)
            .await?
            .release)
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

    /// Whether the objects of two revisions differ; hooks are not compared.
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

/// Whether two scalars are one number, or one quantity in two spellings, such as `1` and `1000m`.
fn same_quantity(one: &Value, two: &Value) -> bool {
    match (one, two) {
        // Whole numbers are one number only if they are equal, which was looked at before.
        (Value::Number(one), Value::Number(two)) => {
            (one.is_f64() || two.is_f64()) && one.as_f64() == two.as_f64()
        }
        _ => quantity(one).is_some_and(|one| Some(one) == quantity(two)),
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::Number(number) => Quantity::parse(&number.to_string()),
        Value::String(text) => Quantity::parse(text),
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

    #[test]
    fn quantities_are_compared_exactly() {
        let same = |one: Value, two: Value| covers(&json!({ "q": one }), &json!({ "q": two }), &[]);
        for (one, two) in [(json!("1"), json!(1)), (json!("1Ei"), json!("1024Pi")), (json!(1), json!(1.0))] {
            assert!(same(one.clone(), two.clone()), "{one} {two}");
        }
        for (one, two) in [
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64)),
            (json!("9007199254740993"), json!("9007199254740992")),
            (json!("1Gi"), json!("1G")),
            (json!("one"), json!("ONE")),
        ] {
            assert!(!same(one.clone(), two.clone()), "{one} {two}");
        }
    }
}
