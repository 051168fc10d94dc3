//! Static cost estimation of expressions.

use std::collections::HashMap;

use crate::ast::{ACCU, Comprehension, Expr, ExprKind, Literal, op};
use crate::check::{Checked, qualified_name};
use crate::cost::costs_one;
use crate::library::Overload;
use crate::library::authz;
use crate::types::Type;

/// A minimum and a maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The minimum.
    pub min: u64,
    /// The maximum; `u64::MAX` if unbounded.
    pub max: u64,
}

/// Cost factor of traversing a string, per character.
const CHARACTER: f64 = 0.1;
/// Cost factor of a regular expression, per character.
const PATTERN: f64 = 0.25;

impl Range {
    const ONE: Self = Self::fixed(1);
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn scaled(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    /// The smallest range that contains both.
    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

fn scaled(value: u64, factor: f64) -> u64 {
    // The conversion saturates.
    (value as f64 * factor).ceil() as u64
}

/// Provides size limits of variables and the values in them.
pub trait Sizes {
    /// Returns the maximum size of the value at a path, if known.
    /// A path starts with a variable; the other elements are field names, `@items`, `@keys` or `@values`.
    fn max_size(&self, path: &[String]) -> Option<u64>;
}

/// No size limits are known.
impl Sizes for () {
    fn max_size(&self, _: &[String]) -> Option<u64> {
        None
    }
}

pub(crate) fn estimate(expr: &Expr, checked: &Checked, sizes: &dyn Sizes) -> Range {
    let mut estimator = Estimator {
        checked,
        sizes,
        paths: HashMap::new(),
        known: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(expr)
}

/// The sizes of the elements of a list or the entries of a map.
#[derive(Clone, Copy)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entries {
    fn union(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

struct Local {
    name: String,
    path: Vec<String>,
    size: Option<Range>,
    entries: Option<Entries>,
}

/// What is known about an argument.
struct Node<'e> {
    expr: &'e Expr,
    path: Vec<String>,
    size: Option<Range>,
}

/// The cost of a call and the size of its result.
struct Call {
    cost: Range,
    size: Option<Range>,
}

struct Estimator<'a> {
    checked: &'a Checked,
    sizes: &'a dyn Sizes,
    paths: HashMap<usize, Vec<String>>,
    known: HashMap<usize, Range>,
    entries: HashMap<usize, Entries>,
    locals: Vec<Local>,
}

impl Estimator<'_> {
    fn cost(&mut self, expr: &Expr) -> Range {
        match &expr.kind {
            ExprKind::Literal(_) => Range::fixed(0),
            ExprKind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                Range::ONE
            }
            ExprKind::Select { operand, field, test_only } => {
                let mut sum = self.cost(operand);
                if *test_only {
                    return sum;
                }
                if matches!(self.checked.of(operand), Type::Map(..) | Type::Object(_)) {
                    sum = sum.plus(Range::ONE);
                }
                let mut path = self.path(operand);
                path.push(field.clone());
                self.paths.insert(expr.id, path);
                sum
            }
            ExprKind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            ExprKind::List(elements) => {
                let mut sum = Range::fixed(10);
                let mut item = Range { min: if elements.is_empty() { 0 } else { u64::MAX }, max: 0 };
                for (element, _) in elements {
                    sum = sum.plus(self.cost(element));
                    item = item.union(self.size_or_unknown(element));
                }
                self.entries.insert(expr.id, Entries { is_list: true, key: Range::ONE, value: item });
                sum
            }
            ExprKind::Map(entries) => {
                let mut sum = Range::fixed(30);
                let empty = Range { min: if entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
                let (mut key, mut value) = (empty, empty);
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, Entries { is_list: false, key, value });
                sum
            }
            ExprKind::Struct { fields, .. } => {
                let costs = fields.iter().map(|field| self.cost(&field.value));
                costs.fold(Range::fixed(40), Range::plus)
            }
            ExprKind::Comprehension(comprehension) => {
                if is_binding(comprehension) {
                    self.binding(expr, comprehension)
                } else {
                    self.comprehension(expr, comprehension)
                }
            }
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, expr: &Expr) -> Vec<String> {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.known.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(Range::fixed(size));
        }
        if let Some(max) = self.max_size(&self.path(expr)) {
            let size = Range { min: 0, max };
            self.known.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.of(expr)) {
            return Some(Range::ONE);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn max_size(&self, path: &[String]) -> Option<u64> {
        if path.is_empty() { None } else { self.sizes.max_size(path) }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    fn entries(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn node<'e>(&mut self, expr: &'e Expr) -> Node<'e> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| first == ACCU) {
            path.clear();
        }
        Node { expr, path, size: self.size(expr) }
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> Range {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(arg).plus(Range::ONE);
            self.copy_sizes(expr, arg);
            return cost;
        }
        let mut nodes = Vec::with_capacity(args.len());
        let mut costs = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(arg));
            nodes.push(self.node(arg));
        }
        let overloads = self.checked.overloads(expr).to_vec();
        let mut sum = Range::fixed(0);
        // A dotted name may be a namespaced function instead of a method call.
        let is_member = target.is_some() && overloads.first().is_none_or(|overload| overload.member);
        let target = target.filter(|_| is_member);
        let full_name;
        let function = match expr.kind {
            ExprKind::Call { target: Some(ref prefix), .. } if target.is_none() => {
                full_name = format!("{}.{function}", qualified_name(prefix).unwrap_or_default());
                full_name.as_str()
            }
            _ => function,
        };
        let target = target.map(|target| {
            sum = self.cost(target);
            self.node(target)
        });
        if function == op::OPT_SELECT {
            let size = self.size(expr);
            self.set_size(expr, size);
            return costs.iter().fold(Range::ONE, |sum, cost| sum.plus(*cost));
        }
        let mut cost = Range { min: u64::MAX, max: 0 };
        let mut size: Option<Range> = None;
        for overload in overloads {
            let call = self.function(expr, function, overload, target.as_ref(), &nodes, &costs);
            cost = cost.union(call.cost);
            size = match (size, call.size) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if let (op::INDEX, Some(container)) = (function, args.first()) {
                let suffix = match overload.args.first() {
                    Some(Type::List(_)) => Some("@items"),
                    Some(Type::Map(..)) => Some("@values"),
                    _ => None,
                };
                if let Some(suffix) = suffix {
                    size = self.entries(container).map(|entries| entries.value);
                    let mut path = self.path(container);
                    path.push(suffix.to_owned());
                    self.paths.insert(expr.id, path);
                }
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        self.set_size(expr, size);
        sum.plus(cost)
    }

    fn set_size(&mut self, expr: &Expr, size: Option<Range>) {
        if let Some(size) = size {
            self.known.insert(expr.id, size);
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        let size = self.size(from);
        self.set_size(to, size);
        if let Some(entries) = self.entries(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn function(
        &mut self,
        expr: &Expr,
        function: &str,
        overload: &Overload,
        target: Option<&Node<'_>>,
        args: &[Node<'_>],
        costs: &[Range],
    ) -> Call {
        let arguments = costs.iter().fold(Range::fixed(0), |sum, cost| sum.plus(*cost));
        let found = self
            .extension(function, overload, target, args)
            .or_else(|| self.library(function, overload, target, args));
        if let Some(call) = found {
            return Call { cost: call.cost.plus(arguments), ..call };
        }
        let size = |node: Option<&Node<'_>>| node.and_then(|node| node.size).unwrap_or(Range::UNKNOWN);
        let walk = |node: Option<&Node<'_>>| size(node).scaled(CHARACTER);
        let declared = |i: usize| overload.args.get(i);
        let is_text = matches!(declared(0), Some(Type::String | Type::Bytes));
        let (first, second) = (args.first(), args.get(1));
        let plain = |cost: Range| Call { cost: cost.plus(arguments), size: None };
        match function {
            "format" if target.is_some() => plain(walk(target)),
            "bytes" if declared(0) == Some(&Type::String) => {
                let size = size(first);
                let result = Range { min: size.min, max: size.max.wrapping_mul(4) };
                Call { cost: walk(first).plus(arguments), size: Some(result) }
            }
            "string" if declared(0) == Some(&Type::Bytes) => {
                let size = size(first);
                let result = Range { min: size.min / 4, max: size.max };
                Call { cost: walk(first).plus(arguments), size: Some(result) }
            }
            "strings.quote" => {
                let size = size(first);
                let result =
                    Range { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
                Call { cost: walk(first).plus(arguments), size: Some(result) }
            }
            "startsWith" | "endsWith" => plain(walk(first)),
            op::IN if matches!(declared(1), Some(Type::List(_))) => plain(size(second).scaled(1.0)),
            "matches" if target.is_some() => {
                let text = size(target).plus(Range::ONE).scaled(CHARACTER);
                plain(text.times(size(first).scaled(PATTERN)))
            }
            "contains" if target.is_some() => plain(walk(target).times(walk(first))),
            op::AND | op::OR => {
                let [left, right] = costs else { return plain(Range::ONE) };
                Call { cost: Range { min: left.min, max: left.plus(*right).max }, size: None }
            }
            op::CONDITIONAL => {
                let ([condition, then, otherwise], [_, a, b]) = (costs, args) else {
                    return plain(Range::ONE);
                };
                let result = size(Some(a)).union(size(Some(b)));
                if let (Some(a), Some(b)) = (self.entries(a.expr), self.entries(b.expr)) {
                    self.entries.insert(expr.id, a.union(b));
                }
                Call { cost: condition.plus(then.union(*otherwise)), size: Some(result) }
            }
            op::ADD if is_text || matches!(declared(0), Some(Type::List(_))) => {
                let result = size(first).plus(size(second));
                let entries =
                    (first.and_then(|n| self.entries(n.expr)), second.and_then(|n| self.entries(n.expr)));
                if let (Some(a), Some(b)) = entries {
                    self.entries.insert(expr.id, a.union(b));
                }
                let cost = if is_text { result.scaled(CHARACTER) } else { Range::ONE };
                Call { cost: cost.plus(arguments), size: Some(result) }
            }
            op::EQUALS | op::NOT_EQUALS => plain(comparison(size(first), size(second))),
            op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS if is_text => {
                plain(comparison(size(first), size(second)))
            }
            _ => plain(Range::ONE),
        }
    }

    /// The estimated cost of list functions, by the size of their result or of the compared items.
    fn extension(
        &self,
        function: &str,
        overload: &Overload,
        target: Option<&Node<'_>>,
        args: &[Node<'_>],
    ) -> Option<Call> {
        let size = |node: &Node<'_>| {
            node.size
                .or_else(|| self.max_size(&node.path).map(|max| Range { min: 0, max }))
                .unwrap_or(Range::UNKNOWN)
        };
        let literal = |node: Option<&Node<'_>>, otherwise: u64| match node.map(|node| &node.expr.kind) {
            Some(ExprKind::Literal(Literal::Int(value))) => value.max(&0).unsigned_abs(),
            _ => otherwise,
        };
        let allocating = |factor: f64, size: Range| {
            Some(Call { cost: size.scaled(factor).plus(Range::fixed(11)), size: Some(size) })
        };
        match (function, target, args) {
            ("slice", Some(target), [start, end]) => {
                let end = literal(Some(end), size(target).max);
                allocating(1.0, Range::fixed(end.wrapping_sub(literal(Some(start), 0))))
            }
            ("lists.range", None, [end]) => allocating(1.0, Range::fixed(literal(Some(end), u64::MAX))),
            ("reverse", Some(target), []) => allocating(1.0, size(target)),
            ("flatten", Some(target), [] | [_]) => {
                let depth = args.first().map_or(1, |depth| literal(Some(depth), u64::MAX));
                allocating(depth as f64, size(target))
            }
            ("distinct", Some(target), []) => allocating(2.0, size(target).times(size(target))),
            ("sort", Some(sorted), []) | (op::SORT_BY_KEYS, Some(_), [sorted]) => {
                let is_text = matches!(
                    overload.args.last(),
                    Some(Type::List(item)) if matches!(**item, Type::String | Type::Bytes)
                );
                let factor = if is_text { 2.1 } else { 2.0 };
                allocating(factor, size(sorted).times(size(sorted)))
            }
            ("sets.contains" | "sets.intersects" | "sets.equivalent", None, [left, right]) => {
                let factor = if function == "sets.equivalent" { 2.0 } else { 1.0 };
                let cost = size(left).times(size(right)).scaled(factor).plus(Range::ONE);
                Some(Call { cost, size: None })
            }
            _ => None,
        }
    }

    /// The estimated cost of functions in the Kubernetes CEL libraries.
    fn library(
        &self,
        function: &str,
        overload: &Overload,
        target: Option<&Node<'_>>,
        args: &[Node<'_>],
    ) -> Option<Call> {
        let size = |estimator: &Self, node: &Node<'_>| {
            node.size
                .or_else(|| estimator.max_size(&node.path).map(|max| Range { min: 0, max }))
                .unwrap_or(Range::UNKNOWN)
        };
        let cost = |cost: Range| Some(Call { cost, size: None });
        let first = args.first();
        match function {
            "check" => cost(Range::fixed(authz::CHECK_COST)),
            "fieldSelector" | "labelSelector" => {
                let Range { min, max } = size(self, first?);
                cost(Range { min: authz::selector_cost(min), max: authz::selector_cost(max) })
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let target = target?;
                let length = size(self, target);
                let Some(item) = self.item(target) else { return cost(length.scaled(CHARACTER)) };
                let mut each = Range::ONE;
                if let (Type::String | Type::Bytes, size) = item {
                    each = each.plus(size.scaled(CHARACTER));
                }
                cost(length.times(each))
            }
            "url" | "jsonpatch.escapeKey" => {
                let [arg] = args else { return None };
                let size = size(self, arg);
                Some(Call { cost: size.scaled(CHARACTER), size: Some(size) })
            }
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                let size = size(self, target?);
                Some(Call { cost: size.scaled(CHARACTER), size: Some(size) })
            }
            "replace" => {
                let [old, new, ..] = args else { return None };
                let text = size(self, target?);
                let result = replaced(text, size(self, old), size(self, new));
                Some(Call { cost: text.scaled(2.0 * CHARACTER), size: Some(result) })
            }
            "split" => {
                let text = size(self, target?);
                let limit = match args.get(1).map(|arg| &arg.expr.kind) {
                    Some(ExprKind::Literal(Literal::Int(limit))) => Some(limit.cast_unsigned()),
                    _ => None,
                };
                let result = Range { min: 0, max: limit.unwrap_or(text.max) };
                Some(Call { cost: text.scaled(2.0 * CHARACTER), size: Some(result) })
            }
            "join" => {
                let target = target?;
                let length = size(self, target);
                let mut result = Range::default();
                if let Some((_, item)) = self.item(target) {
                    result = length.times(item);
                }
                if let Some(separator) = first {
                    let count =
                        Range { min: length.min.saturating_sub(1), max: length.max.saturating_sub(1) };
                    result = result.plus(size(self, separator).times(count));
                }
                Some(Call { cost: result.scaled(CHARACTER), size: Some(result) })
            }
            "find" | "findAll" => {
                let text = size(self, target?);
                let pattern = size(self, first?).scaled(PATTERN);
                let walked = text.plus(Range::ONE).scaled(CHARACTER);
                Some(Call { cost: walked.times(pattern), size: Some(Range { min: 0, max: text.max }) })
            }
            "ip" if overload.member => cost(Range::ONE),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                cost(size(self, first?).scaled(CHARACTER))
            }
            "ip.isCanonical" => cost(size(self, first?).scaled(2.0 * CHARACTER)),
            "containsIP" | "containsCIDR" => {
                let other = first?;
                let address = Range { min: 4, max: 16 };
                let mut sum = address.plus(address).scaled(CHARACTER);
                if function == "containsCIDR" {
                    sum = sum.plus(address.scaled(CHARACTER)).plus(Range::ONE);
                }
                if overload.args.get(1) == Some(&Type::String) {
                    sum = sum.plus(size(self, other).scaled(CHARACTER));
                }
                cost(sum)
            }
            "validate" => cost(size(self, first?).scaled(CHARACTER).scaled(128.0 * PATTERN)),
            function if costs_one(function) => cost(Range::ONE),
            op::EQUALS => {
                let [left, right] = args else { return None };
                let (left_type, right_type) = (self.checked.of(left.expr), self.checked.of(right.expr));
                match left_type {
                    Type::Opaque(name) if left_type == right_type => match *name {
                        "kubernetes.NamedFormat" => cost(Range { min: 1, max: 64 }.scaled(CHARACTER)),
                        "kubernetes.URL" => {
                            let max = right.size.map_or(1, |size| size.max);
                            cost(Range { min: 1, max }.scaled(CHARACTER))
                        }
                        _ => cost(Range::ONE),
                    },
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the type and size of a list's items; `None` if it is not a list.
    fn item(&self, list: &Node<'_>) -> Option<(Type, Range)> {
        let ty = match self.checked.of(list.expr) {
            Type::List(item) => (**item).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Optional(inner) | Type::Type(inner) => (**inner).clone(),
            _ => return None,
        };
        let known = if list.path.is_empty() {
            None
        } else {
            let mut path = list.path.clone();
            path.push("@items".to_owned());
            self.max_size(&path)
        };
        Some((ty, known.map_or(Range::UNKNOWN, |max| Range { min: 0, max })))
    }

    fn comprehension(&mut self, expr: &Expr, comprehension: &Comprehension) -> Range {
        let Comprehension { range, var, var2, accu, accu_init, condition, step, result } = comprehension;
        let mut sum = self.cost(range).plus(self.cost(accu_init));
        self.push_binding(accu, accu_init);
        let outer = self.locals.len();
        match var2 {
            Some(var2) => {
                self.push_iteration(var, range, "@keys", "@indices", |entries| entries.key);
                self.push_iteration(var2, range, "@values", "@items", |entries| entries.value);
            }
            None => self.push_iteration(var, range, "@keys", "@items", |entries| {
                if entries.is_list { entries.value } else { entries.key }
            }),
        }
        let each = self.cost(condition).plus(self.cost(step));
        self.locals.truncate(outer);
        sum = sum.plus(self.cost(result));
        self.locals.pop();
        let count = self.size_or_unknown(range);
        sum = sum.plus(count.times(each));
        match &accu_init.kind {
            ExprKind::Literal(_) => {
                let size = self.size(accu_init);
                self.set_size(expr, size);
            }
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.set_size(expr, Some(count));
                if let Some(entries) = self.entries(step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum
    }

    fn push_iteration(
        &mut self,
        name: &str,
        range: &Expr,
        in_map: &str,
        in_list: &str,
        size: fn(Entries) -> Range,
    ) {
        let entries = self.entries(range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.of(range), Type::List(_)),
        };
        let mut path = self.path(range);
        path.push(if is_list { in_list } else { in_map }.to_owned());
        self.locals.push(Local { name: name.to_owned(), path, size: entries.map(size), entries: None });
    }

    fn push_binding(&mut self, name: &str, value: &Expr) {
        let (path, size, entries) = (self.path(value), self.size(value), self.entries(value));
        self.locals.push(Local { name: name.to_owned(), path, size, entries });
    }

    fn binding(&mut self, expr: &Expr, comprehension: &Comprehension) -> Range {
        let mut sum = self.cost(&comprehension.range).plus(self.cost(&comprehension.accu_init));
        self.push_binding(&comprehension.accu, &comprehension.accu_init);
        sum = sum.plus(self.cost(&comprehension.result));
        self.locals.pop();
        self.copy_sizes(expr, &comprehension.result);
        sum
    }
}

/// Whether a comprehension never iterates and only binds a variable.
fn is_binding(comprehension: &Comprehension) -> bool {
    matches!(&comprehension.range.kind, ExprKind::List(items) if items.is_empty())
        && matches!(comprehension.condition.kind, ExprKind::Literal(Literal::Bool(false)))
}

fn comparison(a: Range, b: Range) -> Range {
    let max = a.max.min(b.max);
    Range { min: u64::from(max > 0), max }.scaled(CHARACTER)
}

/// The possible length of a string after replacement.
fn replaced(text: Range, old: Range, new: Range) -> Range {
    let (mut count, mut kept) = (Range::default(), Range::default());
    if old.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if new.max <= old.min {
        kept.max = text.max;
    } else {
        count.max = (text.max as f64 / old.min as f64).ceil() as u64;
    }
    if old.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if old.max <= new.min {
        kept.min = text.min;
    } else {
        count.min = (text.min as f64 / old.max as f64).ceil() as u64;
    }
    count.times(new).plus(kept)
}

fn literal_size(expr: &Expr) -> Option<u64> {
    let size = match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => text.chars().count(),
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        ExprKind::Literal(_) => 1,
        ExprKind::List(elements) => elements.len(),
        ExprKind::Map(entries) => entries.len(),
        _ => return None,
    };
    u64::try_from(size).ok()
}

/// Whether all values of a type have the same size.
fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
