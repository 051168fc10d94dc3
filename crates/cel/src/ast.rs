//! The abstract syntax tree of expressions. Macros are already expanded.

/// A node of the syntax tree.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// Unique number within the whole expression, in preorder.
    pub(crate) id: usize,
    /// Source offset in characters. For binary operators, that of the operator.
    pub(crate) offset: usize,
    pub(crate) kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Literal(Literal),
    /// A variable or type name; a leading dot is kept.
    Ident(String),
    /// `operand.field`, or `has(operand.field)` if `test_only`.
    Select {
        operand: Box<Expr>,
        field: String,
        test_only: bool,
    },
    /// A function call, or a method call if there is a target. Operators are functions named as in [`op`].
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    /// Elements; the flag marks optional ones (`?x`).
    List(Vec<(Expr, bool)>),
    Map(Vec<Entry<Expr>>),
    Struct {
        name: String,
        fields: Vec<Entry<String>>,
    },
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

impl Expr {
    pub(crate) fn new(offset: usize, kind: ExprKind) -> Self {
        Self { id: 0, offset, kind }
    }

    /// Numbers all nodes in preorder and returns their count.
    pub(crate) fn number(&mut self) -> usize {
        let mut next = 0;
        self.walk_mut(&mut |part| {
            part.id = next;
            next += 1;
        });
        next
    }

    /// Visits this node and all descendants mutably, in preorder.
    pub(crate) fn walk_mut(&mut self, visit: &mut impl FnMut(&mut Expr)) {
        visit(self);
        match &mut self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => operand.walk_mut(visit),
            ExprKind::Call { target, args, .. } => {
                target.iter_mut().for_each(|target| target.walk_mut(visit));
                args.iter_mut().for_each(|arg| arg.walk_mut(visit));
            }
            ExprKind::List(elements) => {
                elements.iter_mut().for_each(|(element, _)| element.walk_mut(visit));
            }
            ExprKind::Map(entries) => {
                for entry in entries {
                    entry.key.walk_mut(visit);
                    entry.value.walk_mut(visit);
                }
            }
            ExprKind::Struct { fields, .. } => {
                fields.iter_mut().for_each(|field| field.value.walk_mut(visit));
            }
            ExprKind::Comprehension(c) => {
                for part in [&mut c.range, &mut c.accu_init, &mut c.condition, &mut c.step, &mut c.result] {
                    part.walk_mut(visit);
                }
            }
        }
    }

    /// Visits this node and all descendants in preorder.
    pub(crate) fn walk(&self, visit: &mut impl FnMut(&Expr)) {
        visit(self);
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => operand.walk(visit),
            ExprKind::Call { target, args, .. } => {
                target.iter().for_each(|target| target.walk(visit));
                args.iter().for_each(|arg| arg.walk(visit));
            }
            ExprKind::List(elements) => elements.iter().for_each(|(element, _)| element.walk(visit)),
            ExprKind::Map(entries) => {
                for entry in entries {
                    entry.key.walk(visit);
                    entry.value.walk(visit);
                }
            }
            ExprKind::Struct { fields, .. } => fields.iter().for_each(|field| field.value.walk(visit)),
            ExprKind::Comprehension(c) => {
                for part in [&c.range, &c.accu_init, &c.condition, &c.step, &c.result] {
                    part.walk(visit);
                }
            }
        }
    }
}

/// An entry of a map or a field of a struct.
#[derive(Clone, Debug)]
pub(crate) struct Entry<K> {
    /// Source offset of the colon.
    pub(crate) offset: usize,
    pub(crate) key: K,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A fold over a list or a map that accumulates a value.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) var: String,
    /// If set, `var` is the index or key and `var2` the element or value.
    pub(crate) var2: Option<String>,
    /// The name of the accumulator, usually [`ACCU`].
    pub(crate) accu: String,
    pub(crate) accu_init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// The accumulator of a comprehension. Not a valid identifier in expressions.
pub(crate) const ACCU: &str = "@result";

/// Function names of operators.
pub(crate) mod op {
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const NOT: &str = "!_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const LESS: &str = "_<_";
    pub(crate) const LESS_EQUALS: &str = "_<=_";
    pub(crate) const GREATER: &str = "_>_";
    pub(crate) const GREATER_EQUALS: &str = "_>=_";
    pub(crate) const IN: &str = "@in";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const SUBTRACT: &str = "_-_";
    pub(crate) const MULTIPLY: &str = "_*_";
    pub(crate) const DIVIDE: &str = "_/_";
    pub(crate) const MODULO: &str = "_%_";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPT_INDEX: &str = "_[?_]";
    pub(crate) const OPT_SELECT: &str = "_?._";
    /// Inserts an entry into a map. Not callable from expressions.
    pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
    /// Sorts a list by a list of keys. Not callable from expressions.
    pub(crate) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
}
