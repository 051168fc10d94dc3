//! Runs the control loop: changes and timers enqueue items, which the controllers reconcile one after the other.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _};
use steersman_apiserver::Server;

use super::{
    Actor, ControlLoop, Controller, LateOutcome, LoopConfig, LoopHandle, ReconcileState, WorkItem,
    requests::LateRequest, watch::Change,
};
use crate::workloads;

/// Delay before the control loop restarts after a panic.
const RESTART: Duration = Duration::from_secs(1);

/// The outcome of a reconcile.
enum Outcome {
    Done(kube::Result<()>),
    Late(LateRequest),
    Panicked(Box<dyn Any + Send>),
}

/// Runs control loops until it is dropped. A panicked loop is replaced by one that lists everything again.
pub(crate) async fn run(mut config: LoopConfig, server: Server, handle: LoopHandle) {
    loop {
        let mut control = ControlLoop::new(&config, server.clone(), Arc::clone(&handle.panics));
        match config.saved.take() {
            Some(saved) => control.load(&saved),
            None => control.begin(),
        }
        let Err(panic) = AssertUnwindSafe(control.run(handle.clone())).catch_unwind().await else {
            return;
        };
        handle.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(panic = panic_message(&*panic), "the control loop panicked: restarting it");
        tokio::time::sleep(RESTART).await;
    }
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}

impl ControlLoop {
    /// Starts without any state.
    fn begin(&mut self) {
        self.watch_kinds(None);
        self.push(Controller::Discovery, "", "");
        workloads::start(self);
    }

    /// Runs until it is dropped.
    async fn run(mut self, handle: LoopHandle) {
        let mut calm = false;
        loop {
            let revision = self.server.store().revision();
            while let Some(Some(answer)) = self.late.next().now_or_never() {
                self.resume(answer);
                calm = false;
            }
            while let Some(Some(change)) = self.changes.next().now_or_never() {
                self.apply(change);
                calm = false;
            }
            self.queue.fire();
            if let Some(item) = self.next_item() {
                self.reconcile(item).await;
                calm = false;
                continue;
            }
            // A stream may report pending when this task has used up tokio's budget: poll again after a yield.
            if !calm {
                calm = true;
                tokio::task::yield_now().await;
                continue;
            }
            calm = false;
            if self.unsynced == 0 && self.late.is_empty() {
                handle.settled.send_replace(revision);
                for saver in handle.take_savers() {
                    // The receiver may have been dropped.
                    let _ = saver.send(self.save(revision));
                }
            }
            let timer = self.queue.next_timer();
            tokio::select! {
                biased;
                Some(change) = self.changes.next() => self.apply(change),
                Some(answer) = self.late.next() => self.resume(answer),
                () = handle.wake.notified() => {}
                () = sleep_until(timer) => {}
            }
        }
    }

    /// Returns the next item, once every watch has synced.
    ///
    /// Before that, a controller would see no pods and create them again.
    fn next_item(&mut self) -> Option<WorkItem> {
        if self.unsynced == 0 {
            return self.queue.pop();
        }
        None
    }

    async fn reconcile(&mut self, item: WorkItem) {
        self.state = ReconcileState::default();
        let requests = self.requests.clone();
        requests.begin(self.late.len(), self.late_answers.remove(&item));
        self.act_as(Actor::of(item.controller, &item.name));
        let outcome = {
            let mut reconcile = pin!(AssertUnwindSafe(workloads::reconcile(self, &item)).catch_unwind());
            std::future::poll_fn(|context| match reconcile.as_mut().poll(context) {
                Poll::Ready(Ok(result)) => Poll::Ready(Outcome::Done(result)),
                Poll::Ready(Err(panic)) => Poll::Ready(Outcome::Panicked(panic)),
                Poll::Pending => match requests.take_late() {
                    Some(late) => Poll::Ready(Outcome::Late(late)),
                    None => Poll::Pending,
                },
            })
            .await
        };
        let ReconcileState { again, unscheduled, .. } = std::mem::take(&mut self.state);
        if unscheduled.is_some() {
            self.capacity.hold_back(item.clone());
        }
        match outcome {
            Outcome::Done(Ok(())) => {
                self.queue.forget_failures(&item);
                if again {
                    self.queue.push(item);
                }
            }
            Outcome::Done(Err(error)) => {
                tracing::debug!(?item, %error, "reconcile failed: retrying");
                self.queue.retry(item);
            }
            Outcome::Late(late) => {
                tracing::debug!(?item, "slow request: holding back its object");
                self.queue.hold(item.clone());
                let answer = AssertUnwindSafe(late.answer()).catch_unwind();
                self.late.push(Box::pin(async move { (item, answer.await) }));
            }
            Outcome::Panicked(panic) => self.panicked(item, &*panic),
        }
    }

    /// Continues with an object after its late request.
    fn resume(&mut self, (item, answer): LateOutcome) {
        match answer {
            Ok(answer) => {
                if let Some(answer) = answer {
                    self.late_answers.insert(item.clone(), answer);
                }
                self.queue.release(item);
            }
            Err(panic) => {
                self.queue.release(item.clone());
                self.panicked(item, &*panic);
            }
        }
    }

    /// Applies a watch event.
    fn apply(&mut self, change: Change) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| change(self))) {
            self.panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(panic = panic_message(&*panic), "panic while applying a watch event");
        }
    }

    fn panicked(&mut self, item: WorkItem, panic: &(dyn Any + Send)) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(?item, panic = panic_message(panic), "a controller panicked: retrying");
        self.queue.retry(item);
    }
}

async fn sleep_until(timer: Option<tokio::time::Instant>) {
    match timer {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
