//! Decides when a step is over: nothing changes for the quiet time.
//!
//! In real time, the state must also be the expected one, or must have had enough time to become it.

use std::{sync::PoisonError, time::Duration};

use tokio::time::Instant;

use super::{Run, replica::Replica};
use crate::{command, oracle::MAX_EXITS};

/// What a run in real time has learned about its pace.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The longest pause between two changes.
    pub(super) longest_pause: Duration,
    /// Whether a step ended in an unexpected state: the run has failed, so later steps need not wait.
    has_failed: bool,
}

/// A time without changes: its start, and how long the operator and this program were held up before.
#[derive(Clone, Copy)]
struct Rest {
    since: Instant,
    held_up: Duration,
}

impl Rest {
    /// Returns how long it has lasted, without the time in which the operator was busy or held up.
    ///
    /// On a busy machine, the operator may not have started to handle an event yet.
    fn length(self, held_up: Duration) -> Duration {
        self.since.elapsed().saturating_sub(held_up.saturating_sub(self.held_up))
    }
}

/// A revision whose state was compared with the expected one, and whether it matched.
type Compared = Option<(u64, bool)>;

impl Run<'_> {
    /// Waits until nothing changes for the quiet time. `at` is the step whose state is expected, if any.
    pub(super) async fn settle(&mut self, at: Option<u32>) -> Result<(), String> {
        let tables = self.tables();
        let store = self.cluster.server().store().clone();
        let begin = Instant::now();
        let (mut looked, mut changed, mut since) = (store.latest(), store.latest(), begin);
        let (mut compared, mut resting): (Compared, _) = (None, None::<Rest>);
        let timing = &self.settings.timing;
        let (mut pause, mut late) = (timing.look.0, Duration::ZERO);
        loop {
            self.cluster.settled().await;
            let asleep = Instant::now();
            tokio::time::sleep(pause).await;
            if timing.is_real {
                late += asleep.elapsed().saturating_sub(pause);
            }
            let held_up = late + self.busy();
            pause = (pause * 2).min(timing.look.1);
            let latest = store.latest();
            if latest != looked {
                let last = tables.last_change(&self.cluster, looked);
                if last > looked {
                    (changed, since) = (last, Instant::now());
                    pause = timing.look.0;
                    let paused = resting.take().map_or(Duration::ZERO, |rest| rest.length(held_up));
                    self.pace.longest_pause = self.pace.longest_pause.max(paused);
                }
                looked = latest;
            }
            // An external program is not idle while it starts, has requests in flight or watches left to open.
            let idle = if timing.is_real { self.idle_since() } else { Some(begin) };
            resting = idle.map(|idle| idle.max(since)).map(|since| match resting {
                Some(rest) if rest.since == since => rest,
                _ => Rest { since, held_up },
            });
            let rested = resting.map_or(Duration::ZERO, |rest| rest.length(held_up));
            let is_quiet = resting.is_some() && rested >= timing.quiet;
            if is_quiet && (!timing.is_real || self.is_as_expected(at, looked, &mut compared)) {
                return Ok(());
            }
            let is_late = begin.elapsed() >= timing.limit;
            if is_quiet && (is_late || rested >= timing.quiet + timing.grace()) {
                self.pace.has_failed = true;
                return Ok(());
            }
            if self.settings.interrupt.is_raised() {
                return Err("interrupted".into());
            }
            if timing.is_real {
                let exits = self.exits.lock().unwrap_or_else(PoisonError::into_inner);
                let is_in_vain = |last: &&String| exits.len() > MAX_EXITS || last.contains(command::NOT_RUN);
                if let Some(last) = exits.last().filter(is_in_vain) {
                    return Err(format!("the operator exited {} times: {last}", exits.len()));
                }
            }
            if is_late {
                if idle.is_none() {
                    return Err(format!("the operator is not running after {:?}", timing.limit));
                }
                let recent = tables.changes(&self.cluster, changed.saturating_sub(1)).pop();
                let what = recent
                    .map_or_else(String::new, |change| format!(": last {} {}", change.verb, change.key));
                return Err(format!("still writing after {:?}{what}", timing.limit));
            }
            let limit = self.settings.requests;
            if self.network.counts().0 > limit {
                return Err(format!("more than {limit} requests: the operator is in a hot loop"));
            }
        }
    }

    /// Whether nothing is being deleted and the state is the expected one, if there is one.
    ///
    /// On a busy machine, pauses can exceed any fixed time, so a quiet cluster does not prove that an operator has finished.
    fn is_as_expected(&self, at: Option<u32>, revision: u64, compared: &mut Compared) -> bool {
        if self.pace.has_failed || self.network.stays_dead() {
            return true;
        }
        if let Some((_, is_expected)) = compared.filter(|(compared, _)| *compared == revision) {
            return is_expected;
        }
        let objects = self.objects();
        let is_deleting = objects.values().any(|object| !object["metadata"]["deletionTimestamp"].is_null());
        let is_other = || {
            let (baseline, at) = self.settings.expected.as_ref().zip(at)?;
            Some(!baseline.expects(at, &objects))
        };
        let is_expected = !is_deleting && !is_other().unwrap_or(false);
        *compared = Some((revision, is_expected));
        is_expected
    }

    /// Returns how long the replicas' programs were runnable so far.
    fn busy(&self) -> Duration {
        self.replicas.iter().map(Replica::busy).sum()
    }

    /// Returns since when all replicas are idle.
    fn idle_since(&self) -> Option<Instant> {
        let idle = self.replicas.iter().map(|replica| replica.idle_since(&self.network));
        idle.collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}
