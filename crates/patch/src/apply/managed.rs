//! Reads and writes `metadata.managedFields`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use steersman_gostd::strconv::quote;

use super::field_set::FieldSet;

/// The key of the owned fields in a `managedFields` entry.
const FIELDS: &str = "fieldsV1";

/// Converts `fieldsV1` from objects to JSON strings, the form that [`update`](super::update) and
/// [`apply`](super::apply) write.
/// A `fieldsV1` that cannot be parsed is dropped.
pub fn pack(object: &mut Value) {
    for entry in entries(object) {
        let Some(fields) = entry.get_mut(FIELDS) else { continue };
        let packed = FieldSet::from_fields_v1(fields).map(|set| set.to_fields_v1());
        match packed {
            Ok(text) => *fields = text.into(),
            Err(_) => drop(entry.remove(FIELDS)),
        }
    }
}

/// Converts `fieldsV1` from JSON strings back to objects, the form that API clients see.
pub fn unpack(object: &mut Value) {
    for entry in entries(object) {
        if let Some(fields) = entry.get_mut(FIELDS)
            && let Some(tree) = fields.as_str().and_then(|text| serde_json::from_str(text).ok())
        {
            *fields = tree;
        }
    }
}

/// Iterates over the object's `managedFields` entries.
fn entries(object: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let metadata = object.get_mut("metadata");
    let entries = metadata.and_then(|metadata| metadata.get_mut("managedFields")?.as_array_mut());
    entries.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The identity of a field manager: one `managedFields` entry per distinct value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manager {
    pub(crate) name: String,
    pub(crate) applied: bool,
    /// Empty for `Apply` entries: an applier remains the same manager whichever version it applies.
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

impl Ord for Manager {
    /// The order in which conflicts are listed: by name, applies before updates, then by subresource.
    fn cmp(&self, other: &Self) -> Ordering {
        self.name
            .cmp(&other.name)
            .then_with(|| other.applied.cmp(&self.applied))
            .then_with(|| self.api_version.cmp(&other.api_version))
            .then_with(|| self.subresource.is_empty().cmp(&other.subresource.is_empty()))
            .then_with(|| self.subresource.cmp(&other.subresource))
    }
}

impl PartialOrd for Manager {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Manager {
    /// Formats the manager as conflict messages name it.
    pub(crate) fn describe(&self) -> String {
        let mut text = quote(&self.name);
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {}", quote(&self.subresource));
        }
        if !self.applied {
            text += &format!(" using {}", self.api_version);
        }
        text
    }
}

/// The fields that one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned<'a> {
    pub(crate) fields: FieldSet<'a>,
    /// The API version in which the fields are expressed.
    pub(crate) api_version: String,
    /// When the fields last changed, as RFC 3339.
    pub(crate) time: Option<String>,
}

/// The managers of an object and the fields they own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managed<'a>(pub(crate) BTreeMap<Manager, Owned<'a>>);

impl<'a> Managed<'a> {
    /// Parses `metadata.managedFields`. The error text is that of Kubernetes.
    pub(crate) fn decode(entries: Option<&'a Value>) -> Result<Self, String> {
        let mut managed = BTreeMap::new();
        let entries = entries.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (i, entry) in entries.iter().enumerate() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let applied = match text("operation") {
                "Apply" => true,
                "Update" => false,
                _ => return Err("operation must be `Apply` or `Update`".into()),
            };
            let api_version = text("apiVersion").to_owned();
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".into());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {i}")),
                other => {
                    return Err(format!("invalid fieldsType {} in managed fields entry {i}", quote(other)));
                }
            }
            let fields = match entry.get(FIELDS) {
                None | Some(Value::Null) => FieldSet::default(),
                Some(fields) => FieldSet::from_fields_v1(fields)
                    .map_err(|e| format!("error decoding versioned set: error decoding set: {e}"))?,
            };
            let manager = Manager {
                name: text("manager").to_owned(),
                applied,
                api_version: if applied { String::new() } else { api_version.clone() },
                subresource: text("subresource").to_owned(),
            };
            let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
            managed.insert(manager, Owned { fields, api_version, time });
        }
        Ok(Self(managed))
    }

    /// Serializes `metadata.managedFields`; `None` if no field is managed.
    pub(crate) fn encode(&self) -> Option<Value> {
        let mut managers: Vec<_> = self.0.iter().collect();
        managers.sort_by(|(p, po), (q, qo)| {
            // Appliers first, then by time to the second, then by name.
            (!p.applied, po.time.as_deref().unwrap_or(""), &p.name, &po.api_version, &p.subresource).cmp(&(
                !q.applied,
                qo.time.as_deref().unwrap_or(""),
                &q.name,
                &qo.api_version,
                &q.subresource,
            ))
        });
        let entries: Vec<_> =
            managers.into_iter().map(|(manager, owned)| encode_entry(manager, owned)).collect();
        if entries.is_empty() { None } else { Some(Value::Array(entries)) }
    }
}

fn encode_entry(manager: &Manager, owned: &Owned<'_>) -> Value {
    let mut entry = Map::new();
    if !manager.name.is_empty() {
        entry.insert("manager".into(), json!(manager.name));
    }
    let operation = if manager.applied { "Apply" } else { "Update" };
    entry.insert("operation".into(), json!(operation));
    entry.insert("apiVersion".into(), json!(owned.api_version));
    if let Some(time) = &owned.time {
        entry.insert("time".into(), json!(time));
    }
    entry.insert("fieldsType".into(), json!("FieldsV1"));
    entry.insert(FIELDS.into(), owned.fields.to_fields_v1().into());
    if !manager.subresource.is_empty() {
        entry.insert("subresource".into(), json!(manager.subresource));
    }
    Value::Object(entry)
}
