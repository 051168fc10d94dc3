//! Comparison of two revisions, or of a live and a desired object.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use serde_json::{Map, Number, Value};
use steersman_chart::{Chart, Values};
use steersman_formats::quantity::Quantity;

use crate::error::Result;
use crate::object::documents;
use crate::record::Release;
use crate::releases::{Options, Releases};

/// Maximum nesting depth that is compared.
const MAX_DEPTH: usize = 128;

impl Releases {
    /// Renders the revision that an upgrade from `current` to a chart and values would make. The objects in the
    /// cluster are not read. See [`Release::differs`].
    ///
    /// # Errors
    /// Fails if the chart does not render.
    pub fn candidate<'a>(
        &'a self,
        current: &'a Release,
        chart: &'a Chart,
        values: &'a Values,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            Ok(self
                .next_revision(current, current.version.saturating_add(1), chart, values, options)
                .await?
                .release)
        })
    }
}

impl Release {
    /// Whether an object or a hook differs from the other revision, regardless of formatting.
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

/// Content of hooks: their events, weights and objects.
type HookBundle = Vec<(Vec<String>, i64, BTreeMap<String, Value>)>;

fn hooks(release: &Release) -> Result<HookBundle> {
    let said =
        release.hooks.iter().map(|hook| Ok((hook.events.clone(), hook.weight, bundle(&hook.manifest)?)));
    said.collect()
}

/// Parses a manifest into objects by identity. The order of objects, and null fields, are ignored.
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

/// Whether a live object has every wanted value. Further fields of the live object are ignored, as are different
/// spellings of a quantity in built-in kinds, which the API server normalizes. `ignored` are JSON pointers to leave
/// out.
pub fn covers(live: &Value, wanted: &Value, ignored: &[String]) -> bool {
    let group = wanted["apiVersion"].as_str().and_then(|version| version.split_once('/'));
    // Custom resources are stored verbatim.
    let builtin = group.is_none_or(|(group, _)| !group.contains('.') || group.ends_with(".k8s.io"));
    Coverage { ignored, builtin }.covered(live, wanted, "", MAX_DEPTH)
}

/// Settings of a comparison.
struct Coverage<'a> {
    ignored: &'a [String],
    /// Whether the kind is built in: the API server normalizes its quantities.
    builtin: bool,
}

impl Coverage<'_> {
    fn covered(&self, live: &Value, wanted: &Value, path: &str, depth: usize) -> bool {
        if !path.is_empty() && self.ignored.iter().any(|pointer| pointer == path) {
            return true;
        }
        let Some(depth) = depth.checked_sub(1) else { return live == wanted };
        match (live, wanted) {
            (Value::Object(live), Value::Object(wanted)) => self.covered_map(live, wanted, path, depth),
            (Value::Array(live), Value::Array(wanted)) => {
                live.len() == wanted.len()
                    && live.iter().zip(wanted).enumerate().all(|(index, (live, wanted))| {
                        self.covered(live, wanted, &format!("{path}/{index}"), depth)
                    })
            }
            (Value::Number(live), Value::Number(wanted)) => same_number(live, wanted),
            (live, wanted) => {
                live == wanted || (self.builtin && is_quantity(path) && same_quantity(live, wanted))
            }
        }
    }

    fn covered_map(
        &self,
        live: &Map<String, Value>,
        wanted: &Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> bool {
        wanted.iter().all(|(key, wanted)| {
            let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            match live.get(key) {
                Some(live) => self.covered(live, wanted, &path, depth),
                None => is_empty(wanted) || self.ignored.contains(&path),
            }
        })
    }
}

/// Whether a value is one that the server omits: setting it is the same as leaving it out.
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

/// Whether a field of a built-in kind is a quantity. Elsewhere a string that looks like one is only a string: `1.10`
/// and `1.1` are two versions.
fn is_quantity(path: &str) -> bool {
    let mut segments = path.rsplit('/');
    let (field, parent) = (segments.next().unwrap_or_default(), segments.next().unwrap_or_default());
    let of_map = matches!(
        parent,
        "limits"
            | "requests"
            | "hard"
            | "capacity"
            | "overhead"
            | "podFixed"
            | "min"
            | "max"
            | "default"
            | "defaultRequest"
            | "maxLimitRequestRatio"
    );
    let of_metric = parent == "target" && matches!(field, "value" | "averageValue");
    let of_device = field == "value" && segments.next() == Some("capacity");
    let by_name = matches!(field, "sizeLimit" | "divisor" | "tolerance" | "capacity" | "maximumVolumeSize");
    of_map || of_metric || of_device || by_name
}

fn same_number(one: &Number, two: &Number) -> bool {
    // Integers beyond a float's precision may differ although their floats are equal.
    one == two || ((one.is_f64() || two.is_f64()) && one.as_f64() == two.as_f64())
}

/// Whether two scalars are the same quantity, such as `1` and `1000m`.
fn same_quantity(one: &Value, two: &Value) -> bool {
    quantity(one).is_some_and(|one| Some(one) == quantity(two))
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
        let live = json!({ "spec": { "replicas": 2, "limits": { "cpu": "500m" }, "list": [{ "a": 1, "b": 2 }] }, "status": {} });
        let covers =
            |wanted: Value| covers(&live, &wanted, &["/spec/free".to_owned(), "/spec/replicas".to_owned()]);
        assert!(covers(
            json!({ "spec": { "limits": { "cpu": 0.5 }, "list": [{ "a": 1 }], "off": false, "none": {} } })
        ));
        assert!(covers(json!({ "spec": { "replicas": 3, "free": 1 } })), "these are ignored");
        assert!(!covers(json!({ "spec": { "limits": { "cpu": "600m" } } })));
        assert!(!covers(json!({ "spec": { "list": [{ "a": 1 }, { "a": 2 }] } })));
        assert!(!covers(json!({ "spec": { "name": "x" } })));
    }

    #[test]
    fn quantities_are_compared_exactly() {
        let same = |one: Value, two: Value| {
            covers(&json!({ "hard": { "q": one } }), &json!({ "hard": { "q": two } }), &[])
        };
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

    #[test]
    fn text_that_looks_like_a_quantity_is_text() {
        let (live, wanted) = (json!("1.1"), json!("1.10"));
        let same = |path: &str, version: &str| {
            let object = |value: &Value| {
                let mut object = value.clone();
                for segment in path.rsplit('/') {
                    object = json!({ segment: object });
                }
                object["apiVersion"] = json!(version);
                object
            };
            covers(&object(&live), &object(&wanted), &[])
        };
        assert!(same("spec/hard/cpu", "v1"));
        assert!(same("spec/metric/target/averageValue", "autoscaling/v2"));
        assert!(!same("data/version", "v1"));
        assert!(!same("metadata/annotations/version", "v1"));
        assert!(!same("spec/env/value", "apps/v1"));
        assert!(!same("spec/limits/version", "example.com/v1"), "stored as it is written");
    }

    #[test]
    fn revisions_differ_by_their_hooks_too() {
        let hook = |manifest: &str, events: &[&str], weight: i64| crate::record::Hook {
            manifest: manifest.into(),
            events: events.iter().map(|event| (*event).to_owned()).collect(),
            weight,
            ..Default::default()
        };
        let release = |hook| Release { hooks: vec![hook], ..Release::default() };
        let one = release(hook("kind: Job\nmetadata: {name: a}", &["pre-install"], 1));
        let same = release(hook("metadata:\n  name: a\nkind: Job\nspec: null", &["pre-install"], 1));
        assert!(!one.differs(&same).unwrap() && !one.objects_differ(&same).unwrap());
        for other in [
            release(hook("kind: Job\nmetadata: {name: b}", &["pre-install"], 1)),
            release(hook("kind: Job\nmetadata: {name: a}", &["post-install"], 1)),
            release(hook("kind: Job\nmetadata: {name: a}", &["pre-install"], 2)),
            Release::default(),
        ] {
            assert!(one.differs(&other).unwrap(), "{other:?}");
            assert!(!one.objects_differ(&other).unwrap(), "hooks are no objects");
        }
    }

    #[test]
    fn objects_differ_by_what_they_are() {
        let release = |manifest: &str| Release { manifest: manifest.into(), ..Release::default() };
        let objects = "---\nkind: A\nmetadata: {name: a}\n---\nkind: B\nmetadata: {name: b}\n";
        let turned = "---\nkind: B\nmetadata: {name: b}\n---\nkind: A\nmetadata: {name: a}\n";
        let one = release(objects);
        assert!(!one.objects_differ(&one).unwrap());
        assert!(!one.objects_differ(&release(turned)).unwrap(), "their order says nothing");
        assert!(one.objects_differ(&release("---\nkind: A\nmetadata: {name: a}\n")).unwrap());
        assert!(one.objects_differ(&release("")).unwrap());
        // Equal manifests are not parsed.
        let broken = release("{");
        assert!(!broken.objects_differ(&broken).unwrap());
        assert!(broken.objects_differ(&one).is_err());
    }

    #[test]
    fn what_says_nothing_may_be_missing() {
        let covers = |wanted: Value| covers(&json!({}), &json!({ "field": wanted }), &[]);
        for nothing in [
            json!(null),
            json!(false),
            json!(0),
            json!(0.0),
            json!(""),
            json!([]),
            json!({}),
            json!({ "a": [] }),
        ] {
            assert!(covers(nothing.clone()), "{nothing}");
        }
        for something in
            [json!(true), json!(1), json!(-0.5), json!("0"), json!([0]), json!({ "a": null, "b": 1 })]
        {
            assert!(!covers(something.clone()), "{something}");
        }
    }

    #[test]
    fn ignored_places_are_left_out_wherever_they_are() {
        let ignored = ["/a~1b/c~0d".to_owned(), "/list/1".to_owned(), String::new()];
        let live = json!({ "a/b": { "c~d": 1 }, "list": [1, 2, 3], "x": 1 });
        let covers = |wanted: Value| covers(&live, &wanted, &ignored);
        assert!(covers(json!({ "a/b": { "c~d": 7 }, "list": [1, 9, 3] })));
        assert!(!covers(json!({ "list": [9, 2, 3] })));
        assert!(!covers(json!({ "list": [1, 2] })), "lists have to be of one length");
        assert!(!covers(json!({ "x": 2 })), "the object itself is not left out");
        assert!(!covers(json!({ "x": "1" })));
    }

    #[test]
    fn what_lies_too_deep_is_compared_as_a_whole() {
        let deep = |leaf: Value, depth: usize| (0..depth).fold(leaf, |value, _| json!({ "a": value }));
        let (live, wanted) = (json!({ "x": 1, "more": 1 }), json!({ "x": 1 }));
        assert!(covers(&deep(live.clone(), 126), &deep(wanted.clone(), 126), &[]));
        assert!(!covers(&deep(live.clone(), 128), &deep(wanted, 128), &[]));
        assert!(covers(&deep(live.clone(), 128), &deep(live, 128), &[]));
    }

    #[test]
    fn quantities_are_where_the_api_has_them() {
        let maps = [
            "limits",
            "requests",
            "hard",
            "capacity",
            "overhead",
            "podFixed",
            "min",
            "max",
            "default",
            "defaultRequest",
            "maxLimitRequestRatio",
        ];
        for parent in maps {
            assert!(is_quantity(&format!("/spec/{parent}/cpu")), "{parent}");
        }
        for path in [
            "/target/value",
            "/target/averageValue",
            "/spec/capacity/cpu/value",
            "/emptyDir/sizeLimit",
            "/resourceFieldRef/divisor",
            "/behavior/scaleUp/tolerance",
            "/status/capacity",
            "/maximumVolumeSize",
        ] {
            assert!(is_quantity(path), "{path}");
        }
        for path in [
            "/target/type",
            "/other/value",
            "/other/averageValue",
            "/value",
            "/spec/other/cpu/value",
            "/spec/capacity/cpu/other",
            "/data/cpu",
            "",
        ] {
            assert!(!is_quantity(path), "{path}");
        }
    }

    #[test]
    fn numbers_are_compared_by_their_value() {
        let same = |one: Value, two: Value| covers(&json!({ "n": one }), &json!({ "n": two }), &[]);
        assert!(same(json!(2), json!(2.0)) && same(json!(2.0), json!(2)) && same(json!(0.5), json!(0.5)));
        assert!(!same(json!(2), json!(2.5)) && !same(json!(2), json!(3)) && !same(json!(0.5), json!(0.25)));
        let hard = |one: Value, two: Value| {
            covers(&json!({ "hard": { "q": one } }), &json!({ "hard": { "q": two } }), &[])
        };
        assert!(hard(json!("500m"), json!(0.5)) && hard(json!(2), json!("2")));
        assert!(
            !hard(json!("2"), json!(true)) && !hard(json!(true), json!("2")) && !hard(json!("x"), json!("y"))
        );
    }

    #[test]
    fn quantities_of_custom_kinds_are_text() {
        let same = |version: &str| {
            let object = |cpu: &str| json!({ "apiVersion": version, "limits": { "cpu": cpu } });
            covers(&object("1"), &object("1000m"), &[])
        };
        for version in ["v1", "apps/v1", "node.k8s.io/v1", "autoscaling/v2"] {
            assert!(same(version), "{version}");
        }
        for version in ["example.com/v1", "k8s.io.example.com/v1"] {
            assert!(!same(version), "{version}");
        }
    }
}
