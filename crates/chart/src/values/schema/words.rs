//! Formatting of values and numbers as in Helm's schema validator.

use super::node::Node;
use crate::gofmt;

/// Formats a value as Go prints it, with strings quoted.
pub(super) fn display(value: &Node) -> String {
    match value {
        Node::Null => "<nil>".into(),
        Node::Bool(value) => value.to_string(),
        Node::Number(number) => number.to_string(),
        Node::String(text) => quote(text),
        Node::Array(_) | Node::Object(_) => "value".into(),
    }
}

/// Quotes the names and joins them with commas.
pub(super) fn quoted_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(quote).collect::<Vec<_>>().join(", ")
}

/// Quotes as Go does, but in single quotes.
pub(super) fn quote(text: impl AsRef<str>) -> String {
    // The replacements run in this order, with the closing quote in place: a final backslash loses its own escape.
    let quoted = gofmt::quote(&text.as_ref().into()).replace("\\\"", "\"").replace('\'', "\\'");
    format!("'{}'", quoted.get(1..quoted.len() - 1).unwrap_or_default())
}

/// Formats an integer in English, with commas between thousands.
pub(super) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number in English, with powers of ten for large and small ones.
pub(super) fn float(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if number != 0.0 && !(-4..6).contains(&exponent) {
        const SUPERSCRIPT: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
        let sign = if exponent < 0 { "⁻" } else { "" };
        let digits = format!("{:02}", exponent.unsigned_abs());
        let raised: String = digits
            .bytes()
            .filter_map(|digit| SUPERSCRIPT.get(usize::from(digit.wrapping_sub(b'0'))))
            .collect();
        return format!("{mantissa}×10{sign}{raised}");
    }
    let plain = format!("{}", number.abs());
    let (whole, fraction) = plain.split_once('.').map_or((plain.as_str(), None), |(w, f)| (w, Some(f)));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), grouped);
    let sign = if number < 0.0 { "-" } else { "" };
    fraction.map_or_else(|| format!("{sign}{whole}"), |fraction| format!("{sign}{whole}.{fraction}"))
}
