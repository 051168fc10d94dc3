//! The control loop at work: changes and timers bring items, which the controllers reconcile one after the other.

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

/// How a reconcile ended.
enum Outcome {
    Done(kube::Result<()>),
    Late(LateRequest),
    Panicked(Box<dyn Any + Send>),
}

/// Runs control loops until it is dropped. One that panics is replaced by one that lists anew.
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
        tracing::error!(panic = panic_message(&*panic), "the control loop panicked and begins anew");
        tokio::time::sleep(RESTART).await;
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}

impl ControlLoop {
    /// Begins from nothing.
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
            // A stream may pretend to have nothing when this task has had its share of the thread: ask twice.
            if !calm {
                calm = true;
                tokio::task::yield_now().await;
                continue;
            }
            calm = false;
            if self.unsynced == 0 && self.late.is_empty() {
                handle.settled.send_replace(revision);
                for saver in handle.take_savers() {
                    // It may have stopped waiting.
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

    /// The next item, once every watch has synced: a controller that believed that
    /// there are no pods would make them again.
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
                tracing::debug!(?item, %error, "will be tried again");
                self.queue.retry(item);
            }
            Outcome::Late(late) => {
                tracing::debug!(?item, "a request takes long: the others go on");
                self.queue.hold(item.clone());
                let answer = AssertUnwindSafe(late.answer()).catch_unwind();
                self.late.push(Box::pin(async move { (item, answer.await) }));
            }
            Outcome::Panicked(panic) => self.panicked(item, &*panic),
        }
    }

    /// Goes on with an object whose request was late.
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
            tracing::error!(
                panic = panic_message(&*panic),
                "a controller panicked over a change that it saw"
            );
        }
    }

    fn panicked(&mut self, item: WorkItem, panic: &(dyn Any + Send)) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(?item, panic = panic_message(panic), "a controller panicked and is tried again");
        self.queue.retry(item);
    }
}

async fn sleep_until(timer: Option<tokio::time::Instant>) {
    match timer {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
