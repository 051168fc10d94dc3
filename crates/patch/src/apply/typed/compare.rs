//! Compares two values and returns the added, modified and removed fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::trail::Trail;
use super::{Errors, Form, as_list, as_map, check_scalar, form};
use crate::apply::field_set::{FieldSet, Node};
use crate::apply::path::PathElement;
use crate::apply::types::{Atom, ListMerge, ListType, MapType, Scalar, TypeId, Types};
use crate::value;

/// The differences between two values. Each path is in at most one of the sets.
#[derive(Debug, Default)]
pub(crate) struct Comparison<'a> {
    pub(crate) removed: FieldSet<'a>,
    pub(crate) modified: FieldSet<'a>,
    pub(crate) added: FieldSet<'a>,
}

impl Comparison<'_> {
    /// Returns an owned copy with no borrowed data.
    pub(crate) fn into_owned(self) -> Comparison<'static> {
        Comparison {
            removed: self.removed.into_owned(),
            modified: self.modified.into_owned(),
            added: self.added.into_owned(),
        }
    }

    /// Returns the comparison without these paths and everything below them.
    pub(crate) fn excluding(mut self, fields: Option<&FieldSet<'_>>) -> Self {
        if let Some(fields) = fields {
            self.removed.subtract_below(fields);
            self.modified.subtract_below(fields);
            self.added.subtract_below(fields);
        }
        self
    }
}

/// The differences of one value and everything below it.
#[derive(Default)]
pub(super) struct Change<'a> {
    removed: Node<'a>,
    modified: Node<'a>,
    added: Node<'a>,
}

impl<'a> Change<'a> {
    fn removed(node: Node<'a>) -> Self {
        Self { removed: node, ..Self::default() }
    }

    fn modified() -> Self {
        Self { modified: Node::LEAF, ..Self::default() }
    }

    fn absorb(&mut self, other: Self) {
        self.removed.absorb(other.removed);
        self.modified.absorb(other.modified);
        self.added.absorb(other.added);
    }
}

impl<'a> From<Change<'a>> for Comparison<'a> {
    /// Drops the root itself: no manager owns the creation or removal of the whole object.
    fn from(change: Change<'a>) -> Self {
        let Change { removed, modified, added } = change;
        Self { removed: removed.children, modified: modified.children, added: added.children }
    }
}

/// Collects the differences of a value's fields or items.
#[derive(Default)]
struct Parts<'a> {
    removed: Vec<(PathElement<'a>, Node<'a>)>,
    modified: Vec<(PathElement<'a>, Node<'a>)>,
    added: Vec<(PathElement<'a>, Node<'a>)>,
}

impl<'a> Parts<'a> {
    fn push(&mut self, change: Change<'a>, element: impl Fn() -> PathElement<'a>) {
        let Change { removed, modified, added } = change;
        let sides = [(&mut self.removed, removed), (&mut self.modified, modified), (&mut self.added, added)];
        for (side, node) in sides {
            if !node.is_empty() {
                side.push((element(), node));
            }
        }
    }

    fn finish(self) -> Change<'a> {
        let node = |nodes| Node { member: false, children: FieldSet::of_nodes(nodes) };
        Change { removed: node(self.removed), modified: node(self.modified), added: node(self.added) }
    }
}

pub(super) struct Compare<'a> {
    pub(super) types: &'a Types,
    pub(super) errors: Errors,
}

impl<'v> Compare<'v> {
    pub(super) fn value(&mut self, ty: TypeId, old: &'v Value, new: &'v Value, at: &Trail<'_>) -> Change<'v> {
        let atom = self.types.atom(ty);
        let (old_form, new_form) = (form(atom, Some(old)), form(atom, Some(new)));
        let mut change = self.as_form(atom, old_form, old, new, at);
        if new_form != old_form {
            change.absorb(self.as_form(atom, new_form, old, new, at));
        }
        change
    }

    /// Compares both values in the given form.
    fn as_form(
        &mut self,
        atom: &'v Atom,
        form: Form,
        old: &'v Value,
        new: &'v Value,
        at: &Trail<'_>,
    ) -> Change<'v> {
        match form {
            Form::Scalar => {
                let scalar = atom.scalar.unwrap_or(Scalar::Untyped);
                let old_check = check_scalar(scalar, Some(old), "lhs: ");
                let new_check = check_scalar(scalar, Some(new), "rhs: ");
                if let (Err(a), Err(b)) = (old_check, new_check) {
                    self.errors.push(at, a);
                    self.errors.push(at, b);
                    return Change::default();
                }
                leaf(old, new)
            }
            Form::Map => {
                let (a, b) = (as_map(Some(old)), as_map(Some(new)));
                let is_empty = a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty);
                match &atom.map {
                    Some(map) if !map.atomic && !is_empty => self.map(map, a, b, at),
                    _ => leaf(old, new),
                }
            }
            Form::List => {
                let (a, b) = (as_list(Some(old)), as_list(Some(new)));
                match &atom.list {
                    Some(list) if list.merge != ListMerge::Atomic && !(a.is_empty() && b.is_empty()) => {
                        self.list(list, a, b, at)
                    }
                    _ => leaf(old, new),
                }
            }
            Form::None => {
                self.errors.push(at, "schema error: invalid atom: inlined");
                Change::default()
            }
        }
    }

    fn map(
        &mut self,
        ty: &'v MapType,
        old: Option<&'v Map<String, Value>>,
        new: Option<&'v Map<String, Value>>,
        at: &Trail<'_>,
    ) -> Change<'v> {
        let mut parts = Parts::default();
        for (name, a) in old.into_iter().flatten() {
            let Some(child) = ty.field_type(name) else { continue };
            let at = at.field(name);
            let change = match new.and_then(|map| map.get(name)) {
                Some(b) => self.value(child, a, b, &at),
                None => Change::removed(self.whole(child, a, &at)),
            };
            parts.push(change, || PathElement::field(name));
        }
        for (name, b) in new.into_iter().flatten() {
            if old.is_none_or(|map| !map.contains_key(name))
                && let Some(child) = ty.field_type(name)
            {
                let node = self.whole(child, b, &at.field(name));
                parts.added.push((PathElement::field(name), node));
            }
        }
        parts.finish()
    }

    fn list(&mut self, ty: &'v ListType, old: &'v [Value], new: &'v [Value], at: &Trail<'_>) -> Change<'v> {
        if old.len() == new.len() && old.iter().zip(new).all(|(a, b)| value::equal(a, b)) {
            return Change::default();
        }
        let mut sides: BTreeMap<PathElement<'v>, (Vec<&'v Value>, Vec<&'v Value>)> = BTreeMap::new();
        for (is_new, items) in [(false, old), (true, new)] {
            for (i, item) in items.iter().enumerate() {
                match self.types.item_element(ty, item) {
                    Ok(element) => {
                        let (a, b) = sides.entry(element).or_default();
                        if is_new { b.push(item) } else { a.push(item) }
                    }
                    Err(message) => self.errors.push(at, format!("element {i}: {message}")),
                }
            }
        }
        let mut parts = Parts::default();
        for (element, (a, b)) in &sides {
            let at = at.element(element);
            let change = self.items(ty.elem, a, b, &at);
            parts.push(change, || element.clone());
        }
        parts.finish()
    }

    /// Compares the items with one key. Duplicates are compared together, as one leaf.
    fn items(&mut self, ty: TypeId, old: &[&'v Value], new: &[&'v Value], at: &Trail<'_>) -> Change<'v> {
        match (old, new) {
            ([a], [b]) => self.value(ty, a, b, at),
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(x, y)| value::equal(x, y));
                if same { Change::default() } else { Change::modified() }
            }
            (_, _) => {
                let (removed, added) = (self.side(ty, old, at), self.side(ty, new, at));
                Change { removed, added, ..Change::default() }
            }
        }
    }

    /// The items with one key, when the other side has none of them or a different number.
    fn side(&mut self, ty: TypeId, items: &[&'v Value], at: &Trail<'_>) -> Node<'v> {
        match items {
            [] => Node::default(),
            [item] => self.whole(ty, item, at),
            [_, _, ..] => Node::LEAF,
        }
    }

    /// All fields of a value that exists on one side only.
    fn whole(&mut self, ty: TypeId, value: &'v Value, at: &Trail<'_>) -> Node<'v> {
        let atom = self.types.atom(ty);
        match form(atom, Some(value)) {
            Form::Scalar => Node::LEAF,
            Form::Map => match (&atom.map, value) {
                (Some(map), Value::Object(fields)) if !map.atomic => {
                    let mut nodes = Vec::with_capacity(fields.len());
                    for (name, value) in fields {
                        let Some(ty) = map.field_type(name) else { continue };
                        nodes.push((PathElement::field(name), self.whole(ty, value, &at.field(name))));
                    }
                    Node { member: true, children: FieldSet::of_nodes(nodes) }
                }
                _ => Node::LEAF,
            },
            Form::List => match (&atom.list, value) {
                (Some(list), Value::Array(items)) if list.merge != ListMerge::Atomic => {
                    let mut nodes = Vec::with_capacity(items.len());
                    for (i, item) in items.iter().enumerate() {
                        match self.types.item_element(list, item) {
                            Ok(element) => {
                                let node = self.whole(list.elem, item, &at.element(&element));
                                nodes.push((element, node));
                            }
                            Err(message) => self.errors.push(at, format!("element {i}: {message}")),
                        }
                    }
                    Node { member: true, children: FieldSet::of_items(nodes) }
                }
                _ => Node::LEAF,
            },
            Form::None => {
                self.errors.push(at, "schema error: invalid atom: inlined");
                Node::LEAF
            }
        }
    }
}

fn leaf<'v>(old: &Value, new: &Value) -> Change<'v> {
    if value::equal(old, new) { Change::default() } else { Change::modified() }
}
