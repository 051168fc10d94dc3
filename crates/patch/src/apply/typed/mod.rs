//! Typed operations on values: check, list fields, merge, compare and remove.

mod atomic;
mod check;
mod compare;
mod fields;
mod merge;
mod trail;

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};
use steersman_gostd::strconv::quote;

use super::field_set::FieldSet;
use super::path::{Path, PathElement};
use super::types::{Atom, ListMerge, ListType, MapType, Scalar, TypeId, Types};
use crate::value;

use check::Check;
use compare::Compare;
pub(crate) use compare::Comparison;
use merge::Merge;
use trail::Trail;

/// The schema violations found in a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TypeErrors(Vec<TypeError>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct TypeError {
    path: String,
    message: String,
}

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |e: &TypeError| match e.path.as_str() {
            "" => e.message.clone(),
            path => format!("{path}: {}", e.message),
        };
        match self.0.as_slice() {
            [single] => f.write_str(&line(single)),
            many => {
                f.write_str("errors:")?;
                many.iter().try_for_each(|e| write!(f, "\n  {}", line(e)))
            }
        }
    }
}

/// Violations collected during a walk.
#[derive(Default)]
struct Errors(Vec<TypeError>);

impl Errors {
    fn push(&mut self, at: &Trail<'_>, message: impl Into<String>) {
        self.push_at(&at.path(), message);
    }

    fn push_at(&mut self, path: &Path, message: impl Into<String>) {
        self.0.push(TypeError { path: path.to_string(), message: message.into() });
    }

    fn finish(self) -> Result<(), TypeErrors> {
        if self.0.is_empty() { Ok(()) } else { Err(TypeErrors(self.0)) }
    }
}

/// The form a value takes; a type may allow more than one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Map,
    Scalar,
    List,
    /// The type allows no form.
    None,
}

/// Returns a value's form. A value that matches none, such as null, takes the first form of the type.
fn form(atom: &Atom, value: Option<&Value>) -> Form {
    match value {
        Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if atom.scalar.is_some() => Form::Scalar,
        Some(Value::Array(_)) if atom.list.is_some() => Form::List,
        Some(Value::Object(_)) if atom.map.is_some() => Form::Map,
        _ if atom.map.is_some() => Form::Map,
        _ if atom.scalar.is_some() => Form::Scalar,
        _ if atom.list.is_some() => Form::List,
        _ => Form::None,
    }
}

fn as_map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn as_list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn check_scalar(scalar: Scalar, value: Option<&Value>, prefix: &str) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => Ok(()),
        (Scalar::Numeric, other) => {
            Err(format!("{prefix}expected numeric (int or float), got {}", value::go_type(other)))
        }
        (Scalar::String, other) => Err(format!(
            "{prefix}expected string, got &value.valueUnstructured{{Value:{}}}",
            go_syntax(other)
        )),
        (Scalar::Boolean, other) => {
            Err(format!("{prefix}expected boolean, got &{{{}}}", value::go_print(other)))
        }
        (Scalar::Untyped, other) => {
            Err(format!("{prefix}expected any scalar, got &{{{}}}", value::go_print(other)))
        }
    }
}

/// Formats a value like Go's `%#v`.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            let entries: Vec<_> =
                entries.iter().map(|(k, v)| format!("{}:{}", quote(k), go_syntax(v))).collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        Value::Null => "interface {}(nil)".into(),
        other => other.to_string(),
    }
}

impl Types {
    /// Returns the path element that identifies an item of a keyed list or a set.
    fn item_element<'v>(&'v self, list: &'v ListType, item: &'v Value) -> Result<PathElement<'v>, String> {
        match &list.merge {
            ListMerge::Atomic => Err("invalid indexing of non-associative list".into()),
            ListMerge::Set => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".into())
                }
                scalar => Ok(PathElement::Value(Cow::Borrowed(scalar))),
            },
            ListMerge::Map(keys) => self.keyed_element(list, keys, item),
        }
    }

    fn keyed_element<'v>(
        &'v self,
        list: &'v ListType,
        keys: &'v [String],
        item: &'v Value,
    ) -> Result<PathElement<'v>, String> {
        let map = keyed(item)?;
        let mut fields = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(value) = self.key_value(list, key, map)? {
                fields.push((Cow::Borrowed(key.as_str()), Cow::Borrowed(value)));
            }
        }
        if !keys.is_empty() && fields.is_empty() {
            return Err(keyless(keys));
        }
        if fields.len() > 1 {
            fields.sort_by(|a, b| a.0.cmp(&b.0));
        }
        Ok(PathElement::Key(fields))
    }

    /// Returns the value of a key field, or the default of that field.
    fn key_value<'v>(
        &'v self,
        list: &ListType,
        key: &str,
        item: &'v Map<String, Value>,
    ) -> Result<Option<&'v Value>, String> {
        if let Some(value) = item.get(key) {
            return Ok(Some(value));
        }
        let Some(elem) = &self.atom(list.elem).map else {
            let reason = "associative list may not have non-map types";
            return Err(format!("couldn't find default value for {key}: {reason}"));
        };
        Ok(elem.fields.get(key).and_then(|field| field.default.as_ref()))
    }

    /// Checks that the item has a usable key.
    fn check_item(&self, list: &ListType, item: &Value) -> Result<(), String> {
        let ListMerge::Map(keys) = &list.merge else {
            return self.item_element(list, item).map(drop);
        };
        let map = keyed(item)?;
        let mut known = keys.is_empty();
        for key in keys {
            known |= self.key_value(list, key, map)?.is_some();
        }
        if known { Ok(()) } else { Err(keyless(keys)) }
    }

    /// Checks a value against a type.
    /// Sets and keyed lists may have duplicate items only if `duplicates` is true.
    pub fn check(&self, ty: TypeId, value: &Value, duplicates: bool) -> Result<(), TypeErrors> {
        let mut walk = Check { types: self, duplicates, errors: Errors::default() };
        walk.value(ty, value, &Trail::ROOT);
        walk.errors.finish()
    }

    /// Returns every leaf field and list item that a value sets.
    pub fn field_set<'v>(&'v self, ty: TypeId, value: &'v Value) -> FieldSet<'v> {
        fields::of_value(self, ty, value).children
    }

    /// Merges `config` into `base`.
    pub(crate) fn merge<'v>(
        &'v self,
        ty: TypeId,
        base: &'v Value,
        config: &'v Value,
    ) -> Result<Value, TypeErrors> {
        let mut walk = Merge { types: self, errors: Errors::default() };
        let merged = walk.value(ty, base, config, &Trail::ROOT);
        walk.errors.finish()?;
        Ok(merged.unwrap_or(Value::Null))
    }

    /// Merges an apply configuration into `object`, without changing `managedFields`.
    ///
    /// # Errors
    /// The configuration or the object violates the schema. A configuration may not set an atomic list or map:
    /// whatever it omits from it would be lost.
    pub fn configure(&self, ty: TypeId, object: &Value, config: &Value) -> Result<Value, String> {
        self.check(ty, config, false)
            .map_err(|e| format!("failed to convert patch object to typed object: {e}"))?;
        let atomics = self.atomics(ty, config);
        if !atomics.is_empty() {
            let list = atomics.join(", ");
            return Err(format!(
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {list}"
            ));
        }
        self.check(ty, object, true)
            .map_err(|e| format!("failed to convert original object to typed object: {e}"))?;
        self.merge(ty, object, config).map_err(|e| format!("failed to merge patch: {e}"))
    }

    /// Compares two values of a type.
    pub(crate) fn compare<'v>(
        &'v self,
        ty: TypeId,
        old: &'v Value,
        new: &'v Value,
    ) -> Result<Comparison<'v>, TypeErrors> {
        let mut walk = Compare { types: self, errors: Errors::default() };
        let change = walk.value(ty, old, new, &Trail::ROOT);
        walk.errors.finish()?;
        Ok(change.into())
    }

    /// Returns the value without the fields in `set`.
    pub(crate) fn remove(&self, ty: Option<TypeId>, value: &Value, set: &FieldSet<'_>) -> Value {
        let Some(ty) = ty else { return Value::Null };
        let atom = self.atom(ty);
        match (form(atom, Some(value)), value) {
            (Form::Scalar, _) => value.clone(),
            (Form::List, Value::Array(items)) => match &atom.list {
                Some(list) if list.merge != ListMerge::Atomic => self.remove_items(list, items, set),
                _ => Value::Null,
            },
            (Form::Map, Value::Object(map)) => match &atom.map {
                Some(ty) if !ty.atomic => self.remove_fields(ty, map, set),
                _ => Value::Null,
            },
            _ => Value::Null,
        }
    }

    fn remove_items(&self, list: &ListType, items: &[Value], set: &FieldSet<'_>) -> Value {
        let mut kept = Vec::with_capacity(items.len());
        for item in items {
            // Items without a key were rejected when the object was checked.
            let element = self.item_element(list, item).ok();
            match element.and_then(|element| set.get(&element)) {
                Some(node) if node.member => {}
                Some(node) => kept.push(self.remove(Some(list.elem), item, &node.children)),
                None => kept.push(item.clone()),
            }
        }
        if kept.is_empty() { Value::Null } else { Value::Array(kept) }
    }

    fn remove_fields(&self, ty: &MapType, map: &Map<String, Value>, set: &FieldSet<'_>) -> Value {
        let mut kept = Map::new();
        for (name, value) in map {
            let value = match set.field(name) {
                Some(node) if node.member => continue,
                Some(node) => self.remove(ty.field_type(name), value, &node.children),
                None => value.clone(),
            };
            kept.insert(name.clone(), value);
        }
        if kept.is_empty() { Value::Null } else { Value::Object(kept) }
    }

    /// Adapts a set to the current types: fields inside a now atomic list or map become that list or map.
    pub(crate) fn reconcile(&self, ty: TypeId, set: &mut FieldSet<'_>) {
        let mut leaves = FieldSet::default();
        self.find_new_leaves(ty, Some(set), false, &mut Vec::new(), &mut leaves);
        if !leaves.is_empty() {
            set.subtract_below(&leaves);
            set.absorb(leaves);
        }
    }

    fn find_new_leaves<'s, 'f>(
        &self,
        ty: TypeId,
        set: Option<&'s FieldSet<'f>>,
        is_leaf: bool,
        path: &mut Vec<&'s PathElement<'f>>,
        leaves: &mut FieldSet<'f>,
    ) {
        let atom = self.atom(ty);
        if let Some(map) = &atom.map {
            if Self::is_deduced_map(map) {
                return;
            }
            if map.atomic && !is_leaf {
                if set.is_some_and(|set| !set.is_empty()) {
                    leaves.insert_by_ref(path);
                }
                return;
            }
            for (element, member, below) in set.into_iter().flat_map(FieldSet::elements) {
                let PathElement::Field(name) = element else { continue };
                let Some(child) = map.field_type(name) else { continue };
                self.descend_for_leaves(child, element, member, below, path, leaves);
            }
        } else if atom.scalar.is_some() {
        } else if let Some(list) = &atom.list {
            if list.merge == ListMerge::Atomic && !is_leaf {
                leaves.insert_by_ref(path);
                return;
            }
            for (element, member, below) in set.into_iter().flat_map(FieldSet::elements) {
                self.descend_for_leaves(list.elem, element, member, below, path, leaves);
            }
        }
    }

    fn descend_for_leaves<'s, 'f>(
        &self,
        ty: TypeId,
        element: &'s PathElement<'f>,
        member: bool,
        below: &'s FieldSet<'f>,
        path: &mut Vec<&'s PathElement<'f>>,
        leaves: &mut FieldSet<'f>,
    ) {
        path.push(element);
        let below = Some(below).filter(|set| !set.is_empty());
        self.find_new_leaves(ty, below, member && below.is_none(), path, leaves);
        path.pop();
    }
}

fn keyed(item: &Value) -> Result<&Map<String, Value>, String> {
    match item {
        Value::Null => Err("associative list with keys may not have a null element".into()),
        Value::Object(map) => Ok(map),
        _ => Err("associative list with keys may not have non-map elements".into()),
    }
}

fn keyless(keys: &[String]) -> String {
    let keys: Vec<_> = keys.iter().map(quote).collect();
    format!(
        "associative list with keys has an element that omits all key fields [{}] \
         (and doesn't have default values for any key fields)",
        keys.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_of_keyed_lists_are_objects_with_a_key() {
        let (types, ty) = Types::from_structural(
            &json!({"type": "object", "properties": {"list": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            }}}),
            None,
        );
        let check = |item: Value| types.check(ty, &json!({"list": [item]}), false).map_err(|e| e.to_string());
        assert!(check(json!({"name": "a"})).is_ok());
        for (item, why) in [
            (json!(null), "may not have a null element"),
            (json!(1), "may not have non-map elements"),
            (json!({}), "omits all key fields [\"name\"]"),
        ] {
            let error = check(item.clone()).unwrap_err();
            assert!(error.contains(why), "{item}: {error}");
        }
    }

    #[test]
    fn objects_may_be_nested_to_a_depth() {
        let (types, ty) = Types::deduced();
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({"a": inner}));
        assert!(types.check(ty, &nested(1_000), false).is_ok());
        let error = types.check(ty, &nested(1_001), false).unwrap_err().to_string();
        assert!(error.contains("exceeds the maximum nesting depth of 1000"), "{error}");
    }
}
