//! Objects at rest: JSON bytes without a resourceVersion, and what selectors need to know of them.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use serde_json::{Map, Value};

/// A label.
pub(crate) type Pair = (Box<str>, Box<str>);

/// A selectable field and its value.
pub(crate) type SelectableField = (Cow<'static, str>, Box<str>);

/// An object ready to be stored.
///
/// The bytes leave out `metadata.resourceVersion`: it is the place in the log, known only at commit, and is written
/// into a gap when the object is read. So nothing is serialised while the store is locked.
#[derive(Debug)]
pub(crate) struct Draft {
    bytes: Box<[u8]>,
    lead: usize,
    gap: usize,
    labels: Box<[Pair]>,
    fields: Box<[SelectableField]>,
}

impl Draft {
    /// Encodes `object`, whose metadata must not be empty; `fields` are the kind's own selectable fields.
    pub(crate) fn new(
        object: &Value,
        fields: Vec<(Cow<'static, str>, String)>,
    ) -> Result<Self, serde_json::Error> {
        let empty = Map::new();
        let root = object.as_object().unwrap_or(&empty);
        let metadata = root.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let mut out = Vec::with_capacity(1024);
        out.push(b'{');
        let mut first = true;
        for key in ["apiVersion", "kind"] {
            member(&mut out, &mut first, key, root.get(key).unwrap_or(&Value::Null))?;
        }
        out.push(b',');
        let lead = out.len();
        out.extend_from_slice(b"\"metadata\":{");
        let gap = out.len();
        first = true;
        for (key, value) in metadata {
            if key != "resourceVersion" {
                member(&mut out, &mut first, key, value)?;
            }
        }
        out.push(b'}');
        first = false;
        for (key, value) in root {
            if !matches!(key.as_str(), "metadata" | "apiVersion" | "kind") {
                member(&mut out, &mut first, key, value)?;
            }
        }
        out.push(b'}');
        let labels = metadata
            .get("labels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(k, v)| Some((k.as_str().into(), v.as_str()?.into())))
            .collect();
        // An absent field is an empty one.
        let fields = fields.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k, v.into())).collect();
        Ok(Self { bytes: out.into(), lead, gap, labels, fields })
    }

    /// The encoded object, without its resourceVersion.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// An object as it rests, with gaps for what differs between its copies.
#[derive(Debug)]
pub(crate) struct Template {
    bytes: Box<[u8]>,
    lead: usize,
    gap: usize,
    labels: Box<[Pair]>,
    /// Where the values go: which one, where, and how long it is.
    places: Vec<(usize, usize, usize)>,
}

impl Template {
    /// Takes an encoded object in which `stand_ins` stand for values of the same length. It must begin with apiVersion and
    /// kind, and its metadata must not be empty.
    pub(crate) fn new(text: &str, labels: Box<[Pair]>, stand_ins: &[&str]) -> Option<Self> {
        const METADATA: &str = "\"metadata\":{";
        let lead = text.find(METADATA)?;
        let places = stand_ins
            .iter()
            .enumerate()
            .flat_map(|(which, stand_in)| {
                text.match_indices(stand_in).map(move |(at, found)| (which, at, found.len()))
            })
            .collect();
        let bytes = text.as_bytes().into();
        Some(Self { bytes, lead, gap: lead + METADATA.len(), labels, places })
    }

    /// A copy with these values, each as long as its stand-in.
    pub(crate) fn fill(&self, values: &[&str]) -> Draft {
        let mut bytes = self.bytes.clone();
        for (which, at, length) in &self.places {
            let value = values.get(*which).map(|v| v.as_bytes()).filter(|v| v.len() == *length);
            if let (Some(place), Some(value)) = (bytes.get_mut(*at..at + length), value) {
                place.copy_from_slice(value);
            }
        }
        Draft { bytes, lead: self.lead, gap: self.gap, labels: self.labels.clone(), fields: Box::default() }
    }
}

fn member(out: &mut Vec<u8>, first: &mut bool, key: &str, value: &Value) -> Result<(), serde_json::Error> {
    if !std::mem::take(first) {
        out.push(b',');
    }
    serde_json::to_writer(&mut *out, key)?;
    out.push(b':');
    serde_json::to_writer(&mut *out, value)
}

/// One version of a stored object. Immutable and shared.
#[derive(Debug)]
pub struct Entry {
    key: Arc<str>,
    revision: u64,
    created: u64,
    bytes: Box<[u8]>,
    lead: usize,
    gap: usize,
    labels: Box<[Pair]>,
    fields: Box<[SelectableField]>,
}

impl Entry {
    pub(super) fn new(key: Arc<str>, revision: u64, created: u64, draft: Draft) -> Self {
        let Draft { bytes, lead, gap, labels, fields } = draft;
        Self { key, revision, created, bytes, lead, gap, labels, fields }
    }

    /// `namespace/name`, or `name` for objects without a namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn shared_key(&self) -> &Arc<str> {
        &self.key
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.rsplit_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// The object's namespace, empty if it has none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.rsplit_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The revision that wrote this version: its resourceVersion.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision that created the object.
    pub(crate) fn created(&self) -> u64 {
        self.created
    }

    /// Length of the encoded object.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The stored bytes, without the resourceVersion.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The object's labels.
    pub(crate) fn labels(&self) -> &[Pair] {
        &self.labels
    }

    /// The value of a selectable field of the object's kind.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// Appends the object's JSON with its resourceVersion.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.write_as(self.revision, out);
    }

    /// Appends the object's JSON without apiVersion and kind, as items of typed lists have it.
    pub(crate) fn write_bare(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_from(self.lead, self.revision, out);
    }

    /// Appends the object's JSON with a resourceVersion other than its own, as deletions show it.
    pub(crate) fn write_as(&self, revision: u64, out: &mut Vec<u8>) {
        self.write_from(0, revision, out);
    }

    fn write_from(&self, start: usize, revision: u64, out: &mut Vec<u8>) {
        let (head, tail) = self.bytes.split_at(self.gap);
        out.reserve(self.bytes.len() + 48);
        out.extend_from_slice(head.get(start..).unwrap_or_default());
        out.extend_from_slice(b"\"resourceVersion\":\"");
        out.extend_from_slice(revision.to_string().as_bytes());
        out.push(b'"');
        if tail.first() != Some(&b'}') {
            out.push(b',');
        }
        out.extend_from_slice(tail);
    }

    /// The object's JSON.
    pub(crate) fn json(&self) -> Bytes {
        let mut out = Vec::new();
        self.write(&mut out);
        out.into()
    }

    /// The parsed object, with its resourceVersion.
    pub(crate) fn value(&self) -> Value {
        self.value_as(self.revision)
    }

    /// The parsed object with a resourceVersion other than its own.
    pub(crate) fn value_as(&self, revision: u64) -> Value {
        // The bytes were written by this store from a Value, so they parse.
        let mut value: Value = serde_json::from_slice(&self.bytes).unwrap_or_default();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), revision.to_string().into());
        }
        value
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
    pub(crate) fn frame(&self) -> Bytes {
        let mut cached = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        cached.get_or_insert_with(|| frame(self.kind, &self.entry, self.revision)).clone()
    }

    /// Gives the encoded frame's memory back; a watcher that is this late encodes its own.
    pub(super) fn forget_frame(&self) {
        *self.frame.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// `{"type":…,"object":…}` and a line feed.
pub(crate) fn frame(kind: EventKind, entry: &Entry, revision: u64) -> Bytes {
    let mut out = Vec::with_capacity(entry.size() + 96);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_str().as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    entry.write_as(revision, &mut out);
    out.extend_from_slice(b"}\n");
    out.into()
}
