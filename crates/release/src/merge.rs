//! Merges of objects, as in Helm 3.
//!
//! Helm computes patches and lets the server apply them. Here the resulting object is computed directly; the same keys
//! decide which items of two lists correspond.

use serde_json::{Map, Value};

/// Maximum nesting depth of a merge. The API server refuses objects long before.
const MAX_DEPTH: usize = 256;

/// Lists whose items are merged by a key, as the built-in kinds declare them.
const MERGE_KEYS: &[(&str, &[&str])] = &[
    ("allocatedResourcesStatus", &["name"]),
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("matchConditions", &["name"]),
    ("ownerReferences", &["uid"]),
    ("ports", &["containerPort", "port"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    ("secrets", &["name"]),
    ("topologySpreadConstraints", &["topologyKey"]),
    ("variables", &["name"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
    ("webhooks", &["name"]),
];
/// Lists of plain values that are merged as sets.
const SETS: &[&str] = &["finalizers", "podCIDRs"];
/// Maps, or list items, from which all unwanted fields are dropped: their fields exclude each other.
const RETAIN_KEYS: &[&str] = &["strategy", "volumes", "resourceClaims"];

/// API groups whose merge keys Helm knows.
const BUILT_IN: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// Whether the kinds of a group are built in.
pub fn is_built_in(group: &str) -> bool {
    BUILT_IN.contains(&group)
}

/// Removes null fields, which are the same as absent ones.
pub(crate) fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

/// Returns the merge patch from `original` to `modified`.
pub fn two_way(original: &Value, modified: &Value) -> Value {
    let (Value::Object(original), Value::Object(modified)) = (original, modified) else {
        return modified.clone();
    };
    let mut patch = Map::new();
    for key in original.keys().filter(|key| !modified.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, wanted) in modified {
        match original.get(key) {
            Some(before) if before == wanted => {}
            Some(before @ Value::Object(_)) if wanted.is_object() => {
                patch.insert(key.clone(), two_way(before, wanted));
            }
            _ => {
                patch.insert(key.clone(), wanted.clone());
            }
        }
    }
    Value::Object(patch)
}

/// Returns `current` with everything in `modified`, and without what only `original` had.
pub fn three_way(original: &Value, modified: &Value, current: &Value) -> Value {
    merge("", original, modified, current, MAX_DEPTH)
}

fn merge(field: &str, original: &Value, modified: &Value, current: &Value, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return modified.clone() };
    match (modified, current) {
        (Value::Object(modified), Value::Object(current)) => {
            let original = original.as_object();
            let mut merged = current.clone();
            let retain = RETAIN_KEYS.contains(&field);
            let dropped = |key: &String| {
                !modified.contains_key(key) && (retain || original.is_some_and(|map| map.contains_key(key)))
            };
            merged.retain(|key, _| !dropped(key));
            for (key, wanted) in modified {
                let before = original.and_then(|map| map.get(key)).unwrap_or(&Value::Null);
                let now = match current.get(key) {
                    Some(now) => merge(key, before, wanted, now, depth),
                    None => wanted.clone(),
                };
                merged.insert(key.clone(), now);
            }
            Value::Object(merged)
        }
        (Value::Array(modified), Value::Array(current)) => {
            let none = Vec::new();
            let original = original.as_array().unwrap_or(&none);
            if SETS.contains(&field) {
                return Value::Array(merge_sets(original, modified, current));
            }
            match merge_key(field, [original, modified, current]) {
                Some(key) => Value::Array(merge_lists(field, key, original, modified, current, depth)),
                None => Value::Array(modified.clone()),
            }
        }
        _ => modified.clone(),
    }
}

/// Returns the merge key of a list, if all items have a distinct one.
fn merge_key(field: &str, lists: [&Vec<Value>; 3]) -> Option<&'static str> {
    let (_, keys) = MERGE_KEYS.iter().find(|(name, _)| *name == field)?;
    keys.iter().copied().find(|key| {
        lists.iter().all(|items| {
            let values: Option<Vec<&Value>> = items.iter().map(|item| item.get(key)).collect();
            values.is_some_and(|values| {
                values
                    .iter()
                    .enumerate()
                    .all(|(index, value)| !values.iter().skip(index + 1).any(|other| other == value))
            })
        })
    })
}

fn merge_sets(original: &[Value], modified: &[Value], current: &[Value]) -> Vec<Value> {
    let stays = |item: &&Value| modified.contains(item) || !original.contains(item);
    let mut merged: Vec<Value> = current.iter().filter(stays).cloned().collect();
    for item in modified {
        if !merged.contains(item) {
            merged.push(item.clone());
        }
    }
    merged
}

/// Merges lists by key, in the order of the wanted items. Items of other writers stay behind the one that they
/// followed.
fn merge_lists(
    field: &str,
    key: &str,
    original: &[Value],
    modified: &[Value],
    current: &[Value],
    depth: usize,
) -> Vec<Value> {
    let find =
        |items: &[Value], wanted: &Value| items.iter().position(|item| item.get(key) == wanted.get(key));
    let mut merged: Vec<Value> = modified
        .iter()
        .map(|wanted| {
            let before = find(original, wanted).and_then(|index| original.get(index)).unwrap_or(&Value::Null);
            match find(current, wanted).and_then(|index| current.get(index)) {
                Some(now) => merge(field, before, wanted, now, depth),
                None => wanted.clone(),
            }
        })
        .collect();
    for (index, item) in current.iter().enumerate() {
        if find(modified, item).is_some() || find(original, item).is_some() {
            continue;
        }
        let before = index.checked_sub(1).and_then(|index| current.get(index));
        let place = before.and_then(|before| find(&merged, before)).map_or(0, |index| index + 1);
        merged.insert(place, item.clone());
    }
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_others_stay_and_dropped_ones_go() {
        let original = json!({ "spec": { "replicas": 2, "paused": true, "template": { "a": 1 } } });
        let modified = json!({ "spec": { "template": { "a": 2 } } });
        let current = json!({ "spec": { "replicas": 7, "paused": true, "template": { "a": 1, "b": 3 } }, "status": {} });
        assert_eq!(
            three_way(&original, &modified, &current),
            json!({ "spec": { "template": { "a": 2, "b": 3 } }, "status": {} })
        );
    }

    #[test]
    fn items_are_matched_by_their_keys() {
        let original =
            json!({ "containers": [{ "name": "a", "image": "1" }, { "name": "gone", "image": "1" }] });
        let modified =
            json!({ "containers": [{ "name": "new", "image": "1" }, { "name": "a", "image": "2" }] });
        let current = json!({ "containers": [
            { "name": "a", "image": "1", "tty": true }, { "name": "sidecar" }, { "name": "gone", "image": "1" },
        ] });
        assert_eq!(
            three_way(&original, &modified, &current),
            json!({ "containers": [
                { "name": "new", "image": "1" }, { "name": "a", "image": "2", "tty": true }, { "name": "sidecar" },
            ] })
        );
    }

    #[test]
    fn a_volume_changes_its_source() {
        let original = json!({ "volumes": [{ "name": "v", "emptyDir": {} }] });
        let modified = json!({ "volumes": [{ "name": "v", "configMap": { "name": "c" } }] });
        let merged = three_way(&original, &modified, &original);
        assert_eq!(merged, modified);
    }

    #[test]
    fn a_two_way_patch_says_what_changed() {
        let patch = two_way(
            &json!({ "a": 1, "b": { "c": 1, "d": 2 } }),
            &json!({ "b": { "c": 1, "d": 3 }, "e": [1] }),
        );
        assert_eq!(patch, json!({ "a": null, "b": { "d": 3 }, "e": [1] }));
    }

    #[test]
    fn a_two_way_patch_keeps_tables_and_lists_apart() {
        assert_eq!(two_way(&json!({ "a": { "x": 1 } }), &json!({ "a": [1] })), json!({ "a": [1] }));
        assert_eq!(two_way(&json!({ "a": [1] }), &json!({ "a": { "x": 1 } })), json!({ "a": { "x": 1 } }));
        assert_eq!(two_way(&json!({ "a": { "x": 1 } }), &json!({ "a": 2 })), json!({ "a": 2 }));
        assert_eq!(two_way(&json!({ "a": 1 }), &json!({ "a": 1 })), json!({}));
        assert_eq!(two_way(&json!([1]), &json!({ "a": 1 })), json!({ "a": 1 }));
    }

    #[test]
    fn sets_keep_what_others_added() {
        let merged = |original: Value, modified: Value, current: Value| {
            let object = |list: Value| json!({ "finalizers": list });
            three_way(&object(original), &object(modified), &object(current))["finalizers"].clone()
        };
        assert_eq!(
            merged(json!(["a", "b"]), json!(["c", "a"]), json!(["x", "b", "a"])),
            json!(["x", "a", "c"])
        );
        assert_eq!(merged(json!(["a"]), json!([]), json!(["a", "x"])), json!(["x"]));
        assert_eq!(merged(json!([]), json!(["a"]), json!(["a"])), json!(["a"]));
    }

    #[test]
    fn items_of_others_stay_behind_the_one_that_they_followed() {
        let list = |names: &[&str]| {
            let items: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            json!({ "env": items })
        };
        for (original, modified, current, expected) in [
            (
                &["a", "b"][..],
                &["a", "b"][..],
                &["x", "a", "y", "b", "z"][..],
                &["x", "a", "y", "b", "z"][..],
            ),
            (&["a", "b"], &["b", "a"], &["a", "y", "b", "z"], &["b", "z", "a", "y"]),
            (&["a"], &["b"], &["a", "x"], &["x", "b"]),
            (&["a"], &["a"], &["x", "y", "a"], &["x", "y", "a"]),
        ] {
            let merged = three_way(&list(original), &list(modified), &list(current));
            assert_eq!(merged, list(expected), "{original:?} {modified:?} {current:?}");
        }
    }

    #[test]
    fn lists_without_distinct_keys_are_replaced() {
        let merged = |field: &str, original: Value, modified: Value, current: Value| {
            let object = |list: Value| json!({ field: list });
            three_way(&object(original), &object(modified), &object(current))[field].clone()
        };
        let twice = json!([{ "name": "a", "value": "1" }, { "name": "a", "value": "2" }]);
        let other = json!([{ "name": "a", "value": "1" }, { "name": "x" }]);
        assert_eq!(merged("env", json!([]), twice.clone(), other.clone()), twice);
        assert_eq!(
            merged("env", twice.clone(), json!([{ "name": "b" }]), other.clone()),
            json!([{ "name": "b" }])
        );
        assert_eq!(merged("env", json!([]), json!([{ "name": "b" }]), twice), json!([{ "name": "b" }]));
        assert_eq!(merged("args", json!([]), json!(["a"]), json!(["x"])), json!(["a"]));
        assert_eq!(merged("rules", json!([]), json!([{ "name": "a" }]), other), json!([{ "name": "a" }]));
        // The duplicate is the last item.
        let last = json!([{ "name": "b" }, { "name": "a" }, { "name": "a" }]);
        assert_eq!(merged("env", json!([]), last.clone(), json!([{ "name": "x" }])), last);
    }

    #[test]
    fn ports_are_matched_by_the_key_that_all_have() {
        let merged = |modified: Value, current: Value| {
            three_way(&json!({}), &json!({ "ports": modified }), &json!({ "ports": current }))["ports"]
                .clone()
        };
        assert_eq!(
            merged(json!([{ "port": 80, "name": "http" }]), json!([{ "port": 80, "nodePort": 30080 }])),
            json!([{ "port": 80, "name": "http", "nodePort": 30080 }])
        );
        assert_eq!(
            merged(json!([{ "containerPort": 80 }]), json!([{ "containerPort": 80, "protocol": "TCP" }])),
            json!([{ "containerPort": 80, "protocol": "TCP" }])
        );
    }

    #[test]
    fn fields_that_exclude_each_other_are_not_merged() {
        let current = json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } } });
        let merged = three_way(&json!({}), &json!({ "strategy": { "type": "Recreate" } }), &current);
        assert_eq!(merged, json!({ "strategy": { "type": "Recreate" } }));
        let other = json!({ "policy": { "type": "a", "more": 1 } });
        let merged = three_way(&json!({}), &json!({ "policy": { "type": "b" } }), &other);
        assert_eq!(merged, json!({ "policy": { "type": "b", "more": 1 } }));
    }

    #[test]
    fn another_type_replaces_the_value() {
        let merged = |modified: Value, current: Value| {
            three_way(&json!({}), &json!({ "a": modified }), &json!({ "a": current }))
        };
        assert_eq!(merged(json!({ "x": 1 }), json!([1])), json!({ "a": { "x": 1 } }));
        assert_eq!(merged(json!([1]), json!({ "x": 1 })), json!({ "a": [1] }));
        assert_eq!(merged(json!(1), json!("x")), json!({ "a": 1 }));
    }

    #[test]
    fn what_lies_too_deep_is_as_it_is_wanted() {
        let deep = |leaf: Value, depth: usize| (0..depth).fold(leaf, |value, _| json!({ "a": value }));
        let (modified, current) = (json!({ "x": 1 }), json!({ "y": 1 }));
        let both = json!({ "x": 1, "y": 1 });
        assert_eq!(
            three_way(&json!({}), &deep(modified.clone(), 200), &deep(current.clone(), 200)),
            deep(both, 200)
        );
        assert_eq!(
            three_way(&json!({}), &deep(modified.clone(), 256), &deep(current, 256)),
            deep(modified, 256)
        );
    }

    #[test]
    fn nulls_are_dropped_at_every_depth() {
        let mut value = json!({ "a": null, "b": [{ "c": null, "d": 1 }, null], "e": { "f": null } });
        strip_nulls(&mut value);
        assert_eq!(value, json!({ "b": [{ "d": 1 }, null], "e": {} }));
    }

    #[test]
    fn groups_of_kubernetes_are_known() {
        assert!(["", "apps", "rbac.authorization.k8s.io"].into_iter().all(is_built_in));
        assert!(!["example.com", "k8s.io", "v1"].into_iter().any(is_built_in));
    }
}
