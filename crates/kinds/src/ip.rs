//! Validation of IP addresses, CIDRs and host names, and warnings about them.

use std::net::IpAddr;

use steersman_api::{names, status::quote};

use crate::check::{Errors, FieldErrors, FieldPath};

/// Returns the warning about an IP address in a non-standard form, if any.
pub(crate) fn ip_warning(at: &str, text: &str) -> Option<String> {
    let address = parse_ip(text)?;
    if text.parse::<IpAddr>().is_err() || is_mapped(&address) {
        let plain = match address {
            IpAddr::V6(a) => a.to_ipv4_mapped().map_or_else(|| a.to_string(), |a| a.to_string()),
            IpAddr::V4(a) => a.to_string(),
        };
        let plain = quote(&plain);
        return Some(format!("{at}: non-standard IP address {} is invalid: use {plain}", quote(text)));
    }
    if address.is_ipv6() && address.to_string() != text {
        return Some(format!(
            "{at}: IPv6 address {} should be in RFC 5952 canonical format ({})",
            quote(text),
            quote(&address.to_string())
        ));
    }
    None
}

/// Validates an endpoint's IP address.
pub(crate) fn endpoint_ip(at: FieldPath<'_>, text: &str, errors: &mut Errors) {
    let Some(address) = parse_ip(text) else {
        return errors.invalid(at, text, "must be a valid IP address");
    };
    if address.is_unspecified() {
        errors.invalid(at, text, format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        errors.invalid(at, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, multicast) = match address {
        IpAddr::V4(a) => (a.is_link_local(), matches!(a.octets(), [224, 0, 0, _])),
        IpAddr::V6(a) => {
            let first = a.segments().first().copied().unwrap_or_default();
            (first & 0xffc0 == 0xfe80, first & 0xff0f == 0xff02)
        }
    };
    if link_local {
        errors.invalid(at, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        let why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.invalid(at, text, why);
    }
}

/// Returns warnings about a CIDR in a non-standard form.
pub(crate) fn cidr_warnings(at: &str, text: &str) -> Vec<String> {
    let Some((address, length)) = parse_cidr(text) else { return Vec::new() };
    let first = masked(address, length);
    let mut warnings = Vec::new();
    if first != address {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        warnings.push(format!(
            "{at}: CIDR value {} is ambiguous in this context (should be {} or {}?)",
            quote(text),
            quote(&format!("{first}/{length}")),
            quote(&format!("{address}/{bits}"))
        ));
    }
    let plain = text.split_once('/').map_or("", |(plain, _)| plain);
    if plain.parse::<IpAddr>().is_err() {
        let form = quote(&format!("{first}/{length}"));
        warnings.push(format!("{at}: non-standard CIDR value {} is invalid: use {form}", quote(text)));
    } else if warnings.is_empty() && address.is_ipv6() && format!("{address}/{length}") != text {
        warnings.push(format!(
            "{at}: IPv6 CIDR value {} should be in RFC 5952 canonical format ({})",
            quote(text),
            quote(&format!("{address}/{length}"))
        ));
    }
    warnings
}

/// Validates an IP address that must be in canonical form.
pub(crate) fn strict_ip(at: FieldPath<'_>, text: &str, errors: &mut Errors) {
    let before = errors.len();
    legacy_ip(at, text, errors);
    if errors.len() == before
        && let Some(parsed) = parse_ip(text)
        && parsed.to_string() != text
    {
        let form = quote(&parsed.to_string());
        errors.invalid(at, text, format!("must be in canonical form ({form})"));
    }
}

/// Validates a host name, which must not be an IP address.
pub(crate) fn host_name(at: FieldPath<'_>, host: &str, errors: &mut Errors) {
    errors.all(&at, host, names::subdomain(host));
    if parse_ip(host).is_some() {
        errors.invalid(at, host, "must be a DNS name, not an IP address");
    }
}

/// Parses an IP address like Go's older parser, which accepts leading zeros.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    let mut parts = [0_u8; 4];
    let mut count = 0;
    for part in text.split('.') {
        let slot = parts.get_mut(count)?;
        if part.is_empty() || !part.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        *slot = part
            .trim_start_matches('0')
            .parse()
            .or_else(|e| if part.bytes().all(|c| c == b'0') { Ok(0) } else { Err(e) })
            .ok()?;
        count += 1;
    }
    (count == 4).then(|| IpAddr::from(parts))
}

/// Parses a CIDR like Go's older parser, and returns the address as written and the prefix length.
pub(crate) fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    if length.is_empty() || !length.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let (address, length) = (parse_ip(address)?, length.parse::<u8>().ok()?);
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length <= most).then_some((address, length))
}

/// Returns the first address of a CIDR.
pub(crate) fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((u32::from(a) & mask).into())
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((u128::from(a) & mask).into())
        }
    }
}

/// Validates an IP address in a legacy field, which needs no canonical form.
pub(crate) fn legacy_ip(at: FieldPath<'_>, text: &str, errors: &mut Errors) {
    match parse_ip(text) {
        None => errors.invalid(at, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        Some(_) if text.parse::<IpAddr>().is_err() => errors.invalid(at, text, "must not have leading 0s"),
        Some(address) if is_mapped(&address) => {
            errors.invalid(at, text, "must not be an IPv4-mapped IPv6 address");
        }
        Some(_) => {}
    }
}

/// Validates a CIDR in a legacy field, which needs no canonical form.
pub(crate) fn legacy_cidr(at: FieldPath<'_>, text: &str, errors: &mut Errors) {
    let Some((address, length)) = parse_cidr(text) else {
        return errors.invalid(at, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    };
    let (plain, digits) = text.split_once('/').unwrap_or((text, ""));
    if plain.parse::<IpAddr>().is_err() || digits.len() > 1 && digits.starts_with('0') {
        errors.invalid(at, text, "must not have leading 0s in IP or prefix length");
    } else if is_mapped(&address) {
        errors.invalid(at, text, "must not have an IPv4-mapped IPv6 address");
    } else if masked(address, length) != address {
        errors.invalid(at, text, "must not have bits set beyond the prefix length");
    }
}

/// Whether it is an IPv4-mapped IPv6 address.
fn is_mapped(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(a) if a.to_ipv4_mapped().is_some())
}
