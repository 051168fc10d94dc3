//! The OpenAPI `format`s that schemas can require of strings.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::names;
use crate::time::{parse_date, parse_lenient_duration};
use crate::url::Url;

/// Supported formats, without dashes in their names. Unknown formats are not validated.
const KNOWN: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Whether the format is supported for schemas of this type.
pub fn is_known(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => KNOWN.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether a string is valid for a format; `None` if the format is unknown or not one of strings.
pub fn follows(format: &str, text: &str) -> Option<bool> {
    Some(match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => parse_ip(text).is_some() && text.contains('.'),
        "ipv6" => text.contains(':') && text.parse::<IpAddr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => text.len() == 11 && matches(&SSN, text),
        "hexcolor" => matches(&HEX_COLOR, text),
        "rgbcolor" => matches(&RGB_COLOR, text),
        "byte" => matches(&BASE64, text),
        "password" => true,
        "date" => parse_date(text).is_some(),
        "duration" => parse_lenient_duration(text).is_some(),
        "datetime" => is_date_time(text),
        "k8sshortname" => names::label(text).is_empty(),
        "k8slongname" => names::subdomain(text).is_empty(),
        _ => return None,
    })
}

macro_rules! patterns {
    ($($name:ident: $pattern:expr;)*) => {
        $(static $name: LazyLock<Option<Regex>> = LazyLock::new(|| steersman_regexp::compile($pattern).ok());)*
    };
}

patterns! {
    SSN: r"^\d{3}[- ]?\d{2}[- ]?\d{4}$";
    HEX_COLOR: r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR: r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";
    BASE64: r"^(?:[A-Za-z0-9+\/]{4})*(?:[A-Za-z0-9+\/]{2}==|[A-Za-z0-9+\/]{3}=|[A-Za-z0-9+\/]{4})$";
    HOSTNAME: r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    TIME: r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    CREDIT_CARD: r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$";
}

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|p| p.is_match(text))
}

/// Whether the string is an absolute URI or an absolute path.
fn is_uri(text: &str) -> bool {
    Url::parse(text).is_some()
}

fn is_hostname(text: &str) -> bool {
    matches(&HOSTNAME, text) && text.len() <= 255 && text.split('.').all(|part| part.len() <= 63)
}

/// Parses an IP address. Leading zeros in IPv4 parts are ignored; addresses with a zone are invalid.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if !text.contains(':') {
        return parse_ipv4(text).map(IpAddr::V4);
    }
    // An IPv6 address can end with an IPv4 address.
    let (head, tail) = text.rsplit_once(':')?;
    if tail.contains('.') {
        let tail = parse_ipv4(tail)?;
        return format!("{head}:{tail}").parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn parse_ipv4(text: &str) -> Option<std::net::Ipv4Addr> {
    let parts: Vec<u8> = text.split('.').map(decimal).collect::<Option<_>>()?;
    let octets: [u8; 4] = parts.try_into().ok()?;
    Some(octets.into())
}

fn decimal(text: &str) -> Option<u8> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = text.trim_start_matches('0');
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else { return false };
    let Some(address) = parse_ip(address) else { return false };
    let width: u32 = if address.is_ipv4() { 32 } else { 128 };
    !prefix.is_empty()
        && prefix.bytes().all(|b| b.is_ascii_digit())
        && prefix.parse::<u32>().is_ok_and(|bits| bits <= width)
}

/// Whether the string is a MAC address of 6, 8 or 20 bytes, in groups of two or four hex digits.
fn is_mac(text: &str) -> bool {
    let (separator, width) = match text.as_bytes() {
        [_, _, b':', ..] => (':', 2),
        [_, _, b'-', ..] => ('-', 2),
        [_, _, _, _, b'.', ..] => ('.', 4),
        _ => return false,
    };
    let parts: Vec<&str> = text.split(separator).collect();
    parts.iter().all(|p| p.len() == width && p.bytes().all(|b| b.is_ascii_hexdigit()))
        && matches!(parts.len() * width / 2, 6 | 8 | 20)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut digits = String::with_capacity(32);
    let mut after_dash = false;
    for c in text.chars() {
        match c {
            '-' if matches!(digits.len(), 8 | 12 | 16 | 20) && !after_dash => {}
            c if c.is_ascii_hexdigit() && digits.len() < 32 => digits.push(c.to_ascii_lowercase()),
            _ => return false,
        }
        after_dash = c == '-';
    }
    let Some(version) = version else { return digits.len() == 32 };
    let at = |i: usize| digits.chars().nth(i);
    digits.len() == 32
        && at(12) == Some(version)
        && (version == '3' || at(16).is_some_and(|c| matches!(c, '8' | '9' | 'a' | 'b')))
}

fn bare_isbn(text: &str) -> Vec<u8> {
    text.bytes().filter(|b| !matches!(b, b'-' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = bare_isbn(text);
    let [head @ .., last] = digits.as_slice() else { return false };
    if head.len() != 9 || !head.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match last {
        b'X' => 10,
        d if d.is_ascii_digit() => u32::from(d - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(head).map(|(i, d)| i * u32::from(d - b'0')).sum();
    (sum + 10 * last).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = bare_isbn(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 =
        digits.iter().zip([1, 3].iter().cycle()).take(12).map(|(d, f)| u32::from(d - b'0') * f).sum();
    let last = digits.last().map(|d| u32::from(d - b'0'));
    last == Some((10 - sum % 10) % 10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !matches(&CREDIT_CARD, &digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, d)| {
            let digit = u32::from(d - b'0');
            match (i % 2, digit * 2) {
                (0, _) => digit,
                (_, doubled) if doubled >= 10 => doubled % 10 + 1,
                (_, doubled) => doubled,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Whether the string is an email address: `local@domain`, or `Name <local@domain>`.
fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let address = match text.split_once('<') {
        Some((name, rest)) => {
            let Some(address) = rest.strip_suffix('>') else { return false };
            let name = name.trim();
            let quoted = name.len() >= 2 && name.starts_with('"') && name.ends_with('"');
            if !quoted && !name.split_whitespace().all(|word| word.chars().all(|c| is_atom(c) || c == '.')) {
                return false;
            }
            address
        }
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_dotted = |text: &str| {
        !text.is_empty() && text.split('.').all(|part| !part.is_empty() && part.chars().all(is_atom))
    };
    let is_quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let is_literal =
        domain.strip_prefix('[').and_then(|d| d.strip_suffix(']')).is_some_and(|d| parse_ip(d).is_some());
    (is_dotted(local) || is_quoted) && (is_dotted(domain) || is_literal)
}

fn is_atom(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    if parse_date(date).is_none() {
        return false;
    }
    let Some(found) = TIME.as_ref().and_then(|p| p.captures(time)) else { return false };
    let part = |i: usize| found.get(i).map_or("", |m| m.as_str());
    part(1) <= "23" && part(2) <= "59" && part(3) <= "59"
}

#[cfg(test)]
mod tests {
    use super::follows;

    #[test]
    fn formats() {
        for (format, text, expected) in [
            ("date-time", "2001-02-03T04:05:06Z", true),
            ("date-time", "2001-02-03T04:05:06", false),
            ("date-time", "2001-02-03t04:05:06.5+01:00", true),
            ("date", "2001-02-30", false),
            ("duration", "22 ns", true),
            ("duration", "1h30m", true),
            ("duration", "soon", false),
            ("ipv4", "010.0.0.1", true),
            ("ipv6", "::ffff:1.2.3.4", true),
            ("ipv6", "1.2.3.4", false),
            ("cidr", "10.0.0.0/33", false),
            ("mac", "01:23:45:67:89:ab", true),
            ("uuid4", "f47ac10b-58cc-4372-a567-0e02b2c3d479", true),
            ("uuid5", "f47ac10b-58cc-4372-a567-0e02b2c3d479", false),
            ("isbn", "0321751043", true),
            ("isbn", "978-0321751041", true),
            ("email", "a@b.example", true),
            ("email", "a b@c", false),
            ("hostname", "a.example", true),
            ("byte", "aGk=", true),
            ("byte", "", false),
        ] {
            assert_eq!(follows(format, text), Some(expected), "{format} {text}");
        }
    }
}
