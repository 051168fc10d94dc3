//! The external inputs of a render.

use std::net::ToSocketAddrs;
use std::time::SystemTime;

use serde_json::Value as Json;

/// The external inputs of a render: time, randomness, DNS and the cluster.
///
/// Renders of the same chart and values with environments that behave alike have identical output.
pub trait Environment {
    /// Returns the current time, for `now` and the validity of certificates.
    fn now(&mut self) -> SystemTime;

    /// Fills `bytes` with random data, for `randAlphaNum`, `uuidv4`, keys and certificates.
    fn fill_random(&mut self, bytes: &mut [u8]);

    /// Returns the addresses of a host, for `getHostByName`; empty if there are none.
    fn resolve_host(&mut self, name: &str) -> Vec<String>;

    /// Returns the object that `lookup` requests from the cluster, or the list if the name is empty.
    ///
    /// `None` if it does not exist. An error ends the render with its message.
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

/// The machine's clock and random source, without a cluster. DNS is off by default.
#[derive(Clone, Debug, Default)]
pub struct System {
    /// Whether `getHostByName` queries DNS. False by default.
    pub enable_dns: bool,
}

impl Environment for System {
    fn now(&mut self) -> SystemTime {
        SystemTime::now()
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        // Without a random source, generated keys would be predictable.
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

/// A deterministic environment: fixed time, seeded random bytes, no network and no cluster.
///
/// Its random bytes are predictable: do not use the keys and passwords of such a render.
#[derive(Clone, Debug)]
pub struct Seeded {
    state: u64,
    time: SystemTime,
}

impl Seeded {
    /// Creates an environment with random bytes from `seed`, and `time` as the current time.
    pub fn new(seed: u64, time: SystemTime) -> Self {
        Self { state: seed, time }
    }

    /// SplitMix64, which distributes well even for seeds that differ in one bit.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// Returns its arguments.
    struct Echo;

    impl Environment for Echo {
        fn now(&mut self) -> SystemTime {
            SystemTime::UNIX_EPOCH + Duration::from_secs(7)
        }
        fn fill_random(&mut self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
        fn resolve_host(&mut self, name: &str) -> Vec<String> {
            vec![name.into()]
        }
        fn lookup(
            &mut self,
            api: &str,
            kind: &str,
            namespace: &str,
            name: &str,
        ) -> Result<Option<Json>, String> {
            Ok(Some(json!([api, kind, namespace, name])))
        }
    }

    #[test]
    fn a_boxed_environment_answers_as_what_is_in_the_box() {
        let mut boxed: Box<dyn Environment> = Box::new(Echo);
        let environment: &mut dyn Environment = &mut boxed;
        assert_eq!(environment.now(), SystemTime::UNIX_EPOCH + Duration::from_secs(7));
        let mut bytes = [0; 3];
        environment.fill_random(&mut bytes);
        assert_eq!(bytes, [7; 3]);
        assert_eq!(environment.resolve_host("h"), ["h"]);
        assert_eq!(environment.lookup("a", "k", "ns", "n"), Ok(Some(json!(["a", "k", "ns", "n"]))));
    }

    #[test]
    fn a_seed_gives_the_bytes_of_splitmix() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
        let mut seeded = Seeded::new(1_234_567, time);
        let mut bytes = [0; 20];
        seeded.fill_random(&mut bytes);
        // First words for this seed, as published by the generator's author.
        let words = [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        let expected: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(20).collect();
        assert_eq!(bytes.as_slice(), expected);
        assert_eq!(seeded.now(), time);
        assert_eq!(seeded.resolve_host("localhost"), Vec::<String>::new());
        assert_eq!(seeded.lookup("v1", "Pod", "ns", "n"), Ok(None));
    }

    #[test]
    fn the_machine_has_a_clock_and_chance_and_no_cluster() {
        let mut system = System::default();
        let before = SystemTime::now();
        assert!(system.now() >= before);
        let (mut first, mut second) = ([0; 32], [0; 32]);
        system.fill_random(&mut first);
        system.fill_random(&mut second);
        assert!(first != [0; 32] && first != second);
        assert!(system.resolve_host("127.0.0.1").is_empty());
        let mut asking = System { enable_dns: true };
        assert_eq!(asking.resolve_host("127.0.0.1"), ["127.0.0.1"]);
        assert!(asking.resolve_host("").is_empty());
        assert_eq!(asking.lookup("v1", "Pod", "ns", "n"), Ok(None));
    }
}
