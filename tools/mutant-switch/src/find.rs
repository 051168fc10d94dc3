//! Locates mutants in source code.

use std::ops::Range;

use proc_macro2::TokenStream;
use syn::{
    BinOp, Block, Expr, ExprBinary, ReturnType, Signature, Type,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::{Mutant, write::offsets};

/// The place of a mutant, and the text to put there.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) number: usize,
    pub(crate) form: Form,
}

#[derive(Debug)]
pub(crate) enum Form {
    /// Replaces the expression at these bytes.
    Instead(Range<usize>, String),
    /// Inserts text at a byte.
    At(usize, String),
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) places: Vec<Place>,
    pub(crate) not_switchable: Vec<(usize, &'static str)>,
}

/// Finds the places of numbered mutants in one source file.
pub(crate) fn places(source: &str, mutants: &[(usize, &Mutant)]) -> Result<Found, String> {
    let file = syn::parse_file(source).map_err(|e| e.to_string())?;
    let mut wanted = Vec::new();
    for &(number, mutant) in mutants {
        let range =
            offsets(source, &mutant.span).ok_or_else(|| format!("change {number} is beyond the end"))?;
        wanted.push(Wanted { number, mutant, range, answer: None });
    }
    let mut finder = Finder { source, wanted, is_constant: false, chain: Chain::None };
    finder.visit_file(&file);
    let mut found = Found::default();
    for wanted in finder.wanted {
        match wanted.answer.unwrap_or(Err("no such code was found")) {
            Ok(form) => found.places.push(Place { number: wanted.number, form }),
            Err(reason) => found.not_switchable.push((wanted.number, reason)),
        }
    }
    Ok(found)
}

pub(crate) fn is_on(number: usize) -> String {
    format!("crate::mutant_switch::is_on({number})")
}

struct Wanted<'a> {
    number: usize,
    mutant: &'a Mutant,
    range: Range<usize>,
    answer: Option<Result<Form, &'static str>>,
}

/// The expression that an operand is part of.
#[derive(Clone)]
enum Chain {
    None,
    /// A larger expression of binary operators. Its text is mutated: another operator may bind differently.
    Root(Range<usize>),
    /// `a && let b = c`, which is not an expression that is valid elsewhere.
    Let,
}

struct Finder<'a> {
    source: &'a str,
    wanted: Vec<Wanted<'a>>,
    /// Whether the code is evaluated by the compiler, which cannot read the environment variable.
    is_constant: bool,
    chain: Chain,
}

impl Finder<'_> {
    fn answer(
        &mut self,
        genre: &str,
        range: &Range<usize>,
        form: impl Fn(&Self, &Wanted<'_>) -> Result<Form, &'static str>,
    ) {
        for at in 0..self.wanted.len() {
            let wanted = &self.wanted[at];
            if wanted.mutant.genre == genre && wanted.range == *range {
                let answer = if self.is_constant {
                    Err("it is evaluated by the compiler")
                } else {
                    form(self, wanted)
                };
                self.wanted[at].answer = Some(answer);
            }
        }
    }

    /// Replaces the expression at `region` with its mutated text, on one line.
    fn instead(&self, region: &Range<usize>, wanted: &Wanted<'_>) -> Result<Form, &'static str> {
        let mut text = self.source[region.clone()].to_owned();
        let within = wanted.range.start - region.start..wanted.range.end - region.start;
        // With spaces around it, as cargo-mutants does: `a<b` must not become `a<-b`.
        text.replace_range(within, &format!(" {} ", wanted.mutant.replacement));
        Ok(Form::Instead(region.clone(), expression(&text)?))
    }

    fn with_constant(&mut self, is_constant: bool, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.is_constant, is_constant);
        let chain = std::mem::replace(&mut self.chain, Chain::None);
        visit(self);
        self.is_constant = before;
        self.chain = chain;
    }

    fn function(&mut self, signature: &Signature, block: &Block, visit: impl FnOnce(&mut Self)) {
        self.with_constant(signature.constness.is_some(), |finder| {
            if let [first, ..] = &block.stmts[..] {
                let last = &block.stmts[block.stmts.len() - 1];
                let body = first.span().byte_range().start..last.span().byte_range().end;
                // Before the body and after inner attributes of the function.
                let at = body.start;
                finder.answer("FnValue", &body, |_, wanted| {
                    if let ReturnType::Type(_, result) = &signature.output
                        && matches!(**result, Type::ImplTrait(_))
                    {
                        return Err("it gives one type that is not named");
                    }
                    let value = expression(&wanted.mutant.replacement)?;
                    Ok(Form::At(at, format!("if {} {{ return {value}; }} ", is_on(wanted.number))))
                });
            }
            visit(finder);
        });
    }
}

/// Formats an expression on one line, except for line breaks in strings.
fn expression(text: &str) -> Result<String, &'static str> {
    const WRONG: &str = "what is left is no expression";
    syn::parse_str::<Expr>(text).map_err(|_| WRONG)?;
    Ok(text.parse::<TokenStream>().map_err(|_| WRONG)?.to_string())
}

/// Whether the expression is a `let` or a chain with one.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary { left, op: BinOp::And(_), right, .. }) => has_let(left) || has_let(right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        if matches!(expression, Expr::Binary(_)) {
            return visit::visit_expr(self, expression);
        }
        let chain = std::mem::replace(&mut self.chain, Chain::None);
        visit::visit_expr(self, expression);
        self.chain = chain;
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        let own = binary.span().byte_range();
        let is_and = matches!(binary.op, BinOp::And(_));
        let above = std::mem::replace(&mut self.chain, Chain::None);
        let chain = match above {
            Chain::Let if is_and => Chain::Let,
            _ if is_and && (has_let(&binary.left) || has_let(&binary.right)) => Chain::Let,
            Chain::Root(root) => Chain::Root(root),
            Chain::Let | Chain::None => Chain::Root(own),
        };
        self.answer("BinaryOperator", &binary.op.span().byte_range(), |finder, wanted| match &chain {
            Chain::Root(root) => finder.instead(root, wanted),
            Chain::None | Chain::Let => Err("it binds a `let`"),
        });
        for operand in [&binary.left, &binary.right] {
            self.chain = chain.clone();
            self.visit_expr(operand);
        }
        self.chain = Chain::None;
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let own = unary.span().byte_range();
        self.answer("UnaryOperator", &unary.op.span().byte_range(), |finder, wanted| {
            finder.instead(&own, wanted)
        });
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        // Only arms without a guard: for others, cargo-mutants makes the guard false.
        let at = arm.pat.span().byte_range().end;
        self.answer("MatchArm", &arm.span().byte_range(), |_, wanted| {
            Ok(Form::At(at, format!(" if !{}", is_on(wanted.number))))
        });
        if let Some((_, guard)) = &arm.guard {
            let own = guard.span().byte_range();
            self.answer("MatchArmGuard", &own, |finder, wanted| {
                if has_let(guard) { Err("it binds a `let`") } else { finder.instead(&own, wanted) }
            });
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expression: &'ast syn::ExprStruct) {
        let own = expression.span().byte_range();
        for pair in expression.fields.pairs() {
            let start = pair.value().span().byte_range().start;
            let end = pair.punct().map_or(pair.value().span(), Spanned::span).byte_range().end;
            self.answer("StructField", &(start..end), |finder, wanted| finder.instead(&own, wanted));
        }
        visit::visit_expr_struct(self, expression);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig, &function.block, |finder| visit::visit_item_fn(finder, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig, &function.block, |finder| visit::visit_impl_item_fn(finder, function));
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig, block, |finder| visit::visit_trait_item_fn(finder, function));
        }
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        // The closure of a `LazyLock` in a static is called at run time.
        self.with_constant(closure.constness.is_some(), |finder| visit::visit_expr_closure(finder, closure));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.with_constant(true, |finder| visit::visit_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.with_constant(true, |finder| visit::visit_item_static(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.with_constant(true, |finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.with_constant(true, |finder| visit::visit_trait_item_const(finder, item));
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.with_constant(true, |finder| visit::visit_item_enum(finder, item));
    }

    fn visit_expr_const(&mut self, block: &'ast syn::ExprConst) {
        self.with_constant(true, |finder| visit::visit_expr_const(finder, block));
    }

    fn visit_type(&mut self, item: &'ast Type) {
        self.with_constant(true, |finder| visit::visit_type(finder, item));
    }

    fn visit_generic_argument(&mut self, argument: &'ast syn::GenericArgument) {
        self.with_constant(true, |finder| visit::visit_generic_argument(finder, argument));
    }

    fn visit_pat(&mut self, pattern: &'ast syn::Pat) {
        self.with_constant(true, |finder| visit::visit_pat(finder, pattern));
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.with_constant(true, |finder| finder.visit_expr(&repeat.len));
    }
}
