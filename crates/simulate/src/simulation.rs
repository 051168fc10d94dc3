//! The builder of a simulation, and its execution.

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

/// The environment variable with a single plan to replay.
pub const REPLAY: &str = "STEERSMAN_SIM";

/// The environment variable that overrides the number of random plans.
pub const RANDOM: &str = "STEERSMAN_SIM_RANDOM";

/// Interval at which the time that a run has taken is checked.
const CLOCK_LOOK: Duration = Duration::from_secs(1);
/// Wall-clock limit of a run, as a multiple of its CPU time limit: a shared machine provides less CPU.
const HANGING: u32 = 20;
/// Stack size of a thread that executes runs, in bytes.
const STACK: usize = 8 << 20;
/// Concurrent runs of a program per processor: they mostly wait.
const WAITING: usize = 4;

/// A simulation of an operator.
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

/// State shared by all clones of a simulation, as it is the same for every seed.
#[derive(Default)]
struct Prepared {
    /// The state that runs start from.
    cluster: OnceLock<Checkpoint>,
    /// Whether two runs of a seed were seen to be identical.
    is_repeatable: AtomicBool,
    /// A seed, and its fault-free run with slower responses, which other seeds' runs are compared with.
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

    /// Simulates an operator on the runtime, with the permissions that it declares and the cluster's clock.
    pub fn of(operator: impl Fn() -> Operator + Send + Sync + 'static) -> Self {
        Self::new(Subject::Operator(Arc::new(operator)))
    }

    /// Simulates an operator on the runtime whose construction requires a client, such as a chart operator.
    ///
    /// Add its definitions and role with [`Scenario::given`], and its service account with [`Simulation::account`]. Runs are
    /// reproducible as far as it works on the thread that polls it; the report says if they are not.
    pub fn of_prepared<F, R>(prepare: F) -> Self
    where
        F: Fn(Client) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Operator, BoxError>> + Send + 'static,
    {
        Self::new(Subject::Prepared(Arc::new(move |client| Box::pin(prepare(client)))))
    }

    /// Simulates any async function that takes a client, such as an operator on plain kube-rs.
    ///
    /// Add its definitions with [`Scenario::given`]. Runs are reproducible as far as it uses tokio's clock and no randomness.
    pub fn of_program<F, R>(program: F) -> Self
    where
        F: Fn(Client) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        Self::new(Subject::Program(Arc::new(move |client| Box::pin(program(client)))))
    }

    /// Simulates an external program in any language, over HTTP and in real time.
    ///
    /// The program is killed and restarted. Add its definitions with [`Scenario::given`]. Runs are only as reproducible as the
    /// program, so a failed run is repeated, and counts if it fails again.
    pub fn of_command(command: Command) -> Self {
        let mut simulation = Self::new(Subject::Command(Arc::new(command)));
        simulation.settings.timing = Timing::real_time();
        simulation.threads *= WAITING;
        simulation
    }

    /// Sets the scenario. Default: empty.
    pub fn scenario(mut self, scenario: Scenario) -> Self {
        self.scenario = scenario;
        self.prepared = Arc::default();
        self
    }

    /// Sets the service account that a program runs as. Default: the administrator.
    pub fn account(mut self, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        self.settings.account = Some((namespace.into(), name.into()));
        self.prepared = Arc::default();
        self
    }

    /// Sets the seed. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of random plans tried after every single fault. Default: 50.
    ///
    /// Each has up to three faults. The environment variable [`RANDOM`] overrides the number.
    pub fn random(mut self, plans: usize) -> Self {
        self.random = plans;
        self
    }

    /// Whether to try pairs of crashes, the second one at the first write after the restart. Default: yes.
    ///
    /// Pairs that lead to a state already seen after a single crash are skipped. There are at most twice as many pairs as writes.
    pub fn pairs(mut self, yes: bool) -> Self {
        self.pairs = yes;
        self
    }

    /// Sets the number of replicas. Default: 1.
    ///
    /// With two or more, the writing replica is partitioned at each of its writes.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.settings.replicas = replicas.max(1);
        self.prepared = Arc::default();
        self
    }

    /// Sets the quiet time: how long nothing must change until a step is over.
    ///
    /// Default: 90 s of virtual time; for a program, three times its longest pause without faults, and at least 1 s.
    pub fn quiet(mut self, time: Duration) -> Self {
        self.settings.timing.quiet = time;
        self.settings.timing.learns_quiet = false;
        self.prepared = Arc::default();
        self
    }

    /// Starts no run after this time; the report counts the skipped plans. Default: no limit.
    pub fn budget(mut self, time: Duration) -> Self {
        self.budget = Some(time);
        self
    }

    /// Whether to change and revert each property of the first objects individually. Default: no.
    ///
    /// Values are those that the definition allows. A change must have an effect on another object or the status, and reverting
    /// it must leave nothing behind.
    pub fn properties(mut self, yes: bool) -> Self {
        self.properties = yes;
        self
    }

    /// Exempts a property with its children from [`Simulation::properties`]. Default: none.
    ///
    /// The argument is a path such as `.spec.pause`.
    pub fn ignores_property(mut self, path: impl Into<String>) -> Self {
        self.rules.ignored_properties.push(path.into());
        self
    }

    /// Sets a handle that ends the simulation early. Default: none.
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.settings.interrupt = interrupt;
        self
    }

    /// Whether the cluster has workload controllers and garbage collection. Default: yes.
    ///
    /// Without them runs take a tenth of the time, and deployments, pods and owner references have no effect.
    pub fn workloads(mut self, yes: bool) -> Self {
        self.settings.workloads = yes;
        self.prepared = Arc::default();
        self
    }

    /// Sets the run time of pods that complete, such as those of Jobs. Default: 100 ms.
    pub fn pod_run_time(mut self, time: Duration) -> Self {
        self.settings.pod_run_time = Some(time);
        self.prepared = Arc::default();
        self
    }

    /// Tries only these fault kinds, by [`Fault::kind`](crate::Fault::kind). Default: all kinds.
    pub fn only(mut self, kinds: impl IntoIterator<Item = &'static str>) -> Self {
        self.only = Some(kinds.into_iter().collect());
        self
    }

    /// Excludes a fault kind, by [`Fault::kind`](crate::Fault::kind). Default: none.
    ///
    /// For example `clock-jump`, for an operator that acts on a schedule.
    pub fn without(mut self, kind: &'static str) -> Self {
        self.without.insert(kind);
        self
    }

    /// Allows objects to outlive the user's. Default: none.
    ///
    /// The argument is a resource, `persistentvolumeclaims`, or an object, `secrets/default/key`.
    pub fn keeps(mut self, resource: impl Into<String>) -> Self {
        self.rules.kept.insert(resource.into());
        self
    }

    /// Excludes a field of a kind, or of all kinds, from `edited-outside`. Default: none.
    ///
    /// Use it for fields that the operator leaves to other clients. The field is a JSON pointer such as `/spec/replicas`.
    pub fn allows_edits(mut self, kind: Option<&str>, pointer: impl Into<String>) -> Self {
        self.settings.allowed_edits.push((kind.map(str::to_owned), pointer.into()));
        self
    }

    /// Whether the operator rolls a step back and retries it when a write fails, as Helm does. Default: no.
    ///
    /// If so, how often objects are created and deleted is not checked after a failed write.
    pub fn rolls_back(mut self, yes: bool) -> Self {
        self.rules.rolls_back = yes;
        self
    }

    /// Excludes objects from the comparison with the fault-free run. Default: none.
    ///
    /// The argument is a pattern such as `secrets/*/sh.helm.release.v1.*`, in which `*` matches any string. The objects must
    /// still be gone at the end.
    pub fn ignores(mut self, objects: impl Into<String>) -> Self {
        self.rules.ignored.objects.push(objects.into());
        self
    }

    /// Excludes a field of a kind from the comparison with the fault-free run. Default: none.
    ///
    /// The field is a path such as `.status.history`, in which `[*]` matches each item of a list.
    pub fn ignores_field(mut self, kind: impl Into<String>, path: impl Into<String>) -> Self {
        self.rules.ignored.fields.push((kind.into(), path.into()));
        self
    }

    /// Adds an invariant that every state must satisfy: the function returns the violation.
    pub fn invariant<F>(mut self, name: impl Into<String>, holds: F) -> Self
    where
        F: Fn(&Objects) -> Result<(), String> + Send + Sync + 'static,
    {
        self.rules.invariants.push(Invariant::of_function(name.into(), holds));
        self
    }

    /// Adds an invariant in CEL about each `object` of a kind, or about all `objects` without a kind.
    ///
    /// An expression that uses a field which an object does not have yet is skipped for it; one that is never evaluated fails
    /// the simulation.
    ///
    /// # Errors
    /// Fails if the expression does not compile.
    pub fn invariant_expression(mut self, kind: Option<&str>, expression: &str) -> Result<Self, Error> {
        self.rules.invariants.push(Invariant::of_expression(kind, expression)?);
        Ok(self)
    }

    /// Whether to end at the first failure. Default: no, all plans are tried.
    pub fn stop_early(mut self, yes: bool) -> Self {
        self.stop_early = yes;
        self
    }

    /// Sets the number of concurrent runs. Default: one per processor, for a program four.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Executes only the fault-free runs and this plan. Default: the plan in [`REPLAY`], else every plan.
    pub fn replay(mut self, plan: Plan) -> Self {
        self.replay = Some(plan);
        self
    }

    /// Calls a function after each run, on the thread that executed it. Default: none.
    pub fn on_progress(mut self, listener: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.listener = Listener::new(listener);
        self
    }

    /// Executes all runs. It uses its own threads, so it may be called from anywhere.
    ///
    /// # Errors
    /// Fails if the cluster or the operator can't be set up, if [`REPLAY`] is not a plan or [`RANDOM`] not a number. Failures of
    /// runs are part of the report.
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
        // If runs are known to be reproducible, the slow fault-free run does not depend on the first, and any seed's will do.
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
            let message = format!("invariant {} could not be evaluated in any state: {why}", invariant.name);
            Some(Finding { oracle: Oracle::Invariant, message })
        }));
        if is_real && first.traffic.requests == 0 && alone.is_empty() {
            let message =
                "the operator made no request: it does not use the KUBECONFIG that it is given".into();
            alone.push(Finding { oracle: Oracle::Convergence, message });
        }
        if is_real && !alone.is_empty() {
            // Every run in real time is slow, so the second fault-free one is skipped.
            return Ok(report.failed_without_faults(free, alone, &first, begin));
        }
        simulation.settings.usual_watches = if is_real { first.watches.clone() } else { BTreeSet::new() };
        let (again, other) = match other {
            Some(other) => (None, other),
            None => {
                let again = || simulation.execute(&free, Course::Scenario, run::REQUEST_LIMIT);
                let other = || simulation.execute(&another, Course::SlowScenario, run::REQUEST_LIMIT);
                let (again, other) = side_by_side(again, other)?;
                // Runs with a crash continue from the first run.
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
                // A chart is rendered on another thread, so the seed alone does not determine when that ends.
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
            // Another seed and slower responses must make no difference beyond the masks.
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

    /// Returns the state that runs start from, prepared once on a separate thread.
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

    /// Executes a run on a separate thread.
    fn execute(&self, plan: &Plan, course: Course, requests: u64) -> Result<Outcome, Error> {
        let (subject, scenario, prepared) = (self.subject.clone(), self.scenario.clone(), self.prepared()?);
        let settings = Settings { requests, ..self.settings.clone() };
        let (plan, timing, (send, receive)) = (plan.clone(), settings.timing.clone(), mpsc::channel());
        let builder = std::thread::Builder::new().name(format!("simulation {plan}")).stack_size(STACK);
        let (tell, told) = mpsc::channel();
        builder
            .spawn(move || {
                // The receivers are dropped if this took too long.
                let _ = tell.send(ThreadClock::of_this_thread());
                let _ = send.send(run::execute(&subject, &scenario, &settings, &prepared, &plan, course));
            })
            .map_err(|error| Error::Setup(error.to_string()))?;
        let clock = told.recv().unwrap_or_default();
        let patience = timing.patience;
        loop {
            match receive.recv_timeout(CLOCK_LOOK) {
                Ok(outcome) => return outcome,
                // In real time, runs mostly wait. In virtual time they never do, unless they hang.
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

/// Executes two runs concurrently.
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

/// Describes the first lines in which two runs of a seed differ.
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
