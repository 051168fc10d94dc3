//! Decides from the cache whether an apply would change anything.
//!
//! An apply sets the fields that it contains, and removes those that the same manager applied earlier and no longer
//! contains. So nothing changes if the live object has every desired value, and every field that this manager owns is
//! still desired. The owned fields, in the form of `managedFields`, also show which lists are merged, and by which keys.
//!
//! The result errs on the safe side: "unchanged" means that an apply would change nothing; where defaulting or a
//! different notation blurs the comparison, the result is "changed", and the server decides.

use serde_json::{Map, Value};

/// Whether applying `desired` would change `live`, given the fields that the applying manager owns.
pub(crate) fn would_change(desired: &Value, live: &Value, owned: &Value) -> bool {
    !has(desired, live, Some(owned)) || !still_desired(owned, desired)
}

/// Whether a value is empty: applying it is the same as leaving it out.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Whether the live value has every desired value.
fn has(desired: &Value, live: &Value, owned: Option<&Value>) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => desired.iter().all(|(name, value)| {
            let owned = owned.and_then(|owned| owned.get(format!("f:{name}")));
            match live.get(name) {
                Some(live) => has(value, live, owned),
                None => is_nothing(value),
            }
        }),
        (Value::Array(desired), Value::Array(live)) => list_has(desired, live, owned),
        (Value::Null, _) => true,
        (Value::Number(desired), Value::Number(live)) => {
            desired == live || desired.as_f64().is_some_and(|number| Some(number) == live.as_f64())
        }
        _ => desired == live,
    }
}

fn list_has(desired: &[Value], live: &[Value], owned: Option<&Value>) -> bool {
    let members = members(owned);
    if members.is_empty() {
        // Treated as an atomic list: same length, same order.
        return desired.len() == live.len()
            && desired.iter().zip(live).all(|(desired, live)| has(desired, live, None));
    }
    desired.iter().all(|wanted| {
        match members.iter().find(|member| member.is(wanted)) {
            // New to this manager.
            None => false,
            Some(member) => live
                .iter()
                .find(|live| member.is(live))
                .is_some_and(|live| has(wanted, live, Some(member.fields))),
        }
    })
}

/// Whether every owned field is in the desired object.
fn still_desired(owned: &Value, desired: &Value) -> bool {
    let Value::Object(fields) = owned else { return true };
    fields.iter().all(|(name, below)| {
        if let Some(field) = name.strip_prefix("f:") {
            desired.get(field).is_some_and(|value| still_desired(below, value))
        } else if let Some(member) = Member::read(name, below) {
            // A member of a list.
            desired
                .as_array()
                .and_then(|items| items.iter().find(|item| member.is(item)))
                .is_some_and(|item| still_desired(below, item))
        } else {
            // A dot is the container itself, which exists since this was reached.
            true
        }
    })
}

/// A member of a list, identified by its keys or by its value.
struct Member<'a> {
    identity: Identity,
    fields: &'a Value,
}

enum Identity {
    Keys(Map<String, Value>),
    Value(Value),
}

impl<'a> Member<'a> {
    fn read(name: &str, fields: &'a Value) -> Option<Self> {
        let identity = if let Some(keys) = name.strip_prefix("k:") {
            Identity::Keys(serde_json::from_str(keys).ok()?)
        } else {
            Identity::Value(serde_json::from_str(name.strip_prefix("v:")?).ok()?)
        };
        Some(Self { identity, fields })
    }

    fn is(&self, item: &Value) -> bool {
        match &self.identity {
            // A key that is left out has its default, which is not known here: the other keys decide.
            Identity::Keys(keys) => {
                let mut written = false;
                keys.iter().all(|(name, value)| match item.get(name) {
                    Some(other) => {
                        written = true;
                        other == value
                    }
                    None => true,
                }) && written
            }
            Identity::Value(value) => value == item,
        }
    }
}

fn members(owned: Option<&Value>) -> Vec<Member<'_>> {
    let Some(Value::Object(fields)) = owned else { return Vec::new() };
    fields.iter().filter_map(|(name, below)| Member::read(name, below)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owned() -> Value {
        json!({
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {
                "f:replicas": {},
                "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}},
                "f:args": {},
                "f:finalizers": {"v:\"x\"": {}},
            },
        })
    }

    fn desired() -> Value {
        json!({
            "metadata": {"labels": {"app": "a"}, "annotations": {}, "creationTimestamp": null},
            "spec": {
                "replicas": 1, "args": ["x", "y"], "finalizers": ["x"],
                "containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 80}], "resources": {}}],
            },
        })
    }

    fn live() -> Value {
        json!({
            "metadata": {"labels": {"app": "a", "other": "b"}, "uid": "u"},
            "spec": {
                "replicas": 1.0, "args": ["x", "y"], "finalizers": ["theirs", "x"], "paused": false,
                "containers": [
                    {"name": "sidecar", "image": "s"},
                    {"name": "a", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}], "tty": false},
                ],
            },
        })
    }

    #[test]
    fn defaults_and_others_fields_are_no_difference() {
        assert!(!would_change(&desired(), &live(), &owned()));
    }

    #[test]
    fn each_kind_of_difference_is_seen() {
        type Edit = fn(&mut Value, &mut Value);
        let edits: &[(&str, Edit)] = &[
            ("a value", |desired, _| desired["spec"]["replicas"] = json!(2)),
            ("an outside edit", |_, live| live["spec"]["containers"][1]["image"] = json!("other")),
            ("a new field", |desired, _| desired["metadata"]["labels"]["new"] = json!("x")),
            ("a removed field", |desired, _| desired["metadata"]["labels"] = json!({})),
            ("a removed member", |desired, _| desired["spec"]["finalizers"] = json!([])),
            ("a new member", |desired, _| desired["spec"]["finalizers"] = json!(["x", "y"])),
            ("a lost member", |_, live| live["spec"]["finalizers"] = json!(["theirs"])),
            ("the order of a list", |desired, _| desired["spec"]["args"] = json!(["y", "x"])),
            ("a renamed container", |desired, _| desired["spec"]["containers"][0]["name"] = json!("b")),
            ("another port", |desired, _| {
                desired["spec"]["containers"][0]["ports"][0]["containerPort"] = json!(81);
            }),
            ("a removed list", |desired, _| {
                desired["spec"]["containers"][0].as_object_mut().unwrap().remove("ports");
            }),
        ];
        for (name, edit) in edits {
            let (mut desired, mut live) = (desired(), live());
            edit(&mut desired, &mut live);
            assert!(would_change(&desired, &live, &owned()), "{name}");
        }
    }

    #[test]
    fn unapplied_fields_are_a_difference() {
        assert!(would_change(&desired(), &json!({}), &json!({})));
        // Other managers set all values. Not owning them is harmless, since an outside edit is undone when it happens.
        assert!(!would_change(&json!({"spec": {"replicas": 1}}), &live(), &json!({})));
    }
}
