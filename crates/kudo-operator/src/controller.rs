//! The controller of instances: executes their plans, and reports their readiness.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman::{Action, Context, Controller, Key, Operator, Watch};
use steersman_kudo::plan::{self, Evaluation, Outcome};
use steersman_kudo::task::{Run, pipes};
use steersman_kudo::{
    ExecutionStatus, FINALIZER, Instance, OperatorVersion, PlanExecution, PlanRun, PlanStatus, admission,
    annotation, crds, parameters, reason,
};
use steersman_release::Kinds;
use tokio::sync::OnceCell;

use crate::admission::{Admission, uid};
use crate::apply::MANAGER;
use crate::execute::Executor;
use crate::files::{ExecFiles, PodFiles};
use crate::inventory::{Entry, note, prune};
use crate::readiness::{readiness, set_plan_condition};
use crate::repair::{UndriftedInstances, repair};

/// Backoff of failed reconciles: first and maximum delay.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Creates the operator with default settings, without a webhook.
pub fn operator() -> Operator {
    KudoOperator::new().operator()
}

/// Configures the operator of instances.
#[derive(Clone)]
#[must_use]
pub struct KudoOperator {
    files: Arc<dyn PodFiles>,
    webhook: Option<Admission>,
}

impl std::fmt::Debug for KudoOperator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KudoOperator").finish_non_exhaustive()
    }
}

impl Default for KudoOperator {
    fn default() -> Self {
        Self::new()
    }
}

impl KudoOperator {
    /// Creates the default configuration.
    pub fn new() -> Self {
        Self { files: Arc::new(ExecFiles), webhook: None }
    }

    /// Sets how files of Pipe tasks are read. Default: by executing `cat` in the pod.
    pub fn files(mut self, files: impl PodFiles) -> Self {
        self.files = Arc::new(files);
        self
    }

    /// Serves the admission webhook. Default: not served.
    pub fn webhook(mut self, admission: Admission) -> Self {
        self.webhook = Some(admission);
        self
    }

    /// Builds the operator.
    pub fn operator(self) -> Operator {
        let Self { files, webhook } = self;
        let reconciler =
            Arc::new(Reconciler { files, kinds: OnceCell::new(), known: UndriftedInstances::default() });
        let cleaner = Arc::clone(&reconciler);
        let controller = Controller::of_existing::<Instance>(move |instance: Arc<Instance>, context| {
            let reconciler = Arc::clone(&reconciler);
            async move { reconciler.reconcile(&instance, &context).await }
        })
        .named("instance")
        .honour_finalizer(FINALIZER, move |instance: Arc<Instance>, context| {
            let cleaner = Arc::clone(&cleaner);
            async move { cleaner.clean_up(&instance, &context).await }
        })
        .backoff(FIRST_RETRY, LAST_RETRY)
        .owns::<Deployment>()
        .owns::<StatefulSet>()
        .owns::<DaemonSet>()
        .owns::<Job>()
        .owns::<Pod>()
        .owns::<Service>()
        .watch(Watch::read::<OperatorVersion>())
        .watch(Watch::mapped("parents", parents));
        let mut operator = Operator::new("kudo-manager").controller(controller).permission("*", ["*"], ["*"]);
        for crd in crds() {
            operator = operator.crd(crd);
        }
        match webhook {
            Some(admission) => operator.webhook(admission.webhook()),
            None => operator,
        }
    }
}

/// Maps a child to the instances with the KudoOperator tasks that created it.
fn parents(child: &Instance) -> Vec<Key> {
    let owners = child.owner_references().iter().filter(|owner| owner.kind == "Instance");
    owners.map(|owner| Key::new(child.metadata.namespace.as_deref(), &owner.name)).collect()
}

struct Reconciler {
    files: Arc<dyn PodFiles>,
    kinds: OnceCell<Kinds>,
    known: UndriftedInstances,
}

impl Reconciler {
    async fn reconcile(&self, seen: &Instance, context: &Context) -> steersman::Result<Action> {
        let api: Api<Instance> = Api::namespaced(context.client(), context.namespace());
        // Reads from the API server, as the cache may be stale: a run that has ended must not continue.
        let Some(mut instance) = api.get_opt(seen.name()).await? else { return Ok(Action::await_change()) };
        let Some(version) = operator_version(&instance, context).await? else {
            return Err(steersman::Error::other(missing_version(&instance, context)));
        };
        // Without a webhook, the first plan is scheduled here.
        if instance.spec.plan_execution.plan_name.is_empty() && instance.status.last_plan().is_none() {
            if let Err(error) = admission::create(&mut instance, &version, uid) {
                context.warn(reason::INVALID_INSTANCE, error.to_string());
                return Ok(Action::await_change());
            }
            instance = api.replace(instance.name(), &post(), &instance).await?;
            context.observe(&instance)?;
        }
        let instance = decide(instance, &version, &api, context).await?;
        // After a denied update, the instance keeps its previous version.
        let version = if version.name() == instance.spec.operator_version.name {
            version
        } else {
            let known = operator_version(&instance, context).await?;
            known.ok_or_else(|| steersman::Error::other(missing_version(&instance, context)))?
        };
        if instance.spec.plan_execution.plan_name.is_empty() {
            return self.keep(instance, &version, &api, context).await;
        }
        self.run_plan(instance, &version, &api, context).await
    }

    /// Executes the `cleanup` plan of an instance that is being deleted: admission cannot schedule it. A failed plan keeps the
    /// instance, as in KUDO, so that nothing is left behind unnoticed.
    async fn clean_up(&self, seen: &Instance, context: &Context) -> steersman::Result<Action> {
        let api: Api<Instance> = Api::namespaced(context.client(), context.namespace());
        let Some(mut instance) = api.get_opt(seen.name()).await? else { return Ok(Action::await_change()) };
        let Some(version) = operator_version(&instance, context).await? else {
            missing_version(&instance, context);
            return Ok(Action::await_change());
        };
        if !version.spec.plans.contains_key("cleanup") {
            return Ok(Action::await_change());
        }
        let status = instance.status.plan_status.get("cleanup").map(|plan| plan.status).unwrap_or_default();
        if instance.spec.plan_execution.plan_name != "cleanup" && status == ExecutionStatus::NeverRun {
            instance.spec.plan_execution = PlanExecution {
                plan_name: "cleanup".into(),
                uid: uid(),
                status: Some(ExecutionStatus::NeverRun),
                ..PlanExecution::default()
            };
            admission::remember(&mut instance);
            instance = api.replace(instance.name(), &post(), &instance).await?;
            context.observe(&instance)?;
        }
        let action = self.run_plan(instance, &version, &api, context).await?;
        let Some(instance) = api.get_opt(seen.name()).await? else { return Ok(Action::await_change()) };
        match instance.status.plan_status.get("cleanup").map(|plan| plan.status) {
            Some(ExecutionStatus::Complete) => Ok(Action::await_change()),
            // Aborting the cleanup forgoes what it would have cleaned up.
            Some(ExecutionStatus::FatalError) if is_aborted(&instance, "cleanup") => {
                Ok(Action::await_change())
            }
            Some(ExecutionStatus::FatalError) => {
                Err(steersman::Error::terminal("the cleanup plan failed: the instance is kept"))
            }
            _ => Ok(action),
        }
    }

    async fn kinds(&self, context: &Context) -> &Kinds {
        self.kinds.get_or_init(|| async { Kinds::new(context.client()) }).await
    }

    /// Maintains an instance without a scheduled plan: repairs drift, and updates readiness.
    async fn keep(
        &self,
        instance: Instance,
        version: &OperatorVersion,
        api: &Api<Instance>,
        context: &Context,
    ) -> steersman::Result<Action> {
        let last = instance.status.last_plan().map(|plan| plan.status);
        if last == Some(ExecutionStatus::FatalError) || instance.is_deleting() {
            return Ok(Action::await_change());
        }
        repair(&instance, version, &self.known, self.kinds(context).await, &self.files, context).await?;
        readiness(instance, api, context).await
    }

    async fn run_plan(
        &self,
        mut instance: Instance,
        version: &OperatorVersion,
        api: &Api<Instance>,
        context: &Context,
    ) -> steersman::Result<Action> {
        let run = instance.spec.plan_execution.clone();
        let before = instance.status.clone();
        for (name, plan) in &version.spec.plans {
            let stored = instance.status.plan_status.get(name);
            let status =
                stored.map_or_else(|| plan::never_run(name, plan), |stored| plan::reshaped(plan, stored));
            instance.status.plan_status.insert(name.clone(), status);
        }
        let now = Time(context.now());
        let mut finished = None;
        let (mut goes_on, mut is_polled) = (false, false);
        match version.spec.plans.get(&run.plan_name) {
            None => {
                let message = format!("could not find required plan: '{}'", run.plan_name);
                context.warn(reason::INVALID_PLAN, message.as_str());
                let status = PlanStatus {
                    name: run.plan_name.clone(),
                    status: ExecutionStatus::FatalError,
                    uid: run.uid.clone(),
                    message,
                    last_updated_timestamp: Some(now.clone()),
                    ..PlanStatus::default()
                };
                instance.status.plan_status.insert(run.plan_name.clone(), status);
            }
            Some(plan) => {
                let stored =
                    instance.status.plan_status.get(&run.plan_name).filter(|stored| stored.uid == run.uid);
                let stored = match stored {
                    Some(stored) => stored.clone(),
                    None => {
                        context.event(
                            reason::PLAN_STARTED,
                            format!("Execution of plan {} started", run.plan_name),
                        );
                        begin(&instance, plan, &run)
                    }
                };
                let had_ended = stored.status.is_terminal();
                let mut done = Pass::default();
                let mut status = if instance.annotation(annotation::ABORT) == run.uid && !had_ended {
                    let mut status = stored;
                    plan::give_up(&mut status, ABORTED);
                    context.warn(
                        reason::PLAN_ABORTED,
                        format!("Execution of plan {} was aborted", run.plan_name),
                    );
                    status
                } else {
                    self.pass(&instance, version, plan, stored, &mut done, context).await?
                };
                note(&mut instance.status, done.ledger);
                (goes_on, is_polled) = (done.goes_on, done.is_polled);
                if !had_ended {
                    plan::note_start(&mut status, &now);
                }
                if let Some(exceeded) =
                    plan::deadline(plan, &status, &now).filter(|deadline| deadline.left.is_zero())
                {
                    let message = format!("{} exceeded its timeout of {:?}", exceeded.what, exceeded.limit);
                    context.warn(reason::PLAN_TIMEOUT, message.as_str());
                    plan::give_up(&mut status, &message);
                }
                if status.status == ExecutionStatus::Complete && !had_ended && !instance.is_deleting() {
                    let pruned =
                        prune(&mut instance, version, &context.client(), self.kinds(context).await).await;
                    pruned.events.into_iter().for_each(|(reason, said)| context.event(reason, said));
                    pruned.warnings.into_iter().for_each(|(reason, why)| context.warn(reason, why));
                }
                status.progress = Some(plan::progress(&status));
                let old = before.plan_status.get(&run.plan_name);
                status.last_updated_timestamp = old.and_then(|old| old.last_updated_timestamp.clone());
                if old != Some(&status) {
                    status.last_updated_timestamp = Some(now.clone());
                }
                if status.status.is_terminal() && !had_ended {
                    finished = Some(format!(
                        "Execution of plan {} finished with status {}",
                        run.plan_name,
                        status.status.as_str()
                    ));
                }
                instance.status.plan_status.insert(run.plan_name.clone(), status);
            }
        }
        let status = instance.status.plan_status[&run.plan_name].clone();
        set_plan_condition(&mut instance, &status, context);
        if finished.is_some() {
            instance.status.keep(PlanRun {
                plan: status.name.clone(),
                uid: status.uid.clone(),
                status: status.status,
                message: status.messages().join("; "),
                operator_version: version.name().to_owned(),
                start_time: status.start_time.clone(),
                end_time: Some(now.clone()),
            });
        }
        let updated = status.last_updated_timestamp.as_ref().map(|time| time.0);
        // Status first: after a crash in between, the next reconcile finds a run that has ended, and unschedules it.
        if instance.status != before {
            let mut written = api.replace_status(instance.name(), &post(), &instance).await?;
            context.observe(&written)?;
            // Keep the spec that was admitted.
            written.spec = instance.spec;
            instance = written;
        }
        let is_deleting = instance.is_deleting();
        self.take_off(instance, &status, api, context).await?;
        if let Some(message) = finished {
            context.event(reason::PLAN_FINISHED, message);
        }
        if status.status.is_terminal() {
            // From now on the plan's objects are maintained.
            if !is_deleting {
                context.requeue();
            }
            return Ok(Action::await_change());
        }
        if goes_on {
            context.requeue();
            return Ok(Action::await_change());
        }
        // Not every kind is watched, so such plans are polled with KUDO's delay: a second more for each minute without a change.
        // Where watches report changes, the maximum delay is a resync for missed events.
        let idle = updated.map_or(0, |then| context.now().as_second() - then.as_second());
        let seconds = (idle.max(0) / 60).min(59) + 1;
        let delay = if is_polled { Duration::from_secs(seconds.unsigned_abs()) } else { LAST_RETRY };
        let plan = version.spec.plans.get(&run.plan_name);
        let limit = plan.and_then(|plan| plan::deadline(plan, &status, &Time(context.now())));
        Ok(Action::requeue(limit.map_or(delay, |limit| delay.min(limit.left))))
    }

    /// Runs the due tasks, until there are none or a step is complete. That is stored before the next step begins, so that no
    /// step is repeated after one that undid it.
    async fn pass(
        &self,
        instance: &Instance,
        version: &OperatorVersion,
        plan: &steersman_kudo::Plan,
        stored: PlanStatus,
        done: &mut Pass,
        context: &Context,
    ) -> steersman::Result<PlanStatus> {
        if stored.status.is_terminal() {
            return Ok(stored);
        }
        let fatal = |reason: &str, message: String| {
            context.warn(reason, format!("Error during execution: fatal error: {message}"));
            PlanStatus { status: ExecutionStatus::FatalError, message, ..stored.clone() }
        };
        let values = match parameters::resolve(&version.spec, &instance.spec) {
            Ok(values) => values,
            Err(error) => {
                return Ok(fatal(reason::INVALID_PARAMS, format!("could not parse parameters: {error}")));
            }
        };
        let mut run = Run {
            version: &version.spec,
            instance: instance.name(),
            namespace: instance.namespace(),
            plan_name: &stored.name,
            plan_uid: &stored.uid,
            parameters: values,
            pipes: BTreeMap::new(),
        };
        match pipes(&run, plan) {
            Ok(pipes) => run.pipes = pipes,
            Err(failure) => return Ok(fatal(failure.reason, failure.message)),
        }
        let mut executor = Executor {
            client: context.client(),
            kinds: self.kinds(context).await,
            files: &self.files,
            run,
            owner: context.owner_reference(),
            operator_version: version.name().to_owned(),
            has_own_parameters: !instance.spec.plan_execution.parameters.is_empty(),
            notes: Vec::new(),
            ledger: Vec::new(),
            is_polled: false,
            is_dry: false,
            previewed: Vec::new(),
        };
        let mut outcomes = BTreeMap::new();
        let status = loop {
            let Evaluation { status, due } = plan::evaluate(plan, &stored, &outcomes);
            if due.is_empty() {
                break status;
            }
            if plan::complete_steps(&status) > plan::complete_steps(&stored) {
                done.goes_on = true;
                break status;
            }
            for task in due {
                let outcome = executor.execute(&task).await;
                let is_fatal = matches!(outcome, Outcome::Fatal { .. });
                if let Outcome::Fatal { reason, message } = &outcome {
                    context.warn(reason, message.as_str());
                }
                outcomes.insert(task, outcome);
                if is_fatal {
                    break;
                }
            }
        };
        done.ledger = executor.ledger;
        done.is_polled = executor.is_polled;
        for (reason, note) in executor.notes {
            context.warn(reason, note);
        }
        Ok(status)
    }

    /// Writes the run's status into the spec. A run that has ended is unscheduled: by the webhook, or here if there is none.
    ///
    /// No other field of the spec is written: it may contain an update that is not admitted yet.
    async fn take_off(
        &self,
        instance: Instance,
        status: &PlanStatus,
        api: &Api<Instance>,
        context: &Context,
    ) -> steersman::Result<()> {
        let is_kept = !status.status.is_terminal() || instance.is_deleting();
        if instance.spec.plan_execution.status == Some(status.status) && is_kept {
            return Ok(());
        }
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patch = json!({
            "metadata": { "resourceVersion": instance.metadata.resource_version },
            "spec": { "planExecution": { "status": status.status } },
        });
        let mut patched = api.patch(instance.name(), &params, &Patch::Merge(&patch)).await?;
        let run = &patched.spec.plan_execution;
        let is_there =
            *run != PlanExecution::default() && (run.uid == status.uid || run.plan_name.is_empty());
        if is_there && !is_kept {
            let mut ended = instance;
            ended.spec.plan_execution = PlanExecution::default();
            admission::remember(&mut ended);
            let patch = json!({
                "metadata": {
                    "resourceVersion": patched.metadata.resource_version,
                    "annotations": { annotation::ADMITTED: ended.annotation(annotation::ADMITTED) },
                },
                "spec": { "planExecution": Value::Null },
            });
            patched = api.patch(patched.name(), &params, &Patch::Merge(&patch)).await?;
        }
        context.observe(&patched)
    }
}

/// The results of a pass over a plan, besides its statuses.
#[derive(Default)]
struct Pass {
    ledger: Vec<Entry>,
    /// Whether a step is complete and others are due.
    goes_on: bool,
    /// Whether a task waits for something that is not watched.
    is_polled: bool,
}

/// The message of an aborted plan.
const ABORTED: &str = "aborted by `plan abort`";

/// Returns the status of a new run, which may resume a failed one.
fn begin(instance: &Instance, plan: &steersman_kudo::Plan, run: &PlanExecution) -> PlanStatus {
    let failed = instance.status.plan_status.get(&run.plan_name);
    let failed = failed.filter(|failed| {
        failed.status == ExecutionStatus::FatalError && failed.uid == instance.annotation(annotation::RETRY)
    });
    match failed {
        Some(failed) => plan::resumed(failed, &run.uid),
        None => plan::scheduled(&run.plan_name, plan, &run.uid),
    }
}

fn is_aborted(instance: &Instance, plan: &str) -> bool {
    let status = instance.status.plan_status.get(plan);
    status
        .is_some_and(|status| !status.uid.is_empty() && status.uid == instance.annotation(annotation::ABORT))
}

/// Admits a change of the spec that bypassed the webhook.
///
/// A denied change is reported, and the previously admitted spec remains in effect: the returned instance has it.
async fn decide(
    mut instance: Instance,
    version: &OperatorVersion,
    api: &Api<Instance>,
    context: &Context,
) -> steersman::Result<Instance> {
    match admission::admitted(&instance) {
        Some(_) if !admission::is_undecided(&instance) => return Ok(instance),
        Some(mut before) => {
            let run = &mut instance.spec.plan_execution;
            before.plan_execution.status = run.status;
            // A run that has ended but is still scheduled does not block anything.
            if before.plan_execution.uid == run.uid && run.status.is_some_and(ExecutionStatus::is_terminal) {
                before.plan_execution = PlanExecution::default();
                *run = PlanExecution::default();
            }
            let mut old = instance.clone();
            old.spec = before;
            let old_version = if old.spec.operator_version == instance.spec.operator_version {
                Some(version.clone())
            } else {
                operator_version(&old, context).await?
            };
            let Some(old_version) = old_version else {
                return Err(steersman::Error::other(missing_version(&old, context)));
            };
            if let Err(error) = admission::update(&old, &mut instance, &old_version, version, uid) {
                context.warn(reason::INVALID_INSTANCE, error.to_string());
                return Ok(old);
            }
        }
        // Created by KUDO itself: adopted without admission.
        None => admission::remember(&mut instance),
    }
    let instance = api.replace(instance.name(), &post(), &instance).await?;
    context.observe(&instance)?;
    Ok(instance)
}

/// Reports that an instance's operator version is missing.
fn missing_version(instance: &Instance, context: &Context) -> String {
    let message = format!(
        "OperatorVersion {}/{} of Instance {}/{} not found",
        instance.operator_version_namespace(),
        instance.spec.operator_version.name,
        instance.namespace(),
        instance.name()
    );
    context.warn(reason::INVALID_OPERATOR_VERSION, message.as_str());
    message
}

pub(crate) fn post() -> PostParams {
    PostParams { field_manager: Some(MANAGER.into()), dry_run: false }
}

async fn operator_version(
    instance: &Instance,
    context: &Context,
) -> steersman::Result<Option<OperatorVersion>> {
    let name = &instance.spec.operator_version.name;
    let namespace = instance.operator_version_namespace();
    let cached = context.objects::<OperatorVersion>().namespace(namespace).get(name).await?;
    if cached.is_some() {
        return Ok(cached);
    }
    // It may not have reached the cache yet.
    let api: Api<OperatorVersion> = Api::namespaced(context.client(), namespace);
    Ok(api.get_opt(name).await?)
}
