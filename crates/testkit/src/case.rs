//! A test case: creates its namespace, runs its steps, and cleans up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::process::Child;
use tokio::time::Instant;

use crate::actions::{Action, ActionStep, Controls, Fault, OperatorChange};
use crate::check::{self, Checker, Expectation, POLL};
use crate::cluster::{Applied, Cluster, ObjectKey, is_not_found, said};
use crate::command::{self, CommandEnvironment};
use crate::observe::{Event, Observer};
use crate::outcome::{CaseOutcome, Failure, StepOutcome};
use crate::step::{self, LoadContext, Step};
use crate::subset::ListMatch;
use crate::template::Variables;
use crate::types::{Command, ObjectReference, TestStep};
use crate::wake::Wake;

/// State shared by all test cases of a run.
pub(crate) struct Shared {
    pub(crate) cluster: Cluster,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) controls: Option<Arc<dyn Controls>>,
    /// Timeout of a step, in seconds.
    pub(crate) timeout: i64,
    pub(crate) skip_delete: bool,
    pub(crate) is_events_suppressed: bool,
    pub(crate) ignore_files: Vec<String>,
    pub(crate) run_labels: BTreeMap<String, String>,
    pub(crate) template_vars: serde_json::Map<String, Value>,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) working_directory: PathBuf,
}

/// A test case: a directory of steps, and the namespace they run in.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    pub(crate) namespace: String,
    /// Whether the namespace was configured: if so and it already exists, it is not deleted.
    pub(crate) is_namespace_given: bool,
}

/// An action to undo when the test case ends; the most recent is undone first.
enum Cleanup {
    Delete(Cluster, ObjectKey),
    DeleteNamespace(Cluster),
}

struct Running<'a> {
    case: &'a Case,
    shared: &'a Shared,
    cleanups: Vec<Cleanup>,
    clients: BTreeMap<(PathBuf, String), Cluster>,
    /// Background commands, which are killed when the test case ends.
    background: Vec<Child>,
}

impl Case {
    /// Runs the test case from loading its files to cleaning up.
    pub(crate) async fn run(&self, shared: &Shared) -> CaseOutcome {
        let (started, begun) = (SystemTime::now(), Instant::now());
        let log = |line: &str| shared.observer.notify(&Event::Log { source: &self.name, line });
        let variables = Variables { namespace: self.namespace.clone(), vars: shared.template_vars.clone() };
        let context = LoadContext {
            run_labels: &shared.run_labels,
            variables: &variables,
            ignore_files: &shared.ignore_files,
            log: &log,
        };
        let loaded = step::load_all(&self.directory, &context);
        let total_steps = loaded.as_ref().map_or(0, Vec::len);
        shared.observer.notify(&Event::CaseStarted { case: &self.name, steps: total_steps });
        let mut outcomes = Vec::new();
        let mut running = Running::new(self, shared);
        match loaded {
            Ok(steps) => {
                running.run(&steps, &mut outcomes).await;
                running.clean_up(&mut outcomes).await;
            }
            Err(error) => {
                let failures = vec![Failure::new(error.to_string())];
                running.record(&mut outcomes, finished("setup".to_owned(), started, begun, 0, failures));
            }
        }
        let outcome = CaseOutcome {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            started,
            duration: begun.elapsed(),
            total_steps,
            steps: outcomes,
        };
        shared.observer.notify(&Event::CaseFinished(&outcome));
        outcome
    }
}

fn finished(
    name: String,
    started: SystemTime,
    begun: Instant,
    assertions: usize,
    failures: Vec<Failure>,
) -> StepOutcome {
    StepOutcome { name, started, duration: begun.elapsed(), assertions, failures }
}

impl<'a> Running<'a> {
    fn new(case: &'a Case, shared: &'a Shared) -> Self {
        Self { case, shared, cleanups: Vec::new(), clients: BTreeMap::new(), background: Vec::new() }
    }

    async fn run(&mut self, steps: &[Step], outcomes: &mut Vec<StepOutcome>) {
        let (started, begun) = (SystemTime::now(), Instant::now());
        let failures: Vec<Failure> = self.set_up(steps).await.err().into_iter().map(Failure::new).collect();
        let is_ready = failures.is_empty();
        self.record(outcomes, finished("setup".to_owned(), started, begun, 0, failures));
        if !is_ready {
            return;
        }
        for step in steps {
            let (started, begun) = (SystemTime::now(), Instant::now());
            let failures = self.step(step).await;
            let has_failed = !failures.is_empty();
            let assertions = step.asserts.len() + step.errors.len();
            let name = format!("step {}", step.title());
            self.record(outcomes, finished(name, started, begun, assertions, failures));
            if has_failed {
                break;
            }
        }
        if !self.shared.is_events_suppressed {
            for line in check::event_lines(&self.shared.cluster, &self.case.namespace, "").await {
                self.log(None, &format!("event {line}"));
            }
        }
    }

    fn record(&self, outcomes: &mut Vec<StepOutcome>, step: StepOutcome) {
        self.shared.observer.notify(&Event::StepFinished { case: &self.case.name, step: &step });
        outcomes.push(step);
    }

    fn log(&self, step: Option<&Step>, line: &str) {
        let source = step
            .map_or_else(|| self.case.name.clone(), |step| format!("{}/{}", self.case.name, step.title()));
        self.shared.observer.notify(&Event::Log { source: &source, line });
    }

    /// Connects to the clusters that steps name and creates the namespace in each.
    async fn set_up(&mut self, steps: &[Step]) -> Result<(), String> {
        let mut clusters = vec![self.shared.cluster.clone()];
        let mut seen: Vec<&Path> = Vec::new();
        for step in steps.iter().filter(|step| !step.is_lazy) {
            let Some(path) = step.kubeconfig.as_deref() else { continue };
            let cluster = self.cluster(step).await?;
            if !seen.contains(&path) {
                seen.push(path);
                clusters.push(cluster);
            }
        }
        for cluster in clusters {
            self.make_namespace(cluster).await?;
        }
        Ok(())
    }

    /// The cluster that a step works on.
    async fn cluster(&mut self, step: &Step) -> Result<Cluster, String> {
        let Some(path) = &step.kubeconfig else { return Ok(self.shared.cluster.clone()) };
        let context = step.step.as_ref().map(|step| step.context.clone()).unwrap_or_default();
        let key = (path.clone(), context);
        if let Some(cluster) = self.clients.get(&key) {
            return Ok(cluster.clone());
        }
        let cluster = Cluster { client: connect(path, &key.1).await? };
        self.clients.insert(key, cluster.clone());
        Ok(cluster)
    }

    async fn make_namespace(&mut self, cluster: Cluster) -> Result<(), String> {
        let namespace = &self.case.namespace;
        self.log(None, &format!("Creating namespace {namespace:?}"));
        let place = ObjectKey::namespace(namespace);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let failed =
            |error: &kube::Error| format!("failed to create test namespace {namespace:?}: {}", said(error));
        let existed = match cluster.create(&place, &object).await {
            Ok(_) => false,
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => true,
            Err(error @ kube::Error::Api(_)) if matches!(&error, kube::Error::Api(status) if status.code == 403) =>
            {
                match cluster.get(&place).await {
                    Err(missing) if is_not_found(&missing) => return Err(failed(&error)),
                    // It exists, or reading it is forbidden as well: assume that it exists.
                    _ => true,
                }
            }
            Err(error) => return Err(failed(&error)),
        };
        let is_kept = self.case.is_namespace_given && existed;
        if !self.shared.skip_delete && !is_kept {
            self.cleanups.push(Cleanup::DeleteNamespace(cluster));
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Vec<Failure> {
        let cluster = match self.cluster(step).await {
            Ok(cluster) => cluster,
            Err(why) => return vec![Failure::new(why)],
        };
        if step.is_lazy
            && let Err(why) = self.make_namespace(cluster.clone()).await
        {
            return vec![Failure::new(why)];
        }
        self.log(Some(step), &format!("starting test step {}", step.title()));
        let command_environment = CommandEnvironment {
            namespace: self.case.namespace.clone(),
            kubeconfig: step.kubeconfig.clone().unwrap_or_else(|| self.shared.kubeconfig.clone()),
            working_directory: self.shared.working_directory.clone(),
            directory: self.case.directory.clone(),
        };
        let mut failures = Vec::new();
        if let Some(commands) = &step.step {
            let deadline = Instant::now() + seconds(step.timeout(self.shared.timeout));
            if let Err(why) = self.delete(step, &commands.delete, &cluster, deadline).await {
                return vec![Failure::new(why)];
            }
            let ran = self.run_commands(step, commands, &command_environment).await;
            failures.extend(ran.err().map(Failure::new));
        }
        failures.extend(self.apply(step, &cluster).await);
        if !failures.is_empty() {
            return failures;
        }
        let mut failures = Vec::new();
        for actions in &step.actions {
            failures = self.act(step, actions, &cluster, &command_environment).await;
            if !failures.is_empty() {
                break;
            }
        }
        if failures.is_empty() {
            failures = self.wait(step, &cluster, &command_environment).await;
        }
        let ended = if failures.is_empty() { "completed" } else { "failed" };
        self.log(Some(step), &format!("test step {ended} {}", step.title()));
        if !failures.is_empty() {
            self.collect(step, &command_environment).await;
        }
        failures
    }

    async fn run_commands(
        &mut self,
        step: &Step,
        of_step: &TestStep,
        command_environment: &CommandEnvironment,
    ) -> Result<(), String> {
        let log = |line: &str| self.log(Some(step), line);
        let (background, ran) =
            command_environment.run_all(&of_step.commands, self.shared.timeout, &log).await;
        self.background.extend(background);
        ran.map_err(|error| error.message)
    }

    /// Deletes the referenced objects and waits until they are gone.
    async fn delete(
        &self,
        step: &Step,
        references: &[ObjectReference],
        cluster: &Cluster,
        deadline: Instant,
    ) -> Result<(), String> {
        let mut places = Vec::new();
        for reference in references {
            let resource = cluster.resource(&reference.api_version, &reference.kind).await?;
            let place = resource.place(&reference.namespace, &self.case.namespace, &reference.name);
            if !reference.name.is_empty() {
                places.push(place);
                continue;
            }
            let labels: Vec<String> =
                reference.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let found = cluster.list(&place, &labels.join(","), "").await;
            let found =
                found.map_err(|error| format!("listing resources to delete failed: {}", said(&error)))?;
            places.extend(found.iter().map(|object| place.of(object)));
        }
        for place in &places {
            let action = match cluster.delete(place).await {
                Ok(()) => "deleted",
                Err(error) if is_not_found(&error) => "already gone",
                Err(error) => return Err(format!("deleting {} failed: {}", place.id(), said(&error))),
            };
            self.log(Some(step), &format!("{} {action}", place.id()));
        }
        wait_until_gone(cluster, &places, deadline).await.map_err(|last| {
            format!("timed out waiting for resource deletion (result of last check was: {last:?})")
        })
    }

    /// Applies the step's objects; each that is created is deleted when the test case ends.
    async fn apply(&mut self, step: &Step, cluster: &Cluster) -> Vec<Failure> {
        let mut failures = Vec::new();
        for document in &step.applies {
            failures.extend(self.apply_object(step, &document.value, cluster).await);
        }
        failures
    }

    async fn apply_object(&mut self, step: &Step, object: &Value, cluster: &Cluster) -> Option<Failure> {
        let place = match cluster.place(object, &self.case.namespace).await {
            Ok(place) => place,
            Err(why) => return Some(Failure::new(why)),
        };
        let object = place.placed(object);
        let applying = cluster.apply(&place, &object);
        let applied = if self.shared.timeout > 0 {
            let late = |_| Err("create/update timeout exceeded".to_owned());
            tokio::time::timeout(seconds(self.shared.timeout), applying).await.unwrap_or_else(late)
        } else {
            applying.await
        };
        match applied {
            Ok(applied) => {
                let action = if applied == Applied::Created { "created" } else { "updated" };
                self.log(Some(step), &format!("{} {action}", place.id()));
                if applied == Applied::Created && !self.shared.skip_delete {
                    self.cleanups.push(Cleanup::Delete(cluster.clone(), place));
                }
                None
            }
            Err(why) => Some(Failure::new(format!("applying {} failed: {why}", place.id()))),
        }
    }

    /// Checks the step's assertions on each change, until they pass or the timeout expires.
    async fn wait(
        &self,
        step: &Step,
        cluster: &Cluster,
        command_environment: &CommandEnvironment,
    ) -> Vec<Failure> {
        let timeout = step.timeout(self.shared.timeout);
        if timeout <= 0 {
            // Like kuttl: without a timeout nothing is checked.
            return Vec::new();
        }
        let deadline = Instant::now() + seconds(timeout);
        let log = |line: &str| self.log(Some(step), line);
        let mut checker = Checker::new(cluster, command_environment, step.lists());
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let mut failures = checker.step(step, remaining.as_secs() as i64, &log).await;
            let is_over = Instant::now() >= deadline || failures.iter().any(|failure| failure.timed_out);
            if failures.is_empty() || is_over {
                check::add_events(cluster, &self.case.namespace, &mut failures).await;
                return failures;
            }
            checker.changed(deadline).await;
        }
    }

    /// Runs the actions of a step beyond kuttl's format.
    async fn act(
        &mut self,
        step: &Step,
        actions: &ActionStep,
        cluster: &Cluster,
        command_environment: &CommandEnvironment,
    ) -> Vec<Failure> {
        let timeout = actions.timeout.map_or_else(|| step.timeout(self.shared.timeout), i64::from);
        let mut failures = Vec::new();
        for action in &actions.r#try {
            failures = self.action(step, action, timeout, cluster, command_environment).await;
            if !failures.is_empty() {
                break;
            }
        }
        if !failures.is_empty() {
            for action in &actions.catch {
                for failure in self.action(step, action, timeout, cluster, command_environment).await {
                    self.log(Some(step), &format!("catch: {}", failure.message));
                }
            }
        }
        for action in &actions.finally {
            let failed = self.action(step, action, timeout, cluster, command_environment).await;
            // The first failure is the reason to report.
            if failures.is_empty() {
                failures = failed;
            }
        }
        failures
    }

    async fn action(
        &mut self,
        step: &Step,
        action: &Action,
        timeout: i64,
        cluster: &Cluster,
        command_environment: &CommandEnvironment,
    ) -> Vec<Failure> {
        let deadline = Instant::now() + seconds(timeout);
        let log = |line: &str| self.log(Some(step), line);
        match action {
            Action::Apply(object) => self.apply_object(step, object, cluster).await.into_iter().collect(),
            Action::Assert(expected) => {
                let mut checker = Checker::new(cluster, command_environment, step.lists());
                checker.until(deadline, Expectation::Present(expected)).await
            }
            Action::Error(unexpected) => {
                let mut checker = Checker::new(cluster, command_environment, step.lists());
                checker.until(deadline, Expectation::Absent(unexpected)).await
            }
            Action::Wait(wait) => {
                let mut checker = Checker::new(cluster, command_environment, ListMatch::Partial);
                checker.until(deadline, Expectation::Present(&wait.assertion())).await
            }
            Action::Delete(reference) => {
                let deleted = self.delete(step, std::slice::from_ref(reference), cluster, deadline).await;
                deleted.err().into_iter().map(Failure::new).collect()
            }
            Action::Command(_) | Action::Script(_) => {
                let command = match action {
                    Action::Script(script) => Command { script: script.clone(), ..Command::default() },
                    Action::Command(command) => Command { command: command.clone(), ..Command::default() },
                    _ => Command::default(),
                };
                let (_, ran) = command_environment.run_all(&[command], timeout, &log).await;
                ran.err().into_iter().map(|error| Failure::new(error.message)).collect()
            }
            Action::Fault(fault) => {
                log(&format!("fault {fault:?}"));
                self.fault(fault, cluster).await.err().into_iter().map(Failure::new).collect()
            }
            Action::Advance(by) => {
                log(&format!("advance {by:?}"));
                let advanced = match self.controls() {
                    Ok(controls) => controls.advance(*by).await,
                    Err(why) => Err(why.to_owned()),
                };
                advanced.err().into_iter().map(Failure::new).collect()
            }
        }
    }

    fn controls(&self) -> Result<&dyn Controls, &'static str> {
        let controls = self.shared.controls.as_deref();
        controls.ok_or("controlling the operator and the clock needs the embedded cluster")
    }

    async fn fault(&self, fault: &Fault, cluster: &Cluster) -> Result<(), String> {
        let changes: &[OperatorChange] = match fault {
            Fault::KillPods(labels) => return self.kill_pods(labels, cluster).await,
            Fault::KillOperator => &[OperatorChange::Kill, OperatorChange::Start],
            Fault::StopOperator => &[OperatorChange::Kill],
            Fault::StartOperator => &[OperatorChange::Start],
            Fault::CutWatches => &[OperatorChange::CutWatches],
        };
        let controls = self.controls()?;
        for change in changes {
            controls.change_operator(*change).await?;
        }
        Ok(())
    }

    async fn kill_pods(&self, labels: &BTreeMap<String, String>, cluster: &Cluster) -> Result<(), String> {
        let pods = cluster.resource("v1", "Pod").await?.place("", &self.case.namespace, "");
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let found = cluster.list(&pods, &labels.join(","), "").await.map_err(|error| said(&error))?;
        if found.is_empty() {
            return Err(format!("no pod has the labels {}", labels.join(",")));
        }
        for pod in &found {
            cluster.kill(&pods.of(pod)).await.map_err(|error| said(&error))?;
        }
        Ok(())
    }

    async fn collect(&self, step: &Step, command_environment: &CommandEnvironment) {
        let Some(assert) = &step.assert else { return };
        let log = |line: &str| self.log(Some(step), line);
        for collector in assert.collectors.iter().flatten() {
            let Some(command) = collector.to_command() else {
                log("skipping invalid assertion collector");
                continue;
            };
            log(&format!("collecting log output: {}", command.command));
            let (_, ran) = command_environment.run_all(&[command], self.shared.timeout, &log).await;
            if let Err(error) = ran {
                log(&format!("post assert collector failure: {}", error.message));
            }
        }
    }

    /// Deletes what the test case created, most recent first.
    async fn clean_up(&mut self, outcomes: &mut Vec<StepOutcome>) {
        let (started, begun) = (SystemTime::now(), Instant::now());
        for child in self.background.drain(..) {
            command::stop(child).await;
        }
        let mut failures = Vec::new();
        while let Some(cleanup) = self.cleanups.pop() {
            let result = match &cleanup {
                Cleanup::Delete(cluster, place) => match cluster.delete(place).await {
                    Err(error) if !is_not_found(&error) => {
                        Err(format!("deleting {} failed: {}", place.id(), said(&error)))
                    }
                    _ => Ok(()),
                },
                Cleanup::DeleteNamespace(cluster) => self.delete_namespace(cluster).await,
            };
            failures.extend(result.err().map(Failure::new));
        }
        if !failures.is_empty() {
            self.record(outcomes, finished("cleanup".to_owned(), started, begun, 0, failures));
        }
    }

    async fn delete_namespace(&self, cluster: &Cluster) -> Result<(), String> {
        let namespace = &self.case.namespace;
        self.log(None, &format!("Deleting namespace {namespace:?}"));
        let place = ObjectKey::namespace(namespace);
        match cluster.delete(&place).await {
            Err(error) if !is_not_found(&error) => {
                return Err(format!("failed to delete namespace {namespace:?}: {}", said(&error)));
            }
            _ => {}
        }
        let far = Duration::from_secs(24 * 60 * 60);
        let timeout = if self.shared.timeout > 0 { seconds(self.shared.timeout) } else { far };
        wait_until_gone(cluster, &[place], Instant::now() + timeout)
            .await
            .map_err(|_| format!("waiting for namespace {namespace:?} to be deleted timed out"))
    }
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// Waits until objects are gone; the error describes the last read.
async fn wait_until_gone(cluster: &Cluster, places: &[ObjectKey], deadline: Instant) -> Result<(), String> {
    let mut wake = Wake::default();
    for place in places {
        loop {
            let last = match cluster.get(place).await {
                Err(error) if is_not_found(&error) => break,
                Ok(_) => format!("{} still exists", place.id()),
                Err(error) => format!("checking existence of {} failed: {}", place.id(), said(&error)),
            };
            let now = Instant::now();
            if now >= deadline {
                return Err(last);
            }
            wake.watch(cluster, place);
            let _ = tokio::time::timeout_at(deadline.min(now + POLL), wake.changed()).await;
        }
    }
    Ok(())
}

/// Returns a client from a kubeconfig, using its current context unless one is named.
async fn connect(path: &Path, context: &str) -> Result<Client, String> {
    let failed = |error: &dyn std::fmt::Display| format!("kubeconfig {}: {error}", path.display());
    let file = Kubeconfig::read_from(path).map_err(|error| failed(&error))?;
    let context = Some(context.to_owned()).filter(|context| !context.is_empty());
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(file, &options).await.map_err(|error| failed(&error))?;
    Client::try_from(config).map_err(|error| failed(&error))
}
