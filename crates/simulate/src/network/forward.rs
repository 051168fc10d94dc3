//! Forwards requests to the API server and responses back, and injects the plan's faults.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{
    StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use tokio::time::Instant;
use tower_service::Service;

use super::{
    Sent, Write,
    process::{Pending, Process, Stream},
    sent::Demand,
};
use crate::{
    fault::Fault,
    query::{Answer, Query, refusal, verb},
    target::Target,
};

impl Process {
    async fn forward(self, inner: Client, request: Request<Body>) -> Result<Answer, kube::Error> {
        let network = &self.0.network;
        let is_over = {
            let mut state = network.lock();
            state.requests += 1;
            state.requests > network.0.config.request_limit
        };
        if is_over {
            // The run is abandoned at the next poll, which an operator that never waits would delay for long.
            return std::future::pending().await;
        }
        let pending = Pending::begin(&self);
        tokio::time::sleep(network.0.config.timing.latency).await;
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
        mut request: Request<Body>,
        target: Target,
    ) -> Result<Answer, kube::Error> {
        let network = &self.0.network;
        // Writes are only serialized if this run is recorded.
        let recorder = network.0.config.recorder.as_ref();
        let _turn = match recorder {
            Some(recorder) => Some(recorder.turn.lock().await),
            None => None,
        };
        let verb = verb(request.method(), request.headers());
        let number = network.lock().writes.len() + 1;
        let what = format!("write {number}: {verb} {target}");
        let conflicts = matches!(verb, "update" | "patch" | "apply");
        let at = u32::try_from(number).unwrap_or(u32::MAX);
        let mut write = Write { number: at, verb, target, revisions: (0, 0), conflicts, creates: false };
        network.record(&write, &what, false).await;
        // Other faults shift the numbers, so a conflict may hit a create or a delete, which cannot conflict.
        let happens = |fault: &Fault| conflicts || !matches!(fault, Fault::Refused(_, 409));
        let fault = network.fault_at(at).filter(|(_, fault)| happens(fault));
        {
            let mut state = network.lock();
            state.writes.push(write.clone());
            state.used.extend(fault.map(|(index, _)| index));
        }
        let fault = fault.map(|(_, fault)| fault);
        let timing = &network.0.config.timing;
        let note = |text: String, fault: bool| network.note(self.actor(), text, fault);
        self.begin_refusal(fault, &write.target);
        match fault {
            Some(fault @ Fault::CrashBefore(_)) => {
                network.crash(&what, fault, &write, self.0.start, network.0.config.store.latest());
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
        if let Some((answer, why)) = self.refused(&inner, &mut request, &write.target).await? {
            note(format!("{what}: {why}"), true);
            return Ok(answer);
        }
        let demand = Demand::of(&mut request, &write.target).await?;
        let before = network.0.config.store.latest();
        let answer = inner.send(request).await?;
        write.revisions = (before, network.0.config.store.latest());
        let status = answer.status();
        write.creates = status == StatusCode::CREATED && write.target.subresource.is_none();
        {
            let mut state = network.lock();
            if let Some(counted) = state.writes.get_mut(number - 1) {
                counted.clone_from(&write);
            }
            if let Some((key, demand)) = demand.filter(|_| status.is_success()) {
                let before = state.sent.remove(&key);
                state.sent.extend(Sent::and(before, demand).map(|sent| (key, sent)));
            }
            if status.is_success() && state.leader.is_some_and(|leader| leader != self.0.start) {
                state
                    .deposed_writes
                    .push(format!("operator #{} made {what} without the lease", self.0.start));
            }
        }
        let what = format!("{what} → {}", status.as_u16());
        network.record(&write, &what, true).await;
        match fault {
            Some(fault) if fault.kills().is_some() => {
                network.crash(&what, fault, &write, self.0.start, network.0.config.store.latest());
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
            Some(Fault::KindHeld(_, resource)) => {
                note(
                    format!("{what}: watches of {resource} are held for {:?} from here", timing.delay),
                    true,
                );
                self.hold_kind(resource);
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
            if let Some(index) = network.0.config.faults.iter().position(|fault| *fault == failed) {
                network.lock().used.insert(index);
                network.note(self.actor(), format!("read {number}: {target}: answered with 500"), true);
                return Ok(refusal(500));
            }
            let stale = self.0.watches.borrow().stale_revision.filter(|_| self.is_behind());
            // Only a list with resourceVersion=0 may be stale: one without a version is a consistent read.
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
        Ok(answer.map(|body| self.watch(target.group_resource(), body, initial, stream)))
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

    /// Serves a watch whose events are delayed, and which ends, as the plan requires.
    fn watch(
        &self,
        resource: String,
        body: Body,
        initial: Option<Bytes>,
        stream: Option<Stream>,
    ) -> UnsyncBoxBody<Bytes, kube::Error> {
        let watches = self.0.watches.subscribe();
        let epoch = watches.borrow().epoch;
        let events = stream::unfold(
            (body, watches, self.clone(), stream, resource),
            move |(mut body, mut watches, process, stream, resource)| async move {
                let broken = async {
                    // The sender is part of the process, which this stream keeps alive.
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
                    let held = state.held_until(&resource).filter(|until| Instant::now() < *until);
                    if !state.silent && held.is_none() {
                        break;
                    }
                    let held = async {
                        match held {
                            Some(until) if !state.silent => tokio::time::sleep_until(until).await,
                            _ => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        biased;
                        _ = watches.changed() => {}
                        () = held => {}
                    }
                }
                process.reach().await;
                Some((frame, (body, watches, process, stream, resource)))
            },
        );
        let initial = initial.map(|bytes| Ok(http_body::Frame::data(bytes)));
        let all: BoxStream<'static, _> = stream::iter(initial).chain(events).boxed();
        StreamBody::new(all).boxed_unsync()
    }
}

#[derive(Clone)]
pub(super) struct Faulty {
    pub(super) inner: Client,
    pub(super) process: Process,
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
