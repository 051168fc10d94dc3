//! The clock and the random source of an operator.

use std::fmt;

use jiff::Timestamp;

/// Where an operator takes time and randomness from. Handed in, so that a simulation can replay a run.
pub trait Environment: Send + Sync + fmt::Debug {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// The next random number.
    fn random(&self) -> u64;
}

/// The machine's clock and an unpredictable generator. The default.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}
