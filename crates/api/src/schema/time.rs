//! Moments as the API reads and writes them.

use super::Scalar;

/// The moment in the form that is kept, or Go's words for what is wrong with the text.
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
    // Digits and signs in the order in which they must come.
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
        // Six digits, neither more nor fewer.
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
    match text.parse::<jiff::Timestamp>() {
        Ok(at) if scalar == Scalar::MicroTime => Ok(at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()),
        Ok(at) => Ok(crate::environment::seconds(at)),
        Err(_) => Err(format!("parsing time {}: day out of range", crate::status::quote(text))),
    }
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
        let micro = |text| read(text, Scalar::MicroTime);
        assert_eq!(micro("2001-02-03T04:05:06.000001Z").unwrap(), "2001-02-03T04:05:06.000001Z");
        assert!(micro("2001-02-03T04:05:06Z").unwrap_err().ends_with(r#"cannot parse "Z" as ".000000""#));
        assert!(
            micro("2001-02-03T04:05:06.1234567Z").unwrap_err().ends_with(r#"cannot parse "7Z" as "Z07:00""#)
        );
    }
}
