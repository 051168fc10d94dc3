//! IP addresses and networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use steersman_gostd::netip;
use steersman_gostd::strconv::quote;

use super::{Library, unfit};
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value, fail};

const IP: Type = Type::Opaque("net.IP");
const CIDR: Type = Type::Opaque("net.CIDR");

/// A CIDR: an address and its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// Parses a CIDR such as `10.0.0.0/8`.
    pub fn parse(text: &str) -> Option<Self> {
        cidr(text).ok()
    }

    /// Size of the prefix in bytes.
    pub(crate) fn size(self) -> u64 {
        u64::from(self.prefix.div_ceil(8))
    }

    fn masked(self) -> Self {
        let shift = u32::from(width(self.address) - self.prefix);
        let address = match self.address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(shift).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(shift).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
            }
        };
        Self { address, ..self }
    }

    fn contains(self, ip: IpAddr) -> bool {
        width(ip) == width(self.address)
            && (Self { address: ip, prefix: self.prefix }).masked().address == self.masked().address
    }

    fn contains_net(self, other: Self) -> bool {
        other.prefix >= self.prefix && self.contains(other.masked().address)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

fn mapped(text: &str) -> String {
    format!("IPv4-mapped IPv6 address {} is not allowed", quote(text))
}

/// Parses an IP address. Zones and IPv4-mapped IPv6 addresses are rejected.
fn ip(text: &str) -> Result<IpAddr, EvalError> {
    let (address, zone) = netip::parse_addr(text).map_err(|why| {
        EvalError::from(format!(
            "IP Address {} parse error during conversion from string: {why}",
            quote(text)
        ))
    })?;
    if zone.is_some() {
        return fail(format!("IP address {} with zone value is not allowed", quote(text)));
    }
    if is_mapped(address) { fail(mapped(text)) } else { Ok(address) }
}

fn cidr(text: &str) -> Result<Cidr, EvalError> {
    const FAILED: &str = "network address parse error during conversion from string";
    let (address, prefix) =
        netip::parse_prefix(text).map_err(|why| EvalError::from(format!("{FAILED}: {FAILED}: {why}")))?;
    if is_mapped(address) {
        return fail(format!("{FAILED}: {}", mapped(text)));
    }
    Ok(Cidr { address, prefix })
}

fn test(args: &[Value], accept: fn(IpAddr) -> bool) -> Evaluated {
    match args {
        [Value::Ip(ip)] => Ok(Value::Bool(accept(*ip))),
        _ => unfit(),
    }
}

pub(super) fn add(library: &mut Library) {
    addresses(library);
    networks(library);
}

fn addresses(library: &mut Library) {
    use Type::{Bool, Int, String};
    library.global("ip", [String], IP, |args| match args {
        [Value::String(text)] => Ok(Value::Ip(ip(text)?)),
        _ => unfit(),
    });
    library.global("isIP", [String], Bool, |args| match args {
        [Value::String(text)] => Ok(Value::Bool(ip(text).is_ok())),
        _ => unfit(),
    });
    library.global("ip.isCanonical", [String], Bool, |args| match args {
        [Value::String(text)] => Ok(Value::Bool(ip(text)?.to_string() == **text)),
        _ => unfit(),
    });
    library.global("string", [IP], String, |args| match args {
        [Value::Ip(ip)] => Ok(Value::string(ip.to_string())),
        _ => unfit(),
    });
    library.member("family", [IP], Int, |args| match args {
        [Value::Ip(ip)] => Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        _ => unfit(),
    });
    library.member("isUnspecified", [IP], Bool, |args| test(args, |ip| ip.is_unspecified()));
    library.member("isLoopback", [IP], Bool, |args| test(args, |ip| ip.is_loopback()));
    library.member("isLinkLocalMulticast", [IP], Bool, |args| {
        test(args, |ip| match ip {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        })
    });
    library.member("isLinkLocalUnicast", [IP], Bool, |args| {
        test(args, |ip| match ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
        })
    });
    library.member("isGlobalUnicast", [IP], Bool, |args| {
        test(args, |ip| match ip {
            IpAddr::V4(v4) => {
                !(v4.is_unspecified()
                    || v4.is_loopback()
                    || v4.is_multicast()
                    || v4.is_link_local()
                    || v4.is_broadcast())
            }
            IpAddr::V6(v6) => {
                let link_local = v6.segments()[0] & 0xffc0 == 0xfe80;
                !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() || link_local)
            }
        })
    });
}

fn networks(library: &mut Library) {
    use Type::{Bool, Int, String};
    library.global("cidr", [String], CIDR, |args| match args {
        [Value::String(text)] => Ok(Value::Cidr(cidr(text)?)),
        _ => unfit(),
    });
    library.global("isCIDR", [String], Bool, |args| match args {
        [Value::String(text)] => Ok(Value::Bool(Cidr::parse(text).is_some())),
        _ => unfit(),
    });
    library.global("string", [CIDR], String, |args| match args {
        [Value::Cidr(net)] => Ok(Value::string(format!("{}/{}", net.address, net.prefix))),
        _ => unfit(),
    });
    library.member("containsIP", [CIDR, String], Bool, |args| match args {
        [Value::Cidr(net), Value::String(text)] => match ip(text) {
            Ok(ip) => Ok(Value::Bool(net.contains(ip))),
            // Kubernetes discards the parse error.
            Err(_) => unfit(),
        },
        _ => unfit(),
    });
    library.member("containsIP", [CIDR, IP], Bool, |args| match args {
        [Value::Cidr(net), Value::Ip(ip)] => Ok(Value::Bool(net.contains(*ip))),
        _ => unfit(),
    });
    library.member("containsCIDR", [CIDR, String], Bool, |args| match args {
        [Value::Cidr(net), Value::String(text)] => Ok(Value::Bool(net.contains_net(cidr(text)?))),
        _ => unfit(),
    });
    library.member("containsCIDR", [CIDR, CIDR], Bool, |args| match args {
        [Value::Cidr(net), Value::Cidr(other)] => Ok(Value::Bool(net.contains_net(*other))),
        _ => unfit(),
    });
    library.member("ip", [CIDR], IP, |args| match args {
        [Value::Cidr(net)] => Ok(Value::Ip(net.address)),
        _ => unfit(),
    });
    library.member("masked", [CIDR], CIDR, |args| match args {
        [Value::Cidr(net)] => Ok(Value::Cidr(net.masked())),
        _ => unfit(),
    });
    library.member("prefixLength", [CIDR], Int, |args| match args {
        [Value::Cidr(net)] => Ok(Value::Int(net.prefix.into())),
        _ => unfit(),
    });
}
