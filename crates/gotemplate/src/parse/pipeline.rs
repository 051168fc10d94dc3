//! Pipelines, commands and operands.

use super::lex::{Kind, Token};
use super::{BOX, Number, Parser};
use crate::ast::{Cmd, Decl, Expr, ExprId, ExprKind, FuncRef, Names, Pipe, PipeId, Slots};
use crate::builtins::Builtin;
use crate::set::ParseError;
use steersman_gostd::strconv;

/// Maximum nesting of parentheses, as in Go.
const MAX_PARENS: usize = 10_000;

impl<'a, H> Parser<'_, 'a, H> {
    /// Parses declarations, if any, and commands joined by `|`, up to `end`.
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Result<PipeId, ParseError> {
        let pos = self.peek_non_space().pos;
        let (names, is_assign) = self.declarations(context)?;
        let mut cmds = Vec::new();
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => break,
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => {
                    self.backup();
                    cmds.push(self.command()?);
                }
                _ => return self.unexpected(token, context),
            }
        }
        self.check_commands(&cmds, context)?;
        // Go declares after the commands have run, so the `$x` on the right of `$x := $x` is the outer one.
        let decls = names.into_iter().map(|name| Decl {
            name: name.into(),
            slots: if is_assign { self.scope.find(name) } else { self.scope.declare(name) },
        });
        let decls = decls.collect();
        self.pipe_id(Pipe { pos, is_assign, decls, cmds: cmds.into() })
    }

    /// Parses `$x :=`, `$x =`, or in a range `$i, $x :=`. Returns the names, and whether it is an assignment.
    fn declarations(&mut self, context: &str) -> Result<(Vec<&'a str>, bool), ParseError> {
        let mut names = Vec::new();
        loop {
            let variable = self.peek_non_space();
            if variable.kind != Kind::Variable {
                return Ok((names, false));
            }
            self.next();
            // Spaces are tokens: in "$x foo" only "foo" shows that $x is an operand, and all three are put back.
            let after = self.peek();
            let next = self.peek_non_space();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    self.next_non_space();
                    names.push(self.see(variable));
                    return Ok((names, next.kind == Kind::Assign));
                }
                Kind::Char if next.text == b"," => {
                    self.next_non_space();
                    names.push(self.see(variable));
                    if context != "range" || names.len() >= 2 {
                        return self.error(format_args!("too many declarations in {context}"));
                    }
                    if !matches!(
                        self.peek_non_space().kind,
                        Kind::Variable | Kind::RightDelim | Kind::RightParen
                    ) {
                        return self.error("range can only initialize variables");
                    }
                }
                _ => {
                    if after.kind == Kind::Space {
                        self.backup3(variable, after);
                    } else {
                        self.backup2(variable);
                    }
                    return Ok((names, false));
                }
            }
        }
    }

    fn see(&mut self, variable: Token<'a>) -> &'a str {
        let name = text_of(variable.text);
        self.scope.see(name);
        name
    }

    fn check_commands(&self, cmds: &[Cmd], context: &str) -> Result<(), ParseError> {
        if cmds.is_empty() {
            return self.error(format_args!("missing value for {context}"));
        }
        for (stage, cmd) in cmds.iter().enumerate().skip(1) {
            let first = cmd.args.first().map(|id| &self.shared.exprs[id.0].kind);
            if let Some(
                ExprKind::Bool(_)
                | ExprKind::Dot
                | ExprKind::Nil
                | ExprKind::Number(..)
                | ExprKind::String(..),
            ) = first
            {
                return self.error(format_args!("non executable command in pipeline stage {}", stage + 1));
            }
        }
        Ok(())
    }

    /// Parses operands up to a `|`, which is consumed, or the end of the pipeline, which is not.
    fn command(&mut self) -> Result<Cmd, ParseError> {
        let pos = self.peek_non_space().pos;
        let mut args: Vec<ExprId> = Vec::new();
        let mut short_circuits = false;
        loop {
            self.peek_non_space();
            // `and` and `or` always evaluate their first argument, but may skip all others.
            let skippable = short_circuits && args.len() >= 2;
            if skippable {
                self.scope.enter_skippable();
            }
            let operand = self.operand();
            if skippable {
                self.scope.leave_skippable();
            }
            if let Some(operand) = operand? {
                if args.is_empty() {
                    let kind = &self.shared.exprs[operand.0].kind;
                    short_circuits = matches!(
                        kind,
                        ExprKind::Function { func: FuncRef::Builtin(Builtin::And | Builtin::Or), .. }
                    );
                }
                args.push(operand);
            }
            let token = self.next();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.backup(),
                Kind::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        if args.is_empty() {
            return self.error("empty command");
        }
        Ok(Cmd { pos, args: args.into() })
    }

    /// Parses a term and the fields accessed on it; `None` if no term follows.
    fn operand(&mut self) -> Result<Option<ExprId>, ParseError> {
        let Some(node) = self.term()? else { return Ok(None) };
        let first = self.peek();
        if first.kind != Kind::Field {
            return Ok(Some(self.expr_id(node)?));
        }
        if let ExprKind::Bool(_)
        | ExprKind::String(..)
        | ExprKind::Number(..)
        | ExprKind::Nil
        | ExprKind::Dot = node.kind
        {
            let shown = self.show_constant(&node);
            return self.error(format_args!("unexpected . after term {shown}"));
        }
        let mut fields = Vec::new();
        while self.peek().kind == Kind::Field {
            fields.push(field_name(self.next()));
        }
        let kind = match node.kind {
            ExprKind::Field(names) => ExprKind::Field(joined(names, fields)),
            ExprKind::Variable { name, slots, fields: names } => {
                ExprKind::Variable { name, slots, fields: joined(names, fields) }
            }
            kind => {
                let node = self.expr_id(Expr { pos: node.pos, kind })?;
                ExprKind::Chain { node, fields: fields.into() }
            }
        };
        Ok(Some(self.expr_id(Expr { pos: first.pos, kind })?))
    }

    fn term(&mut self) -> Result<Option<Expr<H>>, ParseError> {
        let token = self.next_non_space();
        let kind = match token.kind {
            Kind::Identifier => self.function(token)?,
            Kind::Dot => ExprKind::Dot,
            Kind::Nil => ExprKind::Nil,
            Kind::Variable => self.variable(token)?,
            Kind::Field => ExprKind::Field(Box::new([field_name(token)])),
            Kind::Bool => ExprKind::Bool(token.text == b"true"),
            Kind::CharConstant => self.number(token, Number::from_char)?,
            Kind::Complex => self.number(token, Number::from_complex)?,
            Kind::Number => self.number(token, Number::from_number)?,
            Kind::LeftParen => {
                if self.paren_depth >= MAX_PARENS {
                    return self.error("max expression depth exceeded");
                }
                self.paren_depth += 1;
                let pipe = crate::stack::grow(|| self.pipeline("parenthesized pipeline", Kind::RightParen))?;
                self.paren_depth -= 1;
                let pos = self.shared.pipes[pipe.0].pos;
                return Ok(Some(Expr { pos, kind: ExprKind::Pipe(pipe) }));
            }
            Kind::String | Kind::RawString => match strconv::unquote(token.text) {
                Some(text) => ExprKind::String(text.into(), token.pos..token.pos + token.text.len()),
                None => return self.error("invalid syntax"),
            },
            _ => {
                self.backup();
                return Ok(None);
            }
        };
        Ok(Some(Expr { pos: token.pos, kind }))
    }

    fn function(&self, token: Token<'a>) -> Result<ExprKind<H>, ParseError> {
        let name = text_of(token.text);
        let host = self.shared.funcs.get(token.text).map(FuncRef::Host);
        match host.or_else(|| Builtin::find(name).map(FuncRef::Builtin)) {
            Some(func) => Ok(ExprKind::Function { name: name.into(), func }),
            None => self.error(format_args!("function {} not defined", strconv::quote(token.text))),
        }
    }

    fn variable(&self, token: Token<'a>) -> Result<ExprKind<H>, ParseError> {
        let name = text_of(token.text);
        if !self.scope.seen(name) {
            return self.error(format_args!("undefined variable {}", strconv::quote(token.text)));
        }
        let slots: Slots = self.scope.find(name);
        Ok(ExprKind::Variable { name: name.into(), slots, fields: Box::default() })
    }

    fn number(
        &self,
        token: Token<'a>,
        read: fn(&[u8]) -> Result<Number, String>,
    ) -> Result<ExprKind<H>, ParseError> {
        match read(token.text) {
            Ok(number) => {
                let spelling = String::from_utf8_lossy(token.text).into();
                Ok(ExprKind::Number(Box::new(number), spelling))
            }
            Err(message) => self.error(message),
        }
    }

    /// Formats a constant in quotes, as `%q` does.
    fn show_constant(&self, expr: &Expr<H>) -> String {
        let text: &[u8] = match &expr.kind {
            ExprKind::Bool(true) => b"true",
            ExprKind::Bool(false) => b"false",
            ExprKind::Nil => b"nil",
            ExprKind::Number(_, spelling) => spelling.as_bytes(),
            ExprKind::String(_, spelling) => self.shared.lexer.slice(spelling.clone()),
            _ => b".",
        };
        strconv::quote(text)
    }

    fn expr_id(&mut self, expr: Expr<H>) -> Result<ExprId, ParseError> {
        let held = match &expr.kind {
            ExprKind::Number(_, spelling) => size_of::<Number>() + spelling.len() + 2 * BOX,
            ExprKind::String(text, _) => text.len() + BOX,
            ExprKind::Field(fields) | ExprKind::Chain { fields, .. } => names_size(fields),
            ExprKind::Variable { name, slots, fields } => {
                name.len() + slots.len() * size_of::<usize>() + names_size(fields) + 2 * BOX
            }
            ExprKind::Function { name, .. } => name.len() + BOX,
            _ => 0,
        };
        self.charge(size_of::<Expr<H>>() + size_of::<ExprId>() + held)?;
        self.shared.exprs.push(expr);
        Ok(ExprId(self.shared.exprs.len() - 1))
    }
}

/// Returns the memory of field names.
fn names_size(names: &Names) -> usize {
    names.iter().map(|name| size_of::<Box<str>>() + name.len() + BOX).sum()
}

/// Names as strings: the lexer admits only letters, digits and underscores.
fn text_of(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or_default()
}

fn joined(names: Names, fields: Vec<Box<str>>) -> Names {
    names.into_iter().chain(fields).collect()
}

/// Returns a field's name without its dot.
fn field_name(token: Token<'_>) -> Box<str> {
    text_of(token.text).trim_start_matches('.').into()
}
