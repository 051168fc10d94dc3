//! Strings and floats as Go's `encoding/json` writes them, and its unparsed values.

use std::fmt::Write as _;

pub use crate::raw_message::RawMessage;
use crate::strconv;

/// Bytes of a string that need escaping, or begin a character that may.
const ESCAPED: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[b'<' as usize] = true;
    table[b'>' as usize] = true;
    table[b'&' as usize] = true;
    table[0xE2] = true;
    table
};

/// Appends a string in quotes; `escape_html` escapes `<`, `>` and `&`, as Go does by default.
pub fn append_string(out: &mut String, text: &str, escape_html: bool) {
    out.reserve(text.len() + 2);
    out.push('"');
    append_escaped(out, text, escape_html);
    out.push('"');
}

/// Appends a string as [`append_string`] does, without the quotes.
pub fn append_escaped(out: &mut String, text: &str, escape_html: bool) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| ESCAPED[usize::from(byte)]) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let mut characters = after.chars();
        match characters.next() {
            Some(character @ ('"' | '\\')) => out.extend(['\\', character]),
            Some('\x08') => out.push_str("\\b"),
            Some('\x0C') => out.push_str("\\f"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(character @ ('<' | '>' | '&')) if !escape_html => out.push(character),
            Some(character @ ('\0'..='\x7F' | '\u{2028}' | '\u{2029}')) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            Some(character) => out.push(character),
            None => {}
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
}

/// Formats a float, `single` as a `float32`; `None` for NaN and infinities, which JSON lacks.
#[must_use]
pub fn format_float(value: f64, single: bool) -> Option<String> {
    if !value.is_finite() {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the value came from a float32")]
    let plain = if single {
        (1e-6..1e21).contains(&(value as f32).abs())
    } else {
        (1e-6..1e21).contains(&value.abs())
    };
    if plain || value == 0.0 {
        return Some(strconv::format_float(value, b'f', None, single));
    }
    let text = strconv::format_float(value, b'e', None, single);
    // strconv writes at least two digits of an exponent, JSON one.
    Some(text.replacen("e-0", "e-", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_escape_as_go_escapes_them() {
        let written = |text: &str, escape_html: bool| {
            let mut out = String::new();
            append_string(&mut out, text, escape_html);
            out
        };
        assert_eq!(written("a\"\\\n\r\t\u{8}\u{c}\u{1}", true), r#""a\"\\\n\r\t\b\f\u0001""#);
        assert_eq!(
            written("<b>&\u{2028}é\u{20AC}\u{7f}", true),
            "\"\\u003cb\\u003e\\u0026\\u2028é\u{20AC}\u{7f}\""
        );
        assert_eq!(written("<b>&\u{2029}", false), r#""<b>&\u2029""#);
    }

    #[test]
    fn floats_have_exponents_at_the_extremes_only() {
        for (value, wanted) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1_000_000.0, "1000000"),
            (0.000_001, "0.000001"),
            (1e-7, "1e-7"),
            (1e-10, "1e-10"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-1.25e-100, "-1.25e-100"),
            (181_348_103_489_077.63, "181348103489077.62"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(format_float(value, false).as_deref(), Some(wanted));
        }
        assert_eq!(format_float(f64::from(0.1f32), true).as_deref(), Some("0.1"));
        assert_eq!(format_float(f64::NAN, false), None);
        assert_eq!(format_float(f64::NEG_INFINITY, false), None);
    }
}
