//! Sets of field paths, as stored in the `fieldsV1` of `metadata.managedFields` entries.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::path::{Path, PathElement};
use super::types::{TypeId, Types};
use crate::value;

/// A set of field paths. A path's parents are members only if they were added explicitly.
///
/// **Invariant:** the nodes are sorted by element, elements are unique, and no node is empty.
///
/// ```
/// use serde_json::json;
/// use steersman_patch::apply::FieldSet;
///
/// let fields = json!({"f:spec": {"f:replicas": {}}});
/// let owned = FieldSet::from_fields_v1(&fields).unwrap();
/// assert_eq!(owned.paths().iter().map(ToString::to_string).collect::<Vec<_>>(), [".spec.replicas"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet<'a> {
    nodes: Vec<(PathElement<'a>, Node<'a>)>,
}

/// What a set records for one path element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node<'a> {
    /// The path ending here is in the set.
    pub(super) member: bool,
    /// The paths below this element.
    pub(super) children: FieldSet<'a>,
}

impl Node<'_> {
    /// A path that ends here.
    pub(super) const LEAF: Self = Self { member: true, children: FieldSet { nodes: Vec::new() } };

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    pub(super) fn absorb(&mut self, other: Self) {
        self.member |= other.member;
        self.children.absorb(other.children);
    }
}

impl<'a> FieldSet<'a> {
    /// Builds a set from paths of field names.
    pub fn of_fields(paths: impl IntoIterator<Item = &'a [&'a str]>) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Builds a set from nodes in any order. Nodes with the same element are merged.
    pub(super) fn of_nodes(mut nodes: Vec<(PathElement<'a>, Node<'a>)>) -> Self {
        nodes.retain(|(_, node)| !node.is_empty());
        if !nodes.is_sorted_by(|a, b| a.0 < b.0) {
            nodes.sort_by(|a, b| a.0.cmp(&b.0));
            nodes.dedup_by(|later, earlier| {
                let same = later.0 == earlier.0;
                if same {
                    earlier.1.absorb(std::mem::take(&mut later.1));
                }
                same
            });
        }
        Self { nodes }
    }

    /// Builds the set of a list's items, in any order. Repeated items become a single leaf.
    pub(super) fn of_items(mut nodes: Vec<(PathElement<'a>, Node<'a>)>) -> Self {
        nodes.sort_by(|a, b| a.0.cmp(&b.0));
        nodes.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = Node::LEAF;
            }
            same
        });
        Self { nodes }
    }

    /// Adds a path. The empty path, which denotes the whole object, is never owned.
    pub fn insert(&mut self, path: &[PathElement<'a>]) {
        self.insert_by_ref(&path.iter().collect::<Vec<_>>());
    }

    pub(super) fn insert_by_ref(&mut self, path: &[&PathElement<'a>]) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut set = self;
        for element in parents {
            set = &mut set.descend(element).children;
        }
        set.descend(last).member = true;
    }

    fn descend(&mut self, element: &PathElement<'a>) -> &mut Node<'a> {
        let at = match self.find(element) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(at, (element.clone(), Node::default()));
                at
            }
        };
        &mut self.nodes[at].1
    }

    fn find(&self, element: &PathElement<'_>) -> Result<usize, usize> {
        self.nodes.binary_search_by(|(e, _)| e.cmp(element))
    }

    /// Returns the node of an element at this level.
    pub(super) fn get(&self, element: &PathElement<'_>) -> Option<&Node<'a>> {
        self.find(element).ok().and_then(|at| self.nodes.get(at)).map(|(_, node)| node)
    }

    /// Returns the node of a field at this level.
    pub(super) fn field(&self, name: &str) -> Option<&Node<'a>> {
        let found = self.nodes.binary_search_by(|(element, _)| match element {
            PathElement::Field(field) => (**field).cmp(name),
            _ => Ordering::Greater,
        });
        found.ok().and_then(|at| self.nodes.get(at)).map(|(_, node)| node)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether the path is in the set.
    pub fn contains(&self, path: &[PathElement<'_>]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut set = self;
        for element in parents {
            match set.get(element) {
                Some(node) => set = &node.children,
                None => return false,
            }
        }
        set.get(last).is_some_and(|node| node.member)
    }

    /// Iterates over this level: each element, whether it is a member, and the paths below it.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (&PathElement<'a>, bool, &Self)> {
        self.nodes.iter().map(|(element, node)| (element, node.member, &node.children))
    }

    /// Whether this set is a subset of `other`.
    pub(super) fn is_within(&self, other: &FieldSet<'_>) -> bool {
        let mut theirs = other.nodes.as_slice();
        self.nodes.iter().all(|(element, mine)| {
            advance(&mut theirs, element)
                .is_some_and(|same| (same.member || !mine.member) && mine.children.is_within(&same.children))
        })
    }

    /// Adds all paths of another set.
    pub fn absorb(&mut self, other: Self) {
        if self.nodes.is_empty() {
            *self = other;
            return;
        }
        if other.nodes.is_empty() {
            return;
        }
        let mine = std::mem::take(&mut self.nodes);
        let mut theirs = other.nodes.into_iter().peekable();
        self.nodes.reserve(mine.len().max(theirs.len()));
        for (element, mut node) in mine {
            while let Some(before) = theirs.next_if(|(e, _)| *e < element) {
                self.nodes.push(before);
            }
            if let Some((_, same)) = theirs.next_if(|(e, _)| *e == element) {
                node.absorb(same);
            }
            self.nodes.push((element, node));
        }
        self.nodes.extend(theirs);
    }

    /// Returns the paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet<'_>) -> Self {
        let mut nodes = Vec::new();
        let mut theirs = other.nodes.as_slice();
        for (element, mine) in &self.nodes {
            let Some(same) = advance(&mut theirs, element) else { continue };
            let node = Node {
                member: mine.member && same.member,
                children: mine.children.intersection(&same.children),
            };
            if !node.is_empty() {
                nodes.push((element.clone(), node));
            }
        }
        Self { nodes }
    }

    /// Removes the paths that are in the other set.
    pub fn subtract(&mut self, other: &FieldSet<'_>) {
        self.subtract_by(other, &|mine, theirs| {
            mine.member &= !theirs.member;
            mine.children.subtract(&theirs.children);
        });
    }

    /// Removes the paths that are in the other set or below one of its paths.
    pub fn subtract_below(&mut self, other: &FieldSet<'_>) {
        self.subtract_by(other, &|mine, theirs| {
            if theirs.member {
                *mine = Node::default();
            } else {
                mine.children.subtract_below(&theirs.children);
            }
        });
    }

    fn subtract_by(&mut self, other: &FieldSet<'_>, take: &dyn Fn(&mut Node<'a>, &Node<'_>)) {
        if other.nodes.is_empty() {
            return;
        }
        let mut theirs = other.nodes.as_slice();
        self.nodes.retain_mut(|(element, mine)| match advance(&mut theirs, element) {
            Some(same) => {
                take(mine, same);
                !mine.is_empty()
            }
            None => true,
        });
    }

    /// Adds every declared field that is a parent of a path in the set.
    pub(crate) fn with_declared_fields(mut self, types: &Types, ty: Option<TypeId>) -> Self {
        let atom = ty.map(|ty| types.atom(ty));
        let map = atom.and_then(|atom| atom.map.as_ref());
        let list = atom.and_then(|atom| atom.list.as_ref());
        for (element, node) in &mut self.nodes {
            let (declared, child_type) = match element {
                PathElement::Field(name) => match map {
                    Some(map) => (map.fields.contains_key(&**name), map.field_type(name)),
                    None => (false, None),
                },
                PathElement::Key(_) => (false, list.map(|list| list.elem)),
                PathElement::Value(_) | PathElement::Index(_) => (false, None),
            };
            node.member |= declared && !node.children.is_empty();
            let children = std::mem::take(&mut node.children);
            node.children = children.with_declared_fields(types, child_type);
        }
        self
    }

    /// Returns all paths, each level before the levels below it.
    pub fn paths(&self) -> Vec<Path> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    /// Returns an owned copy with no borrowed data.
    pub fn into_owned(self) -> FieldSet<'static> {
        let own = |(element, node): (PathElement<'_>, Node<'_>)| {
            (element.into_owned(), Node { member: node.member, children: node.children.into_owned() })
        };
        FieldSet { nodes: self.nodes.into_iter().map(own).collect() }
    }

    fn collect(&self, prefix: &mut Vec<PathElement<'static>>, out: &mut Vec<Path>) {
        for (element, node) in &self.nodes {
            if node.member {
                let mut path = prefix.clone();
                path.push(element.clone().into_owned());
                out.push(Path(path));
            }
        }
        for (element, node) in &self.nodes {
            prefix.push(element.clone().into_owned());
            node.children.collect(prefix, out);
            prefix.pop();
        }
    }

    /// Serializes the set in `fieldsV1` format.
    pub fn to_fields_v1(&self) -> String {
        let mut out = String::with_capacity(1024);
        self.write(false, &mut out);
        out
    }

    fn write(&self, member: bool, out: &mut String) {
        if self.nodes.is_empty() {
            return out.push_str("{}");
        }
        out.push('{');
        if member {
            out.push_str("\".\":{},");
        }
        for (index, (element, node)) in self.nodes.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            element.write(out);
            out.push(':');
            node.children.write(node.member, out);
        }
        out.push('}');
    }

    /// Parses `fieldsV1`, as an object or as a JSON string. Elements of unknown kinds are skipped.
    pub fn from_fields_v1(fields: &'a Value) -> Result<Self, String> {
        let map = match fields {
            Value::Object(map) => map,
            Value::String(text) => return Self::parse(text),
            other => return Err(format!("expect {{ or n, but found {}", value::readable(other))),
        };
        let mut nodes = Vec::with_capacity(map.len());
        for (key, inner) in map {
            if key == "." {
                continue;
            }
            let Some(element) = PathElement::decode(key)? else { continue };
            let children = Self::from_fields_v1(inner)?;
            let member = children.nodes.is_empty() || inner.get(".").is_some();
            nodes.push((element, Node { member, children }));
        }
        Ok(Self::of_nodes(nodes))
    }

    /// Parses `fieldsV1` from a JSON string.
    fn parse(text: &'a str) -> Result<Self, String> {
        serde_json::from_str::<Written<'a>>(text).map(|written| written.set).map_err(|e| e.to_string())
    }
}

/// One element as read from `fieldsV1`.
struct Written<'a> {
    /// Whether the element itself is a member (the `.` key).
    member: bool,
    set: FieldSet<'a>,
}

impl<'de> Deserialize<'de> for Written<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WrittenVisitor)
    }
}

struct WrittenVisitor;

impl<'de> Visitor<'de> for WrittenVisitor {
    type Value = Written<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut nodes, mut member) = (Vec::new(), false);
        while let Some(Text(key)) = map.next_key()? {
            if key == "." {
                member = true;
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let element = match &key {
                Cow::Borrowed(key) => PathElement::decode(key),
                Cow::Owned(key) => PathElement::decode(key).map(|found| found.map(PathElement::into_owned)),
            };
            let Some(element) = element.map_err(A::Error::custom)? else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let below: Written<'de> = map.next_value()?;
            let member = below.member || below.set.is_empty();
            nodes.push((element, Node { member, children: below.set }));
        }
        Ok(Written { member, set: FieldSet::of_nodes(nodes) })
    }
}

/// A string that is borrowed unless it contains escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Advances past smaller elements and returns the node of `element`, if present.
fn advance<'n, 'a>(
    nodes: &mut &'n [(PathElement<'a>, Node<'a>)],
    element: &PathElement<'_>,
) -> Option<&'n Node<'a>> {
    while let [(first, node), rest @ ..] = *nodes {
        match first.cmp(element) {
            Ordering::Less => *nodes = rest,
            Ordering::Equal => {
                *nodes = rest;
                return Some(node);
            }
            Ordering::Greater => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(fields: &Value) -> FieldSet<'_> {
        FieldSet::from_fields_v1(fields).unwrap()
    }

    #[test]
    fn a_set_is_within_another_by_its_paths() {
        let whole =
            json!({"f:a": {".": {}, "f:b": {}}, "f:l": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}}}});
        for within in [
            json!({}),
            json!({"f:a": {}}),
            json!({"f:a": {"f:b": {}}, "f:l": {"k:{\"name\":\"x\"}": {}}}),
            whole.clone(),
        ] {
            assert!(set(&within).is_within(&set(&whole)), "{within}");
        }
        for beyond in [json!({"f:b": {}}), json!({"f:l": {}}), json!({"f:a": {"f:c": {}}})] {
            assert!(!set(&beyond).is_within(&set(&whole)), "{beyond}");
        }
    }

    #[test]
    fn the_form_in_objects_is_read_and_written() {
        let fields = json!({
            "f:list": {".": {}, "k:{\"name\":\"a<b\",\"port\":1}": {"f:name": {}}, "v:\"x\"": {}, "i:2": {}},
            "f:map": {"f:\"quoted\"": {}},
        });
        let text = Value::String(set(&fields).to_fields_v1());
        assert_eq!(set(&text), set(&fields));
        let written: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        assert_eq!(written["f:map"], fields["f:map"]);
        // Go escapes what browsers could take for markup.
        let keys: Vec<_> = written["f:list"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, [".", "i:2", "k:{\"name\":\"a\\u003cb\",\"port\":1}", "v:\"x\""]);
    }
}
