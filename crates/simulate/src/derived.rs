//! Detects objects that a built-in controller derives from others, such as the pods of a ReplicaSet.

use memchr::memmem;
use serde::Deserialize;
use steersman_api::store::Entry;

/// The JSON key of an object's owner references. Inside a string its quotes would be escaped.
const OWNERS: &[u8] = b"\"ownerReferences\":";

/// Whether a workload object, such as a pod, was created by a built-in controller.
pub(crate) fn is_derived(entry: &Entry) -> bool {
    // Only the owner references are parsed, since this is called for every event.
    let object = entry.outline();
    let of_metadata = memmem::find_iter(object, OWNERS).find(|at| depth(&object[..*at]) == 2);
    let Some(at) = of_metadata else { return false };
    let rest = serde_json::Deserializer::from_slice(&object[at + OWNERS.len()..]);
    let owners = rest.into_iter::<Vec<Owner>>().next().and_then(Result::ok);
    owners.unwrap_or_default().iter().any(|owner| {
        let group = owner.api_version.as_str();
        owner.controller && (matches!(group, "v1" | "batch/v1") || group.starts_with("apps/"))
    })
}

/// Returns the nesting depth at the end of a JSON prefix.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut is_string, mut bytes) = (0_usize, false, json.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_string = !is_string,
            b'\\' => drop(bytes.next()),
            b'{' | b'[' if !is_string => depth += 1,
            b'}' | b']' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Owner {
    api_version: String,
    controller: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_api::store::{Draft, History, Store};

    use super::*;

    #[test]
    fn pods_of_replica_sets_are_derived_and_objects_of_operators_are_not() {
        let owner =
            |version: &str, controller: bool| json!([{"apiVersion": version, "controller": controller}]);
        let template = json!({"metadata": {"ownerReferences": owner("apps/v1", true)}});
        let cases = [
            (json!({"name": "a", "ownerReferences": owner("apps/v1", true)}), json!({}), true),
            (json!({"name": "a", "ownerReferences": owner("batch/v1", true)}), json!({}), true),
            (json!({"name": "a", "ownerReferences": owner("apps/v1", false)}), json!({}), false),
            (json!({"name": "a", "ownerReferences": owner("example.com/v1", true)}), template.clone(), false),
            (json!({"name": "a"}), template.clone(), false),
            (
                json!({"name": "a", "annotations": {"b": "}]\\\"[{", "c": "\"ownerReferences\":"},
                    "ownerReferences": owner("v1", true)}),
                template,
                true,
            ),
        ];
        for (metadata, spec, expected) in cases {
            let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
            let entry = Store::new(History::default(), None).create(
                "pods",
                "default/a",
                Draft::new(&object, Vec::new()).unwrap(),
            );
            assert_eq!(is_derived(&entry.unwrap()), expected, "{object}");
        }
    }
}
