//! Time and randomness, injected so that a run can be replayed.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

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

    /// Returns the next random number.
    fn random(&self) -> u64;
}

impl<E: Environment + ?Sized> Environment for Arc<E> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn random(&self) -> u64 {
        (**self).random()
    }
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

/// Wraps another environment with a clock that can be set forward.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use steersman_core::environment::{Environment, SteppedEnvironment, SystemEnvironment};
///
/// let environment = SteppedEnvironment::new(Arc::new(SystemEnvironment));
/// environment.step(Duration::from_secs(3600));
/// assert!(environment.now() > jiff::Timestamp::now() + Duration::from_secs(3500));
/// ```
#[derive(Debug)]
pub struct SteppedEnvironment {
    inner: Arc<dyn Environment>,
    nanoseconds: AtomicU64,
}

impl SteppedEnvironment {
    /// Creates a clock that starts at the time of `inner`.
    pub fn new(inner: Arc<dyn Environment>) -> Self {
        Self { inner, nanoseconds: AtomicU64::new(0) }
    }

    /// Sets the clock forward.
    pub fn step(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let add = |stepped: u64| Some(stepped.saturating_add(by));
        // `add` always returns `Some`, so the update can't fail.
        let _ = self.nanoseconds.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Returns how far the clock has been set forward.
    #[must_use]
    pub fn stepped(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

impl Environment for SteppedEnvironment {
    fn now(&self) -> Timestamp {
        let now = self.inner.now();
        now.checked_add(self.stepped()).unwrap_or(Timestamp::MAX)
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}
