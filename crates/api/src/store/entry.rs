//! Versions of stored objects, what selectors need to know of them, and what happens to them.

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
    /// Encodes `object`, whose metadata must not be empty; `fields` are the kind's own selectable fields.
    pub fn new(object: &Value, fields: Vec<(Cow<'static, str>, String)>) -> Result<Self, serde_json::Error> {
        let labels = object::get(object, &["metadata", "labels"]).and_then(Value::as_object);
        let labels = labels.into_iter().flatten().filter_map(|(k, v)| Some((k, v.as_str()?))).collect();
        // An absent field is an empty one.
        let fields = fields.into_iter().filter(|(_, v)| !v.is_empty()).collect();
        Ok(Self { object: Encoded::encode(object)?, labels, fields })
    }

    /// The length of the encoded object.
    pub fn length(&self) -> usize {
        self.object.length()
    }

    /// Whether this would change nothing of what is stored, times included.
    pub fn same(&self, entry: &Entry) -> bool {
        self.object.same(&entry.object)
    }

    /// Whether this would change nothing of what is stored but the times in `managedFields`.
    pub fn same_but_times(&self, entry: &Entry) -> bool {
        self.object.same_but_times(&entry.object)
    }

    /// Uses what other objects have already.
    pub(super) fn share(&mut self, records: &Records) {
        self.object.share(records);
    }
}

/// An object as it rests, with gaps for what differs between its copies.
#[derive(Debug)]
pub struct Template {
    bytes: Box<[u8]>,
    lead: u32,
    gap: u32,
    labels: Pairs,
    /// Where the values go: which one, where, and how long it is.
    places: Vec<(usize, usize, usize)>,
}

impl Template {
    /// Takes an encoded object in which `stand_ins` stand for values of the same length. It must begin with apiVersion and
    /// kind, and its metadata must not be empty.
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

    /// A copy with these values, each as long as its stand-in.
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

/// One version of a stored object. Immutable and shared.
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

    /// `namespace/name`, or `name` for objects without a namespace.
    #[must_use]
    #[inline]
    pub fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn shared_key(&self) -> &Arc<str> {
        &self.key
    }

    /// The object's name.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &str {
        self.key.rsplit_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// The object's namespace, empty if it has none.
    #[must_use]
    #[inline]
    pub fn namespace(&self) -> &str {
        self.key.rsplit_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The revision that wrote this version: its resourceVersion.
    #[must_use]
    #[inline]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision that created the object.
    #[inline]
    pub fn created(&self) -> u64 {
        self.created
    }

    /// How much memory goes with this version, about: without the records of fields, which many objects share.
    pub fn size(&self) -> usize {
        self.object.size()
    }

    /// How long the object's JSON is, about.
    pub fn length(&self) -> usize {
        self.object.length()
    }

    /// The encoded object without its resourceVersion and without the records of fields in `managedFields`: enough for
    /// readers of other parts of it.
    #[inline]
    pub fn outline(&self) -> &[u8] {
        self.object.outline()
    }

    /// The parts of the object that a type has, read alone; nothing if they do not fit.
    pub fn part<'a, T: Deserialize<'a> + Default>(&'a self) -> T {
        serde_json::from_slice(self.outline()).unwrap_or_default()
    }

    /// The object's uid, empty if it has none.
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

    /// Whether deletion has been asked for. Objects that do not mention it, nearly all, are not parsed.
    pub fn is_deleting(&self) -> bool {
        memmem::find(self.outline(), b"\"deletionTimestamp\":").is_some()
            && object::is_deleting(&self.value())
    }

    /// The encoded object without its resourceVersion.
    pub fn bytes(&self) -> Box<[u8]> {
        let mut out = Vec::new();
        self.object.write_bare(&mut out);
        out.into()
    }

    /// The object's labels.
    #[inline]
    pub fn labels(&self) -> &Pairs {
        &self.labels
    }

    /// The value of a selectable field of the object's kind.
    #[inline]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    /// Appends the object's JSON with its resourceVersion.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_as(self.revision, out);
    }

    /// Appends the object's JSON without apiVersion and kind, as items of typed lists have it.
    pub fn write_bare(&self, out: &mut Vec<u8>) {
        self.object.write_untyped(self.revision, out);
    }

    /// Appends the object's JSON with a resourceVersion other than its own, as deletions show it.
    pub fn write_as(&self, revision: u64, out: &mut Vec<u8>) {
        self.object.write(revision, out);
    }

    /// The object's JSON.
    pub fn json(&self) -> Bytes {
        let mut out = Vec::new();
        self.write(&mut out);
        out.into()
    }

    /// The parsed object, with its resourceVersion.
    pub fn value(&self) -> Value {
        self.value_as(self.revision)
    }

    /// The parsed object, with its resourceVersion, and with the records of managed fields as texts: for a caller that
    /// writes it back.
    pub fn packed(&self) -> Value {
        self.object.packed(self.revision)
    }

    /// The parsed object with a resourceVersion other than its own.
    pub fn value_as(&self, revision: u64) -> Value {
        let mut out = Vec::new();
        self.write_as(revision, &mut out);
        // The bytes were written by this store from a Value, so they parse.
        serde_json::from_slice(&out).unwrap_or_default()
    }
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It appeared.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

impl EventKind {
    /// The word on the wire.
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
    /// The log position.
    pub revision: u64,
    /// What happened.
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

    /// The watch frame of the plain object, encoded once however many watchers ask.
    pub fn frame(&self) -> Bytes {
        let mut cached = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        cached.get_or_insert_with(|| frame(self.kind, &self.entry, self.revision)).clone()
    }

    /// Gives the encoded frame's memory back; a watcher that is this late encodes its own.
    pub(super) fn forget_frame(&self) {
        *self.frame.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// `{"type":…,"object":…}` and a line feed.
pub fn frame(kind: EventKind, entry: &Entry, revision: u64) -> Bytes {
    let mut out = Vec::with_capacity(entry.length() + 48);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_str().as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    entry.write_as(revision, &mut out);
    out.extend_from_slice(b"}\n");
    out.into()
}
