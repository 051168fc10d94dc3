//! The current position of a walk through an object, kept on the stack and formatted only for errors.

use serde_json::Value;

use super::super::path::{Path, PathElement};
use super::super::types::{ListType, Types};

/// The steps from the root to a value.
#[derive(Clone, Copy)]
pub(super) struct Trail<'a> {
    parent: Option<&'a Trail<'a>>,
    step: Step<'a>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Element(&'a PathElement<'a>),
    Index(usize),
    /// An item of a keyed list or a set; its key is read lazily.
    Item(&'a Types, &'a ListType, &'a Value),
}

impl<'a> Trail<'a> {
    /// The root object.
    pub(super) const ROOT: Self = Self { parent: None, step: Step::Root, depth: 0 };

    fn then(&'a self, step: Step<'a>) -> Self {
        Self { parent: Some(self), step, depth: self.depth + 1 }
    }

    pub(super) fn field(&'a self, name: &'a str) -> Self {
        self.then(Step::Field(name))
    }

    pub(super) fn element(&'a self, element: &'a PathElement<'a>) -> Self {
        self.then(Step::Element(element))
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    pub(super) fn item(&'a self, types: &'a Types, list: &'a ListType, item: &'a Value) -> Self {
        self.then(Step::Item(types, list, item))
    }

    /// The number of steps from the root.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// The first step from the root.
    pub(super) fn start(&self) -> Path {
        let mut path = self.path();
        path.0.truncate(1);
        path
    }

    /// Converts the trail to a path.
    pub(super) fn path(&self) -> Path {
        let mut elements = Vec::with_capacity(self.depth);
        let mut at = Some(self);
        while let Some(trail) = at {
            elements.extend(match trail.step {
                Step::Root => None,
                Step::Field(name) => Some(PathElement::field(name).into_owned()),
                Step::Element(element) => Some(element.clone().into_owned()),
                Step::Index(index) => Some(PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))),
                // Items without a key are rejected before the walk enters them.
                Step::Item(types, list, item) => {
                    types.item_element(list, item).ok().map(PathElement::into_owned)
                }
            });
            at = trail.parent;
        }
        elements.reverse();
        Path(elements)
    }
}
