//! Collects the fields that a value sets.

use serde_json::{Map, Value};

use super::{Form, as_list, as_map, form};
use crate::apply::field_set::{FieldSet, Node};
use crate::apply::path::PathElement;
use crate::apply::types::{ListMerge, ListType, MapType, TypeId, Types};

/// Returns the fields set by a value: the value itself if it is a leaf, else those inside it.
pub(super) fn of_value<'v>(types: &'v Types, ty: TypeId, value: &'v Value) -> Node<'v> {
    let atom = types.atom(ty);
    let inside = |children| Node { member: false, children };
    match form(atom, Some(value)) {
        Form::Scalar => Node::LEAF,
        Form::Map => match &atom.map {
            Some(map) if map.atomic => Node::LEAF,
            Some(map) => inside(of_map(types, map, as_map(Some(value)))),
            None => Node::default(),
        },
        Form::List => match &atom.list {
            Some(list) if list.merge == ListMerge::Atomic => Node::LEAF,
            Some(list) => inside(of_list(types, list, as_list(Some(value)))),
            None => Node::default(),
        },
        Form::None => Node::default(),
    }
}

fn of_map<'v>(types: &'v Types, ty: &'v MapType, map: Option<&'v Map<String, Value>>) -> FieldSet<'v> {
    let mut nodes = Vec::with_capacity(map.map_or(0, Map::len));
    for (name, value) in map.into_iter().flatten() {
        let declared = ty.fields.get(name).map(|field| field.ty);
        let child = declared.or(ty.elem);
        let mut node = child.map(|child| of_value(types, child, value)).unwrap_or_default();
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        node.member |= is_empty || declared.is_none();
        nodes.push((PathElement::field(name), node));
    }
    FieldSet::of_nodes(nodes)
}

fn of_list<'v>(types: &'v Types, ty: &'v ListType, items: &'v [Value]) -> FieldSet<'v> {
    let node = |item| Node { member: true, ..of_value(types, ty.elem, item) };
    FieldSet::of_items(
        items.iter().filter_map(|item| Some((types.item_element(ty, item).ok()?, node(item)))).collect(),
    )
}
