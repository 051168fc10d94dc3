//! Time and randomness, handed in so that a run can be replayed.

use std::fmt;

use jiff::Timestamp;

/// Source of time and randomness of an operator or a server.
///
/// Everything that would differ between two runs is derived from it, so a seeded one makes a run repeatable.
///
/// ```
/// use steersman_core::environment::{Environment, SystemEnvironment};
///
/// let environment = SystemEnvironment;
/// assert!(environment.now() > jiff::Timestamp::UNIX_EPOCH);
/// ```
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
