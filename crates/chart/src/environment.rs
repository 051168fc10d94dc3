//! All that a render takes from outside the chart and its values.

use std::net::ToSocketAddrs;
use std::time::SystemTime;

use serde_json::Value as Json;

/// All that a render takes from outside the chart and its values: time, randomness, names and the cluster.
///
/// Two renders of one chart with the same values and environments that answer alike give the same bytes.
pub trait Environment {
    /// The time that `now` gives and certificates begin at.
    fn now(&mut self) -> SystemTime;

    /// Fills `bytes` from the random source behind `randAlphaNum`, `uuidv4`, keys and certificates.
    fn fill_random(&mut self, bytes: &mut [u8]);

    /// The addresses of a host, for `getHostByName`; empty if it has none.
    fn resolve_host(&mut self, name: &str) -> Vec<String>;

    /// The object, or with an empty name the list, that `lookup` finds in the cluster; `None` if it is not there.
    /// An error ends the render with its text.
    fn lookup(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Json>, String>;
}

impl<E: Environment + ?Sized> Environment for Box<E> {
    fn now(&mut self) -> SystemTime {
        (**self).now()
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        (**self).fill_random(bytes);
    }

    fn resolve_host(&mut self, name: &str) -> Vec<String> {
        (**self).resolve_host(name)
    }

    fn lookup(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Json>, String> {
        (**self).lookup(api_version, kind, namespace, name)
    }
}

/// The machine's clock and random source; no cluster, and names are resolved only if asked to.
#[derive(Clone, Debug, Default)]
pub struct System {
    /// Whether `getHostByName` asks the network. False by default.
    pub enable_dns: bool,
}

impl Environment for System {
    fn now(&mut self) -> SystemTime {
        SystemTime::now()
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        // A machine without a random source must not hand out keys that everyone can guess.
        getrandom::fill(bytes).expect("the operating system has a random source");
    }

    fn resolve_host(&mut self, name: &str) -> Vec<String> {
        if !self.enable_dns {
            return Vec::new();
        }
        let addresses = (name, 0).to_socket_addrs();
        addresses.map_or_else(|_| Vec::new(), |found| found.map(|address| address.ip().to_string()).collect())
    }

    fn lookup(&mut self, _: &str, _: &str, _: &str, _: &str) -> Result<Option<Json>, String> {
        Ok(None)
    }
}

/// An environment that answers alike every time: a fixed time, random bytes from a seed, no network and no cluster.
///
/// What it draws is no secret: keys and passwords of such a render are for looking at, not for use.
#[derive(Clone, Debug)]
pub struct Seeded {
    state: u64,
    time: SystemTime,
}

impl Seeded {
    /// Random bytes from `seed`, and `time` for `now`.
    pub fn new(seed: u64, time: SystemTime) -> Self {
        Self { state: seed, time }
    }

    /// SplitMix64: well spread even for seeds that differ in one bit.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl Environment for Seeded {
    fn now(&mut self) -> SystemTime {
        self.time
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn resolve_host(&mut self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn lookup(&mut self, _: &str, _: &str, _: &str, _: &str) -> Result<Option<Json>, String> {
        Ok(None)
    }
}
