//! Which objects follow from others: pods of a replica set for instance.

use std::fmt;

use memchr::memmem;
use serde::{
    Deserialize, Deserializer as _,
    de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor},
};
use steersman_api::store::Entry;

/// Whether an object is made by a workload controller of the cluster from another one.
pub(crate) fn is_derived(entry: &Entry) -> bool {
    let object = entry.outline();
    // Nearly all are not, and need not be parsed.
    if memmem::find(object, b"\"ownerReferences\":").is_none() {
        return false;
    }
    let mut owners = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(object);
    // It ends with an error where the references end: most of an object comes after them, and is not read.
    let _ = deserializer.deserialize_map(At { path: &["metadata", "ownerReferences"], owners: &mut owners });
    owners.iter().any(|owner: &Owner| {
        let group = owner.api_version.as_str();
        owner.controller && (matches!(group, "v1" | "batch/v1") || group.starts_with("apps/"))
    })
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Owner {
    api_version: String,
    controller: bool,
}

/// Reads the owners at a path, and nothing after them.
struct At<'a> {
    path: &'a [&'a str],
    owners: &'a mut Vec<Owner>,
}

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.path {
            [] => *self.owners = Vec::deserialize(deserializer)?,
            _ => deserializer.deserialize_map(self)?,
        }
        Err(D::Error::custom("the rest is not read"))
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else { return Ok(()) };
        while let Some(name) = members.next_key::<&str>()? {
            if name == *first {
                return members.next_value_seed(At { path: rest, owners: self.owners });
            }
            members.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
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
            (json!({"name": "a"}), template, false),
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
