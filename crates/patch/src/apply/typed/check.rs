//! Checks a value against its type.

use std::collections::BTreeSet;

use serde_json::Value;

use super::trail::Trail;
use super::{Errors, Form, check_scalar, form};
use crate::apply::types::{ListMerge, ListType, MapType, Scalar, TypeId, Types};
use crate::value;

/// Maximum nesting depth of objects. Kubernetes' own decoders stop earlier.
const MAX_DEPTH: usize = 1_000;

pub(super) struct Check<'a> {
    pub(super) types: &'a Types,
    /// Whether sets and keyed lists may contain duplicate items.
    pub(super) duplicates: bool,
    pub(super) errors: Errors,
}

impl Check<'_> {
    pub(super) fn value(&mut self, ty: TypeId, value: &Value, at: &Trail<'_>) {
        if at.depth() > MAX_DEPTH {
            return self
                .errors
                .push_at(&at.start(), format!("exceeds the maximum nesting depth of {MAX_DEPTH}"));
        }
        let atom = self.types.atom(ty);
        match form(atom, Some(value)) {
            Form::Map => self.map(atom.map.as_ref(), value, at),
            Form::Scalar => {
                let scalar = atom.scalar.unwrap_or(Scalar::Untyped);
                if let Err(message) = check_scalar(scalar, Some(value), "") {
                    self.errors.push(at, message);
                }
            }
            Form::List => self.list(atom.list.as_ref(), value, at),
            Form::None if Types::is_missing(ty) => {
                self.errors.push(at, "schema error: no type found matching");
            }
            Form::None => self.errors.push(at, "schema error: invalid atom: inlined"),
        }
    }

    fn map(&mut self, ty: Option<&MapType>, value: &Value, at: &Trail<'_>) {
        let (ty, map) = match (ty, value) {
            (Some(ty), Value::Object(map)) => (ty, map),
            (_, Value::Null) => return,
            _ => {
                let message = format!("expected map, got &{{{}}}", value::go_print(value));
                return self.errors.push(at, message);
            }
        };
        for (name, value) in map {
            let at = at.field(name);
            match ty.field_type(name) {
                Some(child) => self.value(child, value, &at),
                // Fields after an unknown one are not checked.
                None => return self.errors.push(&at, "field not declared in schema"),
            }
        }
    }

    fn list(&mut self, ty: Option<&ListType>, value: &Value, at: &Trail<'_>) {
        let (ty, items) = match (ty, value) {
            (Some(ty), Value::Array(items)) => (ty, items),
            (_, Value::Null) => return,
            _ => {
                let message = format!("expected list, got &{{{}}}", value::go_print(value));
                return self.errors.push(at, message);
            }
        };
        if ty.merge == ListMerge::Atomic {
            for (i, item) in items.iter().enumerate() {
                self.value(ty.elem, item, &at.index(i));
            }
            return;
        }
        let mut seen = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            if let Err(message) = self.types.check_item(ty, item) {
                return self.errors.push(at, format!("element {i}: {message}"));
            }
            if !self.duplicates
                && let Ok(element) = self.types.item_element(ty, item)
                && !seen.insert(element.clone())
            {
                self.errors.push(at, format!("duplicate entries for key {element}"));
            }
            self.value(ty.elem, item, &at.item(self.types, ty, item));
        }
    }
}
