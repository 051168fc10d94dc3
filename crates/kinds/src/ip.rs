//! IP addresses, networks and host names: validation and warnings that kinds share.

use std::net::IpAddr;

use steersman_api::{names, status::quote};

use crate::check::{self, At, Complain, Errors};

/// What is odd about the way an address is written.
pub(crate) fn ip_warning(at: &str, text: &str) -> Option<String> {
    let address = check::parse_ip(text)?;
    let mapped = matches!(address, IpAddr::V6(a) if a.to_ipv4_mapped().is_some());
    if text.parse::<IpAddr>().is_err() || mapped {
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

/// Judges an address that traffic can be sent to.
pub(crate) fn endpoint_ip(at: At<'_>, text: &str, errors: &mut Errors) {
    let Some(address) = check::parse_ip(text) else {
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

/// What is odd about the way a network is written.
pub(crate) fn cidr_warnings(at: &str, text: &str) -> Vec<String> {
    let Some((address, length)) = check::parse_cidr(text) else { return Vec::new() };
    let first = check::masked(address, length);
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

/// Judges an address that must be written in one way only.
pub(crate) fn strict_ip(at: At<'_>, text: &str, errors: &mut Errors) {
    let before = errors.len();
    check::legacy_ip(at, text, errors);
    if errors.len() == before
        && let Some(parsed) = check::parse_ip(text)
        && parsed.to_string() != text
    {
        let form = quote(&parsed.to_string());
        errors.invalid(at, text, format!("must be in canonical form ({form})"));
    }
}

/// Judges a name that must not be an address.
pub(crate) fn host_name(at: At<'_>, host: &str, errors: &mut Errors) {
    errors.all(&at, host, names::subdomain(host));
    if check::parse_ip(host).is_some() {
        errors.invalid(at, host, "must be a DNS name, not an IP address");
    }
}
