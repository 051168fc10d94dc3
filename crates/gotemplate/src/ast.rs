//! Parsed templates.
//!
//! The nodes of one source text lie in flat arenas and refer to each other by index. This drops without recursion,
//! however deeply a template nests, and is shared between threads behind one `Arc`.

use std::fmt::Write;
use std::sync::Arc;

use crate::func::Func;
use crate::parse::Number;
use crate::str::Str;
use steersman_gostd::strconv;

/// The nodes of one parsed source text, which may define several templates.
pub(crate) struct Unit<H> {
    /// Name that the source was parsed under, for error messages.
    pub(crate) name: String,
    pub(crate) text: Str,
    pub(crate) lists: Vec<Box<[Stmt]>>,
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) exprs: Vec<Expr<H>>,
}

/// One template of a unit.
pub(crate) struct Template<H> {
    pub(crate) name: Str,
    pub(crate) unit: Arc<Unit<H>>,
    pub(crate) root: ListId,
    /// Largest number of variables in scope at once, `$` included.
    pub(crate) slots: usize,
    /// Whether `and` or `or` may skip one of its declarations.
    pub(crate) conditional: bool,
    /// Whether it contains only white space and comments.
    pub(crate) empty: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct ListId(pub(crate) usize);
#[derive(Clone, Copy)]
pub(crate) struct PipeId(pub(crate) usize);
#[derive(Clone, Copy)]
pub(crate) struct ExprId(pub(crate) usize);

/// A statement, executed for its output.
pub(crate) enum Stmt {
    /// A range of the unit's text.
    Text(std::ops::Range<usize>),
    Action(PipeId),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template(TemplateCall),
    Break,
    Continue,
}

pub(crate) struct Branch {
    pub(crate) pipe: PipeId,
    pub(crate) list: ListId,
    pub(crate) else_list: Option<ListId>,
}

pub(crate) struct TemplateCall {
    pub(crate) pos: usize,
    pub(crate) name: Str,
    pub(crate) pipe: Option<PipeId>,
}

/// Commands joined by `|`, and the variables set to the result.
pub(crate) struct Pipe {
    pub(crate) pos: usize,
    pub(crate) is_assign: bool,
    pub(crate) decls: Box<[Decl]>,
    pub(crate) cmds: Box<[Cmd]>,
}

pub(crate) struct Decl {
    pub(crate) name: Box<str>,
    pub(crate) slots: Slots,
}

/// Candidate slots of a variable, of which the first that is set holds its value.
///
/// Usually exactly one. Several if a declaration is in an argument that `and` or `or` may skip; none if no declaration
/// can have run.
pub(crate) type Slots = Box<[usize]>;

pub(crate) struct Cmd {
    pub(crate) pos: usize,
    pub(crate) args: Box<[ExprId]>,
}

pub(crate) struct Expr<H> {
    pub(crate) pos: usize,
    pub(crate) kind: ExprKind<H>,
}

pub(crate) enum ExprKind<H> {
    Dot,
    Nil,
    Bool(bool),
    Number(Box<Number>, Box<str>),
    /// The string, and its source as a range of the unit's text.
    String(Str, std::ops::Range<usize>),
    Field(Names),
    Variable {
        name: Box<str>,
        slots: Slots,
        fields: Names,
    },
    Function {
        name: Box<str>,
        func: FuncRef<H>,
    },
    Pipe(PipeId),
    Chain {
        node: ExprId,
        fields: Names,
    },
}

pub(crate) type Names = Box<[Box<str>]>;

/// A function, resolved when the template is parsed.
pub(crate) enum FuncRef<H> {
    Builtin(crate::builtins::Builtin),
    Host(Func<H>),
}

/// A node, as error messages need it.
pub(crate) enum Node<'a, H> {
    Expr(&'a Expr<H>),
    Pipe(&'a Pipe),
    Cmd(&'a Cmd),
    Template(&'a TemplateCall),
}

impl<H> Clone for Node<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Node<'_, H> {}

impl<H> Node<'_, H> {
    pub(crate) fn pos(self) -> usize {
        match self {
            Self::Expr(expr) => expr.pos,
            Self::Pipe(pipe) => pipe.pos,
            Self::Cmd(cmd) => cmd.pos,
            Self::Template(call) => call.pos,
        }
    }
}

impl<H> Unit<H> {
    pub(crate) fn list(&self, id: ListId) -> &[Stmt] {
        &self.lists[id.0]
    }

    pub(crate) fn pipe(&self, id: PipeId) -> &Pipe {
        &self.pipes[id.0]
    }

    pub(crate) fn expr(&self, id: ExprId) -> &Expr<H> {
        &self.exprs[id.0]
    }

    /// Returns the line (from 1) and the column in bytes (from 0, as in Go) of a position.
    pub(crate) fn line_column(&self, pos: usize) -> (usize, usize) {
        let before = self.text.get(..pos).unwrap_or(&self.text);
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        let column = before.iter().rposition(|&b| b == b'\n').map_or(pos, |newline| pos - newline - 1);
        (line, column)
    }

    /// Formats a node as Go prints it: the source with normalized spacing.
    pub(crate) fn show(&self, node: Node<'_, H>) -> String {
        let mut out = String::new();
        match node {
            Node::Expr(expr) => self.write_expr(&mut out, expr),
            Node::Pipe(pipe) => self.write_pipe(&mut out, pipe),
            Node::Cmd(cmd) => self.write_cmd(&mut out, cmd),
            Node::Template(call) => {
                let _ = write!(out, "{{{{template {}", strconv::quote(&call.name));
                if let Some(pipe) = call.pipe {
                    out.push(' ');
                    self.write_pipe(&mut out, self.pipe(pipe));
                }
                out.push_str("}}");
            }
        }
        out
    }

    fn write_pipe(&self, out: &mut String, pipe: &Pipe) {
        for (i, decl) in pipe.decls.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            out.push_str(&decl.name);
        }
        if !pipe.decls.is_empty() {
            out.push_str(if pipe.is_assign { " = " } else { " := " });
        }
        for (i, cmd) in pipe.cmds.iter().enumerate() {
            if i > 0 {
                out.push_str(" | ");
            }
            self.write_cmd(out, cmd);
        }
    }

    fn write_cmd(&self, out: &mut String, cmd: &Cmd) {
        for (i, arg) in cmd.args.iter().enumerate() {
            if i > 0 {
                out.push(' ');
            }
            self.write_operand(out, self.expr(*arg));
        }
    }

    /// Writes an expression, in parentheses if it is a pipeline.
    fn write_operand(&self, out: &mut String, expr: &Expr<H>) {
        if matches!(expr.kind, ExprKind::Pipe(_)) {
            out.push('(');
            crate::stack::grow(|| self.write_expr(out, expr));
            out.push(')');
        } else {
            self.write_expr(out, expr);
        }
    }

    fn write_expr(&self, out: &mut String, expr: &Expr<H>) {
        let mut fields: &[Box<str>] = &[];
        match &expr.kind {
            ExprKind::Dot => out.push('.'),
            ExprKind::Nil => out.push_str("nil"),
            ExprKind::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            ExprKind::Number(_, text) => out.push_str(text),
            ExprKind::String(_, spelling) => {
                out.push_str(&String::from_utf8_lossy(self.text.get(spelling.clone()).unwrap_or_default()));
            }
            ExprKind::Field(names) => fields = names,
            ExprKind::Variable { name, fields: names, .. } => {
                out.push_str(name);
                fields = names;
            }
            ExprKind::Function { name, .. } => out.push_str(name),
            ExprKind::Pipe(pipe) => self.write_pipe(out, self.pipe(*pipe)),
            ExprKind::Chain { node, fields: names } => {
                self.write_operand(out, self.expr(*node));
                fields = names;
            }
        }
        for field in fields {
            out.push('.');
            out.push_str(field);
        }
    }
}
