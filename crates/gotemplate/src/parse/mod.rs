//! Parser: template text to [`Template`]s.

mod lex;
mod number;
mod pipeline;
mod scope;

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Branch, Cmd, Decl, Expr, ListId, Pipe, PipeId, Stmt, Template, TemplateCall, Unit};
use crate::budget::Budget;
use crate::func::Funcs;
use crate::set::ParseError;
use crate::str::Str;
use lex::{Kind, Lexer, Token};
pub(crate) use number::{Ideal, Number};
use scope::Scope;
use steersman_gostd::strconv;
use steersman_gostd::unicode;

/// Maximum nesting of control structures; each `else if` is a level. Go has no limit, but no real template comes near.
const MAX_NESTING: usize = 10_000;

/// Overhead of a heap allocation beyond its size.
const BOX: usize = 24;

/// Parses a source text into its templates, itself and those that it defines, each name once.
pub(crate) fn parse<H>(
    funcs: &Funcs<H>,
    budget: Option<&Budget>,
    name: &str,
    text: &[u8],
) -> Result<Vec<Arc<Template<H>>>, ParseError> {
    let has = |name: &str| funcs.get(name.as_bytes()).is_some();
    let text = Str::from(text);
    let mut shared = Shared {
        name,
        funcs,
        budget,
        lexer: Lexer::new(&text, !has("break"), !has("continue")),
        lists: Vec::new(),
        pipes: Vec::new(),
        exprs: Vec::new(),
        drafts: Vec::new(),
        names: HashMap::new(),
        nesting: 0,
    };
    Parser::new(&mut shared).main()?;
    let Shared { lists, pipes, exprs, drafts, .. } = shared;
    let unit = Arc::new(Unit { name: name.into(), text: text.clone(), lists, pipes, exprs });
    let finish = |Draft { name, root, slots, conditional, empty }: Draft| {
        Arc::new(Template { name, unit: Arc::clone(&unit), root, slots, conditional, empty })
    };
    Ok(drafts.into_iter().map(finish).collect())
}

/// State shared by the parsers of a source text and of the templates defined in it.
struct Shared<'a, H> {
    name: &'a str,
    funcs: &'a Funcs<H>,
    /// Budget charged for the nodes.
    budget: Option<&'a Budget>,
    lexer: Lexer<'a>,
    lists: Vec<Box<[Stmt]>>,
    pipes: Vec<Pipe>,
    exprs: Vec<Expr<H>>,
    drafts: Vec<Draft>,
    /// Index in `drafts` by name.
    names: HashMap<Str, usize>,
    nesting: usize,
}

/// A template that has no unit yet, as the unit is still incomplete.
struct Draft {
    name: Str,
    root: ListId,
    slots: usize,
    conditional: bool,
    empty: bool,
}

/// The parser of one template.
struct Parser<'s, 'a, H> {
    shared: &'s mut Shared<'a, H>,
    /// Lookahead tokens. The first is the last one lexed; error messages name its line.
    tokens: [Token<'a>; 3],
    peeked: usize,
    scope: Scope<'a>,
    /// Line where the current action began; 0 outside actions.
    action_line: usize,
    range_depth: usize,
    paren_depth: usize,
}

/// Keyword that ends a list of statements.
enum Ending {
    End,
    Else,
}

/// A statement, or the end of a list.
enum Item {
    Stmt(Stmt),
    Ending(Ending),
}

impl Ending {
    fn show(&self) -> &'static str {
        match self {
            Self::End => "{{end}}",
            Self::Else => "{{else}}",
        }
    }
}

/// Kind of the control structure being parsed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    If,
    Range,
    With,
}

impl Control {
    fn context(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::Range => "range",
            Self::With => "with",
        }
    }
}

impl<'s, 'a, H> Parser<'s, 'a, H> {
    fn new(shared: &'s mut Shared<'a, H>) -> Self {
        let none = Token { kind: Kind::Error, pos: 0, text: b"", line: 0 };
        Self {
            shared,
            tokens: [none; 3],
            peeked: 0,
            scope: Scope::new(),
            action_line: 0,
            range_depth: 0,
            paren_depth: 0,
        }
    }

    // Tokens.

    fn next(&mut self) -> Token<'a> {
        match self.peeked.checked_sub(1) {
            Some(left) => self.peeked = left,
            None => self.tokens[0] = self.shared.lexer.next_token(),
        }
        self.tokens[self.peeked]
    }

    fn backup(&mut self) {
        self.peeked += 1;
    }

    /// Puts back `first` and the latest token, which is still in place.
    fn backup2(&mut self, first: Token<'a>) {
        self.tokens[1] = first;
        self.peeked = 2;
    }

    fn backup3(&mut self, first: Token<'a>, second: Token<'a>) {
        self.tokens[1] = second;
        self.tokens[2] = first;
        self.peeked = 3;
    }

    fn peek(&mut self) -> Token<'a> {
        let token = self.next();
        self.backup();
        token
    }

    fn next_non_space(&mut self) -> Token<'a> {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token<'a> {
        let token = self.next_non_space();
        self.backup();
        token
    }

    // Errors.

    fn error<T>(&self, message: impl std::fmt::Display) -> Result<T, ParseError> {
        let line = self.tokens[0].line;
        let name = self.shared.name;
        Err(ParseError {
            message: format!("template: {name}:{line}: {message}"),
            template: name.into(),
            line,
            exceeded: None,
        })
    }

    /// Charges for a node and for the variable lookups it took.
    fn charge(&self, bytes: usize) -> Result<(), ParseError> {
        /// Variables searched for a cost of 1.
        const VARIABLES_PER_COST: usize = 16;
        let Some(budget) = self.shared.budget else { return Ok(()) };
        let cost = 2 + self.scope.len() / VARIABLES_PER_COST;
        let charged = budget.charge_memory(bytes).and_then(|()| budget.charge_cost(cost));
        charged.or_else(|limit| {
            self.error(&limit).map_err(|error| ParseError { exceeded: Some(limit), ..error })
        })
    }

    fn unexpected<T>(&self, token: Token<'a>, context: &str) -> Result<T, ParseError> {
        if token.kind != Kind::Error {
            return self.error(format_args!("unexpected {} in {context}", token.describe()));
        }
        let message = &self.shared.lexer.error;
        if self.action_line == 0 || self.action_line == token.line {
            return self.error(message);
        }
        let lead = if message.ends_with(" action") { " started" } else { " in action started" };
        self.error(format_args!("{message}{lead} at {}:{}", self.shared.name, self.action_line))
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Result<Token<'a>, ParseError> {
        let token = self.next_non_space();
        if token.kind == kind { Ok(token) } else { self.unexpected(token, context) }
    }

    // Templates.

    /// Parses the top level: statements and definitions up to the end.
    fn main(mut self) -> Result<(), ParseError> {
        let mut stmts = Vec::new();
        while self.peek().kind != Kind::Eof {
            if self.peek().kind == Kind::LeftDelim {
                let delim = self.next();
                if self.next_non_space().kind == Kind::Define {
                    Parser::new(self.shared).definition()?;
                    continue;
                }
                self.backup2(delim);
            }
            match self.text_or_action()? {
                Item::Stmt(stmt) => stmts.push(stmt),
                Item::Ending(ending) => return self.error(format_args!("unexpected {}", ending.show())),
            }
        }
        let name = Str::from(self.shared.name);
        self.add(name, stmts)
    }

    /// Parses a `define`, after its keyword.
    fn definition(mut self) -> Result<(), ParseError> {
        const CONTEXT: &str = "define clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        self.expect(Kind::RightDelim, CONTEXT)?;
        let (stmts, ending) = self.item_list()?;
        if let Ending::Else = ending {
            return self.error(format_args!("unexpected {} in {CONTEXT}", ending.show()));
        }
        self.add(name, stmts)
    }

    /// Adds a template. If the name is already defined, a blank definition gives way to the other; two bodies are an
    /// error.
    fn add(mut self, name: Str, stmts: Vec<Stmt>) -> Result<(), ParseError> {
        let empty = stmts.iter().all(|stmt| self.is_blank(stmt));
        let known = self.shared.names.get(&name).copied();
        if known.is_some_and(|known| !self.shared.drafts[known].empty) {
            if empty {
                return Ok(());
            }
            let name = strconv::quote(&name);
            return self.error(format_args!("template: multiple definition of template {name}"));
        }
        let root = self.list_id(stmts);
        let (slots, conditional) = (self.scope.slots(), self.scope.conditional());
        let draft = Draft { name: name.clone(), root, slots, conditional, empty };
        match known {
            Some(known) => self.shared.drafts[known] = draft,
            None => {
                self.shared.names.insert(name, self.shared.drafts.len());
                self.shared.drafts.push(draft);
            }
        }
        Ok(())
    }

    fn is_blank(&self, stmt: &Stmt) -> bool {
        let Stmt::Text(range) = stmt else { return false };
        let text = self.shared.lexer.slice(range.clone());
        unicode::chars(text).all(|(c, _)| c.is_whitespace())
    }

    fn list_id(&mut self, stmts: Vec<Stmt>) -> ListId {
        push_list(&mut self.shared.lists, stmts)
    }

    // Statements.

    /// Parses statements up to the `end` or `else` of the enclosing control structure.
    fn item_list(&mut self) -> Result<(Vec<Stmt>, Ending), ParseError> {
        let mut stmts = Vec::new();
        while self.peek_non_space().kind != Kind::Eof {
            match self.text_or_action()? {
                Item::Stmt(stmt) => stmts.push(stmt),
                Item::Ending(ending) => return Ok((stmts, ending)),
            }
        }
        self.error("unexpected EOF")
    }

    fn text_or_action(&mut self) -> Result<Item, ParseError> {
        let token = self.next_non_space();
        self.charge(size_of::<Stmt>())?;
        match token.kind {
            Kind::Text => Ok(Item::Stmt(Stmt::Text(token.pos..token.pos + token.text.len()))),
            Kind::LeftDelim => {
                self.action_line = token.line;
                let item = self.action();
                self.action_line = 0;
                item
            }
            _ => self.unexpected(token, "input"),
        }
    }

    fn action(&mut self) -> Result<Item, ParseError> {
        let token = self.next_non_space();
        let stmt = match token.kind {
            Kind::Block => self.block()?,
            Kind::Break => self.jump("{{break}}", Stmt::Break)?,
            Kind::Continue => self.jump("{{continue}}", Stmt::Continue)?,
            Kind::Else => {
                // "else if" and "else with" are parsed by the control structure.
                if !matches!(self.peek_non_space().kind, Kind::If | Kind::With) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                return Ok(Item::Ending(Ending::Else));
            }
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                return Ok(Item::Ending(Ending::End));
            }
            Kind::If => Stmt::If(self.control(Control::If)?),
            Kind::Range => Stmt::Range(self.control(Control::Range)?),
            Kind::With => Stmt::With(self.control(Control::With)?),
            Kind::Template => self.template_call()?,
            _ => {
                self.backup();
                Stmt::Action(self.pipeline("command", Kind::RightDelim)?)
            }
        };
        Ok(Item::Stmt(stmt))
    }

    fn jump(&mut self, name: &str, stmt: Stmt) -> Result<Stmt, ParseError> {
        let token = self.next_non_space();
        if token.kind != Kind::RightDelim {
            return self.unexpected(token, name);
        }
        if self.range_depth == 0 {
            return self.error(format_args!("{name} outside {{{{range}}}}"));
        }
        Ok(stmt)
    }

    /// Parses an `if`, `range` or `with` after its keyword, up to its `end`.
    fn control(&mut self, control: Control) -> Result<Branch, ParseError> {
        if self.shared.nesting >= MAX_NESTING {
            return self.error("max nesting depth exceeded");
        }
        self.shared.nesting += 1;
        let branch = crate::stack::grow(|| self.branch(control));
        self.shared.nesting -= 1;
        branch
    }

    fn branch(&mut self, control: Control) -> Result<Branch, ParseError> {
        let outside = self.scope.mark();
        let pipe = self.pipeline(control.context(), Kind::RightDelim)?;
        let inside = self.scope.mark();
        self.range_depth += usize::from(control == Control::Range);
        let (list, ending) = self.item_list()?;
        self.range_depth -= usize::from(control == Control::Range);
        // The body's declarations are out of scope in the else branch, though Go's parser accepts their names there.
        self.scope.leave_body(inside);
        let else_list = match ending {
            Ending::End => None,
            Ending::Else => Some(self.else_branch(control)?),
        };
        self.scope.leave(outside);
        let mut keep = |stmts| push_list(&mut self.shared.lists, stmts);
        Ok(Branch { pipe, list: keep(list), else_list: else_list.map(keep) })
    }

    fn else_branch(&mut self, control: Control) -> Result<Vec<Stmt>, ParseError> {
        match (control, self.peek().kind) {
            (Control::If, Kind::If) => {
                self.next();
                Ok(vec![Stmt::If(self.control(Control::If)?)])
            }
            (Control::With, Kind::With) => {
                self.next();
                Ok(vec![Stmt::With(self.control(Control::With)?)])
            }
            _ => match self.item_list()? {
                (stmts, Ending::End) => Ok(stmts),
                (_, ending) => self.error(format_args!("expected end; found {}", ending.show())),
            },
        }
    }

    /// Parses a `block` after its keyword: a definition and a call of it in one.
    fn block(&mut self) -> Result<Stmt, ParseError> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        if self.shared.nesting >= MAX_NESTING {
            return self.error("max nesting depth exceeded");
        }
        self.shared.nesting += 1;
        let mut body = Parser::new(self.shared);
        let (stmts, ending) = crate::stack::grow(|| body.item_list())?;
        if let Ending::Else = ending {
            return self.error(format_args!("unexpected {} in {CONTEXT}", ending.show()));
        }
        body.add(name.clone(), stmts)?;
        self.shared.nesting -= 1;
        Ok(Stmt::Template(TemplateCall { pos: token.pos, name, pipe: Some(pipe) }))
    }

    /// Parses a `template` after its keyword.
    fn template_call(&mut self) -> Result<Stmt, ParseError> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let mut pipe = None;
        if self.next_non_space().kind != Kind::RightDelim {
            self.backup();
            pipe = Some(self.pipeline(CONTEXT, Kind::RightDelim)?);
        }
        Ok(Stmt::Template(TemplateCall { pos: token.pos, name, pipe }))
    }

    fn template_name(&self, token: Token<'a>, context: &str) -> Result<Str, ParseError> {
        match token.kind {
            Kind::String | Kind::RawString => match strconv::unquote(token.text) {
                Some(name) => Ok(name.into()),
                None => self.error("invalid syntax"),
            },
            _ => self.unexpected(token, context),
        }
    }

    fn pipe_id(&mut self, pipe: Pipe) -> Result<PipeId, ParseError> {
        let slots: usize = pipe.decls.iter().map(|decl| decl.slots.len()).sum();
        let size = size_of::<Pipe>() + pipe.cmds.len() * (size_of::<Cmd>() + BOX);
        self.charge(size + pipe.decls.len() * (size_of::<Decl>() + BOX) + slots * size_of::<usize>())?;
        self.shared.pipes.push(pipe);
        Ok(PipeId(self.shared.pipes.len() - 1))
    }
}

fn push_list(lists: &mut Vec<Box<[Stmt]>>, stmts: Vec<Stmt>) -> ListId {
    lists.push(stmts.into_boxed_slice());
    ListId(lists.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::ExprKind;
    use crate::budget::Limits;

    /// Parses a text within a budget of its own.
    fn parsed(text: &str) -> (Arc<Unit<()>>, Budget) {
        let budget = Budget::new(Limits::default());
        let templates = parse(&Funcs::new(), Some(&budget), "t", text.as_bytes()).expect(text);
        (Arc::clone(&templates[0].unit), budget)
    }

    /// Returns the memory that the nodes of a source text hold, heap allocations included.
    fn size(unit: &Unit<()>) -> usize {
        let names = |names: &[Box<str>]| -> usize {
            names.iter().map(|name| size_of::<Box<str>>() + name.len() + BOX).sum()
        };
        let stmts = unit.lists.iter().map(|list| list.len() * size_of::<Stmt>());
        let pipes = unit.pipes.iter().map(|pipe| {
            let decls = pipe.decls.iter().map(|decl| size_of::<Decl>() + BOX + decl.slots.len() * 8);
            size_of::<Pipe>() + pipe.cmds.len() * (size_of::<Cmd>() + BOX) + decls.sum::<usize>()
        });
        let exprs = unit.exprs.iter().map(|expr| {
            let held = match &expr.kind {
                ExprKind::Number(_, spelling) => size_of::<Number>() + BOX + spelling.len() + BOX,
                ExprKind::String(text, _) => text.len() + BOX,
                ExprKind::Field(fields) | ExprKind::Chain { fields, .. } => names(fields),
                ExprKind::Variable { name, slots, fields } => {
                    name.len() + BOX + slots.len() * 8 + BOX + names(fields)
                }
                ExprKind::Function { name, .. } => name.len() + BOX,
                _ => 0,
            };
            size_of::<Expr<()>>() + size_of::<usize>() + held
        });
        stmts.sum::<usize>() + pipes.sum::<usize>() + exprs.sum::<usize>()
    }

    #[test]
    fn the_memory_of_nodes_is_charged() {
        for text in [
            "",
            "text",
            "{{.}}",
            "{{nil | print}}",
            "{{true}}",
            "{{12345}}",
            "{{`a string`}}",
            "{{.a}}{{.a.bc.def}}",
            "{{$}}{{$.a.bc}}",
            "{{println 1 2 | print | len}}",
            "{{(print 1).a.bc}}",
            "{{$x := 1}}{{$x = 2}}{{$x}}",
            "{{range $i, $e := .}}{{$i}}{{$e}}{{break}}{{else}}b{{end}}",
            "{{if 1}}a{{else if 2}}b{{else}}c{{end}}{{with .}}d{{end}}",
            "{{define `a`}}x{{end}}{{template `a`}}{{template `a` .b}}{{block `c` .}}y{{end}}",
            "{{$x := 0}}{{and 1 ($x := 2)}}{{$x}}{{$x = 3}}",
        ] {
            let (unit, budget) = parsed(text);
            // An `end` or `else` is charged as the statement it could have been, but not kept.
            let endings = text.matches("{{end}}").count() + text.matches("{{else").count();
            let nested = text.matches("{{else if").count();
            let charged = budget.memory() + nested * size_of::<Stmt>();
            assert_eq!(charged, size(&unit) + endings * size_of::<Stmt>(), "{text}");
        }
    }

    #[test]
    fn the_cost_of_nodes_grows_with_the_variables_to_look_through() {
        let cost = |text: &str| parsed(text).1.cost();
        // A statement, a pipeline and an expression.
        assert_eq!(cost("{{.}}"), 6);
        assert_eq!(cost("text"), 2);
        let declared = |count: usize| (0..count).map(|i| format!("{{{{$v{i} := .}}}}")).collect::<String>();
        let last = |count: usize| cost(&(declared(count) + "{{.}}")) - cost(&declared(count));
        assert_eq!(last(6), 6);
        assert_eq!(last(7), 9);
        // Each variable counts twice: its name and its declaration.
        assert_eq!(last(39), 6 + 3 * (2 * 40 / 16));
        assert_eq!(last(40), 6 + 3 * (2 * 41 / 16));
    }
}
