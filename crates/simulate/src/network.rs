//! The network between an operator and the API server: it numbers what passes, and breaks what the plan says.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{
    StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use http::{Method, Request};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use steersman_api::store::Store;
use tokio::{sync::watch, time::Instant};
use tower_service::Service;

use crate::{
    fault::Fault,
    query::{Answer, Query, refusal, verb},
    target::Target,
    timeline::{Actor, Entry},
    timing::Timing,
};

/// The traffic of all replicas of an operator. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Network(Arc<Shared>);

struct Shared {
    store: Store,
    faults: Vec<Fault>,
    timing: Timing,
    /// Requests that are answered.
    request_limit: u64,
    /// Watches that a program opens when it starts.
    usual_watches: BTreeSet<String>,
    start: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    writes: Vec<Write>,
    reads: u32,
    requests: u64,
    starts: u32,
    entries: Vec<Entry>,
    used: BTreeSet<usize>,
    /// Who wrote a lease last.
    leader: Option<u32>,
    deposed_writes: Vec<String>,
    /// Whether the operator stays dead until the next step.
    stays_dead: bool,
    /// A revision that the next start does not see yet.
    stale: Option<u64>,
}

/// A write of the operator.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) target: Target,
    /// The revisions that it made: after the first, up to the second.
    pub(crate) revisions: (u64, u64),
    pub(crate) conflicts: bool,
}

/// What a run's traffic came to.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) writes: Vec<Write>,
    pub(crate) reads: u32,
    pub(crate) requests: u64,
    pub(crate) entries: Vec<Entry>,
    pub(crate) used: Vec<Fault>,
    pub(crate) deposed_writes: Vec<String>,
}

impl Network {
    pub(crate) fn new(
        store: Store,
        faults: Vec<Fault>,
        timing: Timing,
        request_limit: u64,
        usual_watches: BTreeSet<String>,
    ) -> Self {
        let (start, state) = (Instant::now(), Mutex::default());
        Self(Arc::new(Shared { store, faults, timing, request_limit, usual_watches, start, state }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The beginning of the run.
    pub(crate) fn start(&self) -> Instant {
        self.0.start
    }

    /// Time since the beginning of the run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.start.elapsed()
    }

    /// Notes something in the timeline.
    pub(crate) fn note(&self, actor: Actor, text: impl Into<String>, fault: bool) {
        let entry = Entry {
            at: self.elapsed(),
            revision: self.0.store.latest(),
            actor,
            text: text.into(),
            is_fault: fault,
        };
        self.lock().entries.push(entry);
    }

    /// Notes that a fault that is not tied to a request has happened.
    pub(crate) fn injected(&self, fault: &Fault) {
        self.note(Actor::Fault, fault.to_string(), true);
        if let Some(index) = self.0.faults.iter().position(|one| one == fault) {
            self.lock().used.insert(index);
        }
    }

    /// How many requests were made so far, and how many of them were writes.
    pub(crate) fn counts(&self) -> (u64, usize) {
        let state = self.lock();
        (state.requests, state.writes.len())
    }

    /// Whether a crash was to last until the user's next step.
    pub(crate) fn stays_dead(&self) -> bool {
        self.lock().stays_dead
    }

    /// Lets the operator start again after such a crash.
    pub(crate) fn revive(&self) {
        self.lock().stays_dead = false;
    }

    /// What passed.
    pub(crate) fn finish(&self) -> Traffic {
        let mut state = self.lock();
        let used = state.used.iter().filter_map(|index| self.0.faults.get(*index).cloned()).collect();
        Traffic {
            writes: std::mem::take(&mut state.writes),
            reads: state.reads,
            requests: state.requests,
            entries: std::mem::take(&mut state.entries),
            used,
            deposed_writes: std::mem::take(&mut state.deposed_writes),
        }
    }

    /// The connections of a process that starts now.
    pub(crate) fn process(&self, replica: u32) -> Process {
        let mut state = self.lock();
        state.starts += 1;
        let (start, stale) = (state.starts, state.stale.take());
        drop(state);
        let watches = Watches {
            held_until: stale.map(|_| Instant::now() + self.0.timing.staleness),
            stale_revision: stale,
            ..Watches::default()
        };
        self.note(Actor::Operator(start), format!("replica {replica} starts"), false);
        Process(Arc::new(ProcessState {
            network: self.clone(),
            start,
            dead: watch::Sender::new(false),
            cut_off_until: watch::Sender::new(Instant::now()),
            watches: watch::Sender::new(watches),
            activity: Mutex::new(Activity {
                requests: 0,
                streams: BTreeMap::new(),
                awaited: self.0.usual_watches.clone(),
                since: Instant::now(),
            }),
        }))
    }
}

/// One process of the operator, from its start to its crash. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Process(Arc<ProcessState>);

struct ProcessState {
    network: Network,
    start: u32,
    dead: watch::Sender<bool>,
    cut_off_until: watch::Sender<Instant>,
    watches: watch::Sender<Watches>,
    activity: Mutex<Activity>,
}

/// What a process has under way.
struct Activity {
    /// Requests without an answer, watches apart.
    requests: usize,
    /// Open watches.
    streams: BTreeMap<String, usize>,
    /// Watches that it is about to open: those of a start, or those that broke.
    awaited: BTreeSet<String>,
    /// When a watch was last opened or broken.
    since: Instant,
}

/// A request under way.
struct Pending(Process);

impl Pending {
    fn begin(process: &Process) -> Self {
        process.activity().requests += 1;
        Self(process.clone())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.activity().requests -= 1;
    }
}

/// A watch that is open.
struct Stream {
    process: Process,
    identity: String,
}

impl Stream {
    fn open(process: &Process, identity: String) -> Self {
        let mut activity = process.activity();
        *activity.streams.entry(identity.clone()).or_default() += 1;
        activity.since = Instant::now();
        drop(activity);
        Self { process: process.clone(), identity }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut activity = self.process.activity();
        if let Some(open) = activity.streams.get_mut(&self.identity) {
            *open -= 1;
            if *open == 0 {
                activity.streams.remove(&self.identity);
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Watches {
    /// Without end while it is set; else until a moment.
    silent: bool,
    held_until: Option<Instant>,
    /// Moves when all watches are broken.
    epoch: u64,
    /// Watches that are told once that their version is too old.
    expired: BTreeSet<String>,
    open: BTreeSet<String>,
    stale_revision: Option<u64>,
}

impl Process {
    /// A client whose traffic goes through here.
    pub(crate) fn client(&self, inner: Client) -> Client {
        let namespace = inner.default_namespace().to_owned();
        Client::new(Faulty { inner, process: self.clone() }, namespace)
    }

    pub(crate) fn actor(&self) -> Actor {
        Actor::Operator(self.0.start)
    }

    /// Cuts all connections for good: the process is dead.
    pub(crate) fn kill(&self) {
        self.0.dead.send_replace(true);
    }

    /// Waits until the process is to die.
    pub(crate) async fn dead(&self) {
        let mut dead = self.0.dead.subscribe();
        // The sender lives in this process.
        let _ = dead.wait_for(|dead| *dead).await;
    }

    /// Holds all watch events back until [`Process::expire_watches`].
    pub(crate) fn silence_watches(&self) {
        self.0.watches.send_modify(|watches| watches.silent = true);
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.0.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watches that are open.
    pub(crate) fn open_watches(&self) -> BTreeSet<String> {
        self.activity().streams.keys().cloned().collect()
    }

    /// Since when the process waits for events: not while it has requests under way or watches still to open.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let activity = self.activity();
        let is_late = activity.since.elapsed() >= self.0.network.0.timing.startup;
        let has_watches = !activity.streams.is_empty()
            && activity.awaited.iter().all(|identity| activity.streams.contains_key(identity));
        if activity.requests > 0 || !(has_watches || is_late) {
            return None;
        }
        let held = self.0.watches.borrow().held_until.unwrap_or(activity.since);
        Some(activity.since.max(held).max(*self.0.cut_off_until.borrow()))
    }

    /// Notes that the open watches will be opened again.
    fn await_watches(&self) {
        let mut activity = self.activity();
        activity.awaited = activity.streams.keys().cloned().collect();
        activity.since = Instant::now();
    }

    /// Ends all watches, whose versions are then too old.
    pub(crate) fn expire_watches(&self) {
        self.await_watches();
        self.0.watches.send_modify(|watches| {
            watches.silent = false;
            watches.epoch += 1;
            watches.expired = watches.open.clone();
        });
    }

    fn break_watches(&self) {
        self.await_watches();
        self.0.watches.send_modify(|watches| watches.epoch += 1);
    }

    fn hold_watches(&self) {
        let until = Instant::now() + self.0.network.0.timing.delay;
        self.0.watches.send_modify(|watches| watches.held_until = Some(until));
    }

    /// Waits as long as the process can't reach the API server: for ever if it is dead.
    async fn reach(&self) {
        loop {
            if *self.0.dead.borrow() {
                std::future::pending::<()>().await;
            }
            let until = *self.0.cut_off_until.borrow();
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    async fn forward(self, inner: Client, request: Request<Body>) -> Result<Answer, kube::Error> {
        let network = &self.0.network;
        let is_over = {
            let mut state = network.lock();
            state.requests += 1;
            state.requests > network.0.request_limit
        };
        if is_over {
            // The run is given up at the next look, which an operator that never waits would put off for long.
            return std::future::pending().await;
        }
        let pending = Pending::begin(&self);
        tokio::time::sleep(network.0.timing.latency).await;
        self.reach().await;
        let target = Target::of(request.uri());
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
            return self.read(inner, request, &target, pending).await;
        }
        if target.is_lease() || target.is_not_counted() {
            let answer = self.answer(&inner, request).await?;
            if target.is_lease() && answer.status().is_success() {
                network.lock().leader = Some(self.0.start);
            }
            return Ok(answer);
        }
        self.write(inner, request, target).await
    }

    async fn answer(&self, inner: &Client, request: Request<Body>) -> Result<Answer, kube::Error> {
        let answer = inner.send(request).await?;
        self.reach().await;
        Ok(answer.map(BodyExt::boxed_unsync))
    }

    async fn write(
        self,
        inner: Client,
        request: Request<Body>,
        target: Target,
    ) -> Result<Answer, kube::Error> {
        let network = &self.0.network;
        let method = request.method().clone();
        let (number, fault) = {
            let mut state = network.lock();
            let conflicts = matches!(method, Method::PUT | Method::PATCH);
            state.writes.push(Write { target: target.clone(), revisions: (0, 0), conflicts });
            let number = state.writes.len();
            let at = u32::try_from(number).unwrap_or(u32::MAX);
            let found = network.0.faults.iter().position(|fault| fault.at_write() == Some(at));
            state.used.extend(found);
            (number, found.and_then(|index| network.0.faults.get(index)))
        };
        let what = format!("write {number}: {} {target}", verb(&method, request.headers()));
        let timing = &network.0.timing;
        let note = |text: String, fault: bool| network.note(self.actor(), text, fault);
        match fault {
            Some(Fault::CrashBefore(_)) => {
                note(format!("{what}: crashes before it is sent"), true);
                self.kill();
                return std::future::pending().await;
            }
            Some(Fault::Refused(_, code)) => {
                note(format!("{what}: refused with {code}"), true);
                return Ok(refusal(*code));
            }
            Some(Fault::Delayed(_)) => {
                note(format!("{what}: held for {:?}", timing.delay), true);
                tokio::time::sleep(timing.delay).await;
                self.reach().await;
            }
            Some(Fault::LeaseLost(_)) => {
                note(format!("{what}: the replica is cut off for {:?}", timing.partition), true);
                self.0.cut_off_until.send_replace(Instant::now() + timing.partition);
                self.reach().await;
            }
            _ => {}
        }
        let before = network.0.store.latest();
        let answer = inner.send(request).await?;
        let after = network.0.store.latest();
        let status = answer.status();
        {
            let mut state = network.lock();
            if let Some(write) = state.writes.get_mut(number - 1) {
                write.revisions = (before, after);
            }
            if status.is_success() && state.leader.is_some_and(|leader| leader != self.0.start) {
                state
                    .deposed_writes
                    .push(format!("operator #{} made {what} without the lease", self.0.start));
            }
        }
        let what = format!("{what} → {}", status.as_u16());
        match fault {
            Some(Fault::CrashAfter(_) | Fault::StaleRestart(_) | Fault::DeadAfter(_)) => {
                note(format!("{what}: crashes before it sees the answer"), true);
                if let Some(Fault::StaleRestart(_)) = fault {
                    network.lock().stale = Some(before);
                }
                if let Some(Fault::DeadAfter(_)) = fault {
                    network.lock().stays_dead = true;
                }
                self.kill();
                return std::future::pending().await;
            }
            Some(Fault::Lost(_)) => {
                note(format!("{what}: the connection breaks, the answer is lost"), true);
                return Err(kube::Error::Service("connection reset by the simulation".into()));
            }
            Some(Fault::TimedOut(_)) => {
                note(format!("{what}: committed, answered with 504"), true);
                return Ok(refusal(504));
            }
            Some(Fault::WatchHeld(_)) => {
                note(format!("{what}: watches are held for {:?} from here", timing.delay), true);
                self.hold_watches();
            }
            Some(Fault::WatchBroken(_)) => {
                note(format!("{what}: all watches break"), true);
                self.break_watches();
            }
            Some(Fault::WatchExpired(_)) => {
                note(format!("{what}: all watches break and expire (410)"), true);
                self.expire_watches();
            }
            _ => note(what, false),
        }
        self.reach().await;
        Ok(answer.map(BodyExt::boxed_unsync))
    }

    async fn read(
        self,
        inner: Client,
        request: Request<Body>,
        target: &Target,
        pending: Pending,
    ) -> Result<Answer, kube::Error> {
        let query = Query::of(request.uri());
        if !query.is_watch() {
            if target.resource.is_empty() || target.is_lease() {
                return self.answer(&inner, request).await;
            }
            let network = &self.0.network;
            let number = {
                let mut state = network.lock();
                state.reads += 1;
                state.reads
            };
            let failed = Fault::ReadFailed(number);
            if let Some(index) = network.0.faults.iter().position(|fault| *fault == failed) {
                network.lock().used.insert(index);
                network.note(self.actor(), format!("read {number}: {target}: answered with 500"), true);
                return Ok(refusal(500));
            }
            let stale = self.0.watches.borrow().stale_revision.filter(|_| self.is_behind());
            // Only a list of any version may be answered from an old state: one without a version is consistent.
            if let Some(revision) =
                stale.filter(|_| target.name.is_none() && query.get("resourceVersion") == Some("0"))
            {
                return self.answer(&inner, query.at_revision(request, revision)).await;
            }
            return self.answer(&inner, request).await;
        }
        let identity = query.identity(target);
        let begins = query.get("sendInitialEvents") == Some("true");
        if !begins && self.take_expired(&identity) {
            return Ok(refusal(410));
        }
        self.0.watches.send_modify(|watches| {
            watches.open.insert(identity.clone());
        });
        let stale = self.0.watches.borrow().stale_revision.filter(|_| begins && self.is_behind());
        let (initial, request) = match stale {
            Some(revision) => query.initial_events(&inner, request, revision).await?,
            None => (None, request),
        };
        let answer = inner.send(request).await?;
        self.reach().await;
        let stream = answer.status().is_success().then(|| Stream::open(&self, identity));
        drop(pending);
        Ok(answer.map(|body| self.watch(body, initial, stream)))
    }

    fn is_behind(&self) -> bool {
        self.0.watches.borrow().held_until.is_some_and(|until| Instant::now() < until)
    }

    fn take_expired(&self, identity: &str) -> bool {
        let mut was = false;
        self.0.watches.send_if_modified(|watches| {
            was = watches.expired.remove(identity);
            false
        });
        was
    }

    /// A watch whose events are held, and that ends, as the plan says.
    fn watch(
        &self,
        body: Body,
        initial: Option<Bytes>,
        stream: Option<Stream>,
    ) -> UnsyncBoxBody<Bytes, kube::Error> {
        let watches = self.0.watches.subscribe();
        let epoch = watches.borrow().epoch;
        let events = stream::unfold(
            (body, watches, self.clone(), stream),
            move |(mut body, mut watches, process, stream)| async move {
                let broken = async {
                    // The sender lives in the process that this stream holds.
                    let _ = watches.wait_for(|watches| watches.epoch != epoch).await;
                };
                let frame = tokio::select! {
                    biased;
                    () = broken => return None,
                    frame = body.frame() => frame?,
                };
                loop {
                    let state = watches.borrow_and_update().clone();
                    if state.epoch != epoch {
                        return None;
                    }
                    let held = state.held_until.filter(|until| Instant::now() < *until);
                    let held = async {
                        match held {
                            Some(until) if !state.silent => tokio::time::sleep_until(until).await,
                            _ => std::future::pending().await,
                        }
                    };
                    if !state.silent && state.held_until.is_none_or(|until| Instant::now() >= until) {
                        break;
                    }
                    tokio::select! {
                        biased;
                        _ = watches.changed() => {}
                        () = held => {}
                    }
                }
                process.reach().await;
                Some((frame, (body, watches, process, stream)))
            },
        );
        let initial = initial.map(|bytes| Ok(http_body::Frame::data(bytes)));
        let all: BoxStream<'static, _> = stream::iter(initial).chain(events).boxed();
        StreamBody::new(all).boxed_unsync()
    }
}

#[derive(Clone)]
struct Faulty {
    inner: Client,
    process: Process,
}

impl Service<Request<Body>> for Faulty {
    type Response = Answer;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Answer, kube::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.process.clone().forward(self.inner.clone(), request))
    }
}
