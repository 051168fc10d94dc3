//! One run: a cluster, an operator on it, the scenario's steps and the plan's faults.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta},
};
use serde_json::Value;
use steersman::{BoxError, Operator, testing::TestEnv};
use steersman_cluster::{Cluster, User};
use tokio::{sync::watch, task::JoinHandle, time::Instant};

use crate::{
    Error,
    fault::{Fault, Plan},
    network::{Network, Process, Traffic},
    panics,
    scenario::{Scenario, Step},
    state::{Change, Tables},
    timeline::{self, Actor, Entry},
};

/// Pause between two looks at whether something still changes: the first after a change, and the longest.
const LOOK: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(16));
/// Pause until a process that has ended is started again: the first, and the longest.
const RESTART: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Requests after which a fault-free run is given up.
pub(crate) const REQUEST_LIMIT: u64 = 5_000;

type Prepare = dyn Fn(Client) -> BoxFuture<'static, Result<Operator, BoxError>> + Send + Sync;
type Program = dyn Fn(Client) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync;

/// What is simulated.
#[derive(Clone)]
pub(crate) enum Subject {
    /// An operator on the runtime, with what it declares.
    Operator(Arc<dyn Fn() -> Operator + Send + Sync>),
    /// An operator on the runtime that needs a client to be described.
    Prepared(Arc<Prepare>),
    /// Any program that takes a client.
    Program(Arc<Program>),
}

/// How runs are made.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) quiet: Duration,
    pub(crate) limit: Duration,
    pub(crate) replicas: u32,
    pub(crate) account: Option<(String, String)>,
    pub(crate) workloads: bool,
    /// Requests after which a run is given up.
    pub(crate) requests: u64,
}

/// What came of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Objects after the start and after each step. None where a fault leaves a step no time.
    pub(crate) states: Vec<Option<BTreeMap<String, Value>>>,
    pub(crate) changes: Vec<Change>,
    /// Keys of objects that the operator created.
    pub(crate) made: BTreeSet<String>,
    /// What the operator changed after a restart at rest.
    pub(crate) at_restart: Vec<String>,
    pub(crate) traffic: Traffic,
    pub(crate) panics: Vec<String>,
    pub(crate) exits: Vec<String>,
    /// Why the run was given up.
    pub(crate) trouble: Option<String>,
    pub(crate) timeline: Vec<Entry>,
    pub(crate) hash: String,
}

/// Makes a run on this thread, in virtual time.
pub(crate) fn execute(
    subject: &Subject,
    scenario: &Scenario,
    settings: &Settings,
    plan: &Plan,
    slow: bool,
) -> Result<Outcome, Error> {
    // Some libraries draw their jitter from the thread's generator.
    fastrand::seed(plan.seed);
    panics::record();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .map_err(|error| Error::Setup(error.to_string()))?;
    let result = runtime.block_on(async {
        let mut run = Run::start(subject, scenario, settings, plan, slow).await?;
        let trouble = run.play(scenario).await.err();
        Ok(run.finish(trouble))
    });
    drop(runtime);
    let panics = panics::take();
    result.map(|outcome| Outcome { panics, ..outcome })
}

struct Run<'a> {
    cluster: Cluster,
    env: Arc<TestEnv>,
    network: Network,
    replicas: Vec<Replica>,
    settings: &'a Settings,
    plan: &'a Plan,
    /// The revision before the operator's first start.
    origin: u64,
    states: Vec<Option<BTreeMap<String, Value>>>,
    /// Revisions that users made: after the first, up to the second.
    by_user: Vec<(u64, u64)>,
    at_restart: Vec<String>,
    exits: Arc<Mutex<Vec<String>>>,
}

/// A replica of the operator, which is restarted when it dies.
struct Replica {
    down: watch::Sender<bool>,
    process: Arc<Mutex<Option<Process>>>,
    task: JoinHandle<()>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Replica {
    fn with_process(&self, act: impl FnOnce(&Process)) {
        if let Some(process) = self.process.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            act(process);
        }
    }
}

impl<'a> Run<'a> {
    async fn start(
        subject: &Subject,
        scenario: &Scenario,
        settings: &'a Settings,
        plan: &'a Plan,
        slow: bool,
    ) -> Result<Self, Error> {
        let setup = |error: &dyn std::fmt::Display| Error::Setup(error.to_string());
        let cluster = Cluster::builder()
            .seed(plan.seed)
            .workloads(settings.workloads)
            .start()
            .await
            .map_err(|error| setup(&error))?;
        cluster.settled().await;
        let env = Arc::new(TestEnv::on(cluster.clone()));
        let mut run = Self {
            network: Network::new(cluster.server().store().clone(), plan.faults.clone(), slow),
            cluster,
            env,
            replicas: Vec::new(),
            settings,
            plan,
            origin: 0,
            states: Vec::new(),
            by_user: Vec::new(),
            at_restart: Vec::new(),
            exits: Arc::default(),
        };
        for object in &scenario.given {
            run.apply(object).await.map_err(|error| setup(&error))?;
            if object["kind"] == "CustomResourceDefinition" {
                let crd = serde_json::from_value(object.clone()).map_err(|error| setup(&error))?;
                run.env.install(&crd).await.map_err(|error| setup(&error))?;
            }
        }
        let client = match subject {
            Subject::Operator(make) => {
                let operator = make();
                run.env.install_operator(&operator).await.map_err(|error| setup(&error))?;
                run.env.client_for(&operator).map_err(|error| setup(&error))?
            }
            Subject::Prepared(_) | Subject::Program(_) => match &settings.account {
                Some((namespace, name)) => run.cluster.client_as(User::service_account(namespace, name)),
                None => run.cluster.client(),
            },
        };
        run.cluster.settled().await;
        run.origin = run.cluster.server().store().latest();
        for number in 1..=settings.replicas.max(1) {
            let replica = run.supervise(subject, client.clone(), number);
            run.replicas.push(replica);
        }
        Ok(run)
    }

    /// Starts a replica, and starts it again whenever it ends.
    fn supervise(&self, subject: &Subject, client: Client, number: u32) -> Replica {
        let (down, process) = (watch::Sender::new(false), Arc::new(Mutex::new(None)));
        let (network, env, subject) = (self.network.clone(), Arc::clone(&self.env), subject.clone());
        let (mut is_down, current, exits) = (down.subscribe(), Arc::clone(&process), Arc::clone(&self.exits));
        let task = tokio::spawn(async move {
            let mut delay = RESTART.0;
            loop {
                // The sender lives as long as this task.
                let _ = is_down.wait_for(|down| !*down).await;
                let process = network.process(number);
                *current.lock().unwrap_or_else(PoisonError::into_inner) = Some(process.clone());
                let mut running =
                    tokio::spawn(launch(subject.clone(), Arc::clone(&env), process.client(client.clone())));
                tokio::select! {
                    biased;
                    () = process.dead() => {
                        running.abort();
                        let _ = running.await;
                        delay = RESTART.0;
                        while network.stays_dead() {
                            tokio::time::sleep(RESTART.0).await;
                        }
                    }
                    ended = &mut running => {
                        let why = match ended {
                            Ok(Ok(())) => "it ended".to_owned(),
                            Ok(Err(error)) => format!("it ended: {error}"),
                            Err(error) => format!("it panicked: {error}"),
                        };
                        process.kill();
                        network.note(process.actor(), why.clone(), false);
                        exits.lock().unwrap_or_else(PoisonError::into_inner).push(why);
                        delay = (delay * 2).min(RESTART.1);
                    }
                }
                current.lock().unwrap_or_else(PoisonError::into_inner).take();
                tokio::time::sleep(delay).await;
            }
        });
        Replica { down, process, task }
    }

    /// Takes all steps, with the faults that are not tied to a request.
    async fn play(&mut self, scenario: &Scenario) -> Result<(), String> {
        self.settle().await?;
        self.rest(0).await?;
        let mut number = 0;
        while let Some(step) = scenario.steps.get(number) {
            number += 1;
            let at = u32::try_from(number).unwrap_or(u32::MAX);
            let skipping = self.plan.faults.iter().find(|fault| {
                number < scenario.steps.len()
                    && matches!(fault, Fault::Down(step) | Fault::Blind(step) if *step == at)
            });
            let Some(fault) = skipping else {
                self.take(step).await?;
                self.network.revive();
                self.settle().await?;
                let next = scenario.steps.get(number);
                if self.network.stays_dead() && next.is_some_and(|next| !self.waits_for_deletion(next)) {
                    self.states.push(None);
                    continue;
                }
                self.network.revive();
                self.settle().await?;
                self.rest(at).await?;
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
            tokio::time::sleep(LOOK.0).await;
            let next = scenario.steps.get(number).filter(|next| !self.waits_for_deletion(next));
            let mut last = at;
            if let Some(next) = next {
                number += 1;
                last += 1;
                self.take(next).await?;
                tokio::time::sleep(LOOK.0).await;
            }
            for replica in &self.replicas {
                replica.down.send_replace(false);
                replica.with_process(Process::expire_watches);
            }
            if last > at {
                self.states.push(None);
            }
            self.settle().await?;
            self.rest(last).await?;
        }
        Ok(())
    }

    /// Injects the faults that wait for a moment at which nothing happens, and notes the state after them.
    async fn rest(&mut self, at: u32) -> Result<(), String> {
        for fault in &self.plan.faults {
            match fault {
                Fault::Restart(step) if *step == at => {
                    self.network.injected(fault);
                    let (before, writes) = (self.cluster.server().store().latest(), self.network.counts().1);
                    for replica in &self.replicas {
                        replica.with_process(Process::kill);
                    }
                    self.settle().await?;
                    if self.network.counts().1 > writes {
                        let changes = Tables::of(&self.cluster).changes(&self.cluster, before);
                        self.at_restart.extend(
                            changes.into_iter().map(|change| format!("{} {}", change.verb, change.key)),
                        );
                    }
                }
                Fault::DeletedOutside(step, object) if *step == at => {
                    self.network.injected(fault);
                    self.delete_outside(object).await;
                    self.settle().await?;
                }
                _ => {}
            }
        }
        let objects = Tables::of(&self.cluster).objects(&self.cluster, self.origin);
        self.states.push(Some(objects));
        Ok(())
    }

    async fn delete_outside(&mut self, key: &str) {
        let mut parts = key.split('/');
        let resource = parts.next().unwrap_or_default();
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let (namespace, name) = match (parts.next(), parts.next()) {
            (Some(namespace), Some(name)) => (Some(namespace), name),
            (Some(name), None) => (None, name),
            _ => return,
        };
        let catalog = self.cluster.server().catalog();
        let found = catalog.resources().find(|resource| resource.group == group && resource.plural == plural);
        let Some(found) = found else { return };
        let gvk = GroupVersionKind::gvk(group, &found.version, &found.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.cluster.client(), namespace, &resource),
            None => Api::all_with(self.cluster.client(), &resource),
        };
        let before = self.cluster.server().store().latest();
        // An object that is gone already is as good as deleted.
        let _ = api.delete(name, &DeleteParams::background()).await;
        self.by_user.push((before, self.cluster.server().store().latest()));
    }

    async fn take(&mut self, step: &Step) -> Result<(), String> {
        self.network.note(Actor::User, step.describe(), false);
        let before = self.cluster.server().store().latest();
        let taken = match step {
            Step::Apply(objects) => {
                let mut taken = Ok(());
                for object in objects {
                    taken = taken.and(self.apply(object).await);
                }
                taken
            }
            Step::Patch { object, patch } => match self.api(object) {
                Ok((api, name)) => api
                    .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .map(drop)
                    .map_err(|e| e.to_string()),
                Err(error) => Err(error),
            },
            Step::Delete(object) => match self.api(object) {
                Ok((api, name)) => match api.delete(&name, &DeleteParams::background()).await {
                    Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
                    other => other.map(drop).map_err(|error| error.to_string()),
                },
                Err(error) => Err(error),
            },
            Step::Advance(time) => {
                tokio::time::sleep(*time).await;
                Ok(())
            }
        };
        self.by_user.push((before, self.cluster.server().store().latest()));
        taken.map_err(|error| format!("the user could not {}: {error}", step.describe()))
    }

    async fn apply(&self, object: &Value) -> Result<(), String> {
        let (api, name) = self.api(object)?;
        let params = PatchParams::apply("simulated-user").force();
        api.patch(&name, &params, &Patch::Apply(object)).await.map(drop).map_err(|error| error.to_string())
    }

    /// The way to an object of the scenario, and its name.
    fn api(&self, object: &Value) -> Result<(Api<DynamicObject>, String), String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let types = TypeMeta { api_version: text(&object["apiVersion"]), kind: text(&object["kind"]) };
        let gvk = GroupVersionKind::try_from(&types).map_err(|error| error.to_string())?;
        let catalog = self.cluster.server().catalog();
        let Some(found) = catalog.find_kind(&gvk.group, &gvk.version, &gvk.kind) else {
            return Err(format!("the cluster does not know {} {}", types.api_version, types.kind));
        };
        let resource = ApiResource::from_gvk_with_plural(&gvk, &found.plural);
        let client = self.cluster.client();
        let api = if found.namespaced {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
            Api::namespaced_with(client, namespace, &resource)
        } else {
            Api::all_with(client, &resource)
        };
        Ok((api, text(&object["metadata"]["name"])))
    }

    /// Whether a step makes an object anew that is still being deleted: users wait until it is gone.
    fn waits_for_deletion(&self, step: &Step) -> bool {
        let Step::Apply(objects) = step else { return false };
        let live = Tables::of(&self.cluster).objects(&self.cluster, self.origin);
        let same = |one: &Value, other: &Value| {
            one["kind"] == other["kind"] && one["metadata"]["name"] == other["metadata"]["name"]
        };
        let is_deleting = |live: &Value| !live["metadata"]["deletionTimestamp"].is_null();
        objects.iter().any(|object| live.values().any(|live| same(object, live) && is_deleting(live)))
    }

    /// Waits until nothing changes for a while.
    async fn settle(&self) -> Result<(), String> {
        let tables = Tables::of(&self.cluster);
        let store = self.cluster.server().store();
        let begin = Instant::now();
        let (mut looked, mut changed, mut since) = (store.latest(), store.latest(), begin);
        let mut pause = LOOK.0;
        loop {
            self.cluster.settled().await;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK.1);
            let latest = store.latest();
            if latest != looked {
                let last = tables.last_change(&self.cluster, looked);
                if last > looked {
                    (changed, since) = (last, Instant::now());
                    pause = LOOK.0;
                }
                looked = latest;
            }
            if since.elapsed() >= self.settings.quiet {
                return Ok(());
            }
            if begin.elapsed() >= self.settings.limit {
                let recent = tables.changes(&self.cluster, changed.saturating_sub(1)).pop();
                let what = recent
                    .map_or_else(String::new, |change| format!(": last {} {}", change.verb, change.key));
                return Err(format!("still writing after {:?}{what}", self.settings.limit));
            }
            let limit = self.settings.requests;
            if self.network.counts().0 > limit {
                return Err(format!("more than {limit} requests: the operator runs hot"));
            }
        }
    }

    fn finish(self, trouble: Option<String>) -> Outcome {
        let changes = Tables::of(&self.cluster).changes(&self.cluster, self.origin);
        let mut traffic = self.network.finish();
        let within = |ranges: &[(u64, u64)], revision: u64| {
            ranges.iter().any(|(from, to)| revision > *from && revision <= *to)
        };
        let by_operator = |change: &Change| {
            let resource = change.key.split('/').next().unwrap_or_default();
            traffic.writes.iter().any(|write| {
                let target = match write.target.group.as_str() {
                    "" => write.target.resource.clone(),
                    group => format!("{}.{group}", write.target.resource),
                };
                target == resource && within(&[write.revisions], change.revision)
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
        let (states, at_restart) = (self.states.clone(), self.at_restart.clone());
        Outcome {
            states,
            changes,
            made,
            at_restart,
            traffic,
            panics: Vec::new(),
            exits,
            trouble,
            timeline,
            hash,
        }
    }
}

/// One life of the operator's process.
async fn launch(subject: Subject, env: Arc<TestEnv>, client: Client) -> Result<(), BoxError> {
    let operator = match subject {
        Subject::Operator(make) => make(),
        Subject::Prepared(prepare) => prepare(client.clone()).await?,
        Subject::Program(program) => return program(client).await,
    };
    Ok(env.confine(operator).run_until(client, std::future::pending()).await?)
}
