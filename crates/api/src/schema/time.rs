//! Parsing and formatting of `metav1.Time` and `metav1.MicroTime`.

use std::ops::{Range, RangeInclusive};

use jiff::{ToSpan as _, civil::DateTime};

use super::Scalar;

/// Returns the timestamp in canonical form, or the error message of Go's `time.Parse`.
pub(super) fn read(text: &str, scalar: Scalar) -> Result<String, String> {
    let layout = match scalar {
        Scalar::MicroTime => "2006-01-02T15:04:05.000000Z07:00",
        _ => "2006-01-02T15:04:05Z07:00",
    };
    let fail = |rest: &str, expected: &str| {
        let quote = crate::status::quote;
        Err(format!(
            "parsing time {} as {layout:?}: cannot parse {} as {expected:?}",
            quote(text),
            quote(rest)
        ))
    };
    let mut rest = text;
    // Digits and separators in their required order.
    for (expected, count, after) in
        [("2006", 4, "-"), ("01", 2, "-"), ("02", 2, "T"), ("15", 2, ":"), ("04", 2, ":"), ("05", 2, "")]
    {
        let digits = rest.get(..count).filter(|part| part.bytes().all(|c| c.is_ascii_digit()));
        if digits.is_none() {
            return fail(rest, expected);
        }
        rest = rest.get(count..).unwrap_or_default();
        match rest.strip_prefix(after) {
            Some(next) => rest = next,
            None => return fail(rest, after),
        }
    }
    let fraction = rest
        .strip_prefix('.')
        .map_or(0, |rest| rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    if scalar == Scalar::MicroTime {
        // Six digits are consumed; further ones are an error.
        if fraction < 6 {
            return fail(rest, ".000000");
        }
        rest = rest.get(7..).unwrap_or_default();
    } else if fraction > 0 {
        rest = rest.get(fraction + 1..).unwrap_or_default();
    }
    let zone = match rest.as_bytes() {
        [b'Z', after @ ..] => {
            if !after.is_empty() {
                let extra = crate::status::quote(rest.get(1..).unwrap_or_default());
                return Err(format!("parsing time {}: extra text: {extra}", crate::status::quote(text)));
            }
            true
        }
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|c| c.is_ascii_digit()),
        _ => false,
    };
    if !zone {
        return fail(rest, "Z07:00");
    }
    let at = moment(text, rest)
        .map_err(|what| format!("parsing time {}: {what} out of range", crate::status::quote(text)))?;
    let form = if scalar == Scalar::MicroTime { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(at.strftime(form).to_string())
}

/// Converts a well-formed timestamp with this zone to UTC. The error names the part that is out of range.
fn moment(text: &str, zone: &str) -> Result<DateTime, &'static str> {
    let number = |range: Range<usize>| text.get(range).and_then(|digits| digits.parse::<i8>().ok());
    let part = |range: Range<usize>, values: RangeInclusive<i8>, name: &'static str| {
        number(range).filter(|value| values.contains(value)).ok_or(name)
    };
    let month = part(5..7, 1..=12, "month")?;
    let hour = part(11..13, 0..=23, "hour")?;
    let minute = part(14..16, 0..=59, "minute")?;
    let second = part(17..19, 0..=59, "second")?;
    let year = text.get(..4).and_then(|digits| digits.parse().ok()).ok_or("year")?;
    let fraction = text.get(19..).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default();
    let digits = fraction.bytes().chain(std::iter::repeat(b'0'));
    let digits = digits.map(|digit| if digit.is_ascii_digit() { i32::from(digit - b'0') } else { 0 });
    let nanosecond = digits.take(9).fold(0, |nanos, digit| nanos * 10 + digit);
    let day = number(8..10).ok_or("day")?;
    let at = DateTime::new(year, month, day, hour, minute, second, nanosecond).map_err(|_| "day")?;
    let (Some(sign), Some(hours), Some(minutes)) = (zone.get(..1), zone.get(1..3), zone.get(4..6)) else {
        return Ok(at);
    };
    let offset = hours.parse::<i64>().unwrap_or_default() * 60 + minutes.parse::<i64>().unwrap_or_default();
    let offset = if sign == "-" { -offset } else { offset };
    at.checked_sub(offset.minutes()).map_err(|_| "year")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_go_reads_them() {
        let time = |text| read(text, Scalar::Time);
        assert_eq!(time("2001-02-03T04:05:06+02:00").unwrap(), "2001-02-03T02:05:06Z");
        assert_eq!(time("2001-02-03T04:05:06.5Z").unwrap(), "2001-02-03T04:05:06Z");
        assert_eq!(
            time("soon").unwrap_err(),
            r#"parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006""#
        );
        assert_eq!(time("9999-12-31T23:59:59.999999Z").unwrap(), "9999-12-31T23:59:59Z");
        assert_eq!(time("0000-01-01T00:00:00Z").unwrap(), "0000-01-01T00:00:00Z");
        for (text, what) in [
            ("2001-13-03T04:05:06Z", "month"),
            ("2001-02-30T04:05:06Z", "day"),
            ("2001-02-03T24:05:06Z", "hour"),
            ("2001-02-03T23:60:06Z", "minute"),
            ("2001-02-03T23:59:60Z", "second"),
        ] {
            assert_eq!(time(text).unwrap_err(), format!("parsing time {text:?}: {what} out of range"));
        }
        let micro = |text| read(text, Scalar::MicroTime);
        assert_eq!(micro("2001-02-03T04:05:06.500000-01:30").unwrap(), "2001-02-03T05:35:06.500000Z");
        assert_eq!(micro("2001-02-03T04:05:06.000001Z").unwrap(), "2001-02-03T04:05:06.000001Z");
        assert!(micro("2001-02-03T04:05:06Z").unwrap_err().ends_with(r#"cannot parse "Z" as ".000000""#));
        assert!(
            micro("2001-02-03T04:05:06.1234567Z").unwrap_err().ends_with(r#"cannot parse "7Z" as "Z07:00""#)
        );
    }
}
