//! What an expression can name: variables and functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Expr, ExprKind};
use crate::check::qualified_name;
use crate::library::{self, Overload, authz};
use crate::types::{ObjectType, Type};

/// The type of the steps of a JSON patch.
pub(crate) const JSON_PATCH: &str = "JSONPatch";

/// The variables that an expression can use, besides all functions that Kubernetes offers to rules.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, Type>,
    patches: bool,
}

impl Environment {
    /// No variables yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, ty: Type) -> Self {
        self.variables.insert(name.into(), ty);
        self
    }

    /// Declares `authorizer`, whose checks a [`Value::authorizer`](crate::Value::authorizer) decides, and `authorizer.requestResource`, which a
    /// [`Value::resource_check`](crate::Value::resource_check) stands for.
    #[must_use]
    pub fn with_authorizer(self) -> Self {
        self.with("authorizer", Type::Opaque(authz::AUTHORIZER))
            .with("authorizer.requestResource", Type::Opaque(authz::RESOURCE_CHECK))
    }

    /// Makes names of selections that stand for a variable with dots in its name.
    pub(crate) fn resolve_dotted(&self, expr: &mut Expr) {
        if !self.variables.keys().any(|name| name.contains('.')) {
            return;
        }
        expr.walk_mut(&mut |part| {
            let is_select = matches!(&part.kind, ExprKind::Select { test_only: false, .. });
            let name = is_select.then(|| qualified_name(part)).flatten();
            if let Some(name) = name.filter(|name| self.variables.contains_key(name)) {
                part.kind = ExprKind::Ident(name);
            }
        });
    }

    /// Adds what changes are written with: objects without a schema, `Object{...}` and for what is below it
    /// `Object.spec{...}`; steps, `JSONPatch{...}`; and `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_patches(mut self) -> Self {
        self.patches = true;
        self
    }

    /// The type of the objects that `name{...}` makes.
    pub(crate) fn structure(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let (fields, open): (&[(&str, Type)], bool) = match name {
            _ if !self.patches => return None,
            JSON_PATCH => (
                &[("op", Type::String), ("path", Type::String), ("from", Type::String), ("value", Type::Dyn)],
                false,
            ),
            "Object" => (&[], true),
            name if name.starts_with("Object.") => (&[], true),
            _ => return None,
        };
        let fields = fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect();
        Some(Type::Object(Arc::new(ObjectType { name: name.to_owned(), fields, open })))
    }

    /// The type of a variable, or of the name of a type.
    pub(crate) fn variable(&self, name: &str) -> Option<Type> {
        let named = |ty: Type| Some(Type::Type(Box::new(ty)));
        if let Some(ty) = self.variables.get(name) {
            return Some(ty.clone());
        }
        match name {
            "bool" => named(Type::Bool),
            "int" => named(Type::Int),
            "uint" => named(Type::Uint),
            "double" => named(Type::Double),
            "string" => named(Type::String),
            "bytes" => named(Type::Bytes),
            "list" => named(Type::list(Type::Dyn)),
            "map" => named(Type::map(Type::Dyn, Type::Dyn)),
            "null_type" => named(Type::Null),
            "type" => named(Type::Opaque("type")),
            "optional_type" => named(Type::Opaque("optional_type")),
            "google.protobuf.Timestamp" => named(Type::Timestamp),
            "google.protobuf.Duration" => named(Type::Duration),
            "net.IP" => named(Type::Opaque("net.IP")),
            "net.CIDR" => named(Type::Opaque("net.CIDR")),
            name => named(self.structure(name)?),
        }
    }

    pub(crate) fn functions(&self, name: &str) -> Option<&'static [Overload]> {
        let of_patches = || self.patches.then(|| library::patch::functions().get(name)).flatten();
        library::functions().get(name).or_else(of_patches).map(Vec::as_slice)
    }
}
