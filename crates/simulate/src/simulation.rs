//! What is simulated, and how its plans are tried.

mod explore;
mod pairs;
mod plans;
mod progress;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    time::{Duration, Instant},
};

use kube::Client;
use steersman::{BoxError, Operator};
use steersman_cluster::Checkpoint;

use self::progress::Listener;
pub use self::progress::Progress;

use crate::{
    Error,
    command::Command,
    fault::{Fault, Plan},
    invariant::Invariant,
    oracle::{Baseline, Finding, Objects, Oracle, Rules, judge_alone},
    report::{Failure, Report},
    run::{self, Course, Interrupt, Outcome, Settings, Subject},
    scenario::Scenario,
    timeline::Entry,
    timing::{ThreadClock, Timing},
};

/// The environment variable with a plan to replay alone.
pub const REPLAY: &str = "STEERSMAN_SIM";

/// The environment variable with the number of random plans, whatever the program says.
pub const RANDOM: &str = "STEERSMAN_SIM_RANDOM";

/// Pause between two looks at the time that a run has taken.
const CLOCK_LOOK: Duration = Duration::from_secs(1);
/// How many times its patience a run may take of the time on the wall: a machine that is shared gives it less than that.
const HANGING: u32 = 20;
/// Bytes of the stack of a thread that makes runs.
const STACK: usize = 8 << 20;
/// Runs of a program at the same time, for each processor: they wait for most of their time.
const WAITING: usize = 4;

/// A simulation of an operator, described.
///
/// ```no_run
/// # fn operator() -> steersman::Operator { steersman::Operator::new("shells") }
/// use serde_json::json;
/// use steersman_simulate::{Scenario, Simulation};
///
/// let shell = json!({"apiVersion": "example.com/v1", "kind": "Shell", "metadata": {"name": "one"}, "spec": {"size": 1}});
/// Simulation::of(operator)
///     .scenario(Scenario::new().apply(shell.clone()).patch(&shell, json!({"spec": {"size": 3}})).delete(&shell))
///     .run()
///     .unwrap()
///     .assert_passed();
/// ```
#[derive(Clone)]
#[must_use]
pub struct Simulation {
    subject: Subject,
    scenario: Scenario,
    settings: Settings,
    rules: Rules,
    seed: u64,
    random: usize,
    pairs: bool,
    stop_early: bool,
    only: Option<BTreeSet<&'static str>>,
    without: BTreeSet<&'static str>,
    threads: usize,
    budget: Option<Duration>,
    properties: bool,
    replay: Option<Plan>,
    listener: Listener,
    prepared: Arc<Prepared>,
}

/// What all clones of a simulation have in common, as it is the same for every seed.
#[derive(Default)]
struct Prepared {
    /// What runs start from.
    cluster: OnceLock<Checkpoint>,
    /// Whether a seed was seen to decide everything.
    is_repeatable: AtomicBool,
    /// A seed, and its fault-free run with slower answers, which those of other seeds are compared with.
    slow: OnceLock<(u64, Arc<Outcome>)>,
}

impl Simulation {
    fn new(subject: Subject) -> Self {
        Self {
            subject,
            scenario: Scenario::new(),
            settings: Settings {
                timing: Timing::virtual_time(),
                replicas: 1,
                account: None,
                workloads: true,
                pod_run_time: None,
                allowed_edits: Vec::new(),
                crash_points: None,
                requests: run::REQUEST_LIMIT,
                usual_watches: BTreeSet::new(),
                tried: BTreeSet::new(),
                expected: None,
                restarted_after: Arc::default(),
                interrupt: Interrupt::default(),
            },
            rules: Rules::default(),
            seed: 1,
            random: 50,
            pairs: true,
            stop_early: false,
            only: None,
            without: BTreeSet::new(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            budget: None,
            properties: false,
            replay: None,
            listener: Listener::default(),
            prepared: Arc::default(),
        }
    }

    /// An operator on the runtime. It runs with the rights that it declares, and with the cluster's clock.
    pub fn of(operator: impl Fn() -> Operator + Send + Sync + 'static) -> Self {
        Self::new(Subject::Operator(Arc::new(operator)))
    }

    /// An operator on the runtime that needs a client to be described, as chart operators do. [`Scenario::given`] brings its
    /// definitions and role, [`Simulation::account`] says who it is. It repeats as far as it works on the thread that polls it:
    /// the report says if it does not.
    pub fn of_prepared<F, R>(prepare: F) -> Self
    where
        F: Fn(Client) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Operator, BoxError>> + Send + 'static,
    {
        Self::new(Subject::Prepared(Arc::new(move |client| Box::pin(prepare(client)))))
    }

    /// Any program that takes a client: an operator on plain kube-rs for instance. [`Scenario::given`] brings its definitions.
    /// It repeats as far as it takes time from tokio and draws nothing at random.
    pub fn of_program<F, R>(program: F) -> Self
    where
        F: Fn(Client) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        Self::new(Subject::Program(Arc::new(move |client| Box::pin(program(client)))))
    }

    /// A program outside of this process, in any language: it speaks to the embedded cluster over HTTP, in real time, and is
    /// killed and started again. [`Scenario::given`] brings its definitions. Runs repeat as far as the program does, so
    /// that a run which fails is made a second time, and counts if it fails again.
    pub fn of_command(command: Command) -> Self {
        let mut simulation = Self::new(Subject::Command(Arc::new(command)));
        simulation.settings.timing = Timing::real_time();
        simulation.threads *= WAITING;
        simulation
    }

    /// What users do. Default: nothing.
    pub fn scenario(mut self, scenario: Scenario) -> Self {
        self.scenario = scenario;
        self.prepared = Arc::default();
        self
    }

    /// The service account that a program runs as. Default: the administrator.
    pub fn account(mut self, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        self.settings.account = Some((namespace.into(), name.into()));
        self.prepared = Arc::default();
        self
    }

    /// The seed. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The number of random plans, of up to three faults each, after every single fault was tried. The environment variable
    /// [`RANDOM`] overrides it. Default: 50.
    pub fn random(mut self, plans: usize) -> Self {
        self.random = plans;
        self
    }

    /// Whether the operator is crashed a second time at the first write after a restart, where that leads to a state which no single
    /// crash has shown: twice as many pairs as there are writes at most. Default: yes.
    pub fn pairs(mut self, yes: bool) -> Self {
        self.pairs = yes;
        self
    }

    /// The number of replicas. With two or more, the one that writes is cut off at each of its writes. Default: 1.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.settings.replicas = replicas.max(1);
        self.prepared = Arc::default();
        self
    }

    /// How long nothing must change until a step is over. Default: 90 s of virtual time; for a program three times its longest
    /// pause without faults, and at least 1 s.
    pub fn quiet(mut self, time: Duration) -> Self {
        self.settings.timing.quiet = time;
        self.settings.timing.learns_quiet = false;
        self.prepared = Arc::default();
        self
    }

    /// Begins no run after this time; the report says how many were left out. Default: none is.
    pub fn budget(mut self, time: Duration) -> Self {
        self.budget = Some(time);
        self
    }

    /// Whether each property of what the scenario applies first is changed by itself, as its definition allows, and changed
    /// back: the change must show in another object or in the status, and leave nothing behind. Default: no.
    pub fn properties(mut self, yes: bool) -> Self {
        self.properties = yes;
        self
    }

    /// Leaves a property and all in it, `.spec.pause` for instance, out of what [`Simulation::properties`] demands.
    /// Default: none.
    pub fn ignores_property(mut self, path: impl Into<String>) -> Self {
        self.rules.ignored_properties.push(path.into());
        self
    }

    /// What ends the simulation early. Default: nothing does.
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.settings.interrupt = interrupt;
        self
    }

    /// Whether the cluster has workload controllers and garbage collection. Without them runs take a tenth of the time, and
    /// nothing becomes of deployments, pods and owner references. Default: yes.
    pub fn workloads(mut self, yes: bool) -> Self {
        self.settings.workloads = yes;
        self.prepared = Arc::default();
        self
    }

    /// How long pods run that are meant to end, those of jobs for instance. Default: 100 ms.
    pub fn pod_run_time(mut self, time: Duration) -> Self {
        self.settings.pod_run_time = Some(time);
        self.prepared = Arc::default();
        self
    }

    /// Tries these kinds of faults alone, by the names of [`Fault::kind`](crate::Fault::kind). Default: all kinds.
    pub fn only(mut self, kinds: impl IntoIterator<Item = &'static str>) -> Self {
        self.only = Some(kinds.into_iter().collect());
        self
    }

    /// Leaves a kind of faults out, by the name of [`Fault::kind`](crate::Fault::kind): `clock-jump` if the operator acts by the
    /// time, on a schedule for instance. Default: none is left out.
    pub fn without(mut self, kind: &'static str) -> Self {
        self.without.insert(kind);
        self
    }

    /// What may outlive the user's objects: a resource, `persistentvolumeclaims`, or an object, `secrets/default/key`.
    /// Default: nothing may.
    pub fn keeps(mut self, resource: impl Into<String>) -> Self {
        self.rules.kept.insert(resource.into());
        self
    }

    /// Leaves a field of a kind, or of all kinds, out of what `edited-outside` changes: the operator leaves it as others have set it.
    /// It is a JSON pointer, `/spec/replicas` for instance. Default: none.
    pub fn allows_edits(mut self, kind: Option<&str>, pointer: impl Into<String>) -> Self {
        self.settings.allowed_edits.push((kind.map(str::to_owned), pointer.into()));
        self
    }

    /// Whether the operator answers a write that fails by undoing the step and taking it again, as Helm does with an install: how often
    /// objects are made and deleted says nothing then. Default: no.
    pub fn rolls_back(mut self, yes: bool) -> Self {
        self.rules.rolls_back = yes;
        self
    }

    /// Leaves objects out of the comparison with the fault-free run, `secrets/*/sh.helm.release.v1.*` for instance: `*` stands
    /// for any text. They must be gone in the end all the same. Default: none.
    pub fn ignores(mut self, objects: impl Into<String>) -> Self {
        self.rules.ignored.objects.push(objects.into());
        self
    }

    /// Leaves a field of a kind out of the comparison with the fault-free run, `.status.history` for instance; `[*]` stands for each
    /// item of a list. Default: none.
    pub fn ignores_field(mut self, kind: impl Into<String>, path: impl Into<String>) -> Self {
        self.rules.ignored.fields.push((kind.into(), path.into()));
        self
    }

    /// Something that must hold in every state: the function returns what is wrong.
    pub fn invariant<F>(mut self, name: impl Into<String>, holds: F) -> Self
    where
        F: Fn(&Objects) -> Result<(), String> + Send + Sync + 'static,
    {
        self.rules.invariants.push(Invariant::of_function(name.into(), holds));
        self
    }

    /// An invariant in CEL: of each `object` of a kind, or of all `objects` if there is no kind. An expression that asks for a
    /// field that an object does not have yet is not asked of it; one that is never asked fails the simulation.
    ///
    /// # Errors
    /// Fails if the expression does not compile.
    pub fn invariant_expression(mut self, kind: Option<&str>, expression: &str) -> Result<Self, Error> {
        self.rules.invariants.push(Invariant::of_expression(kind, expression)?);
        Ok(self)
    }

    /// Ends at the first failure. Default: all plans are tried.
    pub fn stop_early(mut self, yes: bool) -> Self {
        self.stop_early = yes;
        self
    }

    /// Runs at the same time. Default: one for each processor, four for a program.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Makes the fault-free runs and the run of this plan, and nothing else. Default: what [`REPLAY`] says, else every plan.
    pub fn replay(mut self, plan: Plan) -> Self {
        self.replay = Some(plan);
        self
    }

    /// Calls a function after each run, from the thread that made it. Default: none.
    pub fn on_progress(mut self, listener: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.listener = Listener::new(listener);
        self
    }

    /// Makes all runs. Takes threads of its own, so that it may be called from anywhere.
    ///
    /// # Errors
    /// Fails if the cluster or the operator can't be set up, if [`REPLAY`] is not a plan or [`RANDOM`] not a number. What goes
    /// wrong in a run is in the report.
    pub fn run(&self) -> Result<Report, Error> {
        let begin = Instant::now();
        let replay = match std::env::var(REPLAY).ok().filter(|text| !text.is_empty()) {
            Some(text) if self.replay.is_none() => Some(text.parse()?),
            _ => self.replay.clone(),
        };
        let mut simulation = self.clone();
        if let Some(text) = std::env::var(RANDOM).ok().filter(|text| !text.is_empty()) {
            simulation.random = text.parse().map_err(|_| Error::Random(text))?;
        }
        let seed = replay.as_ref().map_or(self.seed, |plan| plan.seed);
        let free = Plan::new(seed, []);
        let is_real = self.settings.timing.is_real;
        if replay.is_none() {
            simulation.settings.tried =
                Fault::KINDS.iter().copied().filter(|kind| self.is_tried(kind)).collect();
        }
        let another = Plan::new(seed.wrapping_add(1), []);
        self.listener.tell(&Progress::FaultFree);
        let first = || simulation.execute(&free, Course::Scenario, run::REQUEST_LIMIT);
        // Where a seed is known to decide everything, the other fault-free run needs nothing of the first, and any seed's will do.
        let slow = self.prepared.slow.get().filter(|(of, _)| *of != seed);
        let (first, other) = if let Some((_, slow)) = slow {
            (first()?, Some(Arc::clone(slow)))
        } else if self.prepared.is_repeatable.load(SeqCst) {
            let other = || self.execute(&another, Course::SlowScenario, run::REQUEST_LIMIT);
            let (first, other) = side_by_side(first, other)?;
            (first?, Some(Arc::new(other?)))
        } else {
            (first()?, None)
        };
        simulation.settings.tried.clear();
        let mut report = Report::new(seed, &first);
        let mut alone = judge_alone(&first, &self.scenario, &self.rules);
        alone.extend(first.exits.iter().map(|exit| Finding { oracle: Oracle::Exit, message: exit.clone() }));
        alone.extend(self.rules.invariants.iter().filter_map(|invariant| {
            let why = invariant.unasked()?;
            let message = format!("{} could not be asked in any state: {why}", invariant.name);
            Some(Finding { oracle: Oracle::Invariant, message })
        }));
        if is_real && first.traffic.requests == 0 && alone.is_empty() {
            let message =
                "the operator made no request: it does not use the KUBECONFIG that it is given".into();
            alone.push(Finding { oracle: Oracle::Convergence, message });
        }
        if is_real && !alone.is_empty() {
            // Each run takes its time.
            return Ok(report.failed_without_faults(free, alone, &first, begin));
        }
        simulation.settings.usual_watches = if is_real { first.watches.clone() } else { BTreeSet::new() };
        let (again, other) = match other {
            Some(other) => (None, other),
            None => {
                let again = || simulation.execute(&free, Course::Scenario, run::REQUEST_LIMIT);
                let other = || simulation.execute(&another, Course::SlowScenario, run::REQUEST_LIMIT);
                let (again, other) = side_by_side(again, other)?;
                // The first is what runs with a crash go on from.
                (Some(Outcome { past: None, ..again? }), Arc::new(other?))
            }
        };
        if let Some(again) = &again {
            if is_real {
                simulation.settings.usual_watches.retain(|watch| again.watches.contains(watch));
            } else if first.hash == again.hash {
                self.prepared.is_repeatable.store(!matches!(self.subject, Subject::Prepared(_)), SeqCst);
            } else {
                let message = differing(&first, again);
                // A chart is rendered outside of this thread, so the seed alone does not decide when that ends.
                if matches!(self.subject, Subject::Prepared(_)) && first.trouble == again.trouble {
                    report.varies = Some(message);
                } else {
                    alone.push(Finding { oracle: Oracle::Determinism, message });
                }
            }
        }
        simulation.settings.usual_watches.retain(|watch| other.watches.contains(watch));
        let others: Vec<&Outcome> = again.iter().chain([&*other]).collect();
        let baseline = Arc::new(Baseline::new(&first, &others, &self.rules));
        let longest = others.iter().map(|other| other.longest_pause).max().unwrap_or_default();
        simulation.settings.timing.learn_quiet(longest.max(first.longest_pause));
        if alone.is_empty() {
            // Another seed and slower answers must make no difference that the masks do not explain.
            alone = baseline.judge(&other, &free, &self.scenario, &self.rules);
        }
        if !alone.is_empty() {
            return Ok(report.failed_without_faults(free, alone, &first, begin));
        }
        if self.prepared.is_repeatable.load(SeqCst) {
            self.prepared.slow.get_or_init(|| (another.seed, other));
        }
        if self.properties {
            let outcome = simulation.execute(&free, Course::Properties, u64::MAX)?;
            report.properties = outcome.properties.len();
            let findings = baseline.judge_properties(&outcome, &self.rules);
            if !findings.is_empty() {
                report.failed += 1;
                report.failures.push(Failure::new(free, findings, &outcome));
            }
        }
        simulation.settings.crash_points = first.past.clone();
        simulation.settings.expected = Some(Arc::clone(&baseline));
        if let Some(plan) = replay {
            simulation.explore(&baseline, &[plan], false, begin, &mut report)?;
        } else {
            let (crashes, others) = simulation.plans(&first);
            simulation.settings.restarted_after = Arc::new(simulation.restarted_after(&others));
            let mut plans = crashes;
            if simulation.pairs {
                let recoveries = simulation.explore(&baseline, &plans, true, begin, &mut report)?;
                let pairs = simulation.plan_pairs(&first, &baseline, recoveries);
                (report.equivalent, report.pairs_left_out) = (pairs.equivalent, pairs.left_out);
                plans = pairs.plans;
                report.pairs = plans.len();
            }
            plans.extend(others);
            simulation.explore(&baseline, &plans, true, begin, &mut report)?;
        }
        report.elapsed = begin.elapsed();
        Ok(report)
    }

    /// What runs start from, which the first of them makes on a thread of its own.
    fn prepared(&self) -> Result<Checkpoint, Error> {
        if let Some(prepared) = self.prepared.cluster.get() {
            return Ok(prepared.clone());
        }
        let prepare = || run::prepare(&self.subject, &self.scenario, &self.settings);
        let builder = std::thread::Builder::new().name("simulation".into()).stack_size(STACK);
        std::thread::scope(|scope| {
            let prepared = builder.spawn_scoped(scope, prepare).map(std::thread::ScopedJoinHandle::join);
            let prepared = prepared.map_err(|error| Error::Setup(error.to_string()))?;
            let prepared = prepared.map_err(|_| Error::Setup("setting up the cluster panicked".into()))??;
            Ok(self.prepared.cluster.get_or_init(|| prepared).clone())
        })
    }

    /// Makes a run on a thread of its own.
    fn execute(&self, plan: &Plan, course: Course, requests: u64) -> Result<Outcome, Error> {
        let (subject, scenario, prepared) = (self.subject.clone(), self.scenario.clone(), self.prepared()?);
        let settings = Settings { requests, ..self.settings.clone() };
        let (plan, timing, (send, receive)) = (plan.clone(), settings.timing.clone(), mpsc::channel());
        let builder = std::thread::Builder::new().name(format!("simulation {plan}")).stack_size(STACK);
        let (tell, told) = mpsc::channel();
        builder
            .spawn(move || {
                // The receivers are gone if this took too long.
                let _ = tell.send(ThreadClock::of_this_thread());
                let _ = send.send(run::execute(&subject, &scenario, &settings, &prepared, &plan, course));
            })
            .map_err(|error| Error::Setup(error.to_string()))?;
        let clock = told.recv().unwrap_or_default();
        let patience = timing.patience;
        loop {
            match receive.recv_timeout(CLOCK_LOOK) {
                Ok(outcome) => return outcome,
                // In real time runs wait for most of their time. In virtual time they never do, unless they hang.
                Err(mpsc::RecvTimeoutError::Timeout)
                    if clock.spent(timing.is_real) < patience && clock.spent(true) < patience * HANGING => {}
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let trouble =
                        format!("the run took {patience:?} of the machine's time: the operator never waits");
                    return Ok(Outcome { trouble: Some(trouble), ..Outcome::default() });
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let trouble = Some("the run itself panicked".into());
                    return Ok(Outcome { trouble, ..Outcome::default() });
                }
            }
        }
    }
}

/// Makes two runs at the same time.
fn side_by_side<A: Send, B>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> Result<(A, B), Error> {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        let one = one.join().map_err(|_| Error::Setup("a fault-free run panicked".into()))?;
        Ok((one, other))
    })
}

/// The first lines in which two runs of one seed differ.
fn differing(one: &Outcome, other: &Outcome) -> String {
    if one.trouble != other.trouble {
        return format!("the same seed ended with {:?} and {:?}", one.trouble, other.trouble);
    }
    let line = |outcome: &Outcome, index| {
        outcome.timeline.get(index).map(|entry: &Entry| format!("{} (revision {})", entry, entry.revision))
    };
    let length = one.timeline.len().max(other.timeline.len());
    let found =
        (0..length).map(|index| (line(one, index), line(other, index))).find(|(one, other)| one != other);
    let text =
        |line: Option<String>| line.map_or_else(|| "the end".to_owned(), |line| line.trim().to_owned());
    match found {
        Some((one, other)) => format!("the same seed gave {} and {}", text(one), text(other)),
        None => "the same seed gave another hash of the same timeline".into(),
    }
}
