//! Go's `strconv`: parsing and formatting numbers, and quoting, with Go's error messages.

mod float;
mod parse;
mod quote;

pub use float::{append_float, format_float};
pub use parse::{NumError, NumErrorKind, atoi, parse_bool, parse_float, parse_int, parse_uint};
pub use quote::{
    append_quote, append_quote_rune, can_backquote, quote, quote_to_ascii, unquote, unquote_char,
};
