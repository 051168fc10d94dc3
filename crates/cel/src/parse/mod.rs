//! Recursive-descent parser.

mod lex;
mod macros;

use crate::ast::{Entry, Expr, ExprKind, Literal, op};
use crate::source::{Issue, Source};
use lex::{Token, TokenKind, unquote};

/// Maximum nesting depth of expressions.
const MAX_DEPTH: usize = 250;

/// Maximum length of an expression, in characters.
const MAX_LENGTH: usize = 100_000;

/// Words that cannot be used as variable names.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// The tokens that can start an operand, as syntax errors list them.
const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                       STRING, BYTES, IDENTIFIER}";

/// Parses an expression.
pub(crate) fn parse(source: &Source) -> Result<Expr, Vec<Issue>> {
    if source.chars.len() > MAX_LENGTH {
        let message = format!(
            "expression code point size exceeds limit: size: {}, limit {MAX_LENGTH}",
            source.chars.len()
        );
        return Err(vec![source.error(0, message)]);
    }
    // Invalid tokens are skipped, so that the rest is still parsed.
    let (tokens, issues) = lex::tokens(source);
    let mut parser = Parser { source, tokens, at: 0, depth: 0, issues };
    let parsed = parser.expr().and_then(|expr| {
        let token = parser.peek().clone();
        if token.kind == TokenKind::End {
            return Ok(expr);
        }
        Err(parser.syntax(&token, &format!("mismatched input '{}' expecting <EOF>", token.text)))
    });
    match parsed {
        Ok(expr) if parser.issues.is_empty() => Ok(expr),
        Ok(_) => Err(parser.issues),
        Err(issue) => {
            parser.issues.push(issue);
            Err(parser.issues)
        }
    }
}

struct Parser<'a> {
    source: &'a Source,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Errors that did not stop the parser.
    issues: Vec<Issue>,
}

type Parsed<T = Expr> = Result<T, Issue>;

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    /// Consumes a token; never moves past the end.
    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += usize::from(token.kind != TokenKind::End);
        token
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(&self.peek().kind, TokenKind::Symbol(s) if *s == symbol)
    }

    fn accept(&mut self, symbol: &str) -> Option<Token> {
        self.is(symbol).then(|| self.next())
    }

    fn expect(&mut self, symbol: &str) -> Parsed<Token> {
        match self.accept(symbol) {
            Some(token) => Ok(token),
            None => {
                let token = self.peek().clone();
                Err(self.syntax(&token, &format!("mismatched input '{}' expecting '{symbol}'", token.text)))
            }
        }
    }

    fn syntax(&self, token: &Token, message: &str) -> Issue {
        self.source.error(token.offset, format!("Syntax error: {message}"))
    }

    /// Records an error and returns a placeholder expression.
    fn report(&mut self, offset: usize, message: impl Into<String>) -> Expr {
        self.issues.push(self.source.error(offset, message));
        Expr::new(offset, ExprKind::Literal(Literal::Null))
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        self.check_depth(0)?;
        // One nesting level passes through all grammar rules, which is too much for a small stack.
        let parsed = stacker::maybe_grow(64 * 1024, 1024 * 1024, || parse(self));
        self.depth -= 1;
        parsed
    }

    /// Chains such as `a.b.c` and `1 + 2 + 3` nest as deeply as they have links.
    fn check_depth(&self, links: usize) -> Parsed<()> {
        if self.depth + links <= MAX_DEPTH {
            return Ok(());
        }
        Err(self.source.error(0, format!("expression recursion limit exceeded: {MAX_DEPTH}")))
    }

    fn expr(&mut self) -> Parsed {
        self.nested(|parser| {
            let condition = parser.logical(op::OR)?;
            let Some(question) = parser.accept("?") else { return Ok(condition) };
            let then = parser.logical(op::OR)?;
            parser.expect(":")?;
            let otherwise = parser.expr()?;
            Ok(call(question.offset, op::CONDITIONAL, vec![condition, then, otherwise]))
        })
    }

    /// Parses `||` or `&&`. Long chains become a balanced tree to limit its depth.
    fn logical(&mut self, function: &'static str) -> Parsed {
        let is_or = function == op::OR;
        let symbol = if is_or { "||" } else { "&&" };
        let term = |parser: &mut Self| if is_or { parser.logical(op::AND) } else { parser.relation() };
        let mut terms = vec![term(self)?];
        let mut offsets = Vec::new();
        while let Some(token) = self.accept(symbol) {
            offsets.push(token.offset);
            terms.push(term(self)?);
        }
        Ok(balanced(function, terms, &offsets))
    }

    fn relation(&mut self) -> Parsed {
        let mut left = self.sum()?;
        for links in 0.. {
            self.check_depth(links)?;
            let token = self.peek().clone();
            let function = match token.kind {
                TokenKind::Symbol("<") => op::LESS,
                TokenKind::Symbol("<=") => op::LESS_EQUALS,
                TokenKind::Symbol(">") => op::GREATER,
                TokenKind::Symbol(">=") => op::GREATER_EQUALS,
                TokenKind::Symbol("==") => op::EQUALS,
                TokenKind::Symbol("!=") => op::NOT_EQUALS,
                TokenKind::Keyword("in") => op::IN,
                _ => return Ok(left),
            };
            self.next();
            let right = self.nested(Self::sum)?;
            left = call(token.offset, function, vec![left, right]);
        }
        Ok(left)
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        for links in 0.. {
            self.check_depth(links)?;
            let token = self.peek().clone();
            let function = match token.kind {
                TokenKind::Symbol("+") => op::ADD,
                TokenKind::Symbol("-") => op::SUBTRACT,
                _ => return Ok(left),
            };
            self.next();
            let right = self.product()?;
            left = call(token.offset, function, vec![left, right]);
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.unary()?;
        for links in 0.. {
            self.check_depth(links)?;
            let token = self.peek().clone();
            let function = match token.kind {
                TokenKind::Symbol("*") => op::MULTIPLY,
                TokenKind::Symbol("/") => op::DIVIDE,
                TokenKind::Symbol("%") => op::MODULO,
                _ => return Ok(left),
            };
            self.next();
            let right = self.unary()?;
            left = call(token.offset, function, vec![left, right]);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let first = self.peek().clone();
        let (symbol, function) = match first.kind {
            TokenKind::Symbol("!") => ("!", op::NOT),
            TokenKind::Symbol("-") => ("-", op::NEGATE),
            _ => return self.member(),
        };
        let mut count = 0;
        while self.is(symbol) {
            // A minus directly before a number is part of the literal.
            let before_number = symbol == "-"
                && count == 0
                && matches!(
                    self.tokens.get(self.at + 1).map(|t| &t.kind),
                    Some(TokenKind::Int | TokenKind::Float)
                );
            if before_number {
                break;
            }
            self.next();
            count += 1;
        }
        let operand = self.member()?;
        if count % 2 == 0 {
            return Ok(operand);
        }
        Ok(call(first.offset, function, vec![operand]))
    }

    fn member(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        let mut links = 0;
        loop {
            links += 1;
            self.check_depth(links)?;
            if let Some(dot) = self.accept(".") {
                let optional = self.accept("?").is_some();
                let name = self.next();
                match name.kind {
                    TokenKind::Ident if !optional && self.is("(") => {
                        let open = self.next();
                        let args = self.arguments()?;
                        expr = self.receiver_call(open.offset, name.text, expr, args);
                        continue;
                    }
                    TokenKind::Ident => expr = select(&dot, &name, expr, name.text.clone(), optional),
                    TokenKind::EscapedIdent => {
                        self.report(name.offset, "unsupported syntax: '`'");
                        let field = name.text.trim_matches('`').to_owned();
                        expr = select(&dot, &name, expr, field, optional);
                    }
                    _ => {
                        let message = format!("mismatched input '{}' expecting IDENTIFIER", name.text);
                        return Err(self.syntax(&name, &message));
                    }
                }
            } else if let Some(open) = self.accept("[") {
                let optional = self.accept("?").is_some();
                let index = self.expr()?;
                self.expect("]")?;
                let function = if optional { op::OPT_INDEX } else { op::INDEX };
                expr = call(open.offset, function, vec![expr, index]);
            } else {
                return Ok(expr);
            }
        }
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut args = Vec::new();
        if self.accept(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect(")")?;
        Ok(args)
    }

    fn primary(&mut self) -> Parsed {
        let token = self.next();
        match &token.kind {
            TokenKind::Symbol("(") => {
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            TokenKind::Symbol("[") => self.list(token.offset),
            TokenKind::Symbol("{") => self.map(token.offset),
            TokenKind::Symbol(".") if self.peek().kind == TokenKind::Ident => {
                let name = self.next();
                self.named(&name, ".")
            }
            TokenKind::Ident => self.named(&token, ""),
            TokenKind::Symbol("-") => {
                let number = self.next();
                self.literal(&number, token.offset, "-")
            }
            _ => self.literal(&token, token.offset, ""),
        }
    }

    /// Parses a variable, a function call or a struct literal.
    fn named(&mut self, name: &Token, dot: &str) -> Parsed {
        let full = format!("{dot}{}", name.text);
        if let Some(struct_name) = self.struct_name(&full) {
            let open = self.expect("{")?;
            return self.structure(open.offset, struct_name);
        }
        if RESERVED.contains(&name.text.as_str()) {
            if self.accept("(").is_some() {
                self.arguments()?;
            }
            return Ok(self.report(name.offset, format!("reserved identifier: {}", name.text)));
        }
        let Some(open) = self.accept("(") else {
            return Ok(Expr::new(name.offset, ExprKind::Ident(full)));
        };
        let args = self.arguments()?;
        Ok(self.global_call(open.offset, full, args))
    }

    /// Consumes a dotted name and returns it, if an opening brace follows.
    fn struct_name(&mut self, first: &str) -> Option<String> {
        let mut at = self.at;
        let mut name = first.to_owned();
        loop {
            match &self.tokens.get(at)?.kind {
                TokenKind::Symbol("{") => {
                    self.at = at;
                    return Some(name);
                }
                TokenKind::Symbol(".") if self.tokens.get(at + 1)?.kind == TokenKind::Ident => {
                    name = format!("{name}.{}", self.tokens.get(at + 1)?.text);
                    at += 2;
                }
                _ => return None,
            }
        }
    }

    fn list(&mut self, offset: usize) -> Parsed {
        let mut elements = Vec::new();
        while !self.is("]") {
            let optional = self.accept("?").is_some();
            elements.push((self.expr()?, optional));
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect("]")?;
        Ok(Expr::new(offset, ExprKind::List(elements)))
    }

    fn map(&mut self, offset: usize) -> Parsed {
        let mut entries = Vec::new();
        while !self.is("}") {
            let optional = self.accept("?").is_some();
            let key = self.expr()?;
            let offset = self.expect(":")?.offset;
            let value = self.expr()?;
            entries.push(Entry { offset, key, value, optional });
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        Ok(Expr::new(offset, ExprKind::Map(entries)))
    }

    fn structure(&mut self, offset: usize, name: String) -> Parsed {
        let mut fields = Vec::new();
        while !self.is("}") {
            let optional = self.accept("?").is_some();
            let field = self.next();
            if field.kind != TokenKind::Ident {
                let message = format!("mismatched input '{}' expecting IDENTIFIER", field.text);
                return Err(self.syntax(&field, &message));
            }
            let offset = self.expect(":")?.offset;
            let value = self.expr()?;
            fields.push(Entry { offset, key: field.text, value, optional });
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        Ok(Expr::new(offset, ExprKind::Struct { name, fields }))
    }

    fn literal(&mut self, token: &Token, offset: usize, sign: &str) -> Parsed {
        let text = token.text.as_str();
        let literal = match &token.kind {
            TokenKind::Int => {
                let parsed = match text.strip_prefix("0x") {
                    Some(digits) => i64::from_str_radix(&format!("{sign}{digits}"), 16),
                    None => format!("{sign}{text}").parse(),
                };
                match parsed {
                    Ok(number) => Literal::Int(number),
                    Err(_) => return Ok(self.report(offset, "invalid int literal")),
                }
            }
            TokenKind::Uint => {
                let digits = &text[..text.len() - 1];
                let parsed = match digits.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16),
                    None => digits.parse(),
                };
                match parsed {
                    Ok(number) => Literal::Uint(number),
                    Err(_) => return Ok(self.report(offset, "invalid uint literal")),
                }
            }
            TokenKind::Float => match format!("{sign}{text}").parse::<f64>() {
                Ok(number) if number.is_finite() => Literal::Double(number),
                _ => return Ok(self.report(offset, "invalid double literal")),
            },
            TokenKind::String => match unquote(text, false).map(String::from_utf8) {
                Ok(Ok(text)) => Literal::String(text),
                Ok(Err(_)) => return Ok(self.report(offset, "unable to unescape string")),
                Err(message) => return Ok(self.report(offset, message)),
            },
            TokenKind::Bytes => match unquote(&text[1..], true) {
                Ok(bytes) => Literal::Bytes(bytes),
                Err(message) => return Ok(self.report(offset, message)),
            },
            TokenKind::Keyword("true") => Literal::Bool(true),
            TokenKind::Keyword("false") => Literal::Bool(false),
            TokenKind::Keyword("null") => Literal::Null,
            _ => {
                let message = format!("mismatched input '{text}' expecting {OPERAND}");
                return Err(self.syntax(token, &message));
            }
        };
        Ok(Expr::new(offset, ExprKind::Literal(literal)))
    }
}

fn select(dot: &Token, name: &Token, operand: Expr, field: String, optional: bool) -> Expr {
    if optional {
        let field = Expr::new(name.offset, ExprKind::Literal(Literal::String(field)));
        return call(dot.offset, op::OPT_SELECT, vec![operand, field]);
    }
    let kind = ExprKind::Select { operand: Box::new(operand), field, test_only: false };
    Expr::new(dot.offset, kind)
}

pub(super) fn call(offset: usize, function: &str, args: Vec<Expr>) -> Expr {
    Expr::new(offset, ExprKind::Call { function: function.to_owned(), target: None, args })
}

/// Joins terms with operators into a balanced tree.
fn balanced(function: &str, mut terms: Vec<Expr>, offsets: &[usize]) -> Expr {
    if offsets.is_empty() {
        // A single term without operators; there is always at least one.
        return terms.pop().unwrap_or(Expr::new(0, ExprKind::Literal(Literal::Null)));
    }
    let middle = offsets.len() / 2;
    let right = terms.split_off(middle + 1);
    let left = balanced(function, terms, &offsets[..middle]);
    let right = balanced(function, right, &offsets[middle + 1..]);
    call(offsets[middle], function, vec![left, right])
}
