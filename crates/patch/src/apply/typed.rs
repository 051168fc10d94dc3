//! What can be done with a value once its type is known: check it, list its fields, merge, compare and prune.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::path::{FieldSet, Path, PathElement};
use super::types::{Atom, ListMerge, ListType, MapType, Scalar, TypeId, Types};
use crate::value;

/// How deep objects may be nested. Kubernetes' own decoders stop earlier.
const MAX_DEPTH: usize = 1_000;

/// What is wrong with a value, by its type.
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

/// Errors gathered on a walk.
#[derive(Default)]
struct Errors(Vec<TypeError>);

impl Errors {
    fn push(&mut self, path: &[PathElement], message: impl Into<String>) {
        let path = Path(path.to_vec()).to_string();
        self.0.push(TypeError { path, message: message.into() });
    }

    fn finish(self) -> Result<(), TypeErrors> {
        if self.0.is_empty() { Ok(()) } else { Err(TypeErrors(self.0)) }
    }
}

/// Which of the three forms of a type a value takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Map,
    Scalar,
    List,
    /// The type has no form at all.
    None,
}

/// The form that a value has by its type. A value that fits none, null for one, takes the type's first form.
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
            Err(format!("{prefix}expected numeric (int or float), got {}", go_type(other)))
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

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go's `%#v` prints it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            let entries: Vec<_> = entries.iter().map(|(k, v)| format!("{k:?}:{}", go_syntax(v))).collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        Value::Null => "interface {}(nil)".into(),
        other => other.to_string(),
    }
}

impl Types {
    /// The element that tells this item of a keyed list or a set from the others.
    fn item_element(&self, list: &ListType, item: &Value) -> Result<PathElement, String> {
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
                scalar => Ok(PathElement::Value(scalar.clone())),
            },
            ListMerge::Map(keys) => self.keyed_element(list, keys, item),
        }
    }

    fn keyed_element(&self, list: &ListType, keys: &[String], item: &Value) -> Result<PathElement, String> {
        let map = match item {
            Value::Null => return Err("associative list with keys may not have a null element".into()),
            Value::Object(map) => map,
            _ => return Err("associative list with keys may not have non-map elements".into()),
        };
        let mut fields = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(value) = map.get(key) {
                fields.push((key.clone(), value.clone()));
                continue;
            }
            let Some(elem) = &self.atom(list.elem).map else {
                let reason = "associative list may not have non-map types";
                return Err(format!("couldn't find default value for {key}: {reason}"));
            };
            if let Some(default) = elem.fields.get(key).and_then(|field| field.default.as_ref()) {
                fields.push((key.clone(), default.clone()));
            }
        }
        if !keys.is_empty() && fields.is_empty() {
            let keys: Vec<_> = keys.iter().map(|k| format!("{k:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] \
                 (and doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(PathElement::Key(fields))
    }

    /// Checks that a value is of a type. Items of sets and keyed lists may repeat only if `duplicates` allows it.
    pub fn check(&self, ty: TypeId, value: &Value, duplicates: bool) -> Result<(), TypeErrors> {
        let mut walk = Check { types: self, duplicates, path: Vec::new(), errors: Errors::default() };
        walk.value(ty, value);
        walk.errors.finish()
    }

    /// Every leaf field and list item that a value mentions.
    pub fn field_set(&self, ty: TypeId, value: &Value) -> FieldSet {
        let mut walk = Fields { types: self, path: Vec::new(), set: FieldSet::default() };
        walk.value(ty, value);
        walk.set
    }

    /// `base` with all that `config` mentions put over it.
    pub(crate) fn merge(&self, ty: TypeId, base: &Value, config: &Value) -> Result<Value, TypeErrors> {
        let mut walk = Merge { types: self, path: Vec::new(), errors: Errors::default() };
        let merged = walk.value(ty, Some(base), Some(config));
        walk.errors.finish()?;
        Ok(merged.unwrap_or(Value::Null))
    }

    /// What changed from one value to another.
    pub(crate) fn compare(&self, ty: TypeId, old: &Value, new: &Value) -> Result<Comparison, TypeErrors> {
        let mut walk =
            Compare { types: self, path: Vec::new(), out: Comparison::default(), errors: Errors::default() };
        walk.value(ty, Some(old), Some(new));
        walk.errors.finish()?;
        Ok(walk.out)
    }

    /// The value without what is in the set.
    pub(crate) fn remove(&self, ty: Option<TypeId>, value: &Value, set: &FieldSet) -> Value {
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

    fn remove_items(&self, list: &ListType, items: &[Value], set: &FieldSet) -> Value {
        let mut kept = Vec::with_capacity(items.len());
        for item in items {
            // An item without a key was refused when the object was checked.
            let Ok(element) = self.item_element(list, item) else {
                kept.push(item.clone());
                continue;
            };
            if set.has(&element) {
                continue;
            }
            kept.push(match set.below(&element) {
                Some(below) => self.remove(Some(list.elem), item, below),
                None => item.clone(),
            });
        }
        if kept.is_empty() { Value::Null } else { Value::Array(kept) }
    }

    fn remove_fields(&self, ty: &MapType, map: &Map<String, Value>, set: &FieldSet) -> Value {
        let mut kept = Map::new();
        for (name, value) in map {
            let element = PathElement::Field(name.clone());
            if set.has(&element) {
                continue;
            }
            let value = match set.below(&element) {
                Some(below) => self.remove(ty.field_type(name), value, below),
                None => value.clone(),
            };
            kept.insert(name.clone(), value);
        }
        if kept.is_empty() { Value::Null } else { Value::Object(kept) }
    }

    /// The set as it would be had the type always been as it is: what has become one leaf is owned as one.
    pub(crate) fn reconcile(&self, ty: TypeId, set: &FieldSet) -> FieldSet {
        let mut leaves = FieldSet::default();
        self.find_new_leaves(ty, Some(set), false, &mut Vec::new(), &mut leaves);
        if leaves.is_empty() {
            return set.clone();
        }
        set.recursive_difference(&leaves).union(&leaves)
    }

    fn find_new_leaves(
        &self,
        ty: TypeId,
        set: Option<&FieldSet>,
        is_leaf: bool,
        path: &mut Vec<PathElement>,
        leaves: &mut FieldSet,
    ) {
        let atom = self.atom(ty);
        if let Some(map) = &atom.map {
            if Self::is_deduced_map(map) {
                return;
            }
            if map.atomic && !is_leaf {
                if set.is_some_and(|set| !set.is_empty()) {
                    leaves.insert(path);
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
                leaves.insert(path);
                return;
            }
            for (element, member, below) in set.into_iter().flat_map(FieldSet::elements) {
                self.descend_for_leaves(list.elem, element, member, below, path, leaves);
            }
        }
    }

    fn descend_for_leaves(
        &self,
        ty: TypeId,
        element: &PathElement,
        member: bool,
        below: &FieldSet,
        path: &mut Vec<PathElement>,
        leaves: &mut FieldSet,
    ) {
        path.push(element.clone());
        let below = Some(below).filter(|set| !set.is_empty());
        self.find_new_leaves(ty, below, member && below.is_none(), path, leaves);
        path.pop();
    }
}

struct Check<'a> {
    types: &'a Types,
    duplicates: bool,
    path: Vec<PathElement>,
    errors: Errors,
}

impl Check<'_> {
    fn value(&mut self, ty: TypeId, value: &Value) {
        if self.path.len() > MAX_DEPTH {
            return self.errors.push(&self.path[..1], format!("nested more than {MAX_DEPTH} deep"));
        }
        let types = self.types;
        let atom = types.atom(ty);
        match form(atom, Some(value)) {
            Form::Map => self.map(atom.map.as_ref(), value),
            Form::Scalar => {
                let scalar = atom.scalar.unwrap_or(Scalar::Untyped);
                if let Err(message) = check_scalar(scalar, Some(value), "") {
                    self.errors.push(&self.path, message);
                }
            }
            Form::List => self.list(atom.list.as_ref(), value),
            Form::None if Types::is_missing(ty) => {
                self.errors.push(&self.path, "schema error: no type found matching");
            }
            Form::None => self.errors.push(&self.path, "schema error: invalid atom: inlined"),
        }
    }

    fn map(&mut self, ty: Option<&MapType>, value: &Value) {
        let (ty, map) = match (ty, value) {
            (Some(ty), Value::Object(map)) => (ty, map),
            (_, Value::Null) => return,
            _ => {
                let message = format!("expected map, got &{{{}}}", value::go_print(value));
                return self.errors.push(&self.path, message);
            }
        };
        for (name, value) in map {
            self.path.push(PathElement::Field(name.clone()));
            match ty.field_type(name) {
                Some(child) => self.value(child, value),
                None => self.errors.push(&self.path, "field not declared in schema"),
            }
            self.path.pop();
        }
    }

    fn list(&mut self, ty: Option<&ListType>, value: &Value) {
        let (ty, items) = match (ty, value) {
            (Some(ty), Value::Array(items)) => (ty, items),
            (_, Value::Null) => return,
            _ => {
                let message = format!("expected list, got &{{{}}}", value::go_print(value));
                return self.errors.push(&self.path, message);
            }
        };
        let mut seen = BTreeMap::new();
        for (i, item) in items.iter().enumerate() {
            let element = if ty.merge == ListMerge::Atomic {
                PathElement::Index(i64::try_from(i).unwrap_or(i64::MAX))
            } else {
                match self.types.item_element(ty, item) {
                    Ok(element) => element,
                    Err(message) => return self.errors.push(&self.path, format!("element {i}: {message}")),
                }
            };
            if ty.merge != ListMerge::Atomic && seen.insert(element.clone(), ()).is_some() && !self.duplicates
            {
                self.errors.push(&self.path, format!("duplicate entries for key {element}"));
            }
            self.path.push(element);
            self.value(ty.elem, item);
            self.path.pop();
        }
    }
}

struct Fields<'a> {
    types: &'a Types,
    path: Vec<PathElement>,
    set: FieldSet,
}

impl Fields<'_> {
    fn value(&mut self, ty: TypeId, value: &Value) {
        let types = self.types;
        let atom = types.atom(ty);
        match form(atom, Some(value)) {
            Form::Scalar => self.set.insert(&self.path),
            Form::Map => match &atom.map {
                Some(map) if map.atomic => self.set.insert(&self.path),
                Some(map) => self.map(map, as_map(Some(value))),
                None => {}
            },
            Form::List => match &atom.list {
                Some(list) if list.merge == ListMerge::Atomic => self.set.insert(&self.path),
                Some(list) => self.list(list, as_list(Some(value))),
                None => {}
            },
            Form::None => {}
        }
    }

    fn map(&mut self, ty: &MapType, map: Option<&Map<String, Value>>) {
        for (name, value) in map.into_iter().flatten() {
            self.path.push(PathElement::Field(name.clone()));
            if let Some(child) = ty.field_type(name) {
                self.value(child, value);
            }
            let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
            if is_empty || !ty.fields.contains_key(name) {
                self.set.insert(&self.path);
            }
            self.path.pop();
        }
    }

    fn list(&mut self, ty: &ListType, items: &[Value]) {
        let mut count: BTreeMap<PathElement, usize> = BTreeMap::new();
        let elements: Vec<_> = items.iter().map(|item| self.types.item_element(ty, item).ok()).collect();
        for element in elements.iter().flatten() {
            *count.entry(element.clone()).or_default() += 1;
        }
        for (element, item) in elements.into_iter().zip(items) {
            let Some(element) = element else { continue };
            let repeated = count.get(&element).is_some_and(|n| *n > 1);
            self.path.push(element);
            if !repeated {
                self.value(ty.elem, item);
            }
            self.set.insert(&self.path);
            self.path.pop();
        }
    }
}

struct Merge<'a> {
    types: &'a Types,
    path: Vec<PathElement>,
    errors: Errors,
}

impl Merge<'_> {
    fn value(&mut self, ty: TypeId, base: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        let types = self.types;
        let atom = types.atom(ty);
        // Where the two take different forms of the type, the new one wins.
        let chosen = if config.is_none() { base } else { config };
        match form(atom, chosen) {
            Form::Map => {
                let (old, new) = (as_map(base), as_map(config));
                let is_empty = old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty);
                match &atom.map {
                    Some(map) if !map.atomic && !is_empty => self.map(map, old, new),
                    _ => config.or(base).cloned(),
                }
            }
            Form::List => {
                let (old, new) = (as_list(base), as_list(config));
                let is_empty = old.is_empty() && new.is_empty();
                match &atom.list {
                    Some(list) if list.merge != ListMerge::Atomic && !is_empty => self.list(list, old, new),
                    _ => config.or(base).cloned(),
                }
            }
            Form::Scalar => {
                let scalar = atom.scalar.unwrap_or(Scalar::Untyped);
                let old = check_scalar(scalar, base, "lhs: ");
                let new = check_scalar(scalar, config, "rhs: ");
                if let (Err(old), Err(new)) = (old, new) {
                    self.errors.push(&self.path, old);
                    self.errors.push(&self.path, new);
                }
                config.or(base).cloned()
            }
            Form::None => {
                self.errors.push(&self.path, "schema error: invalid atom: inlined");
                None
            }
        }
    }

    fn map(
        &mut self,
        ty: &MapType,
        base: Option<&Map<String, Value>>,
        config: Option<&Map<String, Value>>,
    ) -> Option<Value> {
        let mut out = Map::new();
        for (name, old) in base.into_iter().flatten() {
            let new = config.and_then(|map| map.get(name));
            self.field(ty, name, Some(old), new, &mut out);
        }
        for (name, new) in config.into_iter().flatten() {
            if base.is_none_or(|map| !map.contains_key(name)) {
                self.field(ty, name, None, Some(new), &mut out);
            }
        }
        if out.is_empty() { None } else { Some(Value::Object(out)) }
    }

    fn field(
        &mut self,
        ty: &MapType,
        name: &str,
        old: Option<&Value>,
        new: Option<&Value>,
        out: &mut Map<String, Value>,
    ) {
        let Some(child) = ty.field_type(name) else { return };
        self.path.push(PathElement::Field(name.to_owned()));
        if let Some(value) = self.value(child, old, new) {
            out.insert(name.to_owned(), value);
        }
        self.path.pop();
    }

    /// The elements of a list, and the item of each; an element that repeats has no item to merge with.
    fn index<'v>(
        &mut self,
        ty: &ListType,
        items: &'v [Value],
        duplicates: bool,
    ) -> (Vec<PathElement>, BTreeMap<PathElement, Option<&'v Value>>) {
        let mut elements = Vec::with_capacity(items.len());
        let mut by_element = BTreeMap::new();
        for (i, item) in items.iter().enumerate() {
            let element = match self.types.item_element(ty, item) {
                Ok(element) => element,
                Err(message) => {
                    self.errors.push(&self.path, format!("element {i}: {message}"));
                    continue;
                }
            };
            if by_element.contains_key(&element) {
                if !duplicates {
                    self.errors.push(&self.path, format!("duplicate entries for key {element}"));
                    continue;
                }
                by_element.insert(element.clone(), None);
            } else {
                by_element.insert(element.clone(), Some(item));
            }
            elements.push(element);
        }
        (elements, by_element)
    }

    /// Merges item by item. Items that both have follow the order of `config`; the others stay where they were,
    /// relative to those.
    fn list(&mut self, ty: &ListType, base: &[Value], config: &[Value]) -> Option<Value> {
        let before = self.errors.0.len();
        let (new_elements, new_items) = self.index(ty, config, false);
        let (old_elements, old_items) = self.index(ty, base, true);
        if self.errors.0.len() > before {
            return None;
        }
        let mut shared = new_elements.iter().filter(|e| old_items.contains_key(e));
        let mut next_shared = shared.next();
        let mut merged: BTreeMap<&PathElement, ()> = BTreeMap::new();
        let mut out = Vec::with_capacity(base.len().max(config.len()));
        let (mut l, mut r) = (0, 0);
        while l < old_elements.len() || r < new_elements.len() {
            if let (Some(old), Some(new)) = (old_elements.get(l), new_elements.get(r)) {
                if old == new {
                    merged.insert(new, ());
                    self.item(ty, new, &old_items, &new_items, &mut out);
                    (l, r) = (l + 1, r + 1);
                    next_shared = shared.next();
                    continue;
                }
                if new_items.contains_key(old) && next_shared.is_some_and(|next| next != old) {
                    // Both have it, but its turn is later.
                    l += 1;
                    continue;
                }
            }
            if let Some(old) = old_elements.get(l) {
                if !new_items.contains_key(old) {
                    self.path.push(old.clone());
                    out.extend(self.value(ty.elem, base.get(l), None));
                    self.path.pop();
                    l += 1;
                    continue;
                }
                if merged.contains_key(old) {
                    l += 1;
                }
            }
            if let Some(new) = new_elements.get(r) {
                merged.insert(new, ());
                self.item(ty, new, &old_items, &new_items, &mut out);
                r += 1;
                if next_shared == Some(new) {
                    next_shared = shared.next();
                }
            }
        }
        if out.is_empty() { None } else { Some(Value::Array(out)) }
    }

    fn item(
        &mut self,
        ty: &ListType,
        element: &PathElement,
        old: &BTreeMap<PathElement, Option<&Value>>,
        new: &BTreeMap<PathElement, Option<&Value>>,
        out: &mut Vec<Value>,
    ) {
        let null = Value::Null;
        // A repeated item stands as null, which anything overrides.
        let side = |map: &BTreeMap<PathElement, Option<&Value>>| {
            map.get(element).map(|v| v.unwrap_or(&null).clone())
        };
        let (old, new) = (side(old), side(new));
        self.path.push(element.clone());
        out.extend(self.value(ty.elem, old.as_ref(), new.as_ref()));
        self.path.pop();
    }
}

/// What changed between two values. No path is in more than one of the sets.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

impl Comparison {
    /// The same, with all below these paths left out.
    pub(crate) fn excluding(mut self, fields: Option<&FieldSet>) -> Self {
        if let Some(fields) = fields.filter(|set| !set.is_empty()) {
            self.removed = self.removed.recursive_difference(fields);
            self.modified = self.modified.recursive_difference(fields);
            self.added = self.added.recursive_difference(fields);
        }
        self
    }
}

struct Compare<'a> {
    types: &'a Types,
    path: Vec<PathElement>,
    out: Comparison,
    errors: Errors,
}

impl Compare<'_> {
    fn value(&mut self, ty: TypeId, old: Option<&Value>, new: Option<&Value>) {
        let types = self.types;
        let atom = types.atom(ty);
        let (old_form, new_form) = (form(atom, old), form(atom, new));
        let is_leaf = if new.is_none() {
            self.as_form(atom, old_form, old, new)
        } else if old.is_none() || old_form == new_form {
            self.as_form(atom, new_form, old, new)
        } else {
            self.as_form(atom, old_form, old, new);
            self.as_form(atom, new_form, old, new)
        };
        if !is_leaf {
            if old.is_none() {
                self.out.added.insert(&self.path);
            } else if new.is_none() {
                self.out.removed.insert(&self.path);
            }
        }
    }

    /// Compares both as values of one form; says whether they were one leaf.
    fn as_form(&mut self, atom: &Atom, form: Form, old: Option<&Value>, new: Option<&Value>) -> bool {
        match form {
            Form::Scalar => {
                let scalar = atom.scalar.unwrap_or(Scalar::Untyped);
                let old_check = check_scalar(scalar, old, "lhs: ");
                let new_check = check_scalar(scalar, new, "rhs: ");
                if let (Err(a), Err(b)) = (old_check, new_check) {
                    self.errors.push(&self.path, a);
                    self.errors.push(&self.path, b);
                    return false;
                }
                self.leaf(old, new);
                true
            }
            Form::Map => {
                let (a, b) = (as_map(old), as_map(new));
                let is_empty = a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty);
                match &atom.map {
                    Some(map) if !map.atomic && !is_empty => {
                        self.map(map, a, b);
                        false
                    }
                    _ => {
                        self.leaf(old, new);
                        true
                    }
                }
            }
            Form::List => {
                let (a, b) = (as_list(old), as_list(new));
                match &atom.list {
                    Some(list) if list.merge != ListMerge::Atomic && !(a.is_empty() && b.is_empty()) => {
                        self.list(list, a, b);
                        false
                    }
                    _ => {
                        self.leaf(old, new);
                        true
                    }
                }
            }
            Form::None => {
                self.errors.push(&self.path, "schema error: invalid atom: inlined");
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.out.added.insert(&self.path),
            (_, None) => self.out.removed.insert(&self.path),
            (Some(old), Some(new)) if !value::equal(old, new) => self.out.modified.insert(&self.path),
            _ => {}
        }
    }

    fn map(&mut self, ty: &MapType, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) {
        for (name, a) in old.into_iter().flatten() {
            self.field(ty, name, Some(a), new.and_then(|map| map.get(name)));
        }
        for (name, b) in new.into_iter().flatten() {
            if old.is_none_or(|map| !map.contains_key(name)) {
                self.field(ty, name, None, Some(b));
            }
        }
    }

    fn field(&mut self, ty: &MapType, name: &str, old: Option<&Value>, new: Option<&Value>) {
        let Some(child) = ty.field_type(name) else { return };
        self.path.push(PathElement::Field(name.to_owned()));
        self.value(child, old, new);
        self.path.pop();
    }

    fn list(&mut self, ty: &ListType, old: &[Value], new: &[Value]) {
        let mut sides: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (is_new, items) in [(false, old), (true, new)] {
            for (i, item) in items.iter().enumerate() {
                match self.types.item_element(ty, item) {
                    Ok(element) => {
                        let (a, b) = sides.entry(element).or_default();
                        if is_new { b.push(item) } else { a.push(item) }
                    }
                    Err(message) => self.errors.push(&self.path, format!("element {i}: {message}")),
                }
            }
        }
        for (element, (a, b)) in sides {
            self.path.push(element);
            match (a.as_slice(), b.as_slice()) {
                ([] | [_], [] | [_]) => self.value(ty.elem, a.first().copied(), b.first().copied()),
                // Items that repeat are taken together as one leaf.
                ([_, _, ..], [_, _, ..]) => {
                    if a.len() != b.len() || !a.iter().zip(&b).all(|(x, y)| value::equal(x, y)) {
                        self.out.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], _) => {
                    if let Some(item) = b.first() {
                        self.value(ty.elem, None, Some(item));
                    }
                    self.out.removed.insert(&self.path);
                }
                (_, _) => {
                    if let Some(item) = a.first() {
                        self.value(ty.elem, Some(item), None);
                    }
                    self.out.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}
