//! Types of objects: what decoding, patching and applying need to know of a schema, for built-in kinds and custom ones alike.
//!
//! A [`Schema`] is a root in an arena of types. Built-in types live in one arena per process, which custom ones refer to
//! for metadata.

mod builtin;
mod check;
pub(crate) mod duplicates;
mod structural;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

pub(crate) use builtin::{builtin, definition, definitions};

/// A type somewhere in an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TypeId {
    /// In the schema's own arena.
    Own(u32),
    /// In the arena of built-in types.
    Builtin(u32),
}

/// A type and everything that it is made of.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    arena: Arc<Vec<Type>>,
    root: TypeId,
}

/// One type.
#[derive(Debug, Clone)]
pub(crate) enum Type {
    /// Anything at all, kept as it is.
    Any,
    /// A leaf.
    Scalar(Scalar),
    /// A list.
    List {
        /// Type of the elements.
        items: TypeId,
        /// How elements are told apart.
        identity: Identity,
    },
    /// A map from names to values of one type.
    Map {
        /// Type of the values.
        values: TypeId,
        /// Whether it has one owner as a whole.
        atomic: bool,
    },
    /// An object with known fields.
    Struct(Struct),
}

/// A leaf's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// Text.
    String,
    /// Base64 text.
    Bytes,
    /// A moment.
    Time,
    /// 32 bits.
    Int32,
    /// 64 bits.
    Int64,
    /// A float.
    Number,
    /// Yes or no.
    Boolean,
    /// A number or text: ports, quantities, percentages.
    IntOrString,
}

/// How the elements of a list are told apart when two writers change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Not at all: the list has one owner.
    Atomic,
    /// By value.
    Set,
    /// By the values of these fields.
    Map(Vec<String>),
}

/// An object with known fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct Struct {
    /// Name of the type, as error messages have it; empty for custom resources.
    pub(crate) name: String,
    /// Known fields.
    pub(crate) fields: BTreeMap<String, Field>,
    /// Whether unknown fields are kept.
    pub(crate) open: bool,
    /// Whether it has one owner as a whole.
    pub(crate) atomic: bool,
}

/// One field of a [`Struct`].
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// Its type.
    pub(crate) ty: TypeId,
    /// `x-kubernetes-patch-strategy`, split.
    pub(crate) patch_strategies: Vec<String>,
    /// `x-kubernetes-patch-merge-key`.
    pub(crate) patch_merge_key: Option<String>,
}

impl Schema {
    /// The schema of a custom resource version, from its `openAPIV3Schema`.
    pub(crate) fn structural(schema: &Value) -> Self {
        structural::build(schema)
    }

    /// The root type.
    pub(crate) fn root(&self) -> TypeId {
        self.root
    }

    /// Looks a type up.
    pub(crate) fn get(&self, id: TypeId) -> &Type {
        let found = match id {
            TypeId::Own(i) => self.arena.get(i as usize),
            TypeId::Builtin(i) => builtin().get(i as usize),
        };
        found.unwrap_or(&Type::Any)
    }

    /// Drops what the schema does not know, and says where.
    pub(crate) fn prune(&self, value: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        check::prune(self, self.root, value, &mut String::new(), &mut unknown);
        unknown
    }

    /// Refuses JSON that a typed decoder would not take, with the decoder's words, and drops nulls as it does.
    pub(crate) fn check_types(&self, value: &mut Value) -> Result<(), String> {
        check::types(self, self.root, value, &mut Vec::new(), "")
    }
}
