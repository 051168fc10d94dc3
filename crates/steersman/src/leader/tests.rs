//! Leadership, and when it ends.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use proptest::prelude::*;
use steersman_cluster::Cluster;
use tower_service::Service;

use super::*;
use crate::{environment::SystemEnvironment, metrics::Metrics, write_guard};

/// The network of one replica. During an outage requests get no response; with a delay they arrive late, even if
/// their sender has given up.
#[derive(Clone)]
struct Network {
    replica: String,
    client: Client,
    origin: Instant,
    trouble: Arc<Disruptions>,
    requests: Arc<AtomicUsize>,
    arrived: Arc<Mutex<Vec<Arrival>>>,
}

#[derive(Debug, Clone)]
struct Disruptions {
    outages: Vec<(Duration, Duration)>,
    delays: Vec<Duration>,
    /// How long the replica leads until it stops on its own.
    stops: Vec<Duration>,
}

/// A write that arrived, and who held the lease at that moment.
#[derive(Debug, Clone, PartialEq)]
struct Arrival {
    writer: String,
    holder: String,
    at: Duration,
}

impl Service<Request<Body>> for Network {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, kube::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let network = self.clone();
        let time = self.origin.elapsed();
        let down = self.trouble.outages.iter().any(|(start, end)| (*start..*end).contains(&time));
        let delay = self.trouble.delays[self.requests.fetch_add(1, SeqCst) % self.trouble.delays.len()];
        Box::pin(async move {
            if down {
                return std::future::pending().await;
            }
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                if request.uri().path().contains("configmaps") {
                    network.note().await;
                }
                network.client.send(request).await
            })
            .await
            .unwrap()
        })
    }
}

impl Network {
    async fn note(&self) {
        let leases: Api<Lease> = Api::default_namespaced(self.client.clone());
        let lease = leases.get("lease").await.unwrap();
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        let arrival = Arrival { writer: self.replica.clone(), holder, at: self.origin.elapsed() };
        self.arrived.lock().unwrap().push(arrival);
    }
}

fn trouble() -> impl Strategy<Value = Disruptions> {
    let outage = (0_u64..60, 1_u64..25)
        .prop_map(|(start, length)| (Duration::from_secs(start), Duration::from_secs(start + length)));
    // A write that is abandoned when the permit ends arrives before the lease expires.
    let delay = prop_oneof![6 => 0_u64..50, 1 => 0_u64..4900].prop_map(Duration::from_millis);
    let stop = prop_oneof![1 => 1_u64..20, 1 => 500_u64..501].prop_map(Duration::from_secs);
    (
        prop::collection::vec(outage, 0..4),
        prop::collection::vec(delay, 1..30),
        prop::collection::vec(stop, 1..4),
    )
        .prop_map(|(outages, delays, stops)| Disruptions { outages, delays, stops })
}

/// Leads, stops, and competes again.
async fn live(mut candidate: Candidate, stops: Vec<Duration>) {
    for stop in stops.iter().cycle() {
        candidate.acquire().await;
        if tokio::time::timeout(*stop, candidate.renew()).await.is_err() {
            candidate.release().await;
        }
    }
}

/// Writes all the time, whether it is permitted or not.
async fn write(client: Client) {
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let map: ConfigMap =
        serde_json::from_value(serde_json::json!({"metadata": {"generateName": "x-"}})).unwrap();
    loop {
        let api = api.clone();
        let map = map.clone();
        let writing = async move { api.create(&PostParams::default(), &map).await };
        // Concurrent: a write may be in flight when the next one starts.
        tokio::spawn(tokio::time::timeout(Duration::from_secs(60), writing));
        tokio::time::sleep(Duration::from_millis(1300)).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    /// However the network fails and replicas start and stop, two may never write at the same time. No write arrives
    /// while another replica holds the lease, and in the end one leads.
    #[test]
    fn no_write_by_a_deposed_leader(troubles in prop::collection::vec(trouble(), 3)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let cluster = Cluster::builder().workloads(false).seed(1).start().await.unwrap();
            let origin = Instant::now();
            let arrived = Arc::new(Mutex::new(Vec::new()));
            let mut fences = Vec::new();
            let mut tasks = tokio::task::JoinSet::new();
            for (number, trouble) in troubles.into_iter().enumerate() {
                let replica = format!("replica-{number}");
                let stops = trouble.stops.clone();
                let network = Network {
                    replica: replica.clone(), client: cluster.client(), origin, trouble: Arc::new(trouble),
                    requests: Arc::default(), arrived: Arc::clone(&arrived),
                };
                let client = Client::new(network, "default");
                let fence = Fence::new(Permit::Always);
                fences.push(fence.clone());
                let options = LeaderElection::new("lease").identity(replica);
                let candidate = options.candidate(client.clone(), fence.clone(), Arc::new(SystemEnvironment));
                tasks.spawn(live(candidate, stops));
                tasks.spawn(write(write_guard::guarded(client, Some(fence), Metrics::new())));
            }
            let mut led = 0;
            while origin.elapsed() < Duration::from_secs(140) {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let may = fences.iter().filter(|fence| fence.permit().is_good()).count();
                assert!(may <= 1, "{may} replicas may write after {:?}", origin.elapsed());
                led += u32::from(may == 1 && origin.elapsed() > Duration::from_secs(90));
            }
            assert!(led > 0, "one leads in the end");
            let arrived = arrived.lock().unwrap();
            let wrong: Vec<_> = arrived.iter().filter(|arrival| arrival.writer != arrival.holder).collect();
            assert!(wrong.is_empty(), "written by others than the leader: {wrong:?}");
            assert!(!arrived.is_empty(), "the leader writes");
        });
    }
}

/// A replica whose requests get no response during an outage, and otherwise take a tenth of a second.
async fn replica(outage: (u64, u64)) -> (Candidate, Cluster) {
    let cluster = Cluster::builder().workloads(false).seed(1).start().await.unwrap();
    let outage = (Duration::from_secs(outage.0), Duration::from_secs(outage.1));
    let trouble =
        Disruptions { outages: vec![outage], delays: vec![Duration::from_millis(100)], stops: Vec::new() };
    let network = Network {
        replica: "one".into(),
        client: cluster.client(),
        origin: Instant::now(),
        trouble: Arc::new(trouble),
        requests: Arc::default(),
        arrived: Arc::default(),
    };
    let options = LeaderElection::new("lease").identity("one");
    let client = Client::new(network, "default");
    let mut candidate = options.candidate(client, Fence::new(Permit::Always), Arc::new(SystemEnvironment));
    candidate.acquire().await;
    (candidate, cluster)
}

#[tokio::test(start_paused = true)]
async fn one_request_without_an_answer_does_not_end_a_leadership() {
    let (mut candidate, _cluster) = replica((1, 3)).await;
    let kept = tokio::time::timeout(Duration::from_secs(60), candidate.renew()).await;
    assert!(kept.is_err(), "{kept:?}");
    assert!(candidate.fence.permit().is_good());
}

#[tokio::test(start_paused = true)]
async fn a_foreign_annotation_on_the_lease_does_not_end_a_leadership() {
    let (mut candidate, cluster) = replica((1000, 1000)).await;
    // As after a renewal that failed.
    candidate.mine = None;
    let leases: Api<Lease> = Api::default_namespaced(cluster.client());
    let note = async {
        // Between the replica's read and its write.
        tokio::time::sleep(Duration::from_millis(150)).await;
        let note = serde_json::json!({"metadata": {"annotations": {"seen": "yes"}}});
        leases.patch("lease", &Default::default(), &kube::api::Patch::Merge(note)).await.unwrap();
    };
    let (held, ()) = tokio::join!(candidate.attempt(), note);
    assert!(held.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_replica_stops_though_requests_get_no_answer() {
    let (mut candidate, _cluster) = replica((1, 1000)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let left = tokio::time::timeout(candidate.times.deadline, candidate.release()).await;
    assert!(left.is_ok());
}

#[tokio::test(start_paused = true)]
async fn without_a_permit_reads_pass_and_writes_do_not() {
    let cluster = Cluster::builder().workloads(false).seed(1).start().await.unwrap();
    let fence = Fence::new(Permit::Until(Instant::now() + Duration::from_secs(1)));
    let client = write_guard::guarded(cluster.client(), Some(fence.clone()), Metrics::new());
    let api: Api<Lease> = Api::default_namespaced(client);
    let lease = |name: &str| Lease {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        spec: None,
    };
    api.create(&PostParams::default(), &lease("one")).await.unwrap();
    fence.closed().await;
    let error = api.create(&PostParams::default(), &lease("two")).await.unwrap_err();
    assert!(error.to_string().contains("no longer the leader"), "{error}");
    fence.set(Permit::Never);
    assert!(api.create(&PostParams::default(), &lease("three")).await.is_err());
    assert_eq!(api.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 1);
    assert!(fence.drained(Duration::ZERO, Duration::from_secs(1)).await, "nothing was given up");
}

#[test]
fn times_are_each_shorter_than_the_one_before() {
    let seconds = Duration::from_secs;
    let Times { duration, deadline, retry } = Times::new(seconds(30), seconds(20), seconds(4));
    assert_eq!((duration, deadline, retry), (seconds(30), seconds(20), seconds(4)));
    let Times { duration, deadline, retry } = Times::new(seconds(10), seconds(20), seconds(40));
    assert_eq!((duration, deadline), (seconds(10), seconds(9)));
    assert_eq!(retry, Duration::from_millis(8100));
    assert_eq!(Times::new(seconds(30), seconds(20), seconds(4)).attempt_timeout(), seconds(10));
    for (millis, expected) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (15_000, 15)] {
        let times = Times { duration: Duration::from_millis(millis), ..Times::default() };
        assert_eq!(times.seconds(), expected, "{millis} ms");
    }
    let endless = Times { duration: Duration::MAX, ..Times::default() };
    assert_eq!(endless.seconds(), i32::MAX);
}

#[test]
fn an_identity_has_a_name_and_a_number() {
    let identity = identity(&SystemEnvironment);
    let (name, number) = identity.rsplit_once('_').unwrap();
    assert!(!name.is_empty() && number.len() == 16 && u64::from_str_radix(number, 16).is_ok(), "{identity}");
}

async fn lease(cluster: &Cluster) -> LeaseSpec {
    let leases: Api<Lease> = Api::default_namespaced(cluster.client());
    leases.get("lease").await.unwrap().spec.unwrap()
}

fn candidate(cluster: &Cluster, name: &str) -> (Candidate, Fence) {
    let fence = Fence::new(Permit::Always);
    let election = LeaderElection::new("lease").identity(name);
    (election.candidate(cluster.client(), fence.clone(), Arc::new(SystemEnvironment)), fence)
}

#[tokio::test(start_paused = true)]
async fn a_lease_says_who_holds_it_and_since_when() {
    let cluster = Cluster::builder().workloads(false).seed(1).start().await.unwrap();
    let (mut one, fence) = candidate(&cluster, "one");
    assert!(!fence.permit().is_good(), "it may not write before it leads");
    assert!(!one.may_hold());
    assert!(one.attempt().await.unwrap() && one.may_hold() && fence.permit().is_good());
    let first = lease(&cluster).await;
    assert_eq!((first.holder_identity.as_deref(), first.lease_duration_seconds), (Some("one"), Some(15)));
    assert_eq!((first.lease_transitions, &first.acquire_time), (Some(0), &first.renew_time));

    // Another replica waits as long as the lease is renewed, and for its duration after that.
    let (mut two, other) = candidate(&cluster, "two");
    assert!(!two.attempt().await.unwrap() && !two.may_hold() && !other.permit().is_good());
    tokio::time::advance(Duration::from_secs(8)).await;
    assert!(one.attempt().await.unwrap());
    let renewed = lease(&cluster).await;
    assert_eq!((&renewed.acquire_time, renewed.lease_transitions), (&first.acquire_time, Some(0)));
    assert!(renewed.renew_time.unwrap().0 > first.renew_time.unwrap().0);
    tokio::time::advance(Duration::from_secs(8)).await;
    assert!(!two.attempt().await.unwrap(), "it was renewed");
    tokio::time::advance(Duration::from_secs(14)).await;
    assert!(!fence.permit().is_good(), "the first one stops long before");
    assert!(!two.attempt().await.unwrap());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(two.attempt().await.unwrap() && other.permit().is_good());
    let taken = lease(&cluster).await;
    assert_eq!((taken.holder_identity.as_deref(), taken.lease_transitions), (Some("two"), Some(1)));

    // A released lease is acquired at once.
    two.release().await;
    assert!(!two.may_hold() && !other.permit().is_good());
    let free = lease(&cluster).await;
    assert_eq!((free.holder_identity.as_deref(), free.lease_duration_seconds), (Some(""), Some(1)));
    one.mine = None;
    assert!(one.attempt().await.unwrap());
    assert_eq!(lease(&cluster).await.lease_transitions, Some(2));
    // A replica that lost the lease does not release it.
    two.release().await;
    assert_eq!(lease(&cluster).await.holder_identity.as_deref(), Some("one"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_may_be_kept_at_the_end() {
    let cluster = Cluster::builder().workloads(false).seed(1).start().await.unwrap();
    let fence = Fence::new(Permit::Always);
    let election =
        LeaderElection::new("lease").identity("one").namespace("kube-system").release_on_stop(false);
    let mut one = election.candidate(cluster.client(), fence, Arc::new(SystemEnvironment));
    one.acquire().await;
    one.release().await;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "kube-system");
    let spec = leases.get("lease").await.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("one"));
}

#[tokio::test(start_paused = true)]
async fn a_leadership_ends_when_another_one_leads() {
    let cluster = Cluster::builder().workloads(false).seed(1).start().await.unwrap();
    let (mut one, fence) = candidate(&cluster, "one");
    one.acquire().await;
    let leases: Api<Lease> = Api::default_namespaced(cluster.client());
    let stolen = serde_json::json!({"spec": {"holderIdentity": "two"}});
    leases.patch("lease", &Default::default(), &kube::api::Patch::Merge(stolen)).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(10), one.renew()).await.unwrap();
    assert!(matches!(&ended, Error::LeadershipLost(name) if name == "lease"), "{ended}");
    assert_eq!(fence.permit(), Permit::Never);
}
