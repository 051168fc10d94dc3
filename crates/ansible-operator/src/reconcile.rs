//! Reconciles an object: prepares variables, runs the play, and reports the outcome.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use serde_json::{Map, Value, json};
use steersman::{Action, Context, Error as RuntimeError, Key, Kind};

use crate::metrics::Metrics;
use crate::operator::LogEvents;
use crate::outcome::{Event, Outcome, TaskResult, place};
use crate::progress::{Observer, Step};
use crate::proxy::{Owner, Proxy, Recent, RunScope};
use crate::redact::Redactor;
use crate::resources::Resources;
use crate::runner::{Play, Runner};
use crate::runs::Runs;
use crate::settings::Settings;
use crate::status::{self, INVALID_ANNOTATION, Status, TASK_FAILED, VARIABLE_HIDDEN, Verdict};
use crate::variables::variables;
use crate::watches::{Content, Watch};

/// operator-sdk's condition message for a run that cannot be started.
const SETUP_FAILED: &str = "Unable to run reconciliation";
/// The maximum length of a condition's message.
const LONGEST_MESSAGE: usize = 32_000;
/// The maximum number of events about failed tasks per run.
const EVENTS: usize = 5;

/// Runs a role or playbook for each object of a kind.
pub(crate) struct Reconciler {
    pub(crate) watch: Watch,
    pub(crate) kind: Kind,
    pub(crate) runner: Runner,
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) resources: Resources,
    pub(crate) metrics: Arc<Metrics>,
    /// Default resync period.
    pub(crate) period: Duration,
    pub(crate) verbosity: u8,
    pub(crate) inject_owner: bool,
    pub(crate) check: bool,
    /// The objects to run plays for; all if empty.
    pub(crate) only: Vec<Key>,
    pub(crate) observer: Option<Observer>,
    pub(crate) log_events: LogEvents,
    pub(crate) debug_logs: bool,
    /// Kinds of created objects, which are watched.
    pub(crate) watched: Arc<Mutex<HashSet<Kind>>>,
    /// Recent responses of the cluster to runs.
    pub(crate) recent: Arc<Recent>,
    pub(crate) runs: Runs,
}

/// The purpose of a run.
#[derive(Clone, Copy)]
enum Phase<'a> {
    Reconcile,
    Finalize(&'a Content, &'a Map<String, Value>),
}

impl Reconciler {
    pub(crate) async fn reconcile(
        &self,
        object: Arc<DynamicObject>,
        context: Context,
    ) -> Result<Action, RuntimeError> {
        if !self.only.is_empty() && !self.only.contains(context.key()) {
            return Ok(Action::await_change());
        }
        // Waits for other finalizers: there is nothing left to reconcile.
        if object.metadata.deletion_timestamp.is_some() {
            self.runs.forget(&object.uid().unwrap_or_default());
            return Ok(Action::await_change());
        }
        let settings = match Settings::of(&object) {
            Ok(settings) => settings,
            Err(message) => {
                self.warn(&context, INVALID_ANNOTATION, message.clone());
                self.tell(&context, || Step::Ended { failure: Some(message.clone()) });
                self.say(&object, &context, &Verdict::Failed { message: message.clone(), result: None })
                    .await?;
                self.metrics.reconciled(&self.watch.config.title(), false);
                return Err(RuntimeError::terminal(message));
            }
        };
        let outcome = self.run(&object, &context, &settings, Phase::Reconcile).await?;
        let period = settings.period.unwrap_or(self.period);
        let action = if period.is_zero() { Action::await_change() } else { Action::requeue(period) };
        Ok(match outcome.requeue_after {
            Some(after) => Action::requeue(after),
            None => action,
        })
    }

    /// Runs the finalizer's play.
    pub(crate) async fn finalize(
        &self,
        object: Arc<DynamicObject>,
        context: Context,
    ) -> Result<Action, RuntimeError> {
        let (Some(content), Some(finalizer)) = (&self.watch.final_content, &self.watch.config.finalizer)
        else {
            return Ok(Action::await_change());
        };
        // An invalid annotation must not block the deletion.
        let settings = Settings::of(&object).unwrap_or_default();
        let phase = Phase::Finalize(content, &finalizer.vars);
        let outcome = self.run(&object, &context, &settings, phase).await?;
        self.runs.forget(&object.uid().unwrap_or_default());
        Ok(match outcome.requeue_after {
            Some(after) => Action::requeue(after),
            None => Action::await_change(),
        })
    }

    /// Performs and reports one run. Fails if the run failed.
    async fn run(
        &self,
        object: &DynamicObject,
        context: &Context,
        settings: &Settings,
        phase: Phase<'_>,
    ) -> Result<Outcome, RuntimeError> {
        let outcome = self.run_and_say(object, context, settings, phase).await;
        self.runs.notify(context.key());
        outcome
    }

    async fn run_and_say(
        &self,
        object: &DynamicObject,
        context: &Context,
        settings: &Settings,
        phase: Phase<'_>,
    ) -> Result<Outcome, RuntimeError> {
        let gvk = self.watch.config.title();
        let generation = object.metadata.generation;
        let uid = object.uid().unwrap_or_default();
        let status = Status::read(object.data.get("status"));
        let last = self.runs.last(&uid);
        let is_first = last.is_none();
        let (is_known, has_succeeded) = match last {
            Some(last) => (generation.is_some() && last.generation == generation, last.succeeded),
            // A new process relies on the status that the previous one wrote.
            None => (status.observes(generation), true),
        };
        let is_settled = is_known && has_succeeded && status.is_successful();
        // A run that is not expected to change anything does not set `Running`.
        let is_quiet = matches!(phase, Phase::Reconcile) && is_settled;
        if !is_quiet {
            self.say(object, context, &Verdict::Running).await?;
        }
        let scope = Arc::new(self.scope(object, context));
        let play = match self.play(object, context, settings, phase, !is_known) {
            Ok(play) => play,
            Err(error) => return self.setup_failed(object, context, &error.to_string()).await,
        };
        let access = match self.proxy.open(Arc::clone(&scope)) {
            Ok(access) => access,
            Err(error) => return self.setup_failed(object, context, &error.to_string()).await,
        };
        let play = Play { kubeconfig: access.kubeconfig(), ..play };
        let started = Instant::now();
        let observed = |event: &Event| {
            self.log(event, context, &scope.redactor);
            self.observe(event, context, &scope.redactor);
        };
        let mut outcome = self.runner.run(&play, observed).await;
        drop(access);
        self.metrics.took(&gvk, started.elapsed());
        for change in &outcome.metrics {
            if let Err(problem) = self.metrics.change(change) {
                outcome.errors.push(format!("osdk_metric: {problem}"));
            }
        }
        if self.debug_logs && !outcome.output.is_empty() {
            tracing::info!(object = %context.key(), "Ansible output:\n{}", scope.redactor.redact(&outcome.output));
        }
        let succeeded = outcome.succeeded();
        if self.runs.ended(&uid, generation, succeeded, scope.take_touched()) {
            let all = context.objects_of(&self.kind).all_namespaces().list().await?;
            self.runs.retain(&all.iter().filter_map(ResourceExt::uid).collect());
        }
        if self.watch.config.manage_status {
            self.metrics.reconciled(&gvk, succeeded);
        }
        let completion = completion(context);
        if succeeded {
            // The object read at startup may be older than the last status of the previous process.
            let is_said = is_quiet && (!is_first || self.is_settled(object, context).await?);
            if !is_said || outcome.has_changed() {
                let result = outcome.ansible_result(&completion);
                self.say(object, context, &Verdict::Succeeded { result }).await?;
            }
            self.tell(context, || Step::Ended { failure: None });
            return Ok(outcome);
        }
        let message = shortened(scope.redactor.redact(&outcome.message()));
        self.tell(context, || Step::Ended { failure: Some(message.clone()) });
        for failure in outcome.failures.iter().take(EVENTS) {
            let file = failure.path.as_deref().map_or(String::new(), |path| format!(" ({path})"));
            let note = format!("task {:?}{file} failed: {}", failure.task, failure.message);
            self.warn(context, TASK_FAILED, shortened_to(scope.redactor.redact(&note), 1000));
        }
        let result = outcome.ansible_result(&completion);
        self.say(object, context, &Verdict::Failed { message: message.clone(), result }).await?;
        Err(RuntimeError::other(message))
    }

    async fn setup_failed(
        &self,
        object: &DynamicObject,
        context: &Context,
        reason: &str,
    ) -> Result<Outcome, RuntimeError> {
        tracing::error!(object = %context.key(), reason, "cannot start a run");
        self.metrics.reconciled(&self.watch.config.title(), false);
        self.tell(context, || Step::Ended { failure: Some(format!("{SETUP_FAILED}: {reason}")) });
        self.say(object, context, &Verdict::Failed { message: SETUP_FAILED.into(), result: None }).await?;
        Err(RuntimeError::other(format!("{SETUP_FAILED}: {reason}")))
    }

    fn play(
        &self,
        object: &DynamicObject,
        context: &Context,
        settings: &Settings,
        phase: Phase<'_>,
        is_new: bool,
    ) -> Result<Play, serde_json::Error> {
        let mut content = serde_json::to_value(object)?;
        let resource = self.kind.resource();
        content["apiVersion"] = json!(resource.api_version);
        content["kind"] = json!(resource.kind);
        let (run, final_vars) = match phase {
            Phase::Reconcile => (&self.watch.content, None),
            Phase::Finalize(content, vars) => (content, Some(vars)),
        };
        let made = variables(&self.watch.config, &content, final_vars);
        if is_new {
            for warning in made.warnings {
                self.warn(context, VARIABLE_HIDDEN, warning);
            }
        }
        Ok(Play {
            content: run.clone(),
            variables: made.values,
            kubeconfig: Value::Null,
            verbosity: settings.verbosity.unwrap_or(self.verbosity),
            check: self.check,
        })
    }

    fn scope(&self, object: &DynamicObject, context: &Context) -> RunScope {
        let config = &self.watch.config;
        let owner = Owner {
            kind: self.kind.clone(),
            key: context.key().clone(),
            uid: object.uid().unwrap_or_default(),
        };
        RunScope {
            context: context.clone(),
            owner,
            inject_owner: self.inject_owner,
            watch_dependents: config.watch_dependent_resources,
            watch_cluster_scoped: config.watch_cluster_scoped_resources,
            blacklist: config.blacklist.clone(),
            dry_run: self.check,
            resources: self.resources.clone(),
            redactor: Redactor::default(),
            watched: Arc::clone(&self.watched),
            recent: Arc::clone(&self.recent),
            touched: Mutex::default(),
        }
    }

    /// Whether the live object, if it still exists, reports that its last run succeeded.
    async fn is_settled(&self, object: &DynamicObject, context: &Context) -> Result<bool, RuntimeError> {
        let Some(live) = self.api(context).get_opt(context.name()).await? else { return Ok(true) };
        Ok(Status::read(live.data.get("status")).is_settled(object.metadata.generation))
    }

    fn api(&self, context: &Context) -> Api<DynamicObject> {
        match context.key().namespace() {
            Some(namespace) => Api::namespaced_with(context.client(), namespace, self.kind.resource()),
            None => Api::all_with(context.client(), self.kind.resource()),
        }
    }

    /// Writes conditions, if status management is enabled.
    async fn say(
        &self,
        object: &DynamicObject,
        context: &Context,
        verdict: &Verdict,
    ) -> Result<(), RuntimeError> {
        if !self.watch.config.manage_status || self.check {
            return Ok(());
        }
        let api = self.api(context);
        Ok(status::write(&api, &self.kind, object, verdict, object.metadata.generation, context).await?)
    }

    /// Records an event about the object, except in check mode.
    fn warn(&self, context: &Context, reason: &str, note: String) {
        if !self.check {
            context.warn(reason, note);
        }
    }

    fn tell(&self, context: &Context, step: impl FnOnce() -> Step) {
        if let Some(observer) = &self.observer {
            observer.tell(&self.watch.config.kind, context.key(), step());
        }
    }

    fn observe(&self, event: &Event, context: &Context, redactor: &Redactor) {
        let redacted = |text: &Option<String>| text.as_deref().map(|text| redactor.redact(text));
        match event {
            Event::Start { name, path } => {
                self.tell(context, || Step::Task { name: task_name(name), path: path.clone() });
            }
            // Items of a loop are included in the task's result.
            Event::Result(result) if !result.status.starts_with("item_") => {
                let failed = matches!(result.status.as_str(), "failed" | "unreachable") && !result.ignored;
                self.tell(context, || Step::Done {
                    name: task_name(&result.name),
                    path: result.path.clone(),
                    failed,
                    changed: result.changed,
                    message: redacted(&result.message),
                    diff: redacted(&result.diff),
                });
            }
            _ => {}
        }
    }

    fn log(&self, event: &Event, context: &Context, redactor: &Redactor) {
        let object = context.key();
        if self.log_events == LogEvents::Nothing {
            return;
        }
        let everything = self.log_events == LogEvents::Everything;
        match event {
            Event::Start { name, path } => {
                tracing::info!(%object, task = name, path, "[playbook task start]");
            }
            Event::Result(result) => {
                let message = result.message.as_deref().map(|message| redactor.redact(message));
                let message = shortened_to(message.unwrap_or_default(), 1000);
                log_result(result, context, &message, everything);
            }
            Event::Error { message } => {
                let message = redactor.redact(message);
                tracing::error!(%object, message, "[playbook failed]");
            }
            Event::NoHosts => tracing::warn!(%object, "no hosts match the pattern of a play"),
            Event::Stats { .. } | Event::End { .. } => {}
        }
    }
}

fn log_result(result: &TaskResult, context: &Context, message: &str, everything: bool) {
    let object = context.key();
    let TaskResult { name, path, host, changed, diff, .. } = result;
    match result.status.as_str() {
        "failed" | "unreachable" if !result.ignored => {
            tracing::error!(%object, task = name, path, host, message, "[playbook task failed]");
        }
        "ok" if result.action.ends_with("debug") => {
            tracing::info!(%object, task = name, message, "[playbook debug]");
        }
        status if everything || diff.is_some() => {
            tracing::info!(%object, task = place(result), status, changed, diff, "[playbook task result]");
        }
        _ => {}
    }
}

/// Returns a task's name without the role that Ansible prefixes, which is a path here.
fn task_name(name: &str) -> String {
    match name.split_once(" : ") {
        Some((role, task)) if role.starts_with('/') => {
            format!("{} : {task}", role.rsplit('/').next().unwrap_or(role))
        }
        _ => name.to_owned(),
    }
}

/// Formats the time for `ansibleResult`, with microseconds.
fn completion(context: &Context) -> String {
    context.now().strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
}

fn shortened(text: String) -> String {
    shortened_to(text, LONGEST_MESSAGE)
}

fn shortened_to(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
