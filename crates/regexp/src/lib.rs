//! Regular expressions in Go's syntax, run by the `regex` crate.

mod pattern;

use regex::{Regex, RegexBuilder};

pub use pattern::{Pattern, syntax_error, translate};

/// Maximum memory of one compiled expression.
const SIZE_LIMIT: usize = 32 << 20;

/// Compiles an expression; the error is Go's message.
pub fn compile(expr: &str) -> Result<Regex, String> {
    let Pattern { source, .. } = translate(expr.as_bytes())?;
    RegexBuilder::new(&source)
        .size_limit(SIZE_LIMIT)
        .nest_limit(5000)
        .build()
        .map_err(|_| syntax_error("expression too large", expr.as_bytes()))
}
