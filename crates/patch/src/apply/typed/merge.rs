//! Merges an applied configuration into an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::trail::Trail;
use super::{Errors, Form, as_list, as_map, check_scalar, form};
use crate::apply::path::PathElement;
use crate::apply::types::{ListMerge, ListType, MapType, Scalar, TypeId, Types};

/// Placeholder for duplicate items; any value overrides null.
const REPEATED: &Value = &Value::Null;

pub(super) struct Merge<'a> {
    pub(super) types: &'a Types,
    pub(super) errors: Errors,
}

impl<'a> Merge<'a> {
    /// Both values have passed `check`, so what only one of them has is taken unchanged.
    pub(super) fn value(
        &mut self,
        ty: TypeId,
        base: &'a Value,
        config: &'a Value,
        at: &Trail<'_>,
    ) -> Option<Value> {
        let atom = self.types.atom(ty);
        // If the two values have different forms of the type, the configuration's wins.
        match form(atom, Some(config)) {
            Form::Map => {
                let (old, new) = (as_map(Some(base)), as_map(Some(config)));
                let is_empty = old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty);
                match &atom.map {
                    Some(map) if !map.atomic && !is_empty => self.map(map, old, new, at),
                    _ => Some(config.clone()),
                }
            }
            Form::List => {
                let (old, new) = (as_list(Some(base)), as_list(Some(config)));
                let is_empty = old.is_empty() && new.is_empty();
                match &atom.list {
                    Some(list) if list.merge != ListMerge::Atomic && !is_empty => {
                        self.list(list, old, new, at)
                    }
                    _ => Some(config.clone()),
                }
            }
            Form::Scalar => {
                let scalar = atom.scalar.unwrap_or(Scalar::Untyped);
                let old = check_scalar(scalar, Some(base), "lhs: ");
                let new = check_scalar(scalar, Some(config), "rhs: ");
                if let (Err(old), Err(new)) = (old, new) {
                    self.errors.push(at, old);
                    self.errors.push(at, new);
                }
                Some(config.clone())
            }
            Form::None => {
                self.errors.push(at, "schema error: invalid atom: inlined");
                None
            }
        }
    }

    fn map(
        &mut self,
        ty: &'a MapType,
        base: Option<&'a Map<String, Value>>,
        config: Option<&'a Map<String, Value>>,
        at: &Trail<'_>,
    ) -> Option<Value> {
        let mut out = Map::new();
        for (name, old) in base.into_iter().flatten() {
            let Some(child) = ty.field_type(name) else { continue };
            let merged = match config.and_then(|map| map.get(name)) {
                Some(new) => self.value(child, old, new, &at.field(name)),
                None => Some(old.clone()),
            };
            out.extend(merged.map(|value| (name.clone(), value)));
        }
        for (name, new) in config.into_iter().flatten() {
            if base.is_none_or(|map| !map.contains_key(name)) && ty.field_type(name).is_some() {
                out.insert(name.clone(), new.clone());
            }
        }
        if out.is_empty() { None } else { Some(Value::Object(out)) }
    }

    /// Returns the path elements of a list's items, and the item for each.
    fn index(
        &mut self,
        ty: &'a ListType,
        items: &'a [Value],
        duplicates: bool,
        at: &Trail<'_>,
    ) -> (Vec<PathElement<'a>>, BTreeMap<PathElement<'a>, &'a Value>) {
        let mut elements = Vec::with_capacity(items.len());
        let mut by_element = BTreeMap::new();
        for (i, item) in items.iter().enumerate() {
            let element = match self.types.item_element(ty, item) {
                Ok(element) => element,
                Err(message) => {
                    self.errors.push(at, format!("element {i}: {message}"));
                    continue;
                }
            };
            if by_element.contains_key(&element) {
                if !duplicates {
                    self.errors.push(at, format!("duplicate entries for key {element}"));
                    continue;
                }
                by_element.insert(element.clone(), REPEATED);
            } else {
                by_element.insert(element.clone(), item);
            }
            elements.push(element);
        }
        (elements, by_element)
    }

    /// Merges item by item.
    /// Items in both lists follow the order of `config`; the others keep their position relative to those.
    fn list(
        &mut self,
        ty: &'a ListType,
        base: &'a [Value],
        config: &'a [Value],
        at: &Trail<'_>,
    ) -> Option<Value> {
        let before = self.errors.0.len();
        let (new_elements, new_items) = self.index(ty, config, false, at);
        let (old_elements, old_items) = self.index(ty, base, true, at);
        if self.errors.0.len() > before {
            return None;
        }
        let mut item = |element: &PathElement<'a>| match (old_items.get(element), new_items.get(element)) {
            (Some(old), Some(new)) => self.value(ty.elem, old, new, &at.element(element)),
            (old, new) => new.or(old).map(|&item| item.clone()),
        };
        let mut shared = new_elements.iter().filter(|e| old_items.contains_key(e));
        let mut next_shared = shared.next();
        let mut merged: BTreeSet<&PathElement<'_>> = BTreeSet::new();
        let mut out = Vec::with_capacity(base.len().max(config.len()));
        let (mut l, mut r) = (0, 0);
        while l < old_elements.len() || r < new_elements.len() {
            if let (Some(old), Some(new)) = (old_elements.get(l), new_elements.get(r)) {
                if old == new {
                    merged.insert(new);
                    out.extend(item(new));
                    (l, r) = (l + 1, r + 1);
                    next_shared = shared.next();
                    continue;
                }
                if new_items.contains_key(old) && next_shared.is_some_and(|next| next != old) {
                    // Both lists have it, but `config` has it later.
                    l += 1;
                    continue;
                }
            }
            if let Some(old) = old_elements.get(l) {
                if !new_items.contains_key(old) {
                    out.extend(base.get(l).cloned());
                    l += 1;
                    continue;
                }
                if merged.contains(old) {
                    l += 1;
                }
            }
            if let Some(new) = new_elements.get(r) {
                merged.insert(new);
                out.extend(item(new));
                r += 1;
                if next_shared == Some(new) {
                    next_shared = shared.next();
                }
            }
        }
        if out.is_empty() { None } else { Some(Value::Array(out)) }
    }
}
