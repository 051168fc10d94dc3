//! Parsing IP addresses and networks.

use std::fmt;
use std::net::IpAddr;

use crate::strconv::{atoi, quote};

/// Error for an invalid IP address; displays as Go's error does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct AddrError {
    input: String,
    message: &'static str,
    /// The input from the error on.
    at: Option<Vec<u8>>,
}

impl fmt::Display for AddrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParseAddr({}): {}", quote(&self.input), self.message)?;
        match &self.at {
            Some(at) => write!(f, " (at {})", quote(at)),
            None => Ok(()),
        }
    }
}

/// Error for an invalid IP network; displays as Go's error does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("netip.ParsePrefix({}): {message}", quote(.input))]
pub struct PrefixError {
    input: String,
    message: String,
}

/// Go's `netip.ParseAddr`: parses an address and its zone, if any.
///
/// ```
/// use steersman_gostd::netip::parse_addr;
///
/// let (address, zone) = parse_addr("fe80::1%eth0")?;
/// assert_eq!((address.to_string().as_str(), zone), ("fe80::1", Some("eth0")));
/// let refused = parse_addr("10.0.0").map_err(|error| error.to_string());
/// assert_eq!(refused, Err(r#"ParseAddr("10.0.0"): IPv4 address too short"#.to_owned()));
/// # Ok::<(), steersman_gostd::netip::AddrError>(())
/// ```
pub fn parse_addr(text: &str) -> Result<(IpAddr, Option<&str>), AddrError> {
    let error = |(message, at): Bad<'_>| AddrError {
        input: text.to_owned(),
        message,
        at: at.filter(|at| !at.is_empty()).map(<[u8]>::to_vec),
    };
    let zone = check_address(text).map_err(error)?;
    let address = zone.map_or(text, |zone| &text[..text.len() - zone.len() - 1]);
    // The checks above admit only valid addresses.
    let address = address.parse().map_err(|_| error(("unable to parse IP", None)))?;
    Ok((address, zone))
}

/// Go's `netip.ParsePrefix`: parses an address and the length of its network prefix in bits.
pub fn parse_prefix(text: &str) -> Result<(IpAddr, u8), PrefixError> {
    let error = |message: String| PrefixError { input: text.to_owned(), message };
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| error("no '/'".into()))?;
    let (address, zone) = parse_addr(address).map_err(|bad| error(bad.to_string()))?;
    if zone.is_some() {
        return Err(error("IPv6 zones cannot be present in a prefix".into()));
    }
    let bad_bits = || error(format!("bad bits after slash: {}", quote(bits)));
    if bits.len() > 1 && !bits.starts_with(|c: char| matches!(c, '1'..='9')) {
        return Err(bad_bits());
    }
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = atoi(bits.as_bytes()).map_err(|_| bad_bits())?;
    match u8::try_from(bits).ok().filter(|bits| *bits <= most) {
        Some(bits) => Ok((address, bits)),
        None => Err(error("prefix length out of range".into())),
    }
}

/// Error message, and the input from the error on.
type Bad<'a> = (&'static str, Option<&'a [u8]>);

/// Validates an address and returns its zone.
fn check_address(text: &str) -> Result<Option<&str>, Bad<'_>> {
    match text.bytes().find(|b| matches!(b, b'.' | b':' | b'%')) {
        Some(b'.') => return check_ipv4(text.as_bytes()).map(|()| None),
        Some(b':') => {}
        Some(_) => return Err(("missing IPv6 address", None)),
        None => return Err(("unable to parse IP", None)),
    }
    let (address, zone) = text.split_once('%').map_or((text, None), |(a, z)| (a, Some(z)));
    if zone == Some("") {
        return Err(("zone must be a non-empty string", None));
    }
    check_ipv6(address.as_bytes())?;
    Ok(zone)
}

fn check_ipv6(address: &[u8]) -> Result<(), Bad<'_>> {
    const GROUPS: usize = 8;
    let mut rest = address;
    let mut ellipsis = false;
    if let Some(after) = rest.strip_prefix(b"::") {
        ellipsis = true;
        rest = after;
        if rest.is_empty() {
            return Ok(());
        }
    }
    let mut groups = 0;
    while groups < GROUPS {
        let count = rest.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        if count > 4 {
            return Err(("each group must have 4 or less digits", Some(rest)));
        }
        if count == 0 {
            return Err(("each colon-separated field must have at least one digit", Some(rest)));
        }
        if rest.get(count) == Some(&b'.') {
            if !ellipsis && groups != GROUPS - 2 {
                return Err((
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    Some(rest),
                ));
            }
            if groups + 2 > GROUPS {
                return Err((
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    Some(rest),
                ));
            }
            check_ipv4(rest)?;
            groups += 2;
            rest = &[];
            break;
        }
        groups += 1;
        rest = rest.get(count..).unwrap_or_default();
        match rest {
            [] => break,
            [b':'] => return Err(("colon must be followed by more characters", Some(rest))),
            [b':', after @ ..] => rest = after,
            _ => return Err(("unexpected character, want colon", Some(rest))),
        }
        if let Some(after) = rest.strip_prefix(b":") {
            if ellipsis {
                return Err(("multiple :: in address", Some(rest)));
            }
            ellipsis = true;
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    match (rest, groups < GROUPS, ellipsis) {
        ([_, ..], ..) => Err(("trailing garbage after address", Some(rest))),
        (_, true, false) => Err(("address string too short", None)),
        (_, false, true) => Err(("the :: must expand to at least one field of zeros", None)),
        _ => Ok(()),
    }
}

fn check_ipv4(text: &[u8]) -> Result<(), Bad<'_>> {
    let (mut value, mut count, mut fields) = (0_u32, 0, 0);
    for (at, byte) in text.iter().enumerate() {
        let rest = text.get(at..);
        match byte {
            b'0'..=b'9' => {
                if count == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", None));
                }
                value = value * 10 + u32::from(byte - b'0');
                count += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", None));
                }
            }
            b'.' => {
                if count == 0 || at + 1 == text.len() {
                    return Err(("IPv4 field must have at least one digit", rest));
                }
                if fields == 3 {
                    return Err(("IPv4 address too long", None));
                }
                fields += 1;
                (value, count) = (0, 0);
            }
            _ => return Err(("unexpected character", rest)),
        }
    }
    if fields < 3 { Err(("IPv4 address too short", None)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_refused_as_in_go() {
        for text in
            ["10.0.0.1", "::", "::1", "2001:db8::8:800:200c:417a", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:1.2.3.4"]
        {
            assert_eq!(
                parse_addr(text).map(|(address, zone)| (address, zone.is_none())),
                Ok((text.parse().unwrap(), true))
            );
        }
        for (text, why) in [
            ("", "unable to parse IP"),
            ("x", "unable to parse IP"),
            ("%eth0", "missing IPv6 address"),
            ("::1%", "zone must be a non-empty string"),
            ("10.0.0", "IPv4 address too short"),
            ("10.0.0.0.1", "IPv4 address too long"),
            ("10.0.0.256", "IPv4 field has value >255"),
            ("10.0.0.01", "IPv4 field has octet with leading zero"),
            ("10..0.1", "IPv4 field must have at least one digit (at \".0.1\")"),
            (".1.2.3", "IPv4 field must have at least one digit (at \".1.2.3\")"),
            ("10.0.0.", "IPv4 field must have at least one digit (at \".\")"),
            ("10.0.0.x", "unexpected character (at \"x\")"),
            ("12345::", "each group must have 4 or less digits (at \"12345::\")"),
            (":1", "each colon-separated field must have at least one digit (at \":1\")"),
            ("1:", "colon must be followed by more characters (at \":\")"),
            ("1:2:3", "address string too short"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("1:2x", "unexpected character, want colon (at \"x\")"),
            ("1::2:3:4:5:6:7:8", "the :: must expand to at least one field of zeros"),
            (
                "1:1.2.3.4",
                "embedded IPv4 address must replace the final 2 fields of the address (at \"1.2.3.4\")",
            ),
            (
                "::2:3:4:5:6:7:8:1.2.3.4",
                "too many hex fields to fit an embedded IPv4 at the end of the address (at \"1.2.3.4\")",
            ),
        ] {
            let refused = parse_addr(text).unwrap_err().to_string();
            assert_eq!(refused, format!("ParseAddr({}): {why}", quote(text)));
        }
    }

    #[test]
    fn networks_are_read_and_refused_as_in_go() {
        assert_eq!(parse_prefix("10.1.2.3/32"), Ok(("10.1.2.3".parse().unwrap(), 32)));
        assert_eq!(parse_prefix("::1/0"), Ok(("::1".parse().unwrap(), 0)));
        assert_eq!(parse_prefix("::/128"), Ok(("::".parse().unwrap(), 128)));
        for (text, why) in [
            ("10.0.0.0", "no '/'"),
            ("10.0.0/8", "ParseAddr(\"10.0.0\"): IPv4 address too short"),
            ("fe80::1%a/64", "IPv6 zones cannot be present in a prefix"),
            ("10.0.0.0/08", "bad bits after slash: \"08\""),
            ("10.0.0.0/+8", "bad bits after slash: \"+8\""),
            ("10.0.0.0/x", "bad bits after slash: \"x\""),
            ("10.0.0.0/", "bad bits after slash: \"\""),
            ("10.0.0.0/33", "prefix length out of range"),
            ("::/129", "prefix length out of range"),
            ("::/1000", "prefix length out of range"),
        ] {
            let refused = parse_prefix(text).unwrap_err().to_string();
            assert_eq!(refused, format!("netip.ParsePrefix({}): {why}", quote(text)));
        }
    }
}
