//! Cluster addresses and node ports.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;

use crate::{environment::Environment, object};

/// The network of services.
pub(crate) const SERVICE_NETWORK: &str = "10.96.0.0/16";
/// Its first address, as a number, and how many of its addresses can be handed out.
const NETWORK: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const ADDRESSES: u32 = (1 << 16) - 2;
/// The first addresses are left to those who choose theirs.
const RESERVED: u32 = 256;
const PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
const RESERVED_PORTS: u16 = 86;

/// What services have taken.
#[derive(Debug, Default)]
pub(crate) struct Allocators {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
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

    /// Takes any address.
    pub(crate) fn address(&self, environment: &dyn Environment) -> Option<String> {
        let mut taken = self.lock();
        let start = u32::try_from(environment.random() % u64::from(ADDRESSES - RESERVED)).unwrap_or_default();
        let found = (0..ADDRESSES - RESERVED)
            .map(|i| NETWORK + RESERVED + (start + i) % (ADDRESSES - RESERVED))
            .find(|a| !taken.addresses.contains(a))?;
        taken.addresses.insert(found);
        Some(std::net::Ipv4Addr::from(found).to_string())
    }

    /// Takes this very address, and says whether it was in the network and free.
    pub(crate) fn take_address(&self, address: &str) -> Result<(), &'static str> {
        let Some(number) = parse(address) else { return Err("must be a valid IP address") };
        if !(NETWORK + 1..=NETWORK + ADDRESSES).contains(&number) {
            return Err("the provided network does not match the current range");
        }
        if self.lock().addresses.insert(number) { Ok(()) } else { Err("provided IP is already allocated") }
    }

    /// Takes any port.
    pub(crate) fn port(&self, environment: &dyn Environment) -> Option<u16> {
        let mut taken = self.lock();
        let first = PORTS.start() + RESERVED_PORTS;
        let span = PORTS.end() - first + 1;
        let start = u16::try_from(environment.random() % u64::from(span)).unwrap_or_default();
        let found = (0..span).map(|i| first + (start + i) % span).find(|p| !taken.ports.contains(p))?;
        taken.ports.insert(found);
        Some(found)
    }

    /// Takes this very port.
    pub(crate) fn take_port(&self, port: u16) -> Result<(), String> {
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
    pub(crate) fn release_address(&self, address: &str) {
        if let Some(number) = parse(address) {
            self.lock().addresses.remove(&number);
        }
    }

    /// Gives a port back.
    pub(crate) fn release_port(&self, port: u16) {
        self.lock().ports.remove(&port);
    }

    /// Takes what a restored service holds.
    pub(crate) fn claim(&self, resource: &str, service: &Value) {
        if resource != "services" {
            return;
        }
        let mut taken = self.lock();
        if let Some(number) = object::text(service, &["spec", "clusterIP"]).and_then(parse) {
            taken.addresses.insert(number);
        }
        for port in super::service::node_ports(service) {
            taken.ports.insert(port);
        }
    }
}
