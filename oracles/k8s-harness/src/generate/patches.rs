//! Random patches of every type on valid objects.

use serde_json::{Map, Value, json};

use super::kinds::{KINDS, Kind};
use super::objects::{change, mutated};
use super::random::Random;
use super::schemas::Schemas;
use crate::corpus::{Compared, Step};

pub(crate) fn case(schemas: &Schemas, random: &mut Random) -> Vec<Step> {
    let kind = random.pick(&KINDS);
    let object = kind.object();
    let mut steps = vec![Step {
        request: format!("POST {}?fieldManager=maker", kind.path),
        json: Some(object.clone()),
        compare: Compared::Nothing,
        ..Step::default()
    }];
    for _ in 0..=random.below(3) {
        let manager = random.text(&["maker", "one", "two"]);
        let request =
            format!("PATCH {}?fieldManager={}", kind.object_path(), manager.as_str().unwrap_or_default());
        let mut step = Step { request, ..Step::default() };
        match random.below(3) {
            0 => step.jsonpatch = Some(json_patch(schemas, kind, &object, random)),
            1 => step.merge = Some(merge_patch(schemas, kind, &object, random)),
            _ => {
                let mut patch = merge_patch(schemas, kind, &object, random);
                direct(&mut patch, random, 0);
                step.strategic = Some(patch);
            }
        }
        steps.push(step);
    }
    steps
}

/// Generates operations on paths that exist, or almost do.
fn json_patch(schemas: &Schemas, kind: &Kind, object: &Value, random: &mut Random) -> Value {
    let mut pointers = Vec::new();
    collect_pointers("", object, &mut pointers);
    let changed = mutated(schemas, kind, random, 3);
    let operations = (0..=random.below(3)).map(|_| {
        let mut path = random.pick(&pointers).clone();
        match random.below(12) {
            0 => path.push_str("/none"),
            1 => path.push_str("/-"),
            2 => path = path.replace("/0", "/7"),
            _ => {}
        }
        let value = changed
            .pointer(&path)
            .or_else(|| object.pointer(&path))
            .cloned()
            .unwrap_or_else(|| json!(random.word()));
        match random.below(8) {
            0 => json!({"op": "remove", "path": path}),
            1 => json!({"op": "test", "path": path, "value": value}),
            2 => json!({"op": "copy", "from": path, "path": random.pick(&pointers)}),
            3 => json!({"op": "move", "from": path, "path": random.pick(&pointers)}),
            4 | 5 => json!({"op": "replace", "path": path, "value": value}),
            _ => json!({"op": "add", "path": path, "value": value}),
        }
    });
    operations.collect()
}

fn collect_pointers(at: &str, value: &Value, found: &mut Vec<String>) {
    // A change of name, kind or version is always rejected, which tests little.
    if !at.is_empty() && !matches!(at, "/apiVersion" | "/kind" | "/metadata" | "/metadata/name") {
        found.push(at.to_owned());
    }
    match value {
        Value::Object(fields) => {
            for (key, child) in fields {
                collect_pointers(
                    &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                    child,
                    found,
                );
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_pointers(&format!("{at}/{index}"), item, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns a part of the object with some values changed and some set to null.
fn merge_patch(schemas: &Schemas, kind: &Kind, object: &Value, random: &mut Random) -> Value {
    let mut changed = object.clone();
    change(schemas, kind, &mut changed, random, 3);
    let mut patch = part(&changed, random, 0);
    if let Some(fields) = patch.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    patch
}

/// Returns some of the fields of a value.
pub(crate) fn part(value: &Value, random: &mut Random, depth: usize) -> Value {
    match value {
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (key, child) in fields {
                if is_key(key) || random.percent(if depth < 2 { 80 } else { 55 }) {
                    let child = if depth > 1 && !is_key(key) && random.percent(6) {
                        Value::Null
                    } else {
                        part(child, random, depth + 1)
                    };
                    kept.insert(key.clone(), child);
                }
            }
            Value::Object(kept)
        }
        Value::Array(items) => items.iter().map(|item| part(item, random, depth + 1)).collect(),
        other => other.clone(),
    }
}

/// Whether a field is a merge key of list items: without it most patches are rejected.
fn is_key(name: &str) -> bool {
    matches!(name, "name" | "containerPort" | "port" | "key" | "mountPath" | "ip")
}

/// Adds directives of strategic merge patches at random.
fn direct(patch: &mut Value, random: &mut Random, depth: usize) {
    match patch {
        Value::Object(fields) => {
            let lists: Vec<(String, Vec<Value>)> = fields
                .iter()
                .filter_map(|(key, child)| Some((key.clone(), child.as_array()?.clone())))
                .collect();
            for (key, items) in lists {
                // The real server panics on `$setElementOrder` for objects without a merge key.
                let ordered = items.iter().all(|item| item.get("name").is_some() || item.is_string());
                if ordered && random.percent(12) {
                    let mut order: Vec<Value> = items
                        .iter()
                        .map(|item| {
                            item.get("name").map_or_else(|| item.clone(), |name| json!({ "name": name }))
                        })
                        .collect();
                    if random.percent(40) {
                        order.reverse();
                    }
                    fields.insert(format!("$setElementOrder/{key}"), Value::Array(order));
                }
                if random.percent(6) && items.iter().all(Value::is_string) {
                    fields.insert(format!("$deleteFromPrimitiveList/{key}"), Value::Array(items));
                }
            }
            if depth > 2 && random.percent(5) {
                fields.insert("$patch".to_owned(), random.text(&["replace", "delete", "merge"]));
            }
            if depth > 1 && random.percent(5) {
                let keys: Vec<Value> =
                    fields.keys().filter(|key| !key.starts_with('$')).cloned().map(Value::from).collect();
                fields.insert("$retainKeys".to_owned(), Value::Array(keys));
            }
            for child in fields.values_mut() {
                direct(child, random, depth + 1);
            }
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                if item.is_object() && random.percent(8) {
                    item["$patch"] = random.text(&["delete", "delete", "merge"]);
                }
                direct(item, random, depth + 1);
            }
            if !items.is_empty() && items.iter().all(Value::is_object) && random.percent(5) {
                items.push(json!({"$patch": "replace"}));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
