//! Time and randomness, injected so that runs are reproducible.

use std::{fmt, sync::Mutex};

use jiff::{SignedDuration, Timestamp};
use uuid::Builder;

pub use steersman_core::environment::{Environment, SteppedEnvironment, SystemEnvironment};

/// Deterministic environment: a clock with a chosen start, and a seeded random number generator. The clock advances
/// with tokio's, which tests can pause.
pub struct SeededEnvironment {
    start: Timestamp,
    origin: tokio::time::Instant,
    generator: Mutex<fastrand::Rng>,
}

impl SeededEnvironment {
    /// Starts the clock at `start` and the generator at `seed`.
    #[must_use]
    pub fn new(start: Timestamp, seed: u64) -> Self {
        Self {
            start,
            origin: tokio::time::Instant::now(),
            generator: Mutex::new(fastrand::Rng::with_seed(seed)),
        }
    }
}

impl fmt::Debug for SeededEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeededEnvironment").field("start", &self.start).finish_non_exhaustive()
    }
}

impl Environment for SeededEnvironment {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.origin.elapsed()).unwrap_or(SignedDuration::MAX);
        self.start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    fn random(&self) -> u64 {
        self.generator.lock().unwrap_or_else(std::sync::PoisonError::into_inner).u64(..)
    }
}

/// Alphabet of generated name suffixes: no vowels, so no words, and no characters that are easily confused.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Convenience methods for any [`Environment`].
pub trait EnvironmentExt: Environment {
    /// Returns a random UID (UUID version 4).
    fn uid(&self) -> String {
        let (high, low) = (self.random(), self.random());
        let bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// Returns the five-character suffix for `generateName`.
    fn name_suffix(&self) -> String {
        let mut bits = self.random();
        (0..5)
            .map(|_| {
                let index = usize::try_from(bits % 27).unwrap_or_default();
                bits /= 27;
                char::from(SUFFIX_ALPHABET[index])
            })
            .collect()
    }

    /// Returns the current time in the format of `metadata.creationTimestamp`: whole seconds, UTC.
    fn now_string(&self) -> String {
        seconds(self.now())
    }
}

impl<E: Environment + ?Sized> EnvironmentExt for E {}

/// Formats a time as `metav1.Time`.
pub fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_names() {
        let make = || {
            let env = SeededEnvironment::new(Timestamp::UNIX_EPOCH, 7);
            (env.uid(), env.name_suffix())
        };
        assert_eq!(make(), make());
        let (uid, suffix) = make();
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
        assert!(matches!(&uid[19..20], "8" | "9" | "a" | "b"));
        assert_eq!(suffix.len(), 5);
    }
}
