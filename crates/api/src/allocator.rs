//! Cluster addresses and node ports.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use crate::environment::Environment;

/// The network of services.
pub const SERVICE_NETWORK: &str = "10.96.0.0/16";
/// Its first address, as a number, and how many of its addresses can be handed out.
const NETWORK: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const ADDRESSES: u32 = (1 << 16) - 2;
/// The first addresses are left to services that choose theirs.
const RESERVED: u32 = 256;
const PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
const RESERVED_PORTS: u16 = 86;

/// Cluster IPs and node ports that the Services of one server hold.
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

    /// Allocators with the same holdings, which change apart from these.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { taken: Mutex::new(self.lock().clone()) }
    }

    /// Takes any address.
    pub fn address(&self, environment: &dyn Environment) -> Option<String> {
        let mut taken = self.lock();
        let start = u32::try_from(environment.random() % u64::from(ADDRESSES - RESERVED)).unwrap_or_default();
        let found = (0..ADDRESSES - RESERVED)
            .map(|i| NETWORK + RESERVED + (start + i) % (ADDRESSES - RESERVED))
            .find(|a| !taken.addresses.contains(a))?;
        taken.addresses.insert(found);
        Some(std::net::Ipv4Addr::from(found).to_string())
    }

    /// Takes this very address, and says whether it was in the network and free.
    pub fn take_address(&self, address: &str) -> Result<(), &'static str> {
        let Some(number) = parse(address) else { return Err("must be a valid IP address") };
        if !(NETWORK + 1..=NETWORK + ADDRESSES).contains(&number) {
            return Err("the provided network does not match the current range");
        }
        if self.lock().addresses.insert(number) { Ok(()) } else { Err("provided IP is already allocated") }
    }

    /// Takes any port.
    pub fn port(&self, environment: &dyn Environment) -> Option<u16> {
        let mut taken = self.lock();
        let first = PORTS.start() + RESERVED_PORTS;
        let span = PORTS.end() - first + 1;
        let start = u16::try_from(environment.random() % u64::from(span)).unwrap_or_default();
        let found = (0..span).map(|i| first + (start + i) % span).find(|p| !taken.ports.contains(p))?;
        taken.ports.insert(found);
        Some(found)
    }

    /// Takes this very port.
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

    /// Gives an address back.
    pub fn release_address(&self, address: &str) {
        if let Some(number) = parse(address) {
            self.lock().addresses.remove(&number);
        }
    }

    /// Gives a port back.
    pub fn release_port(&self, port: u16) {
        self.lock().ports.remove(&port);
    }

    /// Takes an address and ports that a restored service holds, whether or not others hold them.
    pub fn claim(&self, address: Option<&str>, ports: impl IntoIterator<Item = u16>) {
        let mut taken = self.lock();
        taken.addresses.extend(address.and_then(parse));
        taken.ports.extend(ports);
    }
}
