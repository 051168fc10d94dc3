//! Runtime cost of calls.

use crate::ast::op;
use crate::library::Overload;
use crate::library::authz;
use crate::library::formats::pattern_length;
use crate::types::Type;
use crate::value::{Evaluated, Value};

/// The cost of traversing a value: a tenth of its size, rounded up.
pub(crate) fn traversal(size: u64) -> u64 {
    size.div_ceil(10)
}

/// Returns the cost of a call without its arguments.
/// `overload` is set if the call resolved to exactly one; ambiguous calls have the lowest cost.
pub(crate) fn of_call(
    function: &str,
    overload: Option<&Overload>,
    args: &[Evaluated],
    result: &Evaluated,
) -> u64 {
    let size = |i: usize| args.get(i).map_or(1, |arg| actual_size(arg.as_ref().ok()));
    let declared = |i: usize| overload.and_then(|o| o.args.get(i));
    if let Some(cost) = overload.and_then(|_| of_extension(function, args, result)) {
        return cost;
    }
    if let Some(cost) = of_library(function, overload, args, result) {
        return cost;
    }
    match function {
        "startsWith" | "endsWith" | "format" | "strings.quote" => traversal(size(0)),
        "bytes" if declared(0) == Some(&Type::String) => traversal(size(0)),
        "string" if declared(0) == Some(&Type::Bytes) => traversal(size(0)),
        op::IN if matches!(declared(1), Some(Type::List(_))) => size(1),
        op::EQUALS | op::NOT_EQUALS => traversal(size(0).min(size(1))),
        op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS
            if matches!(declared(0), Some(Type::String | Type::Bytes)) =>
        {
            traversal(size(0).min(size(1)))
        }
        op::ADD if matches!(declared(0), Some(Type::String | Type::Bytes)) => {
            traversal(size(0).saturating_add(size(1)))
        }
        "matches" if overload.is_some_and(|o| o.member) => {
            traversal(size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4))
        }
        "contains" if declared(0) == Some(&Type::String) => {
            traversal(size(0)).saturating_mul(traversal(size(1)))
        }
        _ => 1,
    }
}

/// The cost of list functions, by the size of the list they create or of the items they compare.
fn of_extension(function: &str, args: &[Evaluated], result: &Evaluated) -> Option<u64> {
    let value = |i: usize| args.get(i).and_then(|arg| arg.as_ref().ok());
    let size = |i: usize| value(i).map_or(1, library_size);
    let allocating = |factor: f64, size: u64| ((size as f64 * factor) as u64).saturating_add(11);
    let compared = |list: Option<&Value>| match list {
        Some(Value::List(items)) => {
            let is_text = matches!(items.first(), Some(Value::String(_) | Value::Bytes(_)));
            let length = items.len() as u64;
            allocating(if is_text { 2.1 } else { 2.0 }, length.saturating_mul(length))
        }
        _ => 1,
    };
    Some(match function {
        "slice" | "lists.range" | "reverse" => allocating(1.0, result.as_ref().map_or(1, library_size)),
        "flatten" => {
            let depth = match value(1) {
                Some(Value::Int(depth)) => *depth as f64,
                _ => 1.0,
            };
            allocating(depth, size(0))
        }
        "distinct" | "sort" => compared(value(0)),
        op::SORT_BY_KEYS => compared(value(1)),
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1),
        _ => return None,
    })
}

/// Whether a function has a constant cost of one, both at runtime and in the estimate.
pub(crate) fn costs_one(function: &str) -> bool {
    if authz::is_nominal(function) {
        return true;
    }
    matches!(
        function,
        "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery"
    )
}

/// The cost of functions in the Kubernetes CEL libraries.
fn of_library(
    function: &str,
    overload: Option<&Overload>,
    args: &[Evaluated],
    result: &Evaluated,
) -> Option<u64> {
    let value = |i: usize| args.get(i).and_then(|arg| arg.as_ref().ok());
    let size = |i: usize| value(i).map_or(1, library_size);
    let twice = |size: u64| traversal(size.saturating_mul(2));
    Some(match function {
        "check" => authz::CHECK_COST,
        "fieldSelector" | "labelSelector" => authz::selector_cost(size(1)),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => value(0).map_or(1, traversal_of),
        "url"
        | "jsonpatch.escapeKey"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => traversal(size(0)),
        "ip" if overload.is_some_and(|o| o.member) => 1,
        "ip" => traversal(size(0)),
        "replace" | "split" | "ip.isCanonical" => twice(size(0)),
        "join" => twice(result.as_ref().map_or(1, library_size)),
        "find" | "findAll" => traversal(size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4)),
        "containsIP" | "containsCIDR" => {
            let mut cost = twice(size(0));
            if function == "containsCIDR" {
                cost += traversal(size(0)) + 1;
            }
            if overload.and_then(|o| o.args.get(1)) == Some(&Type::String) {
                cost += traversal(size(1));
            }
            cost
        }
        "validate" => match value(0) {
            Some(Value::Format(format)) => {
                traversal(size(1).saturating_add(1)).saturating_mul(pattern_length(format).div_ceil(4))
            }
            _ => return None,
        },
        op::EQUALS => match value(0) {
            Some(
                Value::Quantity(_)
                | Value::Ip(_)
                | Value::Cidr(_)
                | Value::Format(_)
                | Value::Url(_)
                | Value::Semver(_)
                | Value::Authorization(_),
            ) => 1,
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns the size of a value, or of the value inside an optional.
fn actual_size(value: Option<&Value>) -> u64 {
    match value {
        Some(Value::Optional(Some(inner))) => actual_size(Some(inner)),
        Some(value) => library_size(value),
        None => 1,
    }
}

fn library_size(value: &Value) -> u64 {
    match value {
        Value::Ip(ip) => {
            if ip.is_ipv4() {
                4
            } else {
                16
            }
        }
        Value::Cidr(cidr) => cidr.size(),
        Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => value.size(),
        _ => 1,
    }
}

/// The cost of traversing a value and everything in it.
fn traversal_of(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(items) => items.iter().map(traversal_of).fold(0, u64::saturating_add),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, value)| traversal_of(key).saturating_add(traversal_of(value)))
            .fold(0, u64::saturating_add),
        _ => 1,
    }
}
