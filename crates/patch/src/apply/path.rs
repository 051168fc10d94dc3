//! Paths into objects, and sets of them: what `metadata.managedFields` is made of.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use super::types::{TypeId, Types};
use crate::value;

/// One step into an object.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a map.
    Field(String),
    /// The item of a list whose key fields have these values. Sorted by name.
    Key(Vec<(String, Value)>),
    /// The item of a set that has this value.
    Value(Value),
    /// The item at this place.
    Index(i64),
}

impl PathElement {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }

    /// Its form in `fieldsV1`, such as `f:spec` or `k:{"name":"web"}`.
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let mut out = String::from("k:{");
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    let name = value::go_json(&Value::String(name.clone()));
                    let _ = write!(out, "{comma}{name}:{}", value::go_json(value));
                }
                out.push('}');
                out
            }
            Self::Value(value) => format!("v:{}", value::go_json(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Reads the form in `fieldsV1`; `Ok(None)` for a kind of element that is not known.
    fn decode(text: &str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = text.split_at_checked(2) else {
            return Err("key must be 2 characters long:".into());
        };
        if !kind.ends_with(':') {
            return Err(format!("missing colon: {text}"));
        }
        Ok(Some(match kind {
            "f:" => Self::Field(rest.to_owned()),
            "k:" => {
                let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|e| e.to_string())?;
                let mut fields: Vec<_> = fields.into_iter().collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Self::Key(fields)
            }
            "v:" => Self::Value(serde_json::from_str(rest).map_err(|e| e.to_string())?),
            "i:" => Self::Index(rest.parse().map_err(|e: std::num::ParseIntError| e.to_string())?),
            _ => return Ok(None),
        }))
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                for ((an, av), (bn, bv)) in a.iter().zip(b) {
                    let order = an.cmp(bn).then_with(|| value::compare(av, bv));
                    if order != Ordering::Equal {
                        return order;
                    }
                }
                a.len().cmp(&b.len())
            }
            (Self::Value(a), Self::Value(b)) => value::compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_char('[')?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", value::readable(value))?;
                }
                f.write_char(']')
            }
            Self::Value(value) => write!(f, "[={}]", value::readable(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A way into an object; it prints as `.spec.containers[name="web"].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<PathElement>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

/// A set of paths. A path's parents are not in the set unless they were added themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<PathElement, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    /// The path to here is in the set.
    member: bool,
    children: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// The set of these paths of field names.
    pub fn of_fields<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| PathElement::Field((*name).to_owned())).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a path. The empty one, the whole object, is nobody's.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut set = self;
        for element in parents {
            set = &mut set.descend(element).children;
        }
        set.descend(last).member = true;
    }

    fn descend(&mut self, element: &PathElement) -> &mut Node {
        self.nodes.entry(element.clone()).or_default()
    }

    /// Whether the set holds no path.
    pub fn is_empty(&self) -> bool {
        self.nodes.values().all(Node::is_empty)
    }

    /// Whether the path is in the set.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut set = self;
        for element in parents {
            match set.nodes.get(element) {
                Some(node) => set = &node.children,
                None => return false,
            }
        }
        set.has(last)
    }

    /// Whether the path of this one element is in the set.
    pub(crate) fn has(&self, element: &PathElement) -> bool {
        self.nodes.get(element).is_some_and(|node| node.member)
    }

    /// The paths that begin with `element`, without it.
    pub(crate) fn below(&self, element: &PathElement) -> Option<&Self> {
        self.nodes.get(element).map(|node| &node.children).filter(|set| !set.is_empty())
    }

    /// Each element here, whether it is in the set, and what is below it.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (&PathElement, bool, &Self)> {
        self.nodes.iter().map(|(element, node)| (element, node.member, &node.children))
    }

    /// What is in either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.extend(other);
        out
    }

    /// Adds all paths of another set.
    pub fn extend(&mut self, other: &Self) {
        for (element, node) in &other.nodes {
            match self.nodes.get_mut(element) {
                Some(mine) => {
                    mine.member |= node.member;
                    mine.children.extend(&node.children);
                }
                None => {
                    self.nodes.insert(element.clone(), node.clone());
                }
            }
        }
    }

    /// What is in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        self.combined(other, |mine, theirs| Node {
            member: mine.member && theirs.member,
            children: mine.children.intersection(&theirs.children),
        })
    }

    fn combined(&self, other: &Self, combine: impl Fn(&Node, &Node) -> Node) -> Self {
        let mut nodes = BTreeMap::new();
        for (element, mine) in &self.nodes {
            let Some(theirs) = other.nodes.get(element) else { continue };
            let node = combine(mine, theirs);
            if !node.is_empty() {
                nodes.insert(element.clone(), node);
            }
        }
        Self { nodes }
    }

    /// What is in this set and not, as the same path, in the other.
    pub fn difference(&self, other: &Self) -> Self {
        self.without(other, |mine, theirs| Node {
            member: mine.member && !theirs.member,
            children: mine.children.difference(&theirs.children),
        })
    }

    /// What is in this set and neither in the other nor below a path of the other.
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.without(other, |mine, theirs| {
            if theirs.member {
                return Node::default();
            }
            Node { member: mine.member, children: mine.children.recursive_difference(&theirs.children) }
        })
    }

    fn without(&self, other: &Self, combine: impl Fn(&Node, &Node) -> Node) -> Self {
        let mut nodes = BTreeMap::new();
        for (element, mine) in &self.nodes {
            let node = match other.nodes.get(element) {
                Some(theirs) => combine(mine, theirs),
                None => mine.clone(),
            };
            if !node.is_empty() {
                nodes.insert(element.clone(), node);
            }
        }
        Self { nodes }
    }

    /// The set, and each declared field on the way to a path of it.
    pub(crate) fn with_declared_fields(&self, types: &Types, ty: Option<TypeId>) -> Self {
        let atom = ty.map(|ty| types.atom(ty));
        let map = atom.and_then(|atom| atom.map.as_ref());
        let list = atom.and_then(|atom| atom.list.as_ref());
        let mut nodes = BTreeMap::new();
        for (element, node) in &self.nodes {
            let (declared, child_type) = match element {
                PathElement::Field(name) => match map {
                    Some(map) => (map.fields.contains_key(name), map.field_type(name)),
                    None => (false, None),
                },
                PathElement::Key(_) => (false, list.map(|list| list.elem)),
                PathElement::Value(_) | PathElement::Index(_) => (false, None),
            };
            let children = node.children.with_declared_fields(types, child_type);
            let member = node.member || (declared && !node.children.nodes.is_empty());
            nodes.insert(element.clone(), Node { member, children });
        }
        Self { nodes }
    }

    /// All paths, those of one level before those below it.
    pub fn paths(&self) -> Vec<Path> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Path>) {
        for (element, node) in &self.nodes {
            if node.member {
                let mut path = prefix.clone();
                path.push(element.clone());
                out.push(Path(path));
            }
        }
        for (element, node) in &self.nodes {
            prefix.push(element.clone());
            node.children.collect(prefix, out);
            prefix.pop();
        }
    }

    /// The `fieldsV1` form.
    pub fn to_fields_v1(&self) -> Value {
        let mut map = Map::new();
        for (element, node) in &self.nodes {
            let mut inner = match node.children.to_fields_v1() {
                Value::Object(inner) => inner,
                _ => Map::new(),
            };
            if node.member && !inner.is_empty() {
                inner.insert(".".into(), Value::Object(Map::new()));
            }
            map.insert(element.encode(), Value::Object(inner));
        }
        Value::Object(map)
    }

    /// Reads the `fieldsV1` form. Elements of unknown kinds are left out.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, String> {
        let mut set = Self::default();
        let Some(map) = fields.as_object() else {
            return Err(format!("expect {{ or n, but found {}", value::readable(fields)));
        };
        for (key, inner) in map {
            if key == "." {
                continue;
            }
            let Some(element) = PathElement::decode(key)? else { continue };
            let children = Self::from_fields_v1(inner)?;
            let member = children.nodes.is_empty() || inner.get(".").is_some();
            set.nodes.insert(element, Node { member, children });
        }
        Ok(set)
    }
}
