//! Allocation of cluster IPs and node ports.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use crate::environment::Environment;

/// CIDR of cluster IPs (`--service-cluster-ip-range`).
pub const SERVICE_NETWORK: &str = "10.96.0.0/16";
/// First address of the CIDR as a number, and the number of allocatable addresses.
const NETWORK: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const ADDRESSES: u32 = (1 << 16) - 2;
/// Lowest addresses, reserved for services that request a specific one.
const RESERVED: u32 = 256;
const PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
const RESERVED_PORTS: u16 = 86;

/// Cluster IPs and node ports allocated to the Services of one server.
#[derive(Debug, Default)]
pub struct Allocators {
    taken: Mutex<Taken>,
}

#[derive(Debug, Clone, Default)]
struct Taken {
    addresses: HashSet<u32>,
    ports: HashSet<u16>,
}

fn parse(address: &str) -> Option<u32> {
    address.parse::<std::net::Ipv4Addr>().ok().map(u32::from)
}

impl Allocators {
    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an independent copy with the same allocations.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { taken: Mutex::new(self.lock().clone()) }
    }

    /// Allocates any free address.
    pub fn address(&self, environment: &dyn Environment) -> Option<String> {
        let mut taken = self.lock();
        let start = u32::try_from(environment.random() % u64::from(ADDRESSES - RESERVED)).unwrap_or_default();
        let found = (0..ADDRESSES - RESERVED)
            .map(|i| NETWORK + RESERVED + (start + i) % (ADDRESSES - RESERVED))
            .find(|a| !taken.addresses.contains(a))?;
        taken.addresses.insert(found);
        Some(std::net::Ipv4Addr::from(found).to_string())
    }

    /// Allocates a specific address. Fails if it is outside the CIDR or already allocated.
    pub fn take_address(&self, address: &str) -> Result<(), &'static str> {
        let Some(number) = parse(address) else { return Err("must be a valid IP address") };
        if !(NETWORK + 1..=NETWORK + ADDRESSES).contains(&number) {
            return Err("the provided network does not match the current range");
        }
        if self.lock().addresses.insert(number) { Ok(()) } else { Err("provided IP is already allocated") }
    }

    /// Allocates any free node port.
    pub fn port(&self, environment: &dyn Environment) -> Option<u16> {
        let mut taken = self.lock();
        let first = PORTS.start() + RESERVED_PORTS;
        let span = PORTS.end() - first + 1;
        let start = u16::try_from(environment.random() % u64::from(span)).unwrap_or_default();
        let found = (0..span).map(|i| first + (start + i) % span).find(|p| !taken.ports.contains(p))?;
        taken.ports.insert(found);
        Some(found)
    }

    /// Allocates a specific node port. Fails if it is out of range or already allocated.
    pub fn take_port(&self, port: u16) -> Result<(), String> {
        if !PORTS.contains(&port) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                PORTS.start(),
                PORTS.end()
            ));
        }
        if self.lock().ports.insert(port) { Ok(()) } else { Err("provided port is already allocated".into()) }
    }

    /// Releases an address.
    pub fn release_address(&self, address: &str) {
        if let Some(number) = parse(address) {
            self.lock().addresses.remove(&number);
        }
    }

    /// Releases a node port.
    pub fn release_port(&self, port: u16) {
        self.lock().ports.remove(&port);
    }

    /// Allocates the address and ports of a restored service, even if they are already allocated.
    pub fn claim(&self, address: Option<&str>, ports: impl IntoIterator<Item = u16>) {
        let mut taken = self.lock();
        taken.addresses.extend(address.and_then(parse));
        taken.ports.extend(ports);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ports_are_taken_once_and_within_their_ranges() {
        let allocators = Allocators::default();
        for address in ["10.96.0.1", "10.96.255.254"] {
            assert_eq!(allocators.take_address(address), Ok(()), "{address}");
            assert_eq!(allocators.take_address(address), Err("provided IP is already allocated"));
        }
        for address in ["10.95.255.255", "10.96.0.0", "10.96.255.255", "10.97.0.1"] {
            assert!(allocators.take_address(address).is_err(), "{address}");
        }
        for port in [30_000, 32_767] {
            assert_eq!(allocators.take_port(port), Ok(()));
            assert!(allocators.take_port(port).is_err(), "{port}");
        }
        for port in [29_999, 32_768] {
            assert!(allocators.take_port(port).is_err(), "{port}");
        }
    }
}
