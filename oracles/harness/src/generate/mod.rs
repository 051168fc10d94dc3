//! Generators of cases. All randomness is seeded, so that a case can be reproduced from its number.

pub mod chart;
pub mod date;
pub mod format;
pub mod function;
pub mod ignore;
pub mod json;
pub mod lint;
pub mod manifest;
pub mod schema;
pub mod semver;
pub mod set;
pub mod template;
pub mod value;
pub mod written;
pub mod yaml;

/// A seeded random source.
pub struct Gen {
    rng: fastrand::Rng,
}

impl Gen {
    /// Creates the source for one case of an area: cases are independent of each other.
    pub fn new(seed: u64, area: &str, case: usize) -> Self {
        let mut hash = seed ^ 0x9e37_79b9_7f4a_7c15;
        for byte in area.bytes().chain(case.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
        Self { rng: fastrand::Rng::with_seed(hash) }
    }

    /// Returns true with a probability of `percent`.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }

    /// Returns a number from 0 up to but excluding `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        self.rng.usize(0..end.max(1))
    }

    /// Returns a number from `low` to `high`, inclusive.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        self.rng.i64(low..=high)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.rng.u64(..)
    }

    /// Picks one of several strings.
    pub fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Picks one of the common strings, or with a probability of `rare_percent` one of the rare ones.
    pub fn mostly<'a>(&mut self, common: &[&'a str], rare_percent: u32, rare: &[&'a str]) -> &'a str {
        if self.chance(rare_percent) { self.pick(rare) } else { self.pick(common) }
    }

    /// Picks one of several items.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Calls `make` between `low` and `high` times and joins the results.
    pub fn join(
        &mut self,
        low: usize,
        high: usize,
        with: &str,
        mut make: impl FnMut(&mut Self) -> String,
    ) -> String {
        let count = low + self.below(high - low + 1);
        (0..count).map(|_| make(self)).collect::<Vec<_>>().join(with)
    }

    /// Corrupts a string in a few places, mostly with tokens of its language.
    pub fn damage(&mut self, text: &str, pieces: &[&str]) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..=self.below(3) {
            let at = self.below(chars.len() + 1);
            match self.below(4) {
                0 if !chars.is_empty() => {
                    let end = (at + 1 + self.below(3)).min(chars.len());
                    chars.drain(at.min(end)..end);
                }
                1 if !chars.is_empty() => {
                    let from = self.below(chars.len());
                    let end = (from + 1 + self.below(6)).min(chars.len());
                    let copy: Vec<char> = chars[from..end].to_vec();
                    chars.splice(at..at, copy);
                }
                2 if chars.len() > 1 => {
                    let other = self.below(chars.len());
                    let at = at.min(chars.len() - 1);
                    chars.swap(at, other);
                }
                _ => {
                    let piece: Vec<char> = self.pick(pieces).chars().collect();
                    chars.splice(at..at, piece);
                }
            }
        }
        chars.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_made_again_from_its_number() {
        let make = |case| template::request(&mut Gen::new(7, "template", case));
        assert_eq!(make(3), make(3));
        assert_ne!(make(3), make(4));
    }
}
