//! Workers: processing one object of the queue.

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, atomic::Ordering},
};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::{sync::mpsc::UnboundedSender, time::Instant};
use tracing::Instrument as _;

use super::{Engine, Finalizer};
use crate::{
    action::Action,
    cache::{Meta, Snapshot},
    context::{Context, Primary, RECONCILE_FAILED, Shared},
    error::{Class, Error, Result},
    kind::{Key, Kind},
    metrics::Ended,
    queue::{Done, Job},
};

/// Maximum number of slow reconciles that do not count towards a controller's concurrency.
const MAX_SLOW: usize = 100;

impl Engine {
    /// Processes objects of the queue until it is closed, or until a substitute has replaced this worker.
    pub(super) async fn work(self: Arc<Self>, shared: Arc<Shared>, substitutes: UnboundedSender<()>) {
        while let Some(job) = self.queue.next().await {
            let (namespace, object) = (job.key.namespace().unwrap_or_default(), job.key.name());
            // Not `name`: the JSON format uses it for the span's own name.
            let span = tracing::info_span!("reconcile", controller = %self.name, namespace, object);
            // Boxed: workers are many and mostly idle, and an attempt is large, once for each place that holds it.
            let guarded = self.guarded_attempt(&job, &shared).instrument(span).boxed();
            let attempt = async {
                match &shared.shards {
                    None => guarded.await,
                    Some(shards) => match shards.acquire(&job.key) {
                        // The next holder of the slot reconciles the object anyway.
                        None => Done::Rest,
                        Some(slot) => tokio::select! {
                            // A write that was refused because the slot has passed on is not a failure of the
                            // reconcile.
                            biased;
                            () = slot.lost() => Done::Rest,
                            done = guarded => done,
                        },
                    },
                }
            };
            let (done, replaced) = self.replaced_when_slow(attempt, &substitutes).await;
            self.queue.done(&job.key, done);
            if replaced {
                return;
            }
        }
    }

    /// Runs an attempt, and requests a substitute for this worker if it is slow. Returns whether one came.
    async fn replaced_when_slow(
        &self,
        attempt: impl Future<Output = Done>,
        substitutes: &UnboundedSender<()>,
    ) -> (Done, bool) {
        let Some(limit) = self.options.slow_after else { return (attempt.await, false) };
        let mut attempt = pin!(attempt);
        if let Ok(done) = tokio::time::timeout(limit, &mut attempt).await {
            return (done, false);
        }
        let one_more = |slow: usize| (slow < MAX_SLOW).then_some(slow + 1);
        let replaced = self.slow.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
            && substitutes.send(()).is_ok();
        let done = attempt.await;
        if replaced {
            self.slow.fetch_sub(1, Ordering::Relaxed);
        }
        (done, replaced)
    }

    /// Catches panics outside the reconciler itself, which must not end the worker. They may come from a value that is
    /// dropped after a timeout, or from an error's `Display`.
    async fn guarded_attempt(self: &Arc<Self>, job: &Job, shared: &Arc<Shared>) -> Done {
        let start = Instant::now();
        match AssertUnwindSafe(self.attempt(job, shared)).catch_unwind().await {
            Ok(done) => done,
            Err(panic) => {
                tracing::error!(error = panic_message(&*panic), "panic outside of the reconciler");
                shared.metrics.reconciled(self, Ended::Panic, job.waited, start.elapsed());
                Done::Failed
            }
        }
    }

    async fn attempt(self: &Arc<Self>, job: &Job, shared: &Arc<Shared>) -> Done {
        self.reads().begin(&job.key);
        let start = Instant::now();
        let result = self.process(&job.key, shared).await;
        self.reads().end(&job.key);
        let (done, ended) = match result {
            Ok(Action { after: Some(after) }) => (Done::After(after), Ended::RequeueAfter),
            Ok(Action { after: None }) => {
                let period = self.options.period.filter(|_| self.exists(&job.key));
                (period.map_or(Done::Rest, Done::After), Ended::Success)
            }
            Err(error) => self.failed(&job.key, &error, shared),
        };
        shared.metrics.reconciled(self, ended, job.waited, start.elapsed());
        done
    }

    /// Reports a failure, and decides whether and how to retry.
    fn failed(self: &Arc<Self>, key: &Key, error: &Error, shared: &Arc<Shared>) -> (Done, Ended) {
        let class = error.class();
        if class == Class::Transient {
            tracing::debug!(%error, "transient error: retrying");
            return (Done::Failed, Ended::Requeue);
        }
        let failures = self.queue.failures(key);
        tracing::error!(%error, failures, "reconcile failed");
        if let Some(context) = self.context(key, shared) {
            context.warn(RECONCILE_FAILED, error.to_string());
        }
        match (class, error) {
            (Class::Terminal, _) => (Done::Rest, Ended::Terminal),
            (_, Error::Panic(_)) => (Done::Failed, Ended::Panic),
            (_, Error::Timeout(_)) => (Done::Failed, Ended::Timeout),
            _ => (Done::Failed, Ended::Error),
        }
    }

    fn context(self: &Arc<Self>, key: &Key, shared: &Arc<Shared>) -> Option<Context> {
        let snapshot = self.store().ok()?.get(key)?;
        let meta = snapshot.meta().ok()?;
        Some(self.context_of(&meta, shared))
    }

    fn context_of(self: &Arc<Self>, meta: &Meta<'_>, shared: &Arc<Shared>) -> Context {
        self.context_for(meta.key(), meta, shared)
    }

    /// Returns the context for an object that may be gone.
    fn context_for(self: &Arc<Self>, key: Key, meta: &Meta<'_>, shared: &Arc<Shared>) -> Context {
        let client = shared.shards.as_ref().and_then(|shards| shards.client(&key));
        Context {
            shared: Arc::clone(shared),
            engine: Arc::clone(self),
            primary: Arc::new(Primary {
                kind: self.kind.clone(),
                key,
                uid: meta.uid.to_string(),
                generation: meta.generation,
                client: client.unwrap_or_else(|| shared.client.clone()),
            }),
        }
    }

    async fn process(self: &Arc<Self>, key: &Key, shared: &Arc<Shared>) -> Result<Action> {
        let uid = self.store()?.get(key).and_then(|found| Some(found.meta().ok()?.uid.to_string()));
        self.queue.identify(key, &uid.unwrap_or_default());
        let rest = self.finalize_owned(key, shared).await?;
        // The garbage collector may have deleted what the object controls: then the object is gone, and only the cache is
        // behind. Without this check those objects would be recreated until the cache has caught up.
        let recheck = self.recheck().remove(key);
        let Some(mut snapshot) = self.store()?.get(key) else { return Ok(rest) };
        let deleting = {
            let meta = snapshot.meta()?;
            let context = self.context_of(&meta, shared);
            if recheck && !meta.deleting() {
                match context.is_current().await {
                    Ok(true) => {}
                    Ok(false) => return Ok(rest),
                    Err(error) => {
                        self.recheck().insert(key.clone());
                        return Err(error);
                    }
                }
            }
            if meta.deleting() {
                true
            } else {
                let mut names: Vec<String> = meta.finalizers.iter().map(ToString::to_string).collect();
                let before = names.len();
                for finalizer in self.finalizers.iter().filter(|finalizer| finalizer.is_set) {
                    if !meta.has_finalizer(finalizer.name) {
                        names.push(finalizer.name.to_owned());
                    }
                }
                if names.len() > before {
                    snapshot = context.set_finalizers(&self.kind, &snapshot, &names).await?;
                }
                false
            }
        };
        let context = self.context_of(&snapshot.meta()?, shared);
        if deleting {
            let action = self.finalize(&self.kind, &self.finalizers, snapshot, &context).await?;
            return Ok(action.or_sooner(rest));
        }
        let action = self.call((self.reconcile)(snapshot, context)).await?;
        Ok(action.or_sooner(rest))
    }

    /// Runs the cleanups, finalizer by finalizer.
    async fn finalize(
        &self,
        kind: &Kind,
        finalizers: &[Finalizer],
        mut snapshot: Snapshot,
        context: &Context,
    ) -> Result<Action> {
        for finalizer in finalizers {
            let names: Vec<String> = snapshot.meta()?.finalizers.iter().map(ToString::to_string).collect();
            if !names.iter().any(|name| name == finalizer.name) {
                continue;
            }
            let action = self.call((finalizer.cleanup)(snapshot.clone(), context.clone())).await?;
            if action.after.is_some() {
                return Ok(action);
            }
            // The cleanup may have changed the object itself.
            if let Some(current) = context.cached(kind, &snapshot.meta()?.key()) {
                snapshot = current;
            }
            let names: Vec<String> = snapshot.meta()?.finalizers.iter().map(ToString::to_string).collect();
            let rest: Vec<String> = names.iter().filter(|name| *name != finalizer.name).cloned().collect();
            if rest.len() < names.len() {
                snapshot = match context.set_finalizers(kind, &snapshot, &rest).await {
                    Ok(snapshot) => snapshot,
                    Err(error) if error.is_not_found() => return Ok(Action::await_change()),
                    Err(error) => return Err(error),
                };
            }
        }
        Ok(Action::await_change())
    }

    /// Cleans up controlled objects that are being deleted. Their owner may be gone.
    async fn finalize_owned(self: &Arc<Self>, owner: &Key, shared: &Arc<Shared>) -> Result<Action> {
        let mut rest = Action::await_change();
        let mut failure = None;
        for which in self.pending_cleanups(owner) {
            let (index, key) = &which;
            let Some((kind, finalizer)) = self.secondary.get(*index) else { continue };
            let context = self
                .context(owner, shared)
                .unwrap_or_else(|| self.context_for(owner.clone(), &Meta::default(), shared));
            let due = || context.cached(kind, key).filter(|snapshot| finalizer.is_due(snapshot));
            if let Some(snapshot) = due() {
                match self.finalize(kind, std::slice::from_ref(finalizer), snapshot, &context).await {
                    Ok(action) => rest = rest.or_sooner(action),
                    Err(error) => failure = Some(error),
                }
            }
            self.cleanup_done(owner, &which, || due().is_some());
        }
        failure.map_or(Ok(rest), Err)
    }

    /// Runs user code, with a timeout and with panics caught.
    async fn call(&self, work: BoxFuture<'static, Result<Action>>) -> Result<Action> {
        let guarded = AssertUnwindSafe(work).catch_unwind();
        let caught = match self.options.timeout {
            Some(limit) => match tokio::time::timeout(limit, guarded).await {
                Ok(caught) => caught,
                Err(_) => return Err(Error::Timeout(limit)),
            },
            None => guarded.await,
        };
        caught.unwrap_or_else(|panic| Err(Error::Panic(panic_message(&*panic))))
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_in_its_own_words() {
        let told = |panic: Box<dyn Any + Send>| panic_message(&*panic);
        assert_eq!(told(Box::new("as asked")), "as asked");
        assert_eq!(told(Box::new("as asked".to_owned())), "as asked");
        assert_eq!(told(Box::new(7)), "unknown panic");
    }
}
