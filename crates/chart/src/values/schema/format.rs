//! The `format` keyword: validators with the error messages of Go's santhosh-tekuri/jsonschema.

use steersman_gostd::{netip, strconv};

use crate::functions::{layout, regexes, urls};
use crate::gofmt::quote_rune;

/// A format with a validator.
#[derive(Debug)]
pub(super) struct Format {
    pub(super) name: &'static str,
    /// Validates a string.
    pub(super) check: Check,
}

/// Formats that are validated; any other accepts every string.
const KNOWN: &[Format] = &[
    Format { name: "date", check: date },
    Format { name: "date-time", check: date_time },
    Format { name: "duration", check: duration },
    Format { name: "email", check: email },
    Format { name: "hostname", check: hostname },
    Format { name: "ipv4", check: ipv4 },
    Format { name: "ipv6", check: ipv6 },
    Format { name: "iri", check: uri },
    Format { name: "iri-reference", check: uri_reference },
    Format { name: "json-pointer", check: json_pointer },
    Format { name: "period", check: period },
    Format { name: "regex", check: regexes::check },
    Format { name: "relative-json-pointer", check: relative_json_pointer },
    Format { name: "semver", check: semver },
    Format { name: "time", check: time },
    Format { name: "uri", check: uri },
    Format { name: "uri-reference", check: uri_reference },
    Format { name: "uri-template", check: uri_template },
    Format { name: "uuid", check: uuid },
];

/// Returns the format of that name, if it is validated.
pub(super) fn find(name: &str) -> Option<&'static Format> {
    KNOWN.iter().find(|format| format.name == name)
}

/// Validates a string; the error says why it is invalid.
pub(super) type Check = fn(&str) -> Checked;
type Checked = Result<(), String>;

/// Fails with `message` unless `holds`.
fn ensure(holds: bool, message: &str) -> Checked {
    if holds { Ok(()) } else { Err(message.to_owned()) }
}

/// Returns the number of digits that a string begins with.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn invalid_character(c: char) -> String {
    format!("invalid character {}", quote_rune(c))
}

fn json_pointer(text: &str) -> Checked {
    if text.is_empty() {
        return Ok(());
    }
    ensure(text.starts_with('/'), "not starting with /")?;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c == '~' {
            let next = characters.clone().next();
            ensure(matches!(next, Some('0' | '1')), "~ must be followed by 0 or 1")?;
            characters.next();
        }
    }
    Ok(())
}

fn relative_json_pointer(text: &str) -> Checked {
    let count = digits(text);
    ensure(count > 0, "must start with non-negative integer")?;
    ensure(count == 1 || !text.starts_with('0'), "starts with zero")?;
    match text.get(count..).unwrap_or_default() {
        "#" => Ok(()),
        pointer => json_pointer(pointer),
    }
}

fn uuid(text: &str) -> Checked {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    let groups: Vec<&str> = text.split('-').collect();
    ensure(groups.len() == LENGTHS.len(), "must have 5 elements")?;
    for (index, (group, length)) in groups.into_iter().zip(LENGTHS).enumerate() {
        if group.len() != length {
            return Err(format!("element {} must be {length} characters long", index + 1));
        }
        if let Some(other) = group.chars().find(|c| !c.is_ascii_hexdigit()) {
            return Err(format!("non-hex character {}", quote_rune(other)));
        }
    }
    Ok(())
}

fn duration(text: &str) -> Checked {
    const UNITS: [&str; 2] = ["YMD", "HMS"];
    let rest = text.strip_prefix('P').ok_or("must start with P")?;
    ensure(!rest.is_empty(), "nothing after P")?;
    if let Some(weeks) = rest.strip_suffix('W') {
        ensure(!weeks.is_empty(), "no number in week")?;
        return ensure(digits(weeks) == weeks.len(), "invalid week");
    }
    for (part, text) in rest.split('T').enumerate() {
        ensure(part == 0 || !text.is_empty(), "no time elements")?;
        let all = *UNITS.get(part).ok_or("more than one T")?;
        let mut left = all;
        let mut text = text;
        while !text.is_empty() {
            let count = digits(text);
            ensure(count > 0, "missing number")?;
            text = text.get(count..).unwrap_or_default();
            // As in Go, units are bytes: the first byte of a longer character is a unit of its own.
            let unit = char::from(*text.as_bytes().first().ok_or("missing unit")?);
            let Some(at) = left.find(unit) else {
                let shown = quote_rune(unit);
                return Err(if all.contains(unit) {
                    format!("unit {shown} out of order")
                } else {
                    format!("invalid unit {shown}")
                });
            };
            left = left.get(at + 1..).unwrap_or_default();
            text = text.get(1..).unwrap_or_default();
        }
    }
    Ok(())
}

fn ipv4(text: &str) -> Checked {
    let groups: Vec<&str> = text.split('.').collect();
    ensure(groups.len() == 4, "expected four decimals")?;
    for group in groups {
        ensure(group.len() < 2 || !group.starts_with('0'), "leading zeros")?;
        let number = strconv::atoi(group.as_bytes()).map_err(|error| error.to_string())?;
        ensure((0..=255).contains(&number), "decimal must be between 0 and 255")?;
    }
    Ok(())
}

fn ipv6(text: &str) -> Checked {
    ensure(text.contains(':'), "missing colon")?;
    let (_, zone) = netip::parse_addr(text).map_err(|error| error.to_string())?;
    ensure(zone.is_none(), "zone id is not a part of ipv6 address")
}

fn hostname(text: &str) -> Checked {
    let name = text.strip_suffix('.').unwrap_or(text);
    ensure(name.len() <= 253, "more than 253 characters long")?;
    for label in name.split('.') {
        ensure((1..=63).contains(&label.len()), "label must be 1 to 63 characters long")?;
        ensure(!label.starts_with('-'), "label starts with hyphen")?;
        ensure(!label.ends_with('-'), "label ends with hyphen")?;
        if let Some(other) = label.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
            return Err(invalid_character(other));
        }
    }
    Ok(())
}

fn email(text: &str) -> Checked {
    ensure(text.len() <= 254, "more than 255 characters long")?;
    let (local, domain) = text.rsplit_once('@').ok_or("missing @")?;
    ensure(local.len() <= 64, "local part more than 64 characters long")?;
    let quoted = local.strip_prefix('"').and_then(|local| local.strip_suffix('"'));
    if let Some(quoted) = quoted {
        ensure(
            !quoted.contains(['\\', '"']),
            "backslash and quote are not allowed within quoted local part",
        )?;
    } else {
        ensure(!local.starts_with('.'), "starts with dot")?;
        ensure(!local.ends_with('.'), "ends with dot")?;
        ensure(!local.contains(".."), "consecutive dots")?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(c);
        if let Some(other) = local.chars().find(|c| !allowed(*c)) {
            return Err(invalid_character(other));
        }
    }
    let Some(address) = domain.strip_prefix('[').and_then(|domain| domain.strip_suffix(']')) else {
        return hostname(domain).map_err(|why| format!("invalid domain: {why}"));
    };
    match address.strip_prefix("IPv6:") {
        Some(address) => ipv6(address).map_err(|why| format!("invalid ipv6 address: {why}")),
        None => ipv4(address).map_err(|why| format!("invalid ipv4 address: {why}")),
    }
}

fn date(text: &str) -> Checked {
    layout::check(b"2006-01-02", text.as_bytes())
}

fn time(text: &str) -> Checked {
    let bytes = text.as_bytes();
    ensure(bytes.len() >= 9, "less than 9 characters long")?;
    ensure(bytes.get(2) == Some(&b':') && bytes.get(5) == Some(&b':'), "missing colon in correct place")?;
    let number = |range: std::ops::Range<usize>, invalid: &str, negative: &str| {
        let number = strconv::atoi(bytes.get(range).unwrap_or_default()).map_err(|_| invalid.to_owned())?;
        ensure(number >= 0, negative).map(|()| number)
    };
    let part = |at: usize| number(at..at + 2, "invalid hour/min/sec", "non-positive hour/min/sec");
    let (hour, minute, second) = (part(0)?, part(3)?, part(6)?);
    ensure(hour <= 23 && minute <= 59 && second <= 60, "hour/min/sec out of range")?;
    let mut at = 8;
    if bytes.get(at) == Some(&b'.') {
        let count = bytes.iter().skip(at + 1).take_while(|b| b.is_ascii_digit()).count();
        ensure(count > 0, "no digits in second fraction")?;
        at += 1 + count;
    }
    let offset = match bytes.get(at..).unwrap_or_default() {
        b"z" | b"Z" => 0,
        zone => {
            ensure(zone.len() == 6, "offset must be 6 characters long")?;
            let sign = match zone.first() {
                Some(b'+') => -1,
                Some(b'-') => 1,
                _ => return Err("offset must begin with plus/minus".into()),
            };
            ensure(zone.get(3) == Some(&b':'), "missing colon in offset in correct place")?;
            let part = |from: usize| {
                let (from, to) = (at + from, at + from + 2);
                number(from..to, "invalid hour/min in offset", "non-positive hour/min in offset")
            };
            let (hours, minutes) = (part(1)?, part(4)?);
            ensure(hours <= 23 && minutes <= 59, "hour/min in offset out of range")?;
            sign * (hours * 60 + minutes)
        }
    };
    const DAY: i64 = 24 * 60;
    let utc = hour * 60 + minute + offset;
    let utc = if utc < 0 { utc + DAY } else { utc };
    ensure(second < 60 || utc == DAY - 1, "invalid leap second")
}

fn date_time(text: &str) -> Checked {
    ensure(text.len() >= 20, "less than 20 characters long")?;
    ensure(matches!(text.as_bytes().get(10), Some(b't' | b'T')), "11th character must be t or T")?;
    // The eleventh byte is a letter, so this does not split a character.
    let (day, rest) = text.split_at(10);
    date(day).map_err(|why| format!("invalid date element: {why}"))?;
    time(rest.get(1..).unwrap_or_default()).map_err(|why| format!("invalid time element: {why}"))
}

fn period(text: &str) -> Checked {
    let (start, end) = text.split_once('/').ok_or("missing slash")?;
    let date_time =
        |side: &str, text: &str| date_time(text).map_err(|why| format!("invalid {side} date-time: {why}"));
    let duration =
        |side: &str, text: &str| duration(text).map_err(|why| format!("invalid {side} duration: {why}"));
    if start.starts_with('P') {
        duration("start", start)?;
        return date_time("end", end);
    }
    date_time("start", start)?;
    if end.starts_with('P') { duration("end", end) } else { date_time("end", end) }
}

fn parse_url(text: &str) -> Result<urls::Url, String> {
    let url = urls::Url::parse(text.as_bytes())?;
    let name = url.hostname();
    if name.contains(&b':') {
        let bracketed = url.host.contains(&b'[') && url.host.contains(&b']');
        ensure(bracketed, "ipv6 address not enclosed in brackets")?;
        ipv6(&String::from_utf8_lossy(&name)).map_err(|why| format!("invalid ipv6 address: {why}"))?;
    }
    Ok(url)
}

fn uri(text: &str) -> Checked {
    ensure(!parse_url(text)?.scheme.is_empty(), "relative url")
}

fn uri_reference(text: &str) -> Checked {
    ensure(!text.contains('\\'), "contains \\")?;
    parse_url(text).map(drop)
}

fn uri_template(text: &str) -> Checked {
    let url = parse_url(text)?;
    for part in url.path.split(|b| *b == b'/') {
        let mut open = false;
        for brace in part.iter().filter(|b| matches!(b, b'{' | b'}')) {
            ensure((*brace == b'{') != open, "nested curly braces")?;
            open = !open;
        }
        ensure(!open, "no matching closing brace")?;
    }
    Ok(())
}

fn semver(text: &str) -> Checked {
    let identifier = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    if let Some(build) = build {
        ensure(!build.is_empty(), "build is empty")?;
        for part in build.split('.') {
            ensure(!part.is_empty(), "build identifier is empty")?;
            if let Some(other) = part.chars().find(|c| !identifier(*c)) {
                return Err(format!("{} in build identifier", invalid_character(other)));
            }
        }
    }
    let (core, pre_release) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    for part in pre_release.into_iter().flat_map(|pre| pre.split('.')) {
        ensure(!part.is_empty(), "pre-release identifier is empty")?;
        if let Some(other) = part.chars().find(|c| !identifier(*c)) {
            return Err(format!("{} in pre-release identifier", invalid_character(other)));
        }
        let padded = part.len() > 1 && part.starts_with('0') && digits(part) == part.len();
        ensure(!padded, "pre-release numeric identifier starts with zero")?;
    }
    let numbers: Vec<&str> = core.split('.').collect();
    ensure(numbers.len() == 3, "versionCore must have 3 numbers separated by dot")?;
    for (number, name) in numbers.into_iter().zip(["major", "minor", "patch"]) {
        ensure(!number.is_empty(), &format!("{name} is empty"))?;
        ensure(number.len() == 1 || !number.starts_with('0'), &format!("{name} starts with zero"))?;
        ensure(digits(number) == number.len(), &format!("{name} contains non-digit"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn texts_are_judged_as_by_helm() {
        let cases = [
            ("date", "2024-02-30", Some("parsing time \"2024-02-30\": day out of range")),
            ("date-time", "2024-02-29T23:59:60Z", None),
            ("date-time", "2024-02-29T23:58:60Z", Some("invalid time element: invalid leap second")),
            ("time", "00:29:60+00:30", None),
            ("duration", "P1Y2DT3H", None),
            ("duration", "P2D1Y", Some("unit 'Y' out of order")),
            ("duration", "P1X", Some("invalid unit 'X'")),
            ("email", "a@b", None),
            ("email", "a b@c", Some("invalid character ' '")),
            ("email", "a@[127.0.0.256]", Some("invalid ipv4 address: decimal must be between 0 and 255")),
            ("hostname", "a_b", Some("invalid character '_'")),
            ("ipv4", "1.2.3", Some("expected four decimals")),
            ("ipv4", "1.2.3.x", Some("strconv.Atoi: parsing \"x\": invalid syntax")),
            ("ipv6", "::1", None),
            ("ipv6", "1::2::3", Some("ParseAddr(\"1::2::3\"): multiple :: in address (at \":3\")")),
            ("ipv6", "::1.2.3.4", None),
            ("ipv6", "fe80::1%eth0", Some("zone id is not a part of ipv6 address")),
            ("json-pointer", "/a~2", Some("~ must be followed by 0 or 1")),
            ("relative-json-pointer", "01/a", Some("starts with zero")),
            ("semver", "1.2.03", Some("patch starts with zero")),
            ("uri", "a/b", Some("relative url")),
            ("uri-template", "/a/{b}", None),
            ("uri-template", "/a/{b", Some("no matching closing brace")),
            ("uuid", "123", Some("must have 5 elements")),
            ("unheard-of", "anything", None),
        ];
        for (format, text, expected) in cases {
            let problem = find(format).and_then(|format| (format.check)(text).err());
            assert_eq!(problem.as_deref(), expected, "{format} {text}");
        }
    }
}
