//! A cached object: its JSON, without the fields that no reconciler reads.
//!
//! Typed objects take several times the memory of their JSON, and reading one costs a few microseconds, so the
//! cache keeps bytes. An incoming object is copied field by field from the decoder to those bytes: no tree is built.

use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};

use kube::{
    Resource,
    core::{ApiResource, DynamicObject, ObjectMeta, TypeMeta},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::{
    error::{Error, Result},
    kind::{Key, Kind},
};

/// Annotation that `kubectl apply` keeps for itself. It doubles an object's size and no reconciler reads it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// State of an object at one resourceVersion. Cheap to clone.
///
/// `metadata.managedFields` and kubectl's last-applied annotation are left out, as are `apiVersion` and `kind`,
/// which are the same for the whole cache.
#[derive(Clone)]
pub struct Snapshot {
    body: Arc<[u8]>,
    meta: Range<u32>,
    pub(crate) version: u64,
    /// The fields that this operator applied, by subresource, as JSON.
    pub(crate) managed: Option<Arc<[u8]>>,
}

impl Snapshot {
    /// Parses the metadata only.
    ///
    /// # Errors
    /// Fails if the metadata are malformed, which no API server sends.
    pub fn meta(&self) -> Result<Meta<'_>> {
        let range = self.meta.start as usize..self.meta.end as usize;
        let bytes = self.body.get(range).unwrap_or(b"{}");
        serde_json::from_slice(bytes)
            .map_err(|source| Error::Convert { what: "the metadata of a cached object".into(), source })
    }

    /// Parses the whole object.
    ///
    /// # Errors
    /// Fails if the object does not match the type.
    pub fn parse<K: DeserializeOwned>(&self) -> Result<K> {
        serde_json::from_slice(&self.body).map_err(|source| Error::Convert {
            what: self.meta().map_or_else(
                |_| "a cached object".to_owned(),
                |meta| format!("{} {}", std::any::type_name::<K>(), meta.key()),
            ),
            source,
        })
    }

    /// Parses the whole object as one whose kind is known only at run time.
    ///
    /// # Errors
    /// Fails if it is not an object, which no API server sends.
    pub fn dynamic(&self, kind: &Kind) -> Result<DynamicObject> {
        let mut object: DynamicObject = self.parse()?;
        let ApiResource { api_version, kind, .. } = kind.resource().clone();
        object.types = Some(TypeMeta { api_version, kind });
        Ok(object)
    }

    /// Returns the object's JSON, with the omissions described on [`Snapshot`].
    #[must_use]
    pub fn json(&self) -> &[u8] {
        &self.body
    }

    /// Memory use, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.body.len() + size_of::<Self>()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.body))
    }
}

/// Metadata of a cached object, borrowed from its snapshot.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta<'a> {
    /// The object's name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// The object's namespace; empty for cluster-scoped objects.
    #[serde(borrow)]
    pub namespace: Text<'a>,
    /// The object's uid.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// The resourceVersion of this state.
    #[serde(borrow)]
    pub resource_version: Text<'a>,
    /// Counts changes of the desired state. Zero for kinds without a generation.
    pub generation: i64,
    /// When its deletion was requested.
    #[serde(borrow)]
    pub deletion_timestamp: Option<Text<'a>>,
    /// Finalizers that hold up its deletion.
    #[serde(borrow)]
    pub finalizers: Vec<Text<'a>>,
    /// Its owner references.
    #[serde(borrow)]
    pub owner_references: Vec<Owner<'a>>,
    /// Its labels.
    #[serde(borrow)]
    pub labels: BTreeMap<Text<'a>, Text<'a>>,
    /// Its annotations.
    #[serde(borrow)]
    pub annotations: BTreeMap<Text<'a>, Text<'a>>,
}

/// One owner reference of a cached object.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner<'a> {
    /// The owner's API version.
    #[serde(borrow)]
    pub api_version: Text<'a>,
    /// The owner's kind.
    #[serde(borrow)]
    pub kind: Text<'a>,
    /// The owner's name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// The owner's uid.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Whether this owner is the object's controller.
    pub controller: bool,
}

/// A string that is borrowed where its JSON has no escapes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Meta<'_> {
    /// The object's key.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(Some(&self.namespace), &self.name)
    }

    /// Whether its deletion was requested.
    #[must_use]
    pub fn deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns the labels as owned strings, for selectors.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        self.labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    /// Whether one of the owner references has this uid.
    pub(crate) fn is_owned_by(&self, uid: &str) -> bool {
        !uid.is_empty() && self.owner_references.iter().any(|owner| &*owner.uid == uid)
    }

    /// Whether it has a finalizer.
    #[must_use]
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| &**finalizer == name)
    }

    /// Returns the controller's owner reference, if there is one.
    #[must_use]
    pub fn controller(&self) -> Option<&Owner<'_>> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

/// An object received from the API server, on its way into the cache.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    /// Name, namespace and resourceVersion only, for the watcher.
    meta: ObjectMeta,
    body: Vec<u8>,
    range: Range<u32>,
    managed: Vec<Managed>,
}

/// One entry of `managedFields`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managed {
    manager: String,
    operation: String,
    subresource: String,
    fields: Vec<u8>,
}

impl Incoming {
    pub(crate) fn key(&self) -> Key {
        Key::of(self)
    }

    pub(crate) fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let range = self.range.start as usize..self.range.end as usize;
        let meta = self.body.get(range).and_then(|bytes| serde_json::from_slice::<Meta<'_>>(bytes).ok());
        meta.map(|meta| meta.labels()).unwrap_or_default()
    }

    pub(crate) fn version(&self) -> u64 {
        version(self.meta.resource_version.as_deref().unwrap_or_default())
    }

    /// Converts the object to its cached form. `intern` shares equal field sets between objects.
    pub(crate) fn snapshot(self, manager: &str, mut intern: impl FnMut(Vec<u8>) -> Arc<[u8]>) -> Snapshot {
        let version = self.version();
        let mut managed = Vec::new();
        for entry in self.managed {
            if entry.manager == manager && entry.operation == "Apply" {
                managed.extend_from_slice(if managed.is_empty() { b"{" } else { b"," });
                write(&mut managed, &entry.subresource);
                managed.push(b':');
                managed.extend_from_slice(&entry.fields);
            }
        }
        let managed = (!managed.is_empty()).then(|| {
            managed.push(b'}');
            intern(managed)
        });
        Snapshot { body: self.body.into(), meta: self.range, version, managed }
    }
}

/// Parses a resourceVersion, which orders the states of an object. Kubernetes guarantees that it is an increasing
/// number.
pub(crate) fn version(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

impl Resource for Incoming {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        DynamicObject::kind(resource)
    }

    fn group(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        DynamicObject::group(resource)
    }

    fn version(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        DynamicObject::version(resource)
    }

    fn plural(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        DynamicObject::plural(resource)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

impl<'de> Deserialize<'de> for Incoming {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TopLevel)
    }
}

/// Copies an object, and extracts what the watcher needs.
struct TopLevel;

impl<'de> Visitor<'de> for TopLevel {
    type Value = Incoming;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Incoming, A::Error> {
        let mut body = Vec::with_capacity(1024);
        let mut range = 0..0;
        let mut managed = Vec::new();
        body.push(b'{');
        while let Some(name) = map.next_key::<String>()? {
            if name == "apiVersion" || name == "kind" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if body.len() > 1 {
                body.push(b',');
            }
            write(&mut body, &name);
            body.push(b':');
            if name == "metadata" {
                let start = body.len();
                map.next_value_seed(Metadata { out: &mut body, managed: &mut managed })?;
                range = place(start)..place(body.len());
            } else {
                map.next_value_seed(Copy { out: &mut body })?;
            }
        }
        body.push(b'}');
        let slice = body.get(range.start as usize..range.end as usize).unwrap_or_default();
        let meta = if slice.is_empty() {
            ObjectMeta::default()
        } else {
            let meta: Meta<'_> = serde_json::from_slice(slice).map_err(serde::de::Error::custom)?;
            let own = |text: &Text<'_>| (!text.is_empty()).then(|| text.to_string());
            ObjectMeta {
                name: own(&meta.name),
                namespace: own(&meta.namespace),
                uid: own(&meta.uid),
                resource_version: own(&meta.resource_version),
                ..ObjectMeta::default()
            }
        };
        Ok(Incoming { meta, body, range, managed })
    }
}

/// Offset in an object's JSON. 4 GiB are more than enough: etcd's limit is 1.5 MiB.
fn place(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// Copies the metadata, and sets the managed fields aside.
struct Metadata<'a> {
    out: &'a mut Vec<u8>,
    managed: &'a mut Vec<Managed>,
}

impl<'de> DeserializeSeed<'de> for Metadata<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Metadata<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.out.push(b'{');
        let mut first = true;
        while let Some(name) = map.next_key::<String>()? {
            if name == "managedFields" {
                *self.managed = map.next_value::<Option<Vec<Managed>>>()?.unwrap_or_default();
                continue;
            }
            if !std::mem::take(&mut first) {
                self.out.push(b',');
            }
            write(self.out, &name);
            self.out.push(b':');
            if name == "annotations" {
                map.next_value_seed(Annotations { out: self.out })?;
            } else {
                map.next_value_seed(Copy { out: self.out })?;
            }
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// Copies the annotations except kubectl's.
struct Annotations<'a> {
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Annotations<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let all = Option::<BTreeMap<String, String>>::deserialize(deserializer)?.unwrap_or_default();
        self.out.push(b'{');
        let mut first = true;
        for (name, value) in all.iter().filter(|(name, _)| *name != LAST_APPLIED) {
            if !std::mem::take(&mut first) {
                self.out.push(b',');
            }
            write(self.out, name);
            self.out.push(b':');
            write(self.out, value);
        }
        self.out.push(b'}');
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Managed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;

        impl<'de> Visitor<'de> for Entry {
            type Value = Managed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("managed fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Managed, A::Error> {
                let mut entry = Managed::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "manager" => entry.manager = map.next_value()?,
                        "operation" => entry.operation = map.next_value()?,
                        "subresource" => entry.subresource = map.next_value()?,
                        "fieldsV1" => map.next_value_seed(Copy { out: &mut entry.fields })?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(entry)
            }
        }

        deserializer.deserialize_map(Entry)
    }
}

/// Writes a value as JSON.
fn write(out: &mut Vec<u8>, value: impl serde::Serialize) {
    // JSON scalars always serialize, and writing to a vector never fails.
    let _ = serde_json::to_writer(out, &value);
}

/// Copies any value from a decoder to JSON.
struct Copy<'a> {
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Copy<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Copy<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        write(self.out, value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        write(self.out, value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        write(self.out, value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        write(self.out, value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        write(self.out, value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.out.push(b'[');
        let start = self.out.len();
        loop {
            let before = self.out.len();
            if before > start {
                self.out.push(b',');
            }
            if seq.next_element_seed(Copy { out: self.out })?.is_none() {
                self.out.truncate(before);
                break;
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.out.push(b'{');
        let start = self.out.len();
        loop {
            let before = self.out.len();
            if before > start {
                self.out.push(b',');
            }
            if map.next_key_seed(Copy { out: self.out })?.is_none() {
                self.out.truncate(before);
                break;
            }
            self.out.push(b':');
            map.next_value_seed(Copy { out: self.out })?;
        }
        self.out.push(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn take(value: &Value) -> Snapshot {
        let incoming: Incoming = serde_json::from_str(&value.to_string()).unwrap();
        incoming.snapshot("me", Into::into)
    }

    #[test]
    fn an_object_keeps_what_reconcilers_read() {
        let snapshot = take(&json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "one", "namespace": "lab", "uid": "u", "resourceVersion": "42", "generation": 3,
                "annotations": {LAST_APPLIED: "{}", "note": "a \"quoted\" word"},
                "managedFields": [
                    {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}},
                    {"manager": "me", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                    {"manager": "me", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}},
                ],
            },
            "spec": {"replicas": 1, "empty": [], "list": [1, -2, 0.5, null, true, {"a": {}}]},
        }));
        let body: Value = snapshot.parse().unwrap();
        assert_eq!(
            body,
            json!({
                "metadata": {
                    "name": "one", "namespace": "lab", "uid": "u", "resourceVersion": "42", "generation": 3,
                    "annotations": {"note": "a \"quoted\" word"},
                },
                "spec": {"replicas": 1, "empty": [], "list": [1, -2, 0.5, null, true, {"a": {}}]},
            })
        );
        let meta = snapshot.meta().unwrap();
        assert_eq!((meta.key(), meta.generation), (Key::namespaced("lab", "one"), 3));
        assert_eq!(&**meta.annotations.get("note").unwrap(), "a \"quoted\" word");
        assert_eq!(snapshot.version, 42);
        let managed: Value = serde_json::from_slice(snapshot.managed.as_deref().unwrap()).unwrap();
        assert_eq!(managed, json!({"": {"f:spec": {"f:replicas": {}}}, "status": {"f:status": {}}}));
    }

    #[test]
    fn objects_read_from_a_buffered_list_too() {
        // The items of a list are buffered, and deserialized by a different decoder.
        let list: kube::core::ObjectList<Incoming> = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "List", "metadata": {},
            "items": [{"metadata": {"name": "one", "managedFields": null}, "data": {"k": "v"}}],
        }))
        .unwrap();
        let body: Value = serde_json::from_slice(&list.items[0].body).unwrap();
        assert_eq!(body, json!({"metadata": {"name": "one"}, "data": {"k": "v"}}));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            // Halves survive the decoder, which rounds other fractions.
            any::<i32>().prop_map(|halves| Value::from(f64::from(halves) / 2.0)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn copying_loses_nothing(spec in value()) {
            let snapshot = take(&json!({"metadata": {"name": "one"}, "spec": spec}));
            let body: Value = snapshot.parse().unwrap();
            prop_assert_eq!(&body["spec"], &spec);
        }
    }
}
