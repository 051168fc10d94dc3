//! Seeded randomness.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// A reproducible random source.
pub(crate) struct Random(fastrand::Rng);

const WORDS: [&str; 12] =
    ["app", "web", "db", "blue", "alpha", "x", "tier-1", "front", "cache", "v2", "zone-a", "main"];

impl Random {
    /// Creates the source for one case.
    pub(crate) fn new(seed: u64, area: &str, number: usize) -> Self {
        let digest = Sha256::digest(format!("{seed} {area} {number}"));
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest[..8]);
        Self(fastrand::Rng::with_seed(u64::from_le_bytes(bytes)))
    }

    /// Returns true with this percentage.
    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.0.usize(..100) < chance
    }

    /// Returns a number below a non-zero bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound.max(1))
    }

    /// Returns a number from an inclusive range.
    pub(crate) fn between(&mut self, from: i64, to: i64) -> i64 {
        self.0.i64(from..=to)
    }

    /// Picks one of several items.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Picks one of several strings.
    pub(crate) fn text(&mut self, items: &[&str]) -> Value {
        Value::from(*self.pick(items))
    }

    /// Picks a plain word.
    pub(crate) fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len())]
    }
}
