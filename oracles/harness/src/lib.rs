//! A differential test suite of our crates against the oracles, over generated cases.
//!
//! A case is a request in the format of the oracle's README. The oracle answers it with the original implementation, and
//! our crates answer it, too. Both answers have to be equal, errors included.

pub mod answer;
pub mod areas;
pub mod client;
pub mod generate;
pub mod suite;
pub mod wire;
