//! Computes `managedFields` and the resulting object for a single write.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::Value;

use super::field_set::FieldSet;
use super::managed::{Managed, Manager, Owned};
use super::typed::Comparison;
use super::types::{TypeId, Types};
use super::{ApplyError, Conflict, LAST_APPLIED, Request, Resource, describe, object_type};

/// Maximum number of `Update` entries; beyond it, the oldest are merged.
const MAX_UPDATE_MANAGERS: usize = 10;
/// A write by one manager.
pub(super) struct Writer<'a> {
    pub(super) resource: &'a dyn Resource,
    pub(super) request: Request<'a>,
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

    /// Returns the managers after an update, patch or create that turned `live` into `new`.
    pub(super) fn update<'v>(
        &self,
        live: &'v Value,
        new: &'v Value,
        managed: Managed<'v>,
    ) -> Result<Managed<'v>, String>
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
        let managed = self.reconciled(live, managed)?;
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

    /// Returns the object and its managers after an apply.
    pub(super) fn apply<'v>(
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
        let mut managed = self.reconciled(live, managed).map_err(ApplyError::Internal)?;
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

        // Nothing can be pruned if the applier still sets every field it set before. Most applies are like that, and
        // the full computation takes longer than everything else.
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
            // A new manager that changes nothing gets no timestamp.
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

    /// Adapts every manager's fields to the current types.
    /// Managers with versions that no longer exist are dropped.
    ///
    /// # Errors
    /// If the object does not match the types of a manager's version.
    pub(super) fn reconciled<'m>(&self, live: &Value, managed: Managed<'m>) -> Result<Managed<'m>, String> {
        let mut entries = BTreeMap::new();
        let mut fits: HashSet<String> = HashSet::from([self.resource.api_version().to_owned()]);
        for (manager, mut owned) in managed.0 {
            let Some((types, ty)) = self.resource.typed(&owned.api_version) else {
                match self.resource.refuse_version(&owned.api_version) {
                    Some(why) => return Err(why),
                    None => continue,
                }
            };
            if !fits.contains(&owned.api_version)
                && let Some(live) = self.resource.convert(live, &owned.api_version)
            {
                types.check(ty, &live, true).map_err(|error| error.to_string())?;
                fits.insert(owned.api_version.clone());
            }
            types.reconcile(ty, &mut owned.fields);
            entries.insert(manager, owned);
        }
        Ok(Managed(entries))
    }

    /// Removes the changed fields from all managers but `applier`.
    /// Returns the remaining managers; the comparison in the request's version, without reset fields; and, for an
    /// apply, the conflicts with other managers.
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
            // Only an apply can conflict; an update takes ownership.
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
            // The object must also match the schema in the versions of other managers. The live object has been
            // checked already.
            types.check(ty, &new, true).map_err(|e| format!("failed to convert new object: {e}"))?;
        }
        let comparison = match (live, new) {
            (Cow::Borrowed(live), Cow::Borrowed(new)) => types.compare(ty, live, new),
            (live, new) => types.compare(ty, &live, &new).map(Comparison::into_owned),
        };
        let comparison = comparison.map_err(|e| format!("failed to compare objects: {e}"))?;
        Ok(Some(comparison.excluding(self.resource.reset_fields(api_version))))
    }

    /// Removes fields that the applier applied last time but not now, and that no other manager owns.
    fn prune(&self, merged: Value, managed: &Managed<'_>, last: Option<&Owned<'_>>) -> Value {
        let Some(last) = last.filter(|owned| !owned.fields.is_empty()) else { return merged };
        let Some((types, ty)) = self.resource.typed(&last.api_version) else { return merged };
        let Some(base) = self.resource.convert(&merged, &last.api_version) else { return merged };

        let last_fields = last.fields.clone().with_declared_fields(types, Some(ty));
        let mut pruned = types.remove(Some(ty), &base, &last_fields);
        pruned = self.add_back_owned(&base, pruned, &last.api_version, managed);

        // Only fields that this applier had applied may be removed.
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

    /// Restores the parts of `merged` that some manager owns to `pruned`.
    fn add_back_owned(&self, merged: &Value, pruned: Value, version: &str, managed: &Managed<'_>) -> Value {
        let mut by_version: BTreeMap<&str, FieldSet<'_>> = BTreeMap::new();
        for owned in managed.0.values() {
            by_version.entry(&owned.api_version).or_default().absorb(owned.fields.clone());
        }
        // The version used for pruning first: converting to the others may need the fields it restores.
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

    /// Returns the fields set by client-side apply whose values have not changed since.
    pub(super) fn last_applied_fields(&self, live: &Value) -> Option<FieldSet<'static>> {
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

/// Fields without a manager: the object's identity and fields set by the server.
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

/// Merges the oldest `Update` entries into one per version until the limit is met.
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
