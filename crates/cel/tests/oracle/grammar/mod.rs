//! What random expressions are made of.

mod collections;
mod library;
mod others;
mod scalars;
mod times;

/// Expressions of one kind: those without parts, and the forms of others, in which `{int}` stands for any expression of kind int.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) leaves: &'static [&'static str],
    pub(crate) forms: &'static [&'static str],
}

/// The kinds that `{any}` stands for: those with values, as opposed to texts that a function reads.
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
