//! Server-side apply: merges configurations into objects and tracks field ownership in `managedFields`.
//!
//! `managedFields` can be half of an object's size and is rarely read. So `fieldsV1` is written as a JSON string
//! here, and read either as a string or as the object that the API returns; [`pack`] and [`unpack`] convert between
//! the two.

mod field_set;
mod managed;
mod path;
mod typed;
mod types;
mod writer;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

pub use field_set::FieldSet;
use managed::{Managed, Manager};
pub use managed::{pack, unpack};
pub use path::{Path, PathElement};
pub use typed::TypeErrors;
pub use types::{TypeId, Types};
use writer::Writer;

/// The annotation in which client-side `kubectl apply` stores the last applied configuration.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Limit on the total size of annotations; above it, the last-applied annotation is dropped.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// The resource being written, with its versions, schemas and conversion.
pub trait Resource {
    /// The `group/version` of the request.
    fn api_version(&self) -> &str;

    /// Returns the types of a version; `None` if the version no longer exists.
    fn typed(&self, api_version: &str) -> Option<(&Types, TypeId)>;

    /// The error for a write when a manager's fields are in a version that `typed` does not have.
    /// Default: the write proceeds, and that manager is dropped.
    fn refuse_version(&self, _api_version: &str) -> Option<String> {
        None
    }

    /// Converts the object to another version; `None` if that version is no longer served.
    fn convert<'a>(&self, object: &'a Value, api_version: &str) -> Option<Cow<'a, Value>>;

    /// Converts a merged object to the request's version and applies its defaults.
    /// The error says why it cannot be decoded.
    fn finish(&self, object: &mut Value) -> Result<(), String>;

    /// Returns an object with only the `apiVersion` and `kind` of `live`.
    fn empty(&self, live: &Value) -> Value {
        json!({"apiVersion": live.get("apiVersion"), "kind": live.get("kind")})
    }

    /// The fields, in a version, that this request may not change.
    /// That is `status` on the main resource, and everything else on `/status`.
    fn reset_fields(&self, api_version: &str) -> Option<&FieldSet<'static>>;

    /// The subresource of the request; empty for the main resource.
    fn subresource(&self) -> &str {
        ""
    }
}

/// The field manager and the time of a write.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The field manager; `unknown` if empty.
    pub manager: &'a str,
    /// The time of the request, as RFC 3339 to the second.
    pub now: &'a str,
}

/// The reasons an apply can be refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// The configuration changes fields owned by other managers. HTTP 409.
    #[error("{}", conflict_message(.0))]
    Conflict(Vec<Conflict>),
    /// The request is not a valid apply for this resource. HTTP 400.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not match the schema, or the object cannot be decoded. HTTP 500.
    #[error("{0}")]
    Internal(String),
}

/// A field owned by another manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The other manager as error messages name it, such as `"kubectl" using apps/v1`.
    pub manager: String,
    /// The path of the field.
    pub path: Path,
    key: Manager,
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [conflict] = conflicts {
        let Conflict { manager, path, .. } = conflict;
        return format!("Apply failed with 1 conflict: conflict with {manager}: {path}");
    }
    let mut lines = Vec::new();
    let mut previous = None;
    for conflict in conflicts {
        if previous != Some(&conflict.key) {
            lines.push(format!("conflicts with {}:", conflict.manager));
            previous = Some(&conflict.key);
        }
        lines.push(format!("- {}", conflict.path));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// Updates `managedFields` in `new` after a create, an update or a patch that turned `live` into `new`.
///
/// On a create, `live` has only `apiVersion` and `kind`. If the existing `managedFields` cannot be parsed, it is
/// dropped instead of failing the request.
pub fn update(resource: &dyn Resource, live: &Value, new: &mut Value, request: Request<'_>) {
    let given = take_managed_fields(new);
    let managed = managed_of(resource, live, given.as_ref());
    let live = without_managed_fields(live);
    let is_tracked = !managed.0.is_empty() || of_metadata(&live, "uid").is_none_or(|uid| uid == "");
    if !is_tracked {
        return;
    }
    let Ok(managed) = (Writer { resource, request }).update(&live, new, managed) else { return };
    let entries = managed.encode();
    set_managed_fields(new, entries);
}

/// Applies `config` to `live` server-side and returns the merged object with updated `managedFields`.
///
/// If the object does not exist yet, `live` has only `apiVersion` and `kind`.
///
/// ```
/// use std::borrow::Cow;
/// use serde_json::{Value, json};
/// use steersman_patch::apply::{FieldSet, Request, Resource, TypeId, Types, apply};
///
/// // A kind with one version and no schema.
/// struct Widgets(Types, TypeId);
///
/// impl Resource for Widgets {
///     fn api_version(&self) -> &str {
///         "example.com/v1"
///     }
///     fn typed(&self, _: &str) -> Option<(&Types, TypeId)> {
///         Some((&self.0, self.1))
///     }
///     fn convert<'a>(&self, object: &'a Value, _: &str) -> Option<Cow<'a, Value>> {
///         Some(Cow::Borrowed(object))
///     }
///     fn finish(&self, _: &mut Value) -> Result<(), String> {
///         Ok(())
///     }
///     fn reset_fields(&self, _: &str) -> Option<&FieldSet<'static>> {
///         None
///     }
/// }
///
/// let (types, id) = Types::deduced();
/// let widgets = Widgets(types, id);
/// let empty = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
/// let config = json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 3}});
/// let request = Request { manager: "operator", now: "2026-01-01T00:00:00Z" };
/// let applied = apply(&widgets, &empty, &config, request, false)?;
/// assert_eq!(applied["spec"]["size"], 3);
/// assert_eq!(applied["metadata"]["managedFields"][0]["manager"], "operator");
/// # Ok::<(), steersman_patch::apply::ApplyError>(())
/// ```
pub fn apply(
    resource: &dyn Resource,
    live: &Value,
    config: &Value,
    request: Request<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    let api_version = resource.api_version();
    let config_version = config.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if config_version != api_version {
        return Err(ApplyError::BadRequest(format!(
            "Incorrect version specified in apply patch. Specified patch version: {config_version}, \
             expected: {api_version}"
        )));
    }
    if of_metadata(config, "managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".into()));
    }
    let mut managed = Managed::decode(of_metadata(live, "managedFields"))
        .map_err(|e| ApplyError::Internal(format!("failed to decode managed fields: {e}")))?;
    let live = without_managed_fields(live);
    let nothing;
    if managed.0.is_empty() {
        // Fields that existed before the first apply are owned by a manager of their own.
        let before = Writer { resource, request: Request { manager: "before-first-apply", ..request } };
        nothing = resource.empty(&live);
        managed = before.update(&nothing, &live, managed).map_err(|e| {
            ApplyError::Internal(format!("failed to create manager for existing fields: {e}"))
        })?;
    }

    let writer = Writer { resource, request };
    let again = (request.manager == "kubectl" && !force).then(|| managed.clone());
    let (mut object, managed) = match (writer.apply(&live, config, managed, force), again) {
        (Err(ApplyError::Conflict(conflicts)), Some(managed)) => {
            // Fields set by client-side apply and unchanged since belong to the same user.
            match writer.last_applied_fields(&live) {
                None => return Err(ApplyError::Conflict(conflicts)),
                Some(allowed) => {
                    let left: Vec<_> =
                        conflicts.into_iter().filter(|c| !allowed.contains(&c.path.0)).collect();
                    if !left.is_empty() {
                        return Err(ApplyError::Conflict(left));
                    }
                    writer.apply(&live, config, managed, true)?
                }
            }
        }
        (other, _) => other?,
    };
    if request.manager == "kubectl" {
        refresh_last_applied(&mut object, config);
    }
    set_managed_fields(&mut object, managed.encode());
    Ok(object)
}

/// Decodes the managers before a write; `given` is the `managedFields` that the client sent.
fn managed_of<'v>(resource: &dyn Resource, live: &'v Value, given: Option<&'v Value>) -> Managed<'v> {
    let of_live = || Managed::decode(of_metadata(live, "managedFields")).unwrap_or_default();
    if !resource.subresource().is_empty() {
        return of_live();
    }
    match given.and_then(Value::as_array).map(Vec::as_slice) {
        // A client resets `managedFields` with an empty list or a single empty entry.
        Some([]) => return Managed::default(),
        Some([Value::Object(entry)]) if entry.is_empty() => return Managed::default(),
        _ => {}
    }
    match Managed::decode(given) {
        Ok(managed) if !managed.0.is_empty() => managed,
        _ => of_live(),
    }
}

fn of_metadata<'v>(object: &'v Value, field: &str) -> Option<&'v Value> {
    object.get("metadata")?.get(field)
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

/// Returns the object without `managedFields`, which can be half of its size and is never cloned.
fn without_managed_fields(object: &Value) -> Cow<'_, Value> {
    let (Value::Object(root), Some(Value::Object(metadata))) = (object, object.get("metadata")) else {
        return Cow::Borrowed(object);
    };
    if !metadata.contains_key("managedFields") {
        return Cow::Borrowed(object);
    }
    let copy = |map: &Map<String, Value>, except: &str| -> Map<String, Value> {
        map.iter()
            .filter(|(key, _)| *key != except)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let mut out = copy(root, "metadata");
    out.insert("metadata".into(), Value::Object(copy(metadata, "managedFields")));
    Cow::Owned(Value::Object(out))
}

fn set_managed_fields(object: &mut Value, entries: Option<Value>) {
    take_managed_fields(object);
    if let (Some(entries), Some(object)) = (entries, object.as_object_mut()) {
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("managedFields".into(), entries);
        }
    }
}

/// Updates the annotation of client-side apply, if the object has one, to the applied configuration.
fn refresh_last_applied(object: &mut Value, config: &Value) {
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    if annotations.get(LAST_APPLIED).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
        if annotations.is_empty()
            && let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("annotations");
        }
    }
    let text = format!("{}\n", crate::value::go_json(&config));
    annotations.insert(LAST_APPLIED.into(), Value::String(text));
    let size: usize = annotations.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATION_BYTES {
        annotations.remove(LAST_APPLIED);
    }
}

/// Formats an object as error messages name it: `namespace/name; group/version, Kind=kind`.
fn describe(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    format!("{namespace}/{name}; {}", object_type(object))
}

/// Formats a type as error messages name it: `group/version, Kind=kind`.
fn object_type(object: &Value) -> String {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
    format!("{version}, Kind={kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Anything(Types, TypeId);

    impl Resource for Anything {
        fn api_version(&self) -> &str {
            "v1"
        }

        fn typed(&self, _: &str) -> Option<(&Types, TypeId)> {
            Some((&self.0, self.1))
        }

        fn convert<'a>(&self, object: &'a Value, _: &str) -> Option<Cow<'a, Value>> {
            Some(Cow::Borrowed(object))
        }

        fn finish(&self, _: &mut Value) -> Result<(), String> {
            Ok(())
        }

        fn reset_fields(&self, _: &str) -> Option<&FieldSet<'static>> {
            None
        }
    }

    #[test]
    fn what_an_applier_leaves_out_goes_and_nothing_else() {
        let (types, ty) = Types::from_structural(
            &json!({"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "a": {"type": "integer"}, "b": {"type": "integer"}, "default": {"type": "integer"},
                }},
                "metadata": {"type": "object"},
            }}),
            None,
        );
        let resource = Anything(types, ty);
        let request = Request { manager: "m", now: "2026-01-02T03:04:05Z" };
        let config = |spec: Value| json!({"apiVersion": "v1", "kind": "K", "spec": spec});
        let apply =
            |live: &Value, spec: Value| apply(&resource, live, &config(spec), request, false).unwrap();
        let mut live = apply(&config(json!({})), json!({"a": 1, "b": 1}));
        live["spec"]["default"] = json!(7);
        // The same fields.
        let live = apply(&live, json!({"a": 2, "b": 1}));
        assert_eq!(live["spec"], json!({"a": 2, "b": 1, "default": 7}));
        // One field fewer.
        let live = apply(&live, json!({"a": 2}));
        assert_eq!(live["spec"], json!({"a": 2, "default": 7}));
        assert_eq!(live["metadata"]["managedFields"][0]["fieldsV1"], r#"{"f:spec":{"f:a":{}}}"#);
        let mut shown = live.clone();
        unpack(&mut shown);
        assert_eq!(shown["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:spec": {"f:a": {}}}));
        pack(&mut shown);
        assert_eq!(shown, live);
    }

    /// Deduced types for every version.
    fn anything() -> Anything {
        let (types, ty) = Types::deduced();
        Anything(types, ty)
    }

    /// The manager name and version of each `Update` entry.
    fn managers(object: &Value) -> Vec<(&str, &str)> {
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        assert!(entries.iter().all(|entry| entry["operation"] == "Update"));
        entries
            .iter()
            .map(|entry| (entry["manager"].as_str().unwrap(), entry["apiVersion"].as_str().unwrap()))
            .collect()
    }

    /// Returns a copy of `live` in which a manager has set one field.
    fn set_by(live: &Value, manager: &str, now: &str, field: &str) -> Value {
        let mut new = live.clone();
        new["spec"][field] = json!(1);
        update(&anything(), live, &mut new, Request { manager, now });
        new
    }

    #[test]
    fn an_empty_record_of_a_client_takes_the_place_of_the_stored_one() {
        let empty = json!({"apiVersion": "v1", "kind": "K"});
        let live = set_by(&empty, "one", "2026-01-01T00:00:00Z", "a");
        assert_eq!(managers(&live), [("one", "v1")]);
        for cleared in [json!([]), json!([{}])] {
            let mut new = live.clone();
            new["metadata"]["managedFields"] = cleared;
            new["spec"]["b"] = json!(1);
            update(&anything(), &live, &mut new, Request { manager: "two", now: "2026-01-02T00:00:00Z" });
            assert_eq!(managers(&new), [("two", "v1")]);
        }
    }

    #[test]
    fn managers_keep_what_they_set_in_another_version() {
        let empty = json!({"apiVersion": "v1", "kind": "K"});
        let mut live = set_by(&empty, "one", "2026-01-01T00:00:00Z", "a");
        live["metadata"]["managedFields"][0]["apiVersion"] = "v1beta1".into();
        let new = set_by(&live, "two", "2026-01-02T00:00:00Z", "b");
        assert_eq!(managers(&new), [("one", "v1beta1"), ("two", "v1")]);
        let new = set_by(&new, "three", "2026-01-03T00:00:00Z", "a");
        assert_eq!(managers(&new), [("one", "v1beta1"), ("two", "v1")], "the value is the same");
    }

    #[test]
    fn of_many_updaters_the_oldest_are_one() {
        let mut object = json!({"apiVersion": "v1", "kind": "K"});
        for number in 0..10 {
            object = set_by(
                &object,
                &format!("m{number}"),
                &format!("2026-01-{:02}T00:00:00Z", number + 1),
                &format!("f{number}"),
            );
        }
        assert_eq!(managers(&object).len(), 10);
        object = set_by(&object, "m10", "2026-01-20T00:00:00Z", "f10");
        let names: Vec<&str> = managers(&object).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 10);
        assert!(
            names.contains(&"ancient-changes") && !names.contains(&"m0") && !names.contains(&"m1"),
            "{names:?}"
        );
        assert!(names.contains(&"m2") && names.contains(&"m10"), "{names:?}");
    }

    #[test]
    fn the_annotation_of_client_side_apply_follows_unless_it_is_too_long() {
        let config =
            |text: usize| json!({"apiVersion": "v1", "kind": "K", "data": {"text": "x".repeat(text)}});
        let refreshed = |text: usize| {
            let mut object = json!({"metadata": {"annotations": {LAST_APPLIED: "{}", "other": "1"}}});
            refresh_last_applied(&mut object, &config(text));
            object["metadata"]["annotations"][LAST_APPLIED].as_str().map(str::to_owned)
        };
        assert_eq!(
            refreshed(3).as_deref(),
            Some("{\"apiVersion\":\"v1\",\"data\":{\"text\":\"xxx\"},\"kind\":\"K\"}\n")
        );
        assert_eq!(refreshed(200 * 1024).map(|text| text.len() > 200 * 1024), Some(true));
        assert_eq!(refreshed(256 * 1024), None);
    }
}
