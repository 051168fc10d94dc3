//! Go's formatting, as error messages need it.

use steersman_gostd::strconv;
pub(crate) use steersman_gostd::unicode::{is_print, is_space};
use steersman_gotemplate::{Str, Value, fmt};

/// Go's `%q` of a string.
pub(crate) fn quote(text: &Str) -> String {
    strconv::quote(text)
}

/// Go's `%q` of a rune.
pub(crate) fn quote_rune(c: char) -> String {
    let mut out = Vec::new();
    strconv::append_quote_rune(&mut out, c, false);
    String::from_utf8_lossy(&out).into_owned()
}

/// Go's `%v`.
pub(crate) fn plain(value: &Value) -> String {
    fmt::format_value(value).map_or_else(|error| error.to_string(), |text| text.to_str_lossy().into_owned())
}

/// Go's `%t`, which Helm uses on values of any type.
pub(crate) fn boolean_verb(value: &Value) -> String {
    fmt::sprintf(b"%t", std::slice::from_ref(value))
        .map_or_else(|error| error.to_string(), |text| text.to_str_lossy().into_owned())
}

/// Go's `strings.TrimSpace`.
pub(crate) fn trim_space(text: &str) -> &str {
    text.trim_matches(is_space)
}
