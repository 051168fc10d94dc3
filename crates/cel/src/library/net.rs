//! IP addresses and networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use steersman_gostd::strconv::quote;

use super::{Library, unfit};
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value};

const IP: Type = Type::Opaque("net.IP");
const CIDR: Type = Type::Opaque("net.CIDR");

/// A network: an address and how many of its bits are the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// Reads a network such as `10.0.0.0/8`.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address = parse_ip(address)?;
        if prefix.is_empty()
            || (prefix.len() > 1 && prefix.starts_with('0'))
            || !prefix.bytes().all(|b| b.is_ascii_digit())
        {
            return None;
        }
        let prefix = prefix.parse().ok().filter(|bits| *bits <= width(address))?;
        Some(Self { address, prefix })
    }

    /// How many bytes its prefix takes.
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

/// An address without a zone; IPv4 in IPv6 is refused.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = text.parse().ok()?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        ip => Some(ip),
    }
}

fn ip(text: &str) -> Result<IpAddr, EvalError> {
    parse_ip(text).ok_or_else(|| {
        let text = quote(text);
        EvalError::from(format!(
            "IP Address {text} parse error during conversion from string: ParseAddr({text}): unable to parse IP"
        ))
    })
}

fn cidr(text: &str) -> Result<Cidr, EvalError> {
    Cidr::parse(text).ok_or_else(|| {
        let text = quote(text);
        EvalError::from(format!("network address parse error during conversion from string: {text}"))
    })
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
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text).is_some())),
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
        [Value::Cidr(net), Value::String(text)] => Ok(Value::Bool(net.contains(ip(text)?))),
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
