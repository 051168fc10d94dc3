//! Stored object versions with their labels and selectable fields, and change events.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;

use super::{
    encoded::{Encoded, Records},
    pairs::Pairs,
};
use crate::object;

/// An object ready to be stored.
#[derive(Debug)]
pub struct Draft {
    object: Encoded,
    labels: Pairs,
    fields: Pairs,
}

impl Draft {
    /// Encodes `object`, which must have metadata. `fields` are its kind's own selectable fields.
    pub fn new(object: &Value, fields: Vec<(Cow<'static, str>, String)>) -> Result<Self, serde_json::Error> {
        let labels = object::get(object, &["metadata", "labels"]).and_then(Value::as_object);
        let labels = labels.into_iter().flatten().filter_map(|(k, v)| Some((k, v.as_str()?))).collect();
        // Selectors treat absent and empty fields alike.
        let fields = fields.into_iter().filter(|(_, v)| !v.is_empty()).collect();
        Ok(Self { object: Encoded::encode(object)?, labels, fields })
    }

    /// Returns an upper bound of the encoded length.
    pub fn length(&self) -> usize {
        self.object.length()
    }

    /// Whether the draft equals the stored object, including times.
    pub fn same(&self, entry: &Entry) -> bool {
        self.object.same(&entry.object)
    }

    /// Whether the draft equals the stored object except for the times in `managedFields`.
    pub fn same_but_times(&self, entry: &Entry) -> bool {
        self.object.same_but_times(&entry.object)
    }

    /// Shares field sets with other objects.
    pub(super) fn share(&mut self, records: &Records) {
        self.object.share(records);
    }
}

/// An encoded object with placeholders, for creating many similar objects.
#[derive(Debug)]
pub struct Template {
    bytes: Box<[u8]>,
    lead: u32,
    gap: u32,
    labels: Pairs,
    /// Placeholders: index of the value, offset and length.
    places: Vec<(usize, usize, usize)>,
}

impl Template {
    /// Creates a template from an encoded object with `stand_ins` as placeholders.
    ///
    /// Each value must have the length of its placeholder. The object must begin with apiVersion and kind, and its
    /// metadata must not be empty.
    pub fn new(text: &str, labels: Pairs, stand_ins: &[&str]) -> Option<Self> {
        const METADATA: &str = "\"metadata\":{";
        let lead = text.find(METADATA)?;
        let places = stand_ins
            .iter()
            .enumerate()
            .flat_map(|(which, stand_in)| {
                text.match_indices(stand_in).map(move |(at, found)| (which, at, found.len()))
            })
            .collect();
        let gap = u32::try_from(lead + METADATA.len()).ok()?;
        Some(Self { bytes: text.as_bytes().into(), lead: u32::try_from(lead).ok()?, gap, labels, places })
    }

    /// Returns a copy with placeholders replaced by `values`, each as long as its placeholder.
    pub fn fill(&self, values: &[&str]) -> Draft {
        let mut bytes = self.bytes.clone();
        for (which, at, length) in &self.places {
            let value = values.get(*which).map(|v| v.as_bytes()).filter(|v| v.len() == *length);
            if let (Some(place), Some(value)) = (bytes.get_mut(*at..at + length), value) {
                place.copy_from_slice(value);
            }
        }
        let object = Encoded::whole(bytes, self.lead, self.gap);
        Draft { object, labels: self.labels.clone(), fields: Pairs::default() }
    }
}

/// One version of a stored object. Immutable.
#[derive(Debug)]
pub struct Entry {
    key: Arc<str>,
    revision: u64,
    created: u64,
    object: Encoded,
    labels: Pairs,
    fields: Pairs,
}

impl Entry {
    pub(super) fn new(key: Arc<str>, revision: u64, created: u64, draft: Draft) -> Self {
        let Draft { object, labels, fields } = draft;
        Self { key, revision, created, object, labels, fields }
    }

    /// Returns `namespace/name`, or `name` for cluster-scoped objects.
    #[must_use]
    #[inline]
    pub fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn shared_key(&self) -> &Arc<str> {
        &self.key
    }

    /// Returns the object's name.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &str {
        self.key.rsplit_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// Returns the object's namespace, or an empty string.
    #[must_use]
    #[inline]
    pub fn namespace(&self) -> &str {
        self.key.rsplit_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// Returns the revision that wrote this version: its resourceVersion.
    #[must_use]
    #[inline]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the revision that created the object.
    #[inline]
    pub fn created(&self) -> u64 {
        self.created
    }

    /// Returns the approximate memory use of this version, without shared field sets.
    pub fn size(&self) -> usize {
        self.object.size()
    }

    /// Returns the approximate length of the object's JSON.
    pub fn length(&self) -> usize {
        self.object.length()
    }

    /// Returns the encoded object without its resourceVersion and field sets.
    ///
    /// Enough for readers of other fields.
    #[inline]
    pub fn outline(&self) -> &[u8] {
        self.object.outline()
    }

    /// Deserializes only the fields that `T` has; returns the default of `T` if that fails.
    pub fn part<'a, T: Deserialize<'a> + Default>(&'a self) -> T {
        serde_json::from_slice(self.outline()).unwrap_or_default()
    }

    /// Returns the object's uid, or an empty string.
    pub fn uid(&self) -> String {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Part {
            metadata: Metadata,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Metadata {
            uid: String,
        }
        self.part::<Part>().metadata.uid
    }

    /// Whether `deletionTimestamp` is set. Objects without the key, nearly all, are not parsed.
    pub fn is_deleting(&self) -> bool {
        memmem::find(self.outline(), b"\"deletionTimestamp\":").is_some()
            && object::is_deleting(&self.value())
    }

    /// Returns the encoded object without its resourceVersion.
    pub fn bytes(&self) -> Box<[u8]> {
        let mut out = Vec::new();
        self.object.write_bare(&mut out);
        out.into()
    }

    /// Returns the object's labels.
    #[inline]
    pub fn labels(&self) -> &Pairs {
        &self.labels
    }

    /// Returns the value of a selectable field of the object's kind.
    #[inline]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    /// Appends the object's JSON with its resourceVersion.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_as(self.revision, out);
    }

    /// Appends the object's JSON without apiVersion and kind, as in the items of typed lists.
    pub fn write_bare(&self, out: &mut Vec<u8>) {
        self.object.write_untyped(self.revision, out);
    }

    /// Appends the object's JSON with another resourceVersion, as in deletion events.
    pub fn write_as(&self, revision: u64, out: &mut Vec<u8>) {
        self.object.write(revision, out);
    }

    /// Returns the object's JSON with its resourceVersion.
    pub fn json(&self) -> Bytes {
        let mut out = Vec::new();
        self.write(&mut out);
        out.into()
    }

    /// Returns the parsed object with its resourceVersion.
    pub fn value(&self) -> Value {
        self.value_as(self.revision)
    }

    /// Returns the parsed object with managed field sets as strings, for callers that write it back.
    pub fn packed(&self) -> Value {
        self.object.packed(self.revision)
    }

    /// Returns the parsed object with another resourceVersion.
    pub fn value_as(&self, revision: u64) -> Value {
        let mut out = Vec::new();
        self.write_as(revision, &mut out);
        // The bytes were written by this store from a Value, so they parse.
        serde_json::from_slice(&out).unwrap_or_default()
    }
}

/// Type of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The object was created.
    Added,
    /// The object was updated.
    Modified,
    /// The object was deleted.
    Deleted,
}

impl EventKind {
    /// Returns the type as written in watch events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One committed change.
#[derive(Debug)]
pub struct Event {
    /// Position in the log.
    pub revision: u64,
    /// Type of the change.
    pub kind: EventKind,
    /// The new version, or the last one for a deletion.
    pub entry: Arc<Entry>,
    /// The version that this change replaced or deleted.
    pub previous: Option<Arc<Entry>>,
    frame: Mutex<Option<Bytes>>,
}

impl Event {
    pub(super) fn new(
        revision: u64,
        kind: EventKind,
        entry: Arc<Entry>,
        previous: Option<Arc<Entry>>,
    ) -> Self {
        Self { revision, kind, entry, previous, frame: Mutex::new(None) }
    }

    /// Returns the watch frame of the unconverted object, encoded once for all watchers.
    pub fn frame(&self) -> Bytes {
        let mut cached = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        cached.get_or_insert_with(|| frame(self.kind, &self.entry, self.revision)).clone()
    }

    /// Frees the cached frame; watchers this far behind encode their own.
    pub(super) fn forget_frame(&self) {
        *self.frame.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Encodes a watch frame: `{"type":…,"object":…}` and a line feed.
pub fn frame(kind: EventKind, entry: &Entry, revision: u64) -> Bytes {
    let mut out = Vec::with_capacity(entry.length() + 48);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_str().as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    entry.write_as(revision, &mut out);
    out.extend_from_slice(b"}\n");
    out.into()
}
