//! Server-side apply: configurations merged into objects, and the record of who manages which field.
//!
//! A record is up to half of an object, and is rarely read. So `fieldsV1` is written as a text here, and read as
//! either a text or the tree that the API shows; [`pack`] and [`unpack`] lead from one to the other.

mod managed;
mod path;
mod typed;
mod types;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use managed::{Managed, Manager, Owned};
pub use managed::{pack, unpack};
pub use path::{FieldSet, Path, PathElement};
use typed::Comparison;
pub use typed::TypeErrors;
pub use types::{TypeId, Types};

/// At most so many entries of updates are kept apart; older ones are merged.
const MAX_UPDATE_MANAGERS: usize = 10;

/// `kubectl apply` without `--server-side` keeps what it applied in this annotation.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Above this many bytes of annotations, the last-applied one is left out.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// The kind that is being changed, and how its versions relate.
pub trait Resource {
    /// `group/version` of the request.
    fn api_version(&self) -> &str;

    /// The types that this kind is described by in a version; `None` if that version is no longer served.
    fn typed(&self, api_version: &str) -> Option<(&Types, TypeId)>;

    /// The object in another version; `None` if that version is no longer served.
    fn convert<'a>(&self, object: &'a Value, api_version: &str) -> Option<Cow<'a, Value>>;

    /// Brings a merged object into the form of the request's version and fills in its defaults. The error says why it
    /// can't be read.
    fn finish(&self, object: &mut Value) -> Result<(), String>;

    /// The object without content, in the form that `live` has.
    fn empty(&self, live: &Value) -> Value {
        json!({"apiVersion": live.get("apiVersion"), "kind": live.get("kind")})
    }

    /// What this request may not change, by version: the status on the main resource, all else on the status.
    fn reset_fields(&self, api_version: &str) -> Option<&FieldSet<'static>>;

    /// The subresource that is written through; empty for the main resource.
    fn subresource(&self) -> &str {
        ""
    }
}

/// A request for a change.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The field manager; `unknown` if empty.
    pub manager: &'a str,
    /// The time of the request, as RFC 3339 to the second.
    pub now: &'a str,
}

/// Why an apply was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that the configuration would change. Answered with 409.
    #[error("{}", conflict_message(.0))]
    Conflict(Vec<Conflict>),
    /// The request is not an apply of this kind. Answered with 400.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not fit the schema, or the object is not readable. Answered with 500.
    #[error("{0}")]
    Internal(String),
}

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The other manager as messages name it, such as `"kubectl" using apps/v1`.
    pub manager: String,
    /// The field.
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

/// Records in `new` who manages what after a create, an update or a patch from `live` to `new`.
///
/// `live` is the object without content on a create. Should the record be unreadable, it is dropped rather than the
/// request refused.
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

/// `live` with `config` applied to it, and the record of managers brought up to date.
///
/// `live` is the object without content if there is none yet.
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
        // What was there before the first apply belongs to a manager of its own.
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
            // Fields that client-side apply set, unchanged since, belong to the same user.
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

/// The record that a change from `live` starts from; `given` is the one that the client sent.
fn managed_of<'v>(resource: &dyn Resource, live: &'v Value, given: Option<&'v Value>) -> Managed<'v> {
    let of_live = || Managed::decode(of_metadata(live, "managedFields")).unwrap_or_default();
    if !resource.subresource().is_empty() {
        return of_live();
    }
    match given.and_then(Value::as_array).map(Vec::as_slice) {
        // A client clears the record with an empty list, or one empty entry.
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

/// The object without its record, which is up to half of it and is not copied first.
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

/// Brings the annotation of client-side apply, where there is one, up to what was applied.
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

/// One change by one manager.
struct Writer<'a> {
    resource: &'a dyn Resource,
    request: Request<'a>,
}

impl<'a> Writer<'a> {
    fn manager(&self, applied: bool) -> Manager {
        let name = if self.request.manager.is_empty() { "unknown" } else { self.request.manager };
        Manager {
            name: name.to_owned(),
            applied,
            api_version: if applied { String::new() } else { self.resource.api_version().to_owned() },
            subresource: self.resource.subresource().to_owned(),
        }
    }

    fn typed(&self) -> Result<(&'a Types, TypeId), String> {
        let api_version = self.resource.api_version();
        self.resource.typed(api_version).ok_or_else(|| format!("no corresponding type for {api_version}"))
    }

    /// The record after a change from `live` to `new` that is no apply.
    fn update<'v>(&self, live: &'v Value, new: &'v Value, managed: Managed<'v>) -> Result<Managed<'v>, String>
    where
        'a: 'v,
    {
        let (types, ty) = self.typed()?;
        let typed = |what: &str, object: &Value| {
            types.check(ty, object, true).map_err(|e| {
                format!("failed to convert {what} object ({}) to smd typed: {e}", describe(object))
            })
        };
        typed("new", new)?;
        typed("live", live)?;
        let api_version = self.resource.api_version();
        let managed = self.reconciled(managed);
        let (mut managed, comparison, _) = self.settle(live, new, managed, None)?;

        let mut changed = comparison.modified;
        changed.absorb(comparison.added);
        changed.subtract(&NEVER_MANAGED);
        if !changed.is_empty() {
            let manager = self.manager(false);
            let owned = managed.0.entry(manager).or_insert_with(|| Owned {
                fields: FieldSet::default(),
                api_version: api_version.to_owned(),
                time: None,
            });
            owned.fields.absorb(changed);
            owned.time = Some(self.request.now.to_owned());
        }
        cap_update_managers(&mut managed);
        Ok(managed)
    }

    /// The object and the record after an apply.
    fn apply<'v>(
        &self,
        live: &'v Value,
        config: &'v Value,
        managed: Managed<'v>,
        force: bool,
    ) -> Result<(Value, Managed<'v>), ApplyError>
    where
        'a: 'v,
    {
        let (types, ty) = self.typed().map_err(ApplyError::Internal)?;
        let internal = |what: &str, object: &Value, error: &dyn std::fmt::Display| {
            ApplyError::Internal(format!("{what} ({}): {error}", describe(object)))
        };
        types
            .check(ty, config, false)
            .map_err(|e| internal("failed to create typed patch object", config, &e))?;
        types.check(ty, live, true).map_err(|e| internal("failed to create typed live object", live, &e))?;

        let api_version = self.resource.api_version();
        let mut managed = self.reconciled(managed);
        let merged = types
            .merge(ty, live, config)
            .map_err(|e| ApplyError::Internal(format!("failed to merge config: {e}")))?;
        let manager = self.manager(true);
        let last = managed.0.remove(&manager);
        let mut fields = types.field_set(ty, config);
        if let Some(reset) = self.resource.reset_fields(api_version) {
            fields.subtract_below(reset);
        }
        let time = last.as_ref().and_then(|owned| owned.time.clone());
        let nothing_left_out = last.as_ref().is_some_and(|last| last.fields.is_within(&fields));
        managed.0.insert(manager.clone(), Owned { fields, api_version: api_version.to_owned(), time });
        let one_version = managed.0.values().chain(&last).all(|owned| owned.api_version == api_version);

        // Nothing can go of an object whose applier mentions all that it did before. Most applies are like that, and
        // finding out the long way takes longer than all the rest.
        let pruned = if nothing_left_out && one_version {
            merged
        } else {
            self.prune(merged, &managed, last.as_ref())
        };
        let (mut managed, _, conflicts) =
            self.settle(live, &pruned, managed, Some(&manager)).map_err(ApplyError::Internal)?;
        if !force && !conflicts.is_empty() {
            return Err(ApplyError::Conflict(conflicts));
        }

        let changed = !crate::value::equal(live, &pruned);
        if let Some(owned) = managed.0.get_mut(&manager) {
            // A new manager that changes nothing has no time of change.
            if changed {
                owned.time = Some(self.request.now.to_owned());
            }
            owned.fields.subtract(&NEVER_MANAGED);
            if owned.fields.is_empty() {
                managed.0.remove(&manager);
            }
        }
        if !changed {
            return Ok((live.clone(), managed));
        }
        let mut object = pruned;
        self.resource.finish(&mut object).map_err(|e| {
            let (of, kind) = (describe(config), object_type(config));
            ApplyError::Internal(format!(
                "failed to convert new object ({of}) to proper version: unable to convert unstructured object to {kind}: {e}"
            ))
        })?;
        Ok((object, managed))
    }

    /// The record with every manager's fields named as the types are now; managers of versions that are gone left out.
    fn reconciled<'m>(&self, managed: Managed<'m>) -> Managed<'m> {
        let entries = managed.0.into_iter().filter_map(|(manager, mut owned)| {
            let (types, ty) = self.resource.typed(&owned.api_version)?;
            types.reconcile(ty, &mut owned.fields);
            Some((manager, owned))
        });
        Managed(entries.collect())
    }

    /// Takes from all managers but `applier` what the change from `live` to `new` takes from them. Gives the record, the change
    /// as seen in the request's version without the fields that it may not change, and, where there is an applier, what others
    /// owned of it.
    fn settle<'v, 'm>(
        &self,
        live: &'v Value,
        new: &'v Value,
        managed: Managed<'m>,
        applier: Option<&Manager>,
    ) -> Result<(Managed<'m>, Comparison<'v>, Vec<Conflict>), String>
    where
        'a: 'v,
    {
        let own_version = self.resource.api_version();
        let own = self.compare_in(live, new, own_version)?.unwrap_or_default();
        let mut others: HashMap<String, Comparison<'v>> = HashMap::new();
        let mut kept = BTreeMap::new();
        let mut conflicts = Vec::new();
        for (manager, mut owned) in managed.0 {
            if Some(&manager) == applier {
                kept.insert(manager, owned);
                continue;
            }
            let comparison = if owned.api_version == own_version {
                &own
            } else {
                if !others.contains_key(&owned.api_version) {
                    let Some(comparison) = self.compare_in(live, new, &owned.api_version)? else { continue };
                    others.insert(owned.api_version.clone(), comparison);
                }
                let Some(comparison) = others.get(&owned.api_version) else { continue };
                comparison
            };
            let mut taken = owned.fields.intersection(&comparison.modified);
            taken.absorb(owned.fields.intersection(&comparison.added));
            // Only an apply asks before it takes.
            if applier.is_some() && !taken.is_empty() {
                let name = manager.describe();
                let conflict = |path| Conflict { manager: name.clone(), path, key: manager.clone() };
                conflicts.extend(taken.paths().into_iter().map(conflict));
            }
            owned.fields.subtract(&taken);
            owned.fields.subtract(&comparison.removed);
            if !owned.fields.is_empty() {
                kept.insert(manager, owned);
            }
        }
        Ok((Managed(kept), own, conflicts))
    }

    fn compare_in<'v>(
        &self,
        live: &'v Value,
        new: &'v Value,
        api_version: &str,
    ) -> Result<Option<Comparison<'v>>, String>
    where
        'a: 'v,
    {
        let Some((types, ty)) = self.resource.typed(api_version) else { return Ok(None) };
        let (Some(live), Some(new)) =
            (self.resource.convert(live, api_version), self.resource.convert(new, api_version))
        else {
            return Ok(None);
        };
        if api_version != self.resource.api_version() {
            // What another version does not know stands in the way of its managers.
            types.check(ty, &live, true).map_err(|e| format!("failed to convert old object: {e}"))?;
            types.check(ty, &new, true).map_err(|e| format!("failed to convert new object: {e}"))?;
        }
        let comparison = match (live, new) {
            (Cow::Borrowed(live), Cow::Borrowed(new)) => types.compare(ty, live, new),
            (live, new) => types.compare(ty, &live, &new).map(Comparison::into_owned),
        };
        let comparison = comparison.map_err(|e| format!("failed to compare objects: {e}"))?;
        Ok(Some(comparison.excluding(self.resource.reset_fields(api_version))))
    }

    /// The merged object without what the applier applied last time, does not apply now, and no other manager owns.
    fn prune(&self, merged: Value, managed: &Managed<'_>, last: Option<&Owned<'_>>) -> Value {
        let Some(last) = last.filter(|owned| !owned.fields.is_empty()) else { return merged };
        let Some((types, ty)) = self.resource.typed(&last.api_version) else { return merged };
        let Some(base) = self.resource.convert(&merged, &last.api_version) else { return merged };

        let last_fields = last.fields.clone().with_declared_fields(types, Some(ty));
        let mut pruned = types.remove(Some(ty), &base, &last_fields);
        pruned = self.add_back_owned(&base, pruned, &last.api_version, managed);

        // Only what the applier itself had applied may go.
        let Some(pruned_then) = self.resource.convert(&pruned, &last.api_version) else {
            return base.into_owned();
        };
        let pruned_set = types.field_set(ty, &pruned_then).with_declared_fields(types, Some(ty));
        let mut gone = types.field_set(ty, &base).with_declared_fields(types, Some(ty));
        gone.subtract(&pruned_set);
        let gone = gone.intersection(&last_fields);
        let result = types.remove(Some(ty), &base, &gone);
        match self.resource.convert(&result, self.resource.api_version()) {
            Some(result) => result.into_owned(),
            None => merged,
        }
    }

    /// `pruned` with those parts of `merged` put back that some manager owns.
    fn add_back_owned(&self, merged: &Value, pruned: Value, version: &str, managed: &Managed<'_>) -> Value {
        let mut by_version: BTreeMap<&str, FieldSet<'_>> = BTreeMap::new();
        for owned in managed.0.values() {
            by_version.entry(&owned.api_version).or_default().absorb(owned.fields.clone());
        }
        // The version that was pruned in comes first: what it needs may be needed to convert to the others.
        let mut versions: Vec<_> = by_version.into_iter().collect();
        versions.sort_by_key(|(v, _)| *v != version);
        let mut merged = Cow::Borrowed(merged);
        let mut pruned = pruned;
        for (version, owned) in versions {
            let Some((types, ty)) = self.resource.typed(version) else { continue };
            let (Some(whole), Some(part)) =
                (self.resource.convert(&merged, version), self.resource.convert(&pruned, version))
            else {
                continue;
            };
            let mut keep = types.field_set(ty, &part).with_declared_fields(types, Some(ty));
            keep.absorb(owned.with_declared_fields(types, Some(ty)));
            let mut gone = types.field_set(ty, &whole).with_declared_fields(types, Some(ty));
            gone.subtract(&keep);
            pruned = types.remove(Some(ty), &whole, &gone);
            merged = Cow::Owned(whole.into_owned());
        }
        pruned
    }

    /// The fields that client-side apply set and that are still as it set them.
    fn last_applied_fields(&self, live: &Value) -> Option<FieldSet<'static>> {
        let (types, ty) = self.typed().ok()?;
        let text =
            live.pointer("/metadata/annotations")?.get(LAST_APPLIED)?.as_str().filter(|t| !t.is_empty())?;
        let last: Value = serde_json::from_str(text).ok()?;
        if last.get("apiVersion")?.as_str()? != self.resource.api_version() {
            return None;
        }
        types.check(ty, live, false).ok()?;
        types.check(ty, &last, false).ok()?;
        let comparison = types.compare(ty, &last, live).ok()?;
        let mut fields = types.field_set(ty, &last);
        for changed in [&comparison.modified, &comparison.added, &comparison.removed] {
            fields.subtract(changed);
        }
        Some(fields.into_owned())
    }
}

/// Fields without a manager: the object's identity, and what the server sets.
static NEVER_MANAGED: LazyLock<FieldSet<'static>> = LazyLock::new(|| {
    FieldSet::of_fields([
        &["apiVersion"][..],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// Merges the oldest entries of updates into one per version until few enough are left.
fn cap_update_managers(managed: &mut Managed<'_>) {
    let mut updaters: Vec<Manager> = managed.0.keys().filter(|m| !m.applied).cloned().collect();
    if updaters.len() <= MAX_UPDATE_MANAGERS {
        return;
    }
    updaters.sort_by_cached_key(|m| {
        (managed.0.get(m).and_then(|o| o.time.clone()).unwrap_or_default(), m.clone())
    });
    let mut left = updaters.len();
    let mut first_of_version: HashMap<String, Manager> = HashMap::new();
    for manager in updaters {
        if left <= MAX_UPDATE_MANAGERS {
            break;
        }
        let Some(version) = managed.0.get(&manager).map(|o| o.api_version.clone()) else { continue };
        let Some(first) = first_of_version.get(&version) else {
            first_of_version.insert(version, manager);
            continue;
        };
        let bucket = Manager {
            name: "ancient-changes".into(),
            applied: false,
            api_version: version,
            subresource: String::new(),
        };
        if !managed.0.contains_key(&bucket)
            && let Some(owned) = managed.0.remove(first)
        {
            managed.0.insert(bucket.clone(), owned);
        }
        if let Some(owned) = managed.0.remove(&manager)
            && let Some(ancient) = managed.0.get_mut(&bucket)
        {
            ancient.fields.absorb(owned.fields);
            ancient.time = owned.time;
        }
        left -= 1;
    }
}

/// `namespace/name; group/version, Kind=kind`, as messages name an object.
fn describe(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    format!("{namespace}/{name}; {}", object_type(object))
}

/// `group/version, Kind=kind`, as messages name a type.
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
        // One less.
        let live = apply(&live, json!({"a": 2}));
        assert_eq!(live["spec"], json!({"a": 2, "default": 7}));
        assert_eq!(live["metadata"]["managedFields"][0]["fieldsV1"], r#"{"f:spec":{"f:a":{}}}"#);
        let mut shown = live.clone();
        unpack(&mut shown);
        assert_eq!(shown["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:spec": {"f:a": {}}}));
        pack(&mut shown);
        assert_eq!(shown, live);
    }
}
