//! The stored encoding of objects.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use foldhash::quality::RandomState;
use memchr::memmem;
use serde_json::{Map, Value};
use steersman_patch::apply::FieldSet;

/// Placeholder of a field set in the stored bytes.
const NOTHING: &[u8] = b"{}";

/// Key of a field set in `managedFields`.
const FIELDS: &str = "fieldsV1";

/// An encoded object without its resourceVersion.
///
/// The resourceVersion is the position in the log, known only at commit. It is inserted when the object is read, so
/// that nothing is serialised while the store is locked.
/// The field sets of `managedFields` are stored separately: they are up to half of an object, and objects created by
/// one client share them.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// JSON with empty field sets.
    bytes: Box<[u8]>,
    /// Offset of `metadata`.
    lead: u32,
    /// Offset of the first field of `metadata`, where the resourceVersion is inserted.
    gap: u32,
    /// The field sets with the offsets of their placeholders, in order.
    records: Box<[(u32, Arc<str>)]>,
}

impl Encoded {
    /// Encodes an object. Its metadata must not be empty.
    pub(super) fn encode(object: &Value) -> Result<Self, serde_json::Error> {
        let empty = Map::new();
        let root = object.as_object().unwrap_or(&empty);
        let metadata = root.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let mut out = Encoder { bytes: Vec::with_capacity(2048), records: Vec::new() };
        out.bytes.push(b'{');
        out.member(true, "apiVersion", root.get("apiVersion").unwrap_or(&Value::Null))?;
        out.member(false, "kind", root.get("kind").unwrap_or(&Value::Null))?;
        out.bytes.push(b',');
        let lead = out.place()?;
        out.bytes.extend_from_slice(b"\"metadata\":{");
        let gap = out.place()?;
        let mut first = true;
        for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
            let first = std::mem::take(&mut first);
            match value {
                Value::Array(entries) if key == "managedFields" => out.managers(first, key, entries)?,
                value => out.member(first, key, value)?,
            }
        }
        out.bytes.push(b'}');
        for (key, value) in root {
            if !matches!(key.as_str(), "metadata" | "apiVersion" | "kind") {
                out.member(false, key, value)?;
            }
        }
        out.bytes.push(b'}');
        Ok(Self { bytes: out.bytes.into(), lead, gap, records: out.records.into() })
    }

    /// Wraps an object that is encoded already, with its field sets inline.
    pub(super) fn whole(bytes: Box<[u8]>, lead: u32, gap: u32) -> Self {
        Self { bytes, lead, gap, records: Box::default() }
    }

    /// Returns the encoded object with empty field sets.
    pub(super) fn outline(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of bytes that are not shared with other objects.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns an upper bound of the encoded length, including field sets and a resourceVersion.
    pub(super) fn length(&self) -> usize {
        let records: usize = self.records.iter().map(|(_, record)| record.len()).sum();
        self.bytes.len() + records + 48
    }

    /// Replaces field sets by equal ones of other objects.
    pub(super) fn share(&mut self, records: &Records) {
        for (_, record) in &mut self.records {
            records.share(record);
        }
    }

    /// Whether both are equal, including times and field sets.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.records == other.records
    }

    /// Whether both are equal except for the times in `managedFields`.
    pub(super) fn same_but_times(&self, other: &Self) -> bool {
        self.records == other.records && same_but_times(&self.bytes, &other.bytes)
    }

    /// Appends the object without a resourceVersion.
    pub(super) fn write_bare(&self, out: &mut Vec<u8>) {
        self.write_range(0, out);
    }

    /// Appends the object with this resourceVersion.
    pub(super) fn write(&self, revision: u64, out: &mut Vec<u8>) {
        self.write_from(0, revision, out);
    }

    /// Appends the object with this resourceVersion and without apiVersion and kind.
    pub(super) fn write_untyped(&self, revision: u64, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_from(self.lead as usize, revision, out);
    }

    fn write_from(&self, start: usize, revision: u64, out: &mut Vec<u8>) {
        out.reserve(self.length());
        self.write_head(start, revision, out);
        self.write_range(self.gap as usize, out);
    }

    /// Appends the bytes from `start` up to and including the resourceVersion.
    fn write_head(&self, start: usize, revision: u64, out: &mut Vec<u8>) {
        let gap = self.gap as usize;
        out.extend_from_slice(self.bytes.get(start..gap).unwrap_or_default());
        out.extend_from_slice(b"\"resourceVersion\":\"");
        out.extend_from_slice(revision.to_string().as_bytes());
        out.push(b'"');
        if self.bytes.get(gap) != Some(&b'}') {
            out.push(b',');
        }
    }

    /// Returns the object with this resourceVersion, and with its field sets as strings.
    pub(super) fn packed(&self, revision: u64) -> Value {
        let mut out = Vec::with_capacity(self.bytes.len() + 48);
        let gap = self.gap as usize;
        self.write_head(0, revision, &mut out);
        out.extend_from_slice(self.bytes.get(gap..).unwrap_or_default());
        // The bytes were written from a Value, so they parse.
        let mut object: Value = serde_json::from_slice(&out).unwrap_or_default();
        let managers = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"));
        let managers = managers.and_then(Value::as_array_mut).into_iter().flatten();
        let empty = managers.filter_map(|entry| entry.get_mut(FIELDS)).filter(|fields| fields.is_object());
        for (fields, (_, record)) in empty.zip(&self.records) {
            *fields = Value::String(record.to_string());
        }
        object
    }

    /// Appends the bytes from `start`, with field sets filled in.
    fn write_range(&self, start: usize, out: &mut Vec<u8>) {
        let mut at = start;
        for (place, record) in &self.records {
            let place = *place as usize;
            out.extend_from_slice(self.bytes.get(at..place).unwrap_or_default());
            out.extend_from_slice(record.as_bytes());
            at = place + NOTHING.len();
        }
        out.extend_from_slice(self.bytes.get(at..).unwrap_or_default());
    }
}

struct Encoder {
    bytes: Vec<u8>,
    records: Vec<(u32, Arc<str>)>,
}

impl Encoder {
    /// Returns the current offset. Objects are a few megabytes at most.
    fn place(&self) -> Result<u32, serde_json::Error> {
        u32::try_from(self.bytes.len()).map_err(serde::ser::Error::custom)
    }

    fn key(&mut self, first: bool, key: &str) -> Result<(), serde_json::Error> {
        if !first {
            self.bytes.push(b',');
        }
        serde_json::to_writer(&mut self.bytes, key)?;
        self.bytes.push(b':');
        Ok(())
    }

    fn member(&mut self, first: bool, key: &str, value: &Value) -> Result<(), serde_json::Error> {
        self.key(first, key)?;
        serde_json::to_writer(&mut self.bytes, value)
    }

    fn managers(&mut self, first: bool, key: &str, entries: &[Value]) -> Result<(), serde_json::Error> {
        self.key(first, key)?;
        self.bytes.push(b'[');
        for (index, entry) in entries.iter().enumerate() {
            if index > 0 {
                self.bytes.push(b',');
            }
            match entry {
                Value::Object(entry) => self.manager(entry)?,
                other => serde_json::to_writer(&mut self.bytes, other)?,
            }
        }
        self.bytes.push(b']');
        Ok(())
    }

    fn manager(&mut self, entry: &Map<String, Value>) -> Result<(), serde_json::Error> {
        self.bytes.push(b'{');
        for (index, (key, value)) in entry.iter().enumerate() {
            let record = match value {
                Value::String(packed) if key == FIELDS => Arc::from(packed.as_str()),
                // In the same order as packed ones, so that equal field sets have equal bytes.
                Value::Object(_) if key == FIELDS => match FieldSet::from_fields_v1(value) {
                    Ok(fields) => Arc::from(fields.to_fields_v1()),
                    Err(_) => Arc::from(serde_json::to_string(value)?),
                },
                _ => {
                    self.member(index == 0, key, value)?;
                    continue;
                }
            };
            self.key(index == 0, key)?;
            self.records.push((self.place()?, record));
            self.bytes.extend_from_slice(NOTHING);
        }
        self.bytes.push(b'}');
        Ok(())
    }
}

/// Interned field sets.
#[derive(Debug, Default)]
pub(super) struct Records {
    inner: Mutex<InternedFieldSets>,
}

#[derive(Debug, Default)]
struct InternedFieldSets {
    records: HashSet<Arc<str>, RandomState>,
    /// Number of field sets at which unused ones are evicted.
    limit: usize,
}

impl Records {
    fn share(&self, record: &mut Arc<str>) {
        let mut known = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.records.get(&**record) {
            *record = Arc::clone(same);
            return;
        }
        if known.records.len() >= known.limit {
            known.records.retain(|record| Arc::strong_count(record) > 1);
            known.limit = 256.max(known.records.len() * 2);
        }
        known.records.insert(Arc::clone(record));
    }
}

/// Whether two encoded objects are equal except for the times in `managedFields`.
/// Quotes in strings are escaped, so the keys searched for here can't occur in a value; and all times have the same
/// length.
fn same_but_times(new: &[u8], old: &[u8]) -> bool {
    const MANAGERS: &[u8] = b"\"managedFields\":[";
    const TIME: &[u8] = b"\"time\":\"";
    const TIME_LENGTH: usize = "2006-01-02T15:04:05Z".len();
    if new == old {
        return true;
    }
    if new.len() != old.len() {
        return false;
    }
    let Some(start) = memmem::find(old, MANAGERS) else { return false };
    let (Some(new_managers), Some(old_managers)) = (new.get(start..), old.get(start..)) else { return false };
    if new.get(..start) != old.get(..start) {
        return false;
    }
    let Some(end) = closing(old_managers) else { return false };
    let mut at = 0;
    while let Some(found) = old_managers.get(at..end).and_then(|rest| memmem::find(rest, TIME)) {
        let time = at + found + TIME.len();
        if new_managers.get(at..time) != old_managers.get(at..time) {
            return false;
        }
        at = time + TIME_LENGTH;
    }
    new_managers.get(at..) == old_managers.get(at..)
}

/// Returns the end of the first list in `json`.
fn closing(json: &[u8]) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (index, byte) in json.iter().enumerate() {
        match (quoted, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => quoted = !quoted,
            (false, b'[') => depth += 1,
            (false, b']') if depth == 1 => return Some(index),
            (false, b']') => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_of_managers_do_not_count() {
        let object = |time: &str, data: &str| {
            let managers = json!([{"manager": "a", "time": time, "fieldsV1": {"f:data": {"f:time": {}}}}]);
            let object =
                json!({"metadata": {"managedFields": managers, "name": "x"}, "data": {"time": data}});
            Encoded::encode(&object).unwrap()
        };
        let (one, two) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:07Z");
        assert!(object(one, one).same_but_times(&object(one, one)));
        assert!(object(one, one).same_but_times(&object(two, one)));
        assert!(!object(one, one).same_but_times(&object(one, two)));
        assert!(!object(one, one).same_but_times(&object(two, two)));
        let named = |name: &str| Encoded::encode(&json!({"metadata": {"name": name}})).unwrap();
        assert!(!named("a").same_but_times(&named("b")));
    }

    #[test]
    fn a_list_ends_at_its_own_bracket() {
        assert_eq!(closing(br#"{"a":[[1],"]",2],"b":[]}"#), Some(15));
        assert_eq!(closing(br#"["\\"]"#), Some(5));
        assert_eq!(closing(br#"["\"]"#), None);
        assert_eq!(closing(b"[[]"), None);
    }

    #[test]
    fn records_of_fields_are_shared_and_forgotten() {
        let records = Records::default();
        let object = |number: usize| {
            let fields = json!({"f:data": {format!("f:{number}"): {}}});
            let managers = json!([{"manager": "a", "fieldsV1": fields}, {"manager": "b", "fieldsV1": {}}]);
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"managedFields": managers}, "spec": number})
        };
        let encoded = |number| {
            let mut encoded = Encoded::encode(&object(number)).unwrap();
            encoded.share(&records);
            encoded
        };
        let (one, same) = (encoded(1), encoded(1));
        assert!(Arc::ptr_eq(&one.records[0].1, &same.records[0].1));
        let mut text = Vec::new();
        one.write(7, &mut text);
        let mut expected = object(1);
        expected["metadata"]["resourceVersion"] = "7".into();
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), expected);
        assert!(serde_json::from_slice::<Value>(one.outline()).is_ok());
        for number in 0..10_000 {
            encoded(number);
        }
        assert!(records.inner.lock().unwrap().records.len() < 1_000, "most of them are unused");
    }
}
