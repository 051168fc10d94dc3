//! Timestamps, dates and durations.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::Date;
use regex::Regex;
use steersman_gostd::time;

/// Parses an RFC 3339 timestamp.
pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    // Stricter than jiff's parser: `T` and a zone are required.
    if bytes.len() < 20 || bytes.get(10) != Some(&b'T') || !bytes.is_ascii() {
        return None;
    }
    text.parse().ok()
}

/// Parses a Go duration such as `1h30m` or `-1.5s`, and returns nanoseconds.
#[must_use]
pub fn parse_duration(text: &str) -> Option<i64> {
    time::parse_duration(text.as_bytes()).ok()
}

/// Parses a date such as `2006-01-02`.
#[must_use]
pub fn parse_date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    let is_shaped = bytes.len() == 10
        && bytes
            .iter()
            .enumerate()
            .all(|(i, b)| if matches!(i, 4 | 7) { *b == b'-' } else { b.is_ascii_digit() });
    if is_shaped { text.parse().ok() } else { None }
}

/// Parses a Go duration, or whole numbers with units such as `2 weeks`, and returns nanoseconds.
#[must_use]
pub fn parse_lenient_duration(text: &str) -> Option<i64> {
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], 86_400_000_000_000),
        (&["w", "wk", "week"], 604_800_000_000_000),
    ];
    static PART: LazyLock<Option<Regex>> =
        LazyLock::new(|| steersman_regexp::compile(r"((\d+)\s*([A-Za-zµ]+))").ok());
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    let mut total: Option<i64> = None;
    for found in PART.as_ref()?.captures_iter(text) {
        let number: i64 = found.get(2)?.as_str().parse().ok()?;
        let unit = found.get(3)?.as_str().to_lowercase();
        for (variants, nanos) in UNITS {
            for (i, variant) in variants.iter().enumerate() {
                if unit == *variant || (i == variants.len() - 1 && unit.starts_with(variant)) {
                    let here = number.wrapping_mul(nanos);
                    total = Some(total.unwrap_or_default().wrapping_add(here));
                }
            }
        }
    }
    total
}
