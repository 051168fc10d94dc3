//! Asks the oracles and compares: a differential suite over generated cases.
//!
//! A case is a request as the oracle's README describes it. The oracle answers it with the real thing, we answer it with
//! our crates, and both answers have to be equal, errors included.

pub mod answer;
pub mod areas;
pub mod client;
pub mod generate;
pub mod suite;
pub mod wire;
