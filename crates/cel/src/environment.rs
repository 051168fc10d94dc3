//! The variables and functions available to an expression.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Expr, ExprKind};
use crate::check::qualified_name;
use crate::library::{self, Overload, authz};
use crate::types::{ObjectType, Type};

/// The type of JSON patch operations.
pub(crate) const JSON_PATCH: &str = "JSONPatch";

/// Declares the variables of expressions. All functions of Kubernetes' CEL libraries are included.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, Type>,
    patches: bool,
}

impl Environment {
    /// Creates an environment without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, ty: Type) -> Self {
        self.variables.insert(name.into(), ty);
        self
    }

    /// Declares `authorizer` and `authorizer.requestResource`.
    /// Their values are created by [`Value::authorizer`](crate::Value::authorizer) and
    /// [`Value::resource_check`](crate::Value::resource_check).
    #[must_use]
    pub fn with_authorizer(self) -> Self {
        self.with("authorizer", Type::Opaque(authz::AUTHORIZER))
            .with("authorizer.requestResource", Type::Opaque(authz::RESOURCE_CHECK))
    }

    /// Turns selections such as `a.b` into identifiers if a variable has that dotted name.
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

    /// Declares the types and functions of mutating admission policies.
    /// These are schemaless objects, `Object{...}` with nested `Object.spec{...}`, patch operations,
    /// `JSONPatch{...}`, and `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_patches(mut self) -> Self {
        self.patches = true;
        self
    }

    /// Returns the type of objects created by `name{...}`.
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

    /// Returns the type of a variable or of a type name.
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
