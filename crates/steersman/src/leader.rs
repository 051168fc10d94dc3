//! Leader election on a Lease: one replica works, the others stand by with warm caches.
//!
//! The lease passes to another replica when it has not been renewed for its whole duration, as that replica's own clock
//! has seen it. The leader stops writing earlier than that: its permit ends a renewal deadline after the moment at which
//! it *began* its last successful renewal. So there is no moment at which two may write, unless clocks run at speeds
//! that differ by the ratio of the two, a third by default.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::time::Instant;

use crate::{
    door::{Fence, Permit},
    environment::Environment,
    error::{Error, Result},
};

/// How a leader is elected.
#[derive(Debug, Clone)]
#[must_use]
pub struct LeaderElection {
    pub(crate) lease: String,
    pub(crate) namespace: Option<String>,
    pub(crate) identity: Option<String>,
    duration: Duration,
    deadline: Duration,
    retry: Duration,
    pub(crate) release: bool,
}

impl LeaderElection {
    /// On a lease of this name. Default times: 15 s, 10 s and 2 s.
    pub fn new(lease: impl Into<String>) -> Self {
        Self {
            lease: lease.into(),
            namespace: None,
            identity: None,
            duration: Duration::from_secs(15),
            deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            release: true,
        }
    }

    /// The lease's namespace. Default: the operator's own.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// What this replica calls itself. Default: its host's name and a random number.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// How long others wait for a leader that does not renew, how long the leader tries to renew before it gives up
    /// (always less than the first), and how often everybody tries.
    pub fn times(mut self, duration: Duration, deadline: Duration, retry: Duration) -> Self {
        self.duration = duration;
        self.deadline = deadline.min(duration.mul_f64(0.9));
        self.retry = retry.min(self.deadline.mul_f64(0.9));
        self
    }

    /// Whether the leader gives the lease back when it stops, so that another one takes over at once. Default: yes.
    pub fn release_on_stop(mut self, yes: bool) -> Self {
        self.release = yes;
        self
    }
}

/// One replica in an election.
pub(crate) struct Candidate {
    api: Api<Lease>,
    options: LeaderElection,
    pub(crate) identity: String,
    fence: Fence,
    environment: Arc<dyn Environment>,
    /// The lease as last seen, and when it was first seen so.
    seen: Option<(LeaseSpec, Instant)>,
}

impl Candidate {
    /// The client must not be fenced.
    pub(crate) fn new(
        client: Client,
        options: LeaderElection,
        fence: Fence,
        environment: Arc<dyn Environment>,
    ) -> Self {
        let namespace = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let identity = options.identity.clone().unwrap_or_else(|| {
            let host = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME"));
            format!("{}_{:016x}", host.as_deref().unwrap_or("operator"), environment.random())
        });
        fence.set(Permit::Never);
        Self { api: Api::namespaced(client, &namespace), options, identity, fence, environment, seen: None }
    }

    /// Waits until this replica leads.
    pub(crate) async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "the lease could not be acquired"),
            }
            // Spread, so that candidates do not collide each time.
            let random = (self.environment.random() % 1000) as f64 / 5000.0;
            tokio::time::sleep(self.options.retry.mul_f64(1.0 + random)).await;
        }
    }

    /// Keeps leading, and ends when that fails.
    pub(crate) async fn keep(&mut self) -> Error {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.options.retry).await;
            let deadline = renewed + self.options.deadline;
            let start = Instant::now();
            match tokio::time::timeout_at(deadline, self.attempt()).await {
                Ok(Ok(true)) => renewed = start,
                // Another one holds the lease.
                Ok(Ok(false)) => break,
                Ok(Err(error)) => tracing::warn!(%error, "the lease could not be renewed"),
                Err(_) => break,
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        self.fence.set(Permit::Never);
        Error::LeadershipLost(self.options.lease.clone())
    }

    /// Gives the lease back. Nothing may be written any more at this point.
    pub(crate) async fn release(&self) {
        self.fence.set(Permit::Never);
        if !self.options.release {
            return;
        }
        let Ok(mut lease) = self.api.get(&self.options.lease).await else { return };
        let Some(spec) = lease.spec.as_mut().filter(|spec| self.holds(spec)) else { return };
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(self.environment.now()));
        if let Err(error) = self.api.replace(&self.options.lease, &PostParams::default(), &lease).await {
            tracing::debug!(%error, "the lease was not given back");
        }
    }

    fn holds(&self, spec: &LeaseSpec) -> bool {
        spec.holder_identity.as_deref() == Some(&*self.identity)
    }

    /// Takes or renews the lease, if that is possible.
    async fn attempt(&mut self) -> Result<bool> {
        let start = Instant::now();
        let now = MicroTime(self.environment.now());
        let name = self.options.lease.clone();
        let mut wanted = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(
                i32::try_from(self.options.duration.as_secs().max(1)).unwrap_or(i32::MAX),
            ),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        let written = match self.api.get_opt(&name).await? {
            None => {
                let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec: Some(wanted) };
                self.api.create(&PostParams::default(), &lease).await
            }
            Some(mut lease) => {
                let held = lease.spec.clone().unwrap_or_default();
                if !self.seen.as_ref().is_some_and(|(seen, _)| *seen == held) {
                    self.seen = Some((held.clone(), start));
                }
                let holder = held.holder_identity.as_deref().unwrap_or_default();
                let mine = self.holds(&held);
                if !mine && !holder.is_empty() {
                    // The holder's own word counts: it may have been started with other times.
                    let seconds = held.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
                    let duration = seconds.map_or(self.options.duration, Duration::from_secs);
                    if self.seen.as_ref().is_some_and(|(_, at)| start < *at + duration) {
                        return Ok(false);
                    }
                }
                if mine {
                    wanted.acquire_time = held.acquire_time;
                    wanted.lease_transitions = held.lease_transitions;
                } else {
                    wanted.lease_transitions = Some(held.lease_transitions.unwrap_or_default() + 1);
                }
                lease.spec = Some(wanted);
                self.api.replace(&name, &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(lease) => {
                self.seen = Some((lease.spec.unwrap_or_default(), start));
                self.fence.set(Permit::Until(start + self.options.deadline));
                Ok(true)
            }
            // Somebody else was faster.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
