//! Owner references and annotations on the objects that a run creates.

use serde_json::{Value, json};
use steersman::{Key, Kind, Snapshot};

/// The annotation with namespace and name of an owner in another namespace, as in operator-sdk.
pub(crate) const OWNER: &str = "operator-sdk/primary-resource";
/// The annotation with the kind and group of such an owner.
pub(crate) const OWNER_KIND: &str = "operator-sdk/primary-resource-type";

/// The object that a run is for, which owns what the run creates.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    pub(crate) uid: String,
}

impl Owner {
    /// Adds the owner to an object that is created, namespaced or cluster-scoped.
    pub(crate) fn mark(&self, object: &mut Value, namespace: Option<&str>) {
        let Some(fields) = object.as_object_mut() else { return };
        let meta = fields.entry("metadata").or_insert_with(|| json!({}));
        let Some(meta) = meta.as_object_mut() else { return };
        let resource = self.kind.resource();
        let same_namespace = self.key.namespace().is_none_or(|own| namespace == Some(own));
        if same_namespace {
            let references = meta.entry("ownerReferences").or_insert_with(|| json!([]));
            if let Some(references) = references.as_array_mut()
                && !references.iter().any(|reference| reference["uid"] == *self.uid)
            {
                references.push(json!({
                    "apiVersion": resource.api_version,
                    "kind": resource.kind,
                    "name": self.key.name(),
                    "uid": self.uid,
                }));
            }
            return;
        }
        let annotations = meta.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(OWNER.into(), json!(self.path()));
            annotations.insert(OWNER_KIND.into(), json!(self.type_name()));
        }
    }

    /// Whether an object has this owner.
    pub(crate) fn is_on(&self, object: &Value) -> bool {
        let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let refers = references.into_iter().flatten().any(|reference| reference["uid"] == *self.uid);
        let annotation = |name: &str| object["metadata"]["annotations"][name].as_str();
        refers || annotation(OWNER) == Some(&self.path()) && annotation(OWNER_KIND) == Some(&self.type_name())
    }

    fn path(&self) -> String {
        format!("{}/{}", self.key.namespace().unwrap_or_default(), self.key.name())
    }

    fn type_name(&self) -> String {
        type_name(&self.kind)
    }
}

fn type_name(kind: &Kind) -> String {
    let resource = kind.resource();
    if resource.group.is_empty() {
        resource.kind.clone()
    } else {
        format!("{}.{}", resource.kind, resource.group)
    }
}

/// Returns the objects of kind `owner` that own an object.
pub(crate) fn owners(owner: &Kind, snapshot: &Snapshot) -> Vec<Key> {
    let Ok(meta) = snapshot.meta() else { return Vec::new() };
    let namespace = owner.namespaced().then_some(&*meta.namespace);
    let references = meta.owner_references.iter().filter(|one| owner.matches(&one.api_version, &one.kind));
    let mut keys: Vec<Key> = references.map(|one| Key::new(namespace, &one.name)).collect();
    let annotation = |name: &str| {
        meta.annotations.iter().find(|(key, _)| &***key == name).map(|(_, value)| value.to_string())
    };
    if annotation(OWNER_KIND) == Some(type_name(owner))
        && let Some(path) = annotation(OWNER)
        && let Some((namespace, name)) = path.split_once('/')
    {
        keys.push(Key::new(Some(namespace).filter(|_| owner.namespaced()), name));
    }
    keys
}

#[cfg(test)]
mod tests {
    use kube::api::ApiResource;

    use super::*;

    fn owner(namespace: Option<&str>) -> Owner {
        let resource = ApiResource {
            group: "cache.example.com".into(),
            version: "v1".into(),
            api_version: "cache.example.com/v1".into(),
            kind: "Memcached".into(),
            plural: "memcacheds".into(),
        };
        let kind = Kind::dynamic(resource, namespace.is_some());
        Owner { kind, key: Key::new(namespace, "one"), uid: "u1".into() }
    }

    #[test]
    fn owners_are_referred_to_where_kubernetes_honours_it() {
        let marked = |owner: &Owner, namespace: Option<&str>| {
            let mut object = json!({ "metadata": { "name": "x" } });
            owner.mark(&mut object, namespace);
            owner.mark(&mut object, namespace);
            assert!(owner.is_on(&object));
            object["metadata"].take()
        };
        let reference =
            json!({ "apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": "one", "uid": "u1" });
        let lab = owner(Some("lab"));
        assert_eq!(marked(&lab, Some("lab"))["ownerReferences"], json!([reference]));
        let annotations = json!({ OWNER: "lab/one", OWNER_KIND: "Memcached.cache.example.com" });
        assert_eq!(marked(&lab, Some("other")), json!({ "name": "x", "annotations": annotations }));
        assert_eq!(marked(&lab, None)["annotations"], annotations);
        assert_eq!(marked(&owner(None), Some("other"))["ownerReferences"], json!([reference]));
    }

    #[test]
    fn what_is_no_object_is_left_alone() {
        for mut odd in [json!(1), json!({ "metadata": 1 }), json!({ "metadata": { "ownerReferences": 1 } })] {
            let before = odd.clone();
            owner(Some("lab")).mark(&mut odd, Some("lab"));
            assert_eq!(odd, before);
        }
    }
}
