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
            // A request without an answer must not keep this replica from ever leading.
            match tokio::time::timeout(self.options.deadline, self.attempt()).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the lease could not be acquired"),
                Err(_) => tracing::debug!("the lease could not be acquired in time"),
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

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::task::{Context, Poll};

    use futures::future::BoxFuture;
    use http::{Request, Response};
    use kube::client::Body;
    use proptest::prelude::*;
    use steersman_cluster::Cluster;
    use tower_service::Service;

    use super::*;
    use crate::{door, environment::SystemEnvironment, metrics::Metrics};

    /// A network that is down at times: requests get no answer then.
    #[derive(Clone)]
    struct Flaky {
        client: Client,
        origin: Instant,
        outages: Arc<Vec<(Duration, Duration)>>,
    }

    impl Service<Request<Body>> for Flaky {
        type Response = Response<Body>;
        type Error = kube::Error;
        type Future = BoxFuture<'static, Result<Response<Body>, kube::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let time = self.origin.elapsed();
            let down = self.outages.iter().any(|(start, end)| (*start..*end).contains(&time));
            let client = self.client.clone();
            Box::pin(async move {
                if down {
                    return std::future::pending().await;
                }
                client.send(request).await
            })
        }
    }

    fn outage() -> impl Strategy<Value = (Duration, Duration)> {
        (0_u64..60, 1_u64..25)
            .prop_map(|(start, length)| (Duration::from_secs(start), Duration::from_secs(start + length)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// However the network fails, no two replicas may write at the same time, and in the end one may.
        #[test]
        fn no_two_may_write_at_a_time(
            outages in prop::collection::vec(prop::collection::vec(outage(), 0..4), 3),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let cluster = Cluster::builder().workloads(false).seed(1).start().await.unwrap();
                let origin = Instant::now();
                let mut fences = Vec::new();
                let mut tasks = tokio::task::JoinSet::new();
                for (number, outages) in outages.into_iter().enumerate() {
                    let flaky = Flaky { client: cluster.client(), origin, outages: Arc::new(outages) };
                    let client = Client::new(flaky, "default");
                    let fence = Fence::new(Permit::Always);
                    fences.push(fence.clone());
                    let options = LeaderElection::new("lease").identity(format!("replica-{number}"));
                    let mut candidate = Candidate::new(client, options, fence, Arc::new(SystemEnvironment));
                    tasks.spawn(async move {
                        loop {
                            candidate.acquire().await;
                            candidate.keep().await;
                        }
                    });
                }
                let may = |fence: &Fence| match fence.permit() {
                    Permit::Until(end) => Instant::now() < end,
                    Permit::Always => true,
                    Permit::Never => false,
                };
                let mut last = 0;
                while origin.elapsed() < Duration::from_secs(140) {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    last = fences.iter().filter(|fence| may(fence)).count();
                    assert!(last <= 1, "{last} replicas may write after {:?}", origin.elapsed());
                }
                assert_eq!(last, 1, "one leads in the end");
            });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_permit_reads_pass_and_writes_do_not() {
        let cluster = Cluster::builder().workloads(false).seed(1).start().await.unwrap();
        let fence = Fence::new(Permit::Until(Instant::now() + Duration::from_secs(1)));
        let client = door::guarded(cluster.client(), Some(fence.clone()), Metrics::new());
        let api: Api<Lease> = Api::default_namespaced(client);
        let lease = |name: &str| Lease {
            metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
            spec: None,
        };
        api.create(&PostParams::default(), &lease("one")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let error = api.create(&PostParams::default(), &lease("two")).await.unwrap_err();
        assert!(error.to_string().contains("no longer the leader"), "{error}");
        fence.set(Permit::Never);
        assert!(api.create(&PostParams::default(), &lease("three")).await.is_err());
        assert_eq!(api.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 1);
    }
}
