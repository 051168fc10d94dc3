//! One run: a cluster, an operator on it, the scenario's steps and the plan's faults.

mod past;
mod replica;
mod rest;
mod settle;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use kube::Client;
use serde_json::Value;
use steersman::{BoxError, Operator, testing::TestEnv};
use steersman_apiserver::Catalog;
use steersman_cluster::{Builder, Checkpoint, Cluster, User};

pub(crate) use self::past::FaultFreeRun;
use self::{replica::Replica, settle::Pace};
use crate::{
    Error,
    command::{Command, Log},
    fault::{Fault, Plan},
    network::{Config, Network, Process, Recorder, Traffic},
    oracle::{Baseline, Objects},
    panics,
    properties::{self, PropertyTrial},
    scenario::{Scenario, Step},
    state::{Change, Tables},
    timeline::{self, Actor, Entry},
    timing::Timing,
    user,
};

/// The seed of the prepared cluster that runs start from.
const PREPARED: u64 = 1;

/// Number of requests after which a fault-free run is abandoned.
pub(crate) const REQUEST_LIMIT: u64 = 5_000;

type Prepare = dyn Fn(Client) -> BoxFuture<'static, Result<Operator, BoxError>> + Send + Sync;
type Program = dyn Fn(Client) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync;

/// The simulated operator.
#[derive(Clone)]
pub(crate) enum Subject {
    /// An operator on the runtime, with its declarations.
    Operator(Arc<dyn Fn() -> Operator + Send + Sync>),
    /// An operator on the runtime whose construction requires a client.
    Prepared(Arc<Prepare>),
    /// Any async function that takes a client.
    Program(Arc<Program>),
    /// An external program.
    Command(Arc<Command>),
}

/// The settings of runs.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) timing: Timing,
    pub(crate) replicas: u32,
    pub(crate) account: Option<(String, String)>,
    pub(crate) workloads: bool,
    /// Run time of pods that complete, such as those of Jobs. Default: the cluster's.
    pub(crate) pod_run_time: Option<Duration>,
    /// Fields that other clients may change, as kind (`None` for all kinds) and JSON pointer.
    pub(crate) allowed_edits: Vec<(Option<String>, String)>,
    /// The fault-free run of this seed, from which runs with a crash continue, if it is known.
    pub(crate) crash_points: Option<Arc<FaultFreeRun>>,
    /// Number of requests after which a run is abandoned.
    pub(crate) requests: u64,
    /// Watches that a program opens when it starts, if known.
    pub(crate) usual_watches: BTreeSet<String>,
    /// Fault kinds for which a fault-free run collects the possible places.
    pub(crate) tried: BTreeSet<&'static str>,
    /// The expected state after each step, if known.
    pub(crate) expected: Option<Arc<Baseline>>,
    /// Steps after which a separate run restarts the operator at rest.
    ///
    /// A run that crashed earlier and reached the same state would continue identically, so it can end there.
    pub(crate) restarted_after: Arc<BTreeSet<u32>>,
    pub(crate) interrupt: Interrupt,
}

impl Settings {
    /// Returns the builder of a run's cluster.
    fn cluster(&self) -> Builder {
        let builder = Cluster::builder().workloads(self.workloads);
        match self.pod_run_time {
            Some(time) => builder.pod_run_time(time),
            None => builder,
        }
    }
}

/// A handle that ends a simulation early. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Ends the simulation: the operator's processes are killed, and no further run is started.
    pub fn raise(&self) {
        self.0.store(true, SeqCst);
    }

    /// Whether it was raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(SeqCst)
    }
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Objects after the start and after each step; `None` where a fault gives a step no time to settle.
    pub(crate) states: Vec<Option<Arc<Objects>>>,
    /// The revisions of these states.
    pub(crate) rested_at: Vec<u64>,
    /// Whether the run ended early after these states, as the rest is known from another run.
    pub(crate) ends_early: bool,
    pub(crate) changes: Vec<Change>,
    /// Keys of objects that the operator created.
    pub(crate) made: BTreeSet<String>,
    /// What the operator changed after a restart at rest.
    pub(crate) at_restart: Vec<String>,
    /// Faults at rest that had a target, collected in a fault-free run.
    pub(crate) possible: BTreeSet<Fault>,
    pub(crate) traffic: Traffic,
    pub(crate) panics: Vec<String>,
    pub(crate) exits: Vec<String>,
    /// Why the run was abandoned.
    pub(crate) trouble: Option<String>,
    pub(crate) timeline: Vec<Entry>,
    pub(crate) hash: String,
    /// For a fault-free run, what runs with a crash continue from.
    pub(crate) past: Option<Arc<FaultFreeRun>>,
    /// The last lines of a program's output.
    pub(crate) log: Vec<String>,
    /// Watches that were open when the operator had started.
    pub(crate) watches: BTreeSet<String>,
    pub(crate) properties: Vec<PropertyTrial>,
    /// The longest time without a change within a step.
    pub(crate) longest_pause: Duration,
}

/// Where in a step a run continues.
#[derive(Debug, Clone, Copy)]
enum ResumePoint {
    /// The step has not settled yet.
    Step,
    /// The step has settled.
    Rest,
}

/// The course of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// The scenario.
    Scenario,
    /// The scenario with slower responses.
    SlowScenario,
    /// The scenario's first objects, with each of their properties changed and reverted.
    Properties,
}

/// Executes a run on this thread, in virtual time unless the operator is an external program.
pub(crate) fn execute(
    subject: &Subject,
    scenario: &Scenario,
    settings: &Settings,
    prepared: &Checkpoint,
    plan: &Plan,
    course: Course,
) -> Result<Outcome, Error> {
    // Some libraries draw jitter from the thread's random generator.
    fastrand::seed(plan.seed);
    panics::record();
    let runtime = runtime(settings)?;
    let result = runtime.block_on(async {
        let past = settings.crash_points.as_ref().filter(|_| course == Course::Scenario);
        if let Some((past, point)) = past.and_then(|past| Some((past, past.crash_point(plan)?))) {
            let mut run = Run::after_crash(subject, settings, plan, past, point)?;
            let from = if point.is_at_rest() { ResumePoint::Rest } else { ResumePoint::Step };
            let trouble = run.go_on(scenario, point.step, from).await.err();
            return Ok(run.finish(trouble));
        }
        let mut run = Run::start(subject, settings, prepared, plan, course).await?;
        let trouble = match course {
            Course::Properties => run.change_properties(scenario).await.err(),
            Course::Scenario | Course::SlowScenario => run.play(scenario).await.err(),
        };
        Ok(run.finish(trouble))
    });
    drop(runtime);
    let panics = panics::take();
    result.map(|mut outcome| {
        outcome.panics.extend(panics);
        outcome
    })
}

/// Prepares the cluster that all runs start from, with initial objects and the operator's declarations.
///
/// It is the same for every seed, so that a single replayed plan starts from the same state.
pub(crate) fn prepare(
    subject: &Subject,
    scenario: &Scenario,
    settings: &Settings,
) -> Result<Checkpoint, Error> {
    fastrand::seed(PREPARED);
    runtime(settings)?.block_on(async {
        let mut builder = settings.cluster().seed(PREPARED);
        if settings.timing.is_real {
            builder = builder.starting_at(jiff::Timestamp::now());
        }
        // Hours of virtual time pass, and nothing depends on node heartbeats.
        let cluster = builder.heartbeats(false).start().await;
        let cluster = cluster.map_err(|error| setup(&error))?;
        install(&cluster, subject, scenario).await?;
        cluster.checkpoint().await.map_err(|error| setup(&error))
    })
}

fn runtime(settings: &Settings) -> Result<tokio::runtime::Runtime, Error> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let builder = builder.enable_all().start_paused(!settings.timing.is_real);
    builder.build().map_err(|error| setup(&error))
}

fn setup(error: &dyn std::fmt::Display) -> Error {
    Error::Setup(error.to_string())
}

/// Returns the settings of a run's network, without a recorder.
fn config(cluster: &Cluster, settings: &Settings, plan: &Plan) -> Config {
    Config {
        store: cluster.server().store().clone(),
        faults: plan.faults.clone(),
        timing: settings.timing.clone(),
        request_limit: settings.requests,
        usual_watches: settings.usual_watches.clone(),
        recorder: None,
    }
}

/// Creates the objects that exist before the operator starts.
async fn install(cluster: &Cluster, subject: &Subject, scenario: &Scenario) -> Result<(), Error> {
    cluster.settled().await;
    let env = TestEnv::on(cluster.clone());
    for object in &scenario.given {
        user::apply(cluster, object).await.map_err(|error| setup(&error))?;
        if object["kind"] == "CustomResourceDefinition" {
            let crd = serde_json::from_value(object.clone()).map_err(|error| setup(&error))?;
            env.install(&crd).await.map_err(|error| setup(&error))?;
        }
    }
    if let Subject::Operator(make) = subject {
        env.install_operator(&make()).await.map_err(|error| setup(&error))?;
    }
    cluster.settled().await;
    Ok(())
}

struct Run<'a> {
    cluster: Cluster,
    tables: Mutex<Option<(Arc<Catalog>, Arc<Tables>)>>,
    env: Arc<TestEnv>,
    network: Network,
    replicas: Vec<Replica>,
    settings: &'a Settings,
    plan: &'a Plan,
    /// The revision before the operator's first start.
    origin: u64,
    states: Vec<Option<Arc<Objects>>>,
    /// The revisions of these states.
    rested_at: Vec<u64>,
    /// Whether the rest of the run is known and was skipped.
    ends_early: bool,
    /// Ranges of revisions that users created: (exclusive, inclusive).
    by_user: Vec<(u64, u64)>,
    at_restart: Vec<String>,
    possible: BTreeSet<Fault>,
    /// Keys of definitions that a fault changed.
    redefined: BTreeSet<String>,
    exits: Arc<Mutex<Vec<String>>>,
    log: Log,
    watches: BTreeSet<String>,
    properties: Vec<PropertyTrial>,
    pace: Pace,
}

impl<'a> Run<'a> {
    async fn start(
        subject: &Subject,
        settings: &'a Settings,
        prepared: &Checkpoint,
        plan: &'a Plan,
        course: Course,
    ) -> Result<Self, Error> {
        let cluster = match settings.timing.is_real {
            // A program compares timestamps of objects with its own clock.
            true => prepared.start_at(jiff::Timestamp::now(), plan.seed),
            false => prepared.start(plan.seed),
        };
        let cluster = cluster.map_err(|error| setup(&error))?;
        cluster.settled().await;
        let mut config = config(&cluster, settings, plan);
        if course == Course::SlowScenario {
            config.timing.latency *= 3;
        }
        // With several replicas, a surviving one has state outside of the cluster.
        let is_recorded = course == Course::Scenario && plan.faults.is_empty() && settings.replicas <= 1;
        if is_recorded && !settings.timing.is_real {
            config.recorder = Some(Arc::new(Recorder::new(cluster.clone())));
        }
        let mut run = Self::new(cluster, Network::new(config), settings, plan);
        run.origin = run.cluster.server().store().latest();
        run.launch(subject, false)?;
        Ok(run)
    }

    fn new(cluster: Cluster, network: Network, settings: &'a Settings, plan: &'a Plan) -> Self {
        Self {
            network,
            env: Arc::new(TestEnv::on(cluster.clone())),
            cluster,
            tables: Mutex::default(),
            replicas: Vec::new(),
            settings,
            plan,
            origin: 0,
            states: Vec::new(),
            rested_at: Vec::new(),
            ends_early: false,
            by_user: Vec::new(),
            at_restart: Vec::new(),
            possible: BTreeSet::new(),
            redefined: BTreeSet::new(),
            exits: Arc::default(),
            log: Log::default(),
            watches: BTreeSet::new(),
            properties: Vec::new(),
            pace: Pace::default(),
        }
    }

    /// Starts the replicas, or restarts them after a crash.
    fn launch(&mut self, subject: &Subject, has_died: bool) -> Result<(), Error> {
        let client = match subject {
            Subject::Operator(make) => self.env.client_for(&make()).map_err(|error| setup(&error))?,
            Subject::Prepared(_) | Subject::Program(_) | Subject::Command(_) => {
                match &self.settings.account {
                    Some((namespace, name)) => self.cluster.client_as(User::service_account(namespace, name)),
                    None => self.cluster.client(),
                }
            }
        };
        for number in 1..=self.settings.replicas.max(1) {
            let replica = self.supervise(subject, client.clone(), number, has_died);
            self.replicas.push(replica);
        }
        Ok(())
    }

    /// Performs all steps, with the faults that are not tied to a request.
    async fn play(&mut self, scenario: &Scenario) -> Result<(), String> {
        self.network.awaits(Some(0));
        self.go_on(scenario, 0, ResumePoint::Step).await
    }

    /// Continues after a completed step; step 0 is the start.
    async fn go_on(&mut self, scenario: &Scenario, taken: u32, from: ResumePoint) -> Result<(), String> {
        let mut number = usize::try_from(taken).unwrap_or(usize::MAX);
        match from {
            ResumePoint::Rest => self.rest(taken).await?,
            ResumePoint::Step => self.end_step(scenario, taken).await?,
        }
        while let Some(step) = scenario.steps.get(number) {
            if self.is_known_from(number) {
                self.ends_early = true;
                break;
            }
            number += 1;
            let at = u32::try_from(number).unwrap_or(u32::MAX);
            let skipping = self.plan.faults.iter().find(|fault| {
                number < scenario.steps.len()
                    && matches!(fault, Fault::Down(step) | Fault::Blind(step) if *step == at)
            });
            let Some(fault) = skipping else {
                self.network.awaits(None);
                self.take(step).await?;
                self.network.awaits(Some(at));
                self.network.revive();
                self.end_step(scenario, at).await?;
                continue;
            };
            self.network.injected(fault);
            let down = matches!(fault, Fault::Down(_));
            for replica in &self.replicas {
                if down {
                    replica.down.send_replace(true);
                    replica.with_process(Process::kill);
                } else {
                    replica.with_process(Process::silence_watches);
                }
            }
            self.take(step).await?;
            tokio::time::sleep(self.settings.timing.look.0).await;
            let next = scenario.steps.get(number).filter(|next| !self.waits_for_deletion(next));
            let mut last = at;
            if let Some(next) = next {
                number += 1;
                last += 1;
                self.take(next).await?;
                tokio::time::sleep(self.settings.timing.look.0).await;
            }
            for replica in &self.replicas {
                replica.down.send_replace(false);
                replica.with_process(Process::expire_watches);
            }
            if last > at {
                self.skip_state();
            }
            self.settle(Some(last)).await?;
            self.recover(last).await?;
            self.rest(last).await?;
        }
        Ok(())
    }

    /// Waits until a step is over, unless the operator is down until the next one.
    async fn end_step(&mut self, scenario: &Scenario, at: u32) -> Result<(), String> {
        self.settle(Some(at)).await?;
        if at == 0 {
            for replica in &self.replicas {
                replica.with_process(|process| self.watches.extend(process.open_watches()));
            }
        }
        let next = usize::try_from(at).ok().and_then(|at| scenario.steps.get(at));
        if self.network.stays_dead() && next.is_some_and(|next| !self.waits_for_deletion(next)) {
            self.skip_state();
            return Ok(());
        }
        self.recover(at).await?;
        self.rest(at).await
    }

    /// Records that a step had no time to settle.
    fn skip_state(&mut self) {
        self.states.push(None);
        self.rested_at.push(self.cluster.server().store().latest());
    }

    /// Applies the scenario's first objects, then changes and reverts each of their properties.
    async fn change_properties(&mut self, scenario: &Scenario) -> Result<(), String> {
        self.settle(None).await?;
        let applied = scenario.steps.iter().take_while(|step| matches!(step, Step::Apply(_)));
        let applied: Vec<&Step> = applied.collect();
        for step in &applied {
            self.take(step).await?;
            self.settle(None).await?;
        }
        let samples = applied.iter().flat_map(|step| match step {
            Step::Apply(objects) => objects.as_slice(),
            _ => &[],
        });
        for sample in samples {
            let Some(definition) = user::definition_of(&self.cluster, sample) else { continue };
            for change in properties::changes(&definition, sample) {
                let is_accepted = user::patch(&self.cluster, sample, &change.patch, true).await.is_ok();
                if !is_accepted {
                    continue;
                }
                let before = self.objects();
                let mut states = Vec::new();
                for patch in [&change.patch, &change.back] {
                    let step = Step::Patch { object: sample.clone(), patch: patch.clone() };
                    self.take(&step).await?;
                    self.settle(None).await?;
                    states.push(self.objects());
                }
                if let (Some(back), Some(after)) = (states.pop(), states.pop()) {
                    let is_sample = |object: &Value| {
                        object["kind"] == sample["kind"]
                            && object["metadata"]["name"] == sample["metadata"]["name"]
                    };
                    let key = before.iter().find(|(_, object)| is_sample(object));
                    let key = key.map(|(key, _)| key.clone()).unwrap_or_default();
                    self.properties.push(PropertyTrial { change, key, before, after, back });
                }
            }
        }
        Ok(())
    }

    /// Returns the cluster's tables, which change only with the served resources.
    fn tables(&self) -> Arc<Tables> {
        let catalog = self.cluster.server().catalog();
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        match &*tables {
            Some((of, tables)) if Arc::ptr_eq(of, &catalog) => Arc::clone(tables),
            _ => Arc::clone(&tables.insert((Arc::clone(&catalog), Arc::new(Tables::of(&catalog)))).1),
        }
    }

    fn objects(&self) -> Objects {
        let mut objects = self.tables().objects(&self.cluster, self.origin);
        objects.retain(|key, _| !self.redefined.contains(key));
        objects
    }

    /// Restarts an operator that was down, repeatedly if it crashes while it catches up.
    async fn recover(&mut self, at: u32) -> Result<(), String> {
        while self.network.stays_dead() {
            self.network.revive();
            self.settle(Some(at)).await?;
        }
        Ok(())
    }

    async fn take(&mut self, step: &Step) -> Result<(), String> {
        self.network.note(Actor::User, step.describe(), false);
        let before = self.cluster.server().store().latest();
        let taken = user::take(&self.cluster, step).await;
        self.by_user.push((before, self.cluster.server().store().latest()));
        taken
    }

    /// Whether a step recreates an object that is still being deleted: users wait until it is gone.
    fn waits_for_deletion(&self, step: &Step) -> bool {
        let Step::Apply(objects) = step else { return false };
        let live = self.objects();
        let same = |one: &Value, other: &Value| {
            one["kind"] == other["kind"] && one["metadata"]["name"] == other["metadata"]["name"]
        };
        let is_deleting = |live: &Value| !live["metadata"]["deletionTimestamp"].is_null();
        objects.iter().any(|object| live.values().any(|live| same(object, live) && is_deleting(live)))
    }

    fn finish(mut self, trouble: Option<String>) -> Outcome {
        let changes = self.tables().changes(&self.cluster, self.origin);
        let past = self.network.crash_points().map(|points| Arc::new(FaultFreeRun::of(&self, points)));
        let mut traffic = self.network.finish();
        let within = |ranges: &[(u64, u64)], revision: u64| {
            ranges.iter().any(|(from, to)| revision > *from && revision <= *to)
        };
        let by_operator = |change: &Change| {
            let resource = change.key.split('/').next().unwrap_or_default();
            traffic.writes.iter().any(|write| {
                within(&[write.revisions], change.revision) && write.target.group_resource() == resource
            })
        };
        let made = changes
            .iter()
            .filter(|change| change.verb == "ADDED" && by_operator(change))
            .map(|change| change.key.clone());
        let made = made.collect();
        let mut timeline = std::mem::take(&mut traffic.entries);
        let others =
            changes.iter().filter(|change| !within(&self.by_user, change.revision) && !by_operator(change));
        for change in others {
            let at =
                timeline.iter().filter(|entry| entry.revision <= change.revision).map(|entry| entry.at).max();
            let text = format!("{} {}", change.verb, change.key);
            let revision = change.revision;
            timeline.push(Entry {
                at: at.unwrap_or_default(),
                revision,
                actor: Actor::Cluster,
                text,
                is_fault: false,
            });
        }
        timeline.sort_by_key(|entry| (entry.at, entry.revision));
        let hash = timeline::hash(&timeline);
        let exits = std::mem::take(&mut *self.exits.lock().unwrap_or_else(PoisonError::into_inner));
        let at_restart = std::mem::take(&mut self.at_restart);
        Outcome {
            states: std::mem::take(&mut self.states),
            rested_at: std::mem::take(&mut self.rested_at),
            ends_early: self.ends_early,
            changes,
            made,
            at_restart,
            possible: std::mem::take(&mut self.possible),
            traffic,
            panics: self.log.panics(),
            exits,
            trouble,
            timeline,
            hash,
            past,
            log: self.log.last(),
            watches: std::mem::take(&mut self.watches),
            properties: std::mem::take(&mut self.properties),
            longest_pause: self.pace.longest_pause,
        }
    }
}
