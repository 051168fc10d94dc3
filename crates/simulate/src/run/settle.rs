//! When a step is over: nothing changes any more, and in real time the state is the expected one or had long enough to become it.

use std::{sync::PoisonError, time::Duration};

use tokio::time::Instant;

use super::{Run, replica::Replica};
use crate::{command, oracle::MAX_EXITS};

/// What a run in real time has learned about its own pace.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The longest time without a change after which something changed all the same.
    pub(super) longest_pause: Duration,
    /// Whether an unexpected state was waited for in vain: the run has failed, and later steps need not wait.
    has_failed: bool,
}

/// A time without changes: since when, and how long the operator and this program had been held up until then.
#[derive(Clone, Copy)]
struct Rest {
    since: Instant,
    held_up: Duration,
}

impl Rest {
    /// How long it lasts by now, without the time in which the operator had something to do: on a busy machine it may not have
    /// begun with what it was told.
    fn length(self, held_up: Duration) -> Duration {
        self.since.elapsed().saturating_sub(held_up.saturating_sub(self.held_up))
    }
}

/// A revision whose state was compared with the expected one, and whether it is that.
type Compared = Option<(u64, bool)>;

impl Run<'_> {
    /// Waits until nothing changes for a while. `at` is the number of the step whose state is expected, if one is.
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
            // A program outside is waited for while it starts, has requests under way or watches still to open.
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
                    return Err(format!("the operator ended {} times: {last}", exits.len()));
                }
            }
            if is_late {
                if idle.is_none() {
                    return Err(format!("the operator does not run after {:?}", timing.limit));
                }
                let recent = tables.changes(&self.cluster, changed.saturating_sub(1)).pop();
                let what = recent
                    .map_or_else(String::new, |change| format!(": last {} {}", change.verb, change.key));
                return Err(format!("still writing after {:?}{what}", timing.limit));
            }
            let limit = self.settings.requests;
            if self.network.counts().0 > limit {
                return Err(format!("more than {limit} requests: the operator runs hot"));
            }
        }
    }

    /// Whether nothing is being deleted and the state is that of the fault-free run, as far as one is expected. A busy machine
    /// makes pauses longer than any fixed time, so that quiet alone does not say that an operator has finished.
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

    /// How long the replicas' programs worked so far, or would have on a machine of their own.
    fn busy(&self) -> Duration {
        self.replicas.iter().map(Replica::busy).sum()
    }

    /// Since when all replicas wait for events.
    fn idle_since(&self) -> Option<Instant> {
        let idle = self.replicas.iter().map(|replica| replica.idle_since(&self.network));
        idle.collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}
