//! What an expression can name: variables and functions.

use std::collections::BTreeMap;

use crate::library;
use crate::types::Type;
use crate::value::{Evaluated, Value};

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// What it does, on arguments that fit `args`.
    pub(crate) call: fn(&[Value]) -> Evaluated,
}

/// The variables that an expression can use, besides all functions that Kubernetes offers to rules.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, Type>,
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
            "type" => named(Type::Type(Box::new(Type::Dyn))),
            "optional_type" => named(Type::optional(Type::Dyn)),
            "google.protobuf.Timestamp" => named(Type::Timestamp),
            "google.protobuf.Duration" => named(Type::Duration),
            "kubernetes.Quantity" => named(Type::Opaque("kubernetes.Quantity")),
            "kubernetes.URL" => named(Type::Opaque("kubernetes.URL")),
            "net.IP" => named(Type::Opaque("net.IP")),
            "net.CIDR" => named(Type::Opaque("net.CIDR")),
            "kubernetes.Semver" => named(Type::Opaque("kubernetes.Semver")),
            "kubernetes.NamedFormat" => named(Type::Opaque("kubernetes.NamedFormat")),
            _ => None,
        }
    }

    pub(crate) fn functions(&self, name: &str) -> Option<&'static [Overload]> {
        library::functions().get(name).map(Vec::as_slice)
    }
}
