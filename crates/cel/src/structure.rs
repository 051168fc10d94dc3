//! Struct literals: `Object.spec{replicas: 3}`.

use std::sync::Arc;

use crate::ast::Entry;
use crate::environment::JSON_PATCH;
use crate::eval::Evaluator;
use crate::object::Object;
use crate::value::{Evaluated, Value, fail};

impl<'a> Evaluator<'a> {
    /// Evaluates a struct literal of a type known to the checker.
    pub(crate) fn structure(&mut self, name: &str, fields: &'a [Entry<String>]) -> Evaluated {
        let name = name.strip_prefix('.').unwrap_or(name);
        let mut out: Vec<(Arc<str>, Value)> = Vec::with_capacity(fields.len());
        for Entry { key, value, optional, .. } in fields {
            let value = match (self.expr(value)?, optional) {
                (Value::Optional(inner), true) => inner.map(|inner| (*inner).clone()),
                (value, true) => {
                    let why = "cannot initialize optional entry";
                    return fail(format!("{why} '{key}' from non-optional value {value}"));
                }
                (value, false) => Some(value),
            };
            out.retain(|(known, _)| **known != **key);
            out.extend(value.map(|value| (key.as_str().into(), value)));
        }
        self.budget.spend(40)?;
        if name == JSON_PATCH {
            for (key, value) in out.iter().filter(|(key, _)| &**key != "value") {
                if !matches!(value, Value::String(_)) {
                    let found = go_type(value);
                    return fail(format!("unexpected type {found} for JSONPatchType '{key}' field"));
                }
            }
        }
        Ok(Value::Object(Arc::new(Object { name: name.into(), fields: out })))
    }
}

/// Returns Go's name for a value's type.
fn go_type(value: &Value) -> &str {
    match value {
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        other => other.type_name(),
    }
}
