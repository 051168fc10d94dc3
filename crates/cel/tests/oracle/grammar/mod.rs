//! The grammar of random expressions.

mod collections;
mod library;
mod others;
mod scalars;
mod times;

/// Expressions of one kind: leaves, and forms with placeholders such as `{int}` for any expression of kind int.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) leaves: &'static [&'static str],
    pub(crate) forms: &'static [&'static str],
}

/// The kinds that replace `{any}`: those with values, as opposed to strings that a function parses.
pub(crate) const VALUES: &[&str] = &[
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "time",
    "span",
    "ints",
    "uints",
    "doubles",
    "strings",
    "bools",
    "nested",
    "table",
    "numbered",
    "optint",
    "optstring",
    "quantity",
    "ip",
    "cidr",
    "semver",
    "url",
    "format",
    "type",
    "dyn",
    "null",
    "wrong",
];

/// All kinds.
pub(crate) fn kinds() -> impl Iterator<Item = &'static Kind> {
    [scalars::KINDS, times::KINDS, collections::KINDS, library::KINDS, others::KINDS].into_iter().flatten()
}
