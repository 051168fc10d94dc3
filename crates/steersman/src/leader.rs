//! Leader election on a Lease: one replica works, the others stand by with warm caches.
//!
//! The lease passes to another replica when it has not been renewed for its whole duration, by that replica's own clock.
//! The leader stops writing earlier than that: its permit ends a renew deadline after the *start* of its last successful
//! renewal. So two replicas can never write at the same time, unless their clocks run at speeds that differ by the ratio
//! of the two, a third by default.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::time::Instant;

use crate::{
    environment::Environment,
    error::{Error, Result, describe},
    write_guard::{Fence, Permit},
};

/// Lease duration, renew deadline and retry period. The holder may write until the deadline after the start of its
/// last renewal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) duration: Duration,
    pub(crate) deadline: Duration,
    pub(crate) retry: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

impl Times {
    /// Makes each shorter than the one before, whatever is requested.
    pub(crate) fn new(duration: Duration, deadline: Duration, retry: Duration) -> Self {
        let deadline = deadline.min(duration.mul_f64(0.9));
        Self { duration, deadline, retry: retry.min(deadline.mul_f64(0.9)) }
    }

    /// Timeout of one attempt: another one fits in before the permit ends.
    pub(crate) fn attempt_timeout(&self) -> Duration {
        self.deadline / 2
    }

    /// The duration in whole seconds, rounded up, as a Lease stores it.
    pub(crate) fn seconds(&self) -> i32 {
        let seconds = self.duration.as_secs().saturating_add(u64::from(self.duration.subsec_nanos() > 0));
        i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)
    }
}

/// Settings of leader election.
///
/// ```
/// use std::time::Duration;
/// use steersman::{LeaderElection, Operator};
///
/// let seconds = Duration::from_secs;
/// let election = LeaderElection::new("web-operator").times(seconds(30), seconds(20), seconds(4));
/// let operator = Operator::new("web-operator").leader_election(election);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct LeaderElection {
    pub(crate) lease: String,
    pub(crate) namespace: Option<String>,
    pub(crate) identity: Option<String>,
    times: Times,
    release: bool,
}

impl LeaderElection {
    /// Elects a leader on the Lease of this name. Default times: 15 s, 10 s and 2 s.
    pub fn new(lease: impl Into<String>) -> Self {
        Self { lease: lease.into(), namespace: None, identity: None, times: Times::default(), release: true }
    }

    /// Namespace of the Lease. Default: the operator's own.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Identity of this replica. Default: its pod's or host's name, and a random number.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Lease duration, renew deadline and retry period. Other replicas wait for the duration before they replace a
    /// leader that does not renew; the leader gives up after the deadline, which is always shorter.
    pub fn times(mut self, duration: Duration, deadline: Duration, retry: Duration) -> Self {
        self.times = Times::new(duration, deadline, retry);
        self
    }

    /// Whether the leader releases the lease when it stops, so that another one takes over at once. Default: yes.
    pub fn release_on_stop(mut self, yes: bool) -> Self {
        self.release = yes;
        self
    }

    pub(crate) fn candidate(
        self,
        client: Client,
        fence: Fence,
        environment: Arc<dyn Environment>,
    ) -> Candidate {
        let namespace = self.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let identity = self.identity.unwrap_or_else(|| identity(&*environment));
        let metadata = ObjectMeta { name: Some(self.lease), ..ObjectMeta::default() };
        let api = Api::namespaced(client, &namespace);
        let mut candidate = Candidate::new(api, metadata, identity, self.times, fence, environment);
        candidate.release = self.release;
        candidate
    }
}

/// Returns the default identity of a replica.
pub(crate) fn identity(environment: &dyn Environment) -> String {
    let host = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME"));
    format!("{}_{:016x}", host.as_deref().unwrap_or("operator"), environment.random())
}

/// A replica that competes for a lease.
pub(crate) struct Candidate {
    api: Api<Lease>,
    metadata: ObjectMeta,
    pub(crate) identity: String,
    times: Times,
    release: bool,
    fence: Fence,
    environment: Arc<dyn Environment>,
    /// The lease as last observed, and when it was first observed in that state.
    seen: Option<(LeaseSpec, Instant)>,
    /// The lease as last written by this replica, if nothing went wrong since.
    mine: Option<Lease>,
}

impl Candidate {
    /// The client must not be fenced. The metadata are for a new lease.
    pub(crate) fn new(
        api: Api<Lease>,
        metadata: ObjectMeta,
        identity: String,
        times: Times,
        fence: Fence,
        environment: Arc<dyn Environment>,
    ) -> Self {
        fence.set(Permit::Never);
        let release = true;
        Self { api, metadata, identity, times, release, fence, environment, seen: None, mine: None }
    }

    /// The name of the lease.
    pub(crate) fn lease(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Waits until this replica leads.
    pub(crate) async fn acquire(&mut self) {
        loop {
            // A request without a response must not keep this replica from ever leading.
            match tokio::time::timeout(self.times.deadline, self.attempt()).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the lease could not be acquired"),
                Err(_) => tracing::debug!("the lease could not be acquired in time"),
            }
            // Jitter, so that candidates do not collide each time.
            let random = (self.environment.random() % 1000) as f64 / 5000.0;
            tokio::time::sleep(self.times.retry.mul_f64(1.0 + random)).await;
        }
    }

    /// Renews the lease; returns when the leadership is lost.
    pub(crate) async fn renew(&mut self) -> Error {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.times.retry).await;
            let deadline = renewed + self.times.deadline;
            let start = Instant::now();
            let limit = deadline.min(start + self.times.attempt_timeout());
            match tokio::time::timeout_at(limit, self.attempt()).await {
                Ok(Ok(true)) => renewed = start,
                // Another replica holds the lease.
                Ok(Ok(false)) => break,
                Ok(Err(error)) => tracing::warn!(%error, "the lease could not be renewed"),
                Err(_) => tracing::warn!("the lease could not be renewed in time"),
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        self.fence.set(Permit::Never);
        Error::LeadershipLost(self.lease().to_owned())
    }

    /// Releases the lease, unless a write of this replica may still arrive: then it has to expire.
    pub(crate) async fn release(&mut self) {
        self.fence.set(Permit::Never);
        if !self.release || !self.fence.drained(self.times.deadline, self.times.duration).await {
            return;
        }
        // Without a response it has to expire as well.
        if tokio::time::timeout(self.times.attempt_timeout(), self.release_lease()).await.is_err() {
            tracing::debug!("the lease was not released in time");
        }
    }

    async fn release_lease(&mut self) {
        let Ok(Some(mut lease)) = self.current().await else { return };
        let Some(spec) = lease.spec.as_mut().filter(|spec| self.holds(spec)) else { return };
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(self.environment.now()));
        match self.api.replace(self.lease(), &PostParams::default(), &lease).await {
            Ok(_) => self.seen = None,
            Err(error) => tracing::debug!(error = describe(&error), "failed to release the lease"),
        }
    }

    /// Whether this replica held the lease when it was last observed, and has not released it.
    pub(crate) fn may_hold(&self) -> bool {
        self.seen.as_ref().is_some_and(|(spec, _)| self.holds(spec))
    }

    /// Records the observed lease: its expiry counts from the first observation of each state.
    pub(crate) fn observe(&mut self, held: &LeaseSpec, at: Instant) {
        if !self.seen.as_ref().is_some_and(|(seen, _)| seen == held) {
            self.seen = Some((held.clone(), at));
        }
    }

    fn holds(&self, spec: &LeaseSpec) -> bool {
        spec.holder_identity.as_deref() == Some(&*self.identity)
    }

    /// Returns the lease: as last written if this replica holds it, else as the API server has it.
    async fn current(&mut self) -> Result<Option<Lease>> {
        match self.mine.take() {
            Some(lease) => Ok(Some(lease)),
            None => Ok(self.api.get_opt(self.lease()).await?),
        }
    }

    /// Acquires or renews the lease, if possible.
    pub(crate) async fn attempt(&mut self) -> Result<bool> {
        // A conflicting write need not have taken the lease.
        for _ in 0..2 {
            if let Some(held) = self.try_once().await? {
                return Ok(held);
            }
        }
        Ok(false)
    }

    /// `None`: the write conflicted.
    async fn try_once(&mut self) -> Result<Option<bool>> {
        let start = Instant::now();
        let now = MicroTime(self.environment.now());
        let mut wanted = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.times.seconds()),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        let written = match self.current().await? {
            None => {
                let lease = Lease { metadata: self.metadata.clone(), spec: Some(wanted) };
                self.api.create(&PostParams::default(), &lease).await
            }
            Some(mut lease) => {
                let held = lease.spec.clone().unwrap_or_default();
                self.observe(&held, start);
                let holder = held.holder_identity.as_deref().unwrap_or_default();
                let mine = self.holds(&held);
                if !mine && !holder.is_empty() {
                    // The holder's own duration counts: it may have been configured differently.
                    let seconds = held.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
                    let duration = seconds.map_or(self.times.duration, Duration::from_secs);
                    if self.seen.as_ref().is_some_and(|(_, at)| start < *at + duration) {
                        return Ok(Some(false));
                    }
                }
                if mine {
                    wanted.acquire_time = held.acquire_time;
                    wanted.lease_transitions = held.lease_transitions;
                } else {
                    wanted.lease_transitions = Some(held.lease_transitions.unwrap_or_default() + 1);
                }
                lease.spec = Some(wanted);
                self.api.replace(self.lease(), &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(lease) => {
                self.seen = Some((lease.spec.clone().unwrap_or_default(), start));
                self.mine = Some(lease);
                self.fence.set(Permit::Until(start + self.times.deadline));
                Ok(Some(true))
            }
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
#[cfg(feature = "testing")]
mod tests;
