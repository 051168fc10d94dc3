//! What must hold at the end of a run, and in every state on the way.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use serde::Serialize;
use serde_json::Value;

use crate::{
    fault::{Fault, Plan},
    invariant::Invariant,
    run::Outcome,
    scenario::{Scenario, Step},
    state::{Change, Ignored, Masks, State},
};

/// Exits of the process on its own that a run with faults may have.
pub(crate) const MAX_EXITS: usize = 5;
/// Requests beyond those of the fault-free run: a factor, and a number for restarts.
const REQUESTS: (u64, u64) = (5, 300);
/// Messages of one oracle that are kept.
const SHOWN: usize = 5;

/// Which oracle has found something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Oracle {
    /// It never became quiet, or a user's step was refused.
    Convergence,
    /// After a step the state is not that of the fault-free run.
    EndState,
    /// An object was created or deleted another number of times than in the fault-free run.
    Counts,
    /// A restart while nothing happened made the operator change something.
    Stability,
    /// An object that the operator made outlived everything that the user had applied, or a deletion does not end.
    Leak,
    /// The operator panicked.
    Panic,
    /// The operator's process ended again and again.
    Exit,
    /// Many times the requests of the fault-free run.
    Requests,
    /// A replica wrote while another one held the lease.
    Deposed,
    /// One of the user's invariants did not hold.
    Invariant,
    /// A change of a property showed nowhere, or left something behind when it was taken back.
    Property,
    /// The same seed gave another timeline.
    Determinism,
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Convergence => "convergence",
            Self::EndState => "end state",
            Self::Counts => "creations and deletions",
            Self::Stability => "stability",
            Self::Leak => "leak",
            Self::Panic => "panic",
            Self::Exit => "exit",
            Self::Requests => "requests",
            Self::Deposed => "deposed leader",
            Self::Invariant => "invariant",
            Self::Property => "property",
            Self::Determinism => "determinism",
        })
    }
}

/// What an oracle has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which oracle.
    pub oracle: Oracle,
    /// What it says: where, what was expected and what was found.
    pub message: String,
}

/// Objects by `resource.group/namespace/name`, for invariants.
pub type Objects = BTreeMap<String, Value>;

/// How often objects were created and deleted.
type Counts = BTreeMap<String, (usize, usize)>;

/// What runs are compared with.
#[derive(Debug)]
pub(crate) struct Baseline {
    pub(crate) states: Vec<State>,
    /// These states with all that is masked.
    unmasked: Vec<Arc<Objects>>,
    /// How often each object of the operator was created and deleted by the end of each step.
    pub(crate) counts: Vec<Counts>,
    pub(crate) requests: u64,
    pub(crate) masks: Masks,
}

/// What the user allows and demands.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    /// Resources and objects that may outlive their owner.
    pub(crate) kept: BTreeSet<String>,
    pub(crate) ignored: Ignored,
    /// Whether a write that fails may be answered by undoing the whole step.
    pub(crate) rolls_back: bool,
    pub(crate) invariants: Vec<Invariant>,
    /// Paths of properties that need not show.
    pub(crate) ignored_properties: Vec<String>,
}

impl Baseline {
    /// Learns from fault-free runs: how the first ended, and in what others differ from it.
    pub(crate) fn new(first: &Outcome, others: &[&Outcome], rules: &Rules) -> Self {
        let states = |outcome: &Outcome| -> Vec<_> { outcome.states.iter().flatten().cloned().collect() };
        let seconds: Vec<_> = others.iter().map(|other| states(other)).collect();
        let masks = Masks::learn(&states(first), &seconds, rules.ignored.clone());
        let requests = others.iter().map(|other| other.traffic.requests).max().unwrap_or_default();
        let unmasked = states(first);
        Self {
            states: unmasked.iter().map(|objects| masks.normalize(objects)).collect(),
            unmasked,
            counts: first.rested_at.iter().map(|revision| counts(first, &masks, *revision)).collect(),
            requests: first.traffic.requests.max(requests),
            masks,
        }
    }

    /// Whether objects are those after a step: 0 is the start.
    pub(crate) fn expects(&self, step: u32, objects: &Objects) -> bool {
        let expected = usize::try_from(step).ok().and_then(|step| self.states.get(step));
        expected.is_none_or(|expected| {
            self.masks.differences(expected, &self.masks.normalize(objects)).is_empty()
        })
    }

    /// Requests that a run with faults may make.
    pub(crate) fn request_limit(&self) -> u64 {
        self.requests * REQUESTS.0 + REQUESTS.1
    }

    /// What a run in which properties were changed is to blame for.
    pub(crate) fn judge_properties(&self, outcome: &Outcome, rules: &Rules) -> Vec<Finding> {
        let mut findings: Vec<Finding> = outcome
            .trouble
            .iter()
            .map(|trouble| Finding { oracle: Oracle::Convergence, message: trouble.clone() })
            .collect();
        let mut add = |message| findings.push(Finding { oracle: Oracle::Property, message });
        for tried in &outcome.properties {
            let what = &tried.change.description;
            if rules.ignored_properties.iter().any(|path| {
                what.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with([' ', '.', '[']))
            }) {
                continue;
            }
            let normal = |objects: &Objects| self.masks.normalize(objects);
            let without_spec = |objects: &Objects| {
                let mut objects = objects.clone();
                if let Some(object) = objects.get_mut(&tried.key).and_then(Value::as_object_mut) {
                    object.remove("spec");
                }
                normal(&objects)
            };
            if self.masks.differences(&without_spec(&tried.before), &without_spec(&tried.after)).is_empty() {
                add(format!("{what}: nothing in the cluster changed but the property itself"));
            }
            let left = self.masks.differences(&normal(&tried.before), &normal(&tried.back));
            left.into_iter().for_each(|one| add(format!("{what}, and back: {one}")));
        }
        findings
    }

    /// What a run with faults is to blame for.
    pub(crate) fn judge(
        &self,
        outcome: &Outcome,
        plan: &Plan,
        scenario: &Scenario,
        rules: &Rules,
    ) -> Vec<Finding> {
        let mut findings = judge_alone(outcome, scenario, rules);
        // What does not matter need not be put back at once, and a restart after that may be when it is.
        let is_restart = |fault: &&Fault| matches!(fault, Fault::Restart(_));
        let restarted = plan.faults.iter().filter(is_restart).filter_map(Fault::at_rest).max();
        let is_excuse = |fault: &Fault| {
            fault.at_rest() <= restarted && fault.outside().is_some_and(|key| self.masks.ignores(key))
        };
        if plan.faults.iter().any(is_excuse) {
            findings.retain(|finding| finding.oracle != Oracle::Stability);
        }
        let mut add = |oracle, message: String| findings.push(Finding { oracle, message });
        for (number, (expected, found)) in self.states.iter().zip(&outcome.states).enumerate() {
            let Some(found) = found else { continue };
            // One that goes on from the fault-free run has its states, and one that ends early has ended as expected.
            let is_known = self.unmasked.get(number).is_some_and(|known| Arc::ptr_eq(known, found))
                || (outcome.ends_early && number + 1 == outcome.states.len());
            if is_known {
                continue;
            }
            let differences = self.masks.differences(expected, &self.masks.normalize(found));
            if !differences.is_empty() {
                let place = place(scenario, number);
                differences.into_iter().for_each(|one| add(Oracle::EndState, format!("{place}: {one}")));
                break;
            }
        }
        let may_differ = |fault: &Fault| fault.changes_counts() || (rules.rolls_back && fault.fails_write());
        if outcome.trouble.is_none() && !plan.faults.iter().any(may_differ) {
            let found = counts(outcome, &self.masks, u64::MAX);
            let usual = match outcome.ends_early {
                true => outcome.states.len().checked_sub(1).and_then(|last| self.counts.get(last)),
                false => self.counts.last(),
            };
            let none = Counts::new();
            let usual = usual.unwrap_or(&none);
            let keys: BTreeSet<_> = usual.keys().chain(found.keys()).collect();
            for key in keys {
                let (expected, found) = (usual.get(key), found.get(key));
                if expected != found {
                    let (created, deleted) = expected.copied().unwrap_or_default();
                    let (now_created, now_deleted) = found.copied().unwrap_or_default();
                    add(
                        Oracle::Counts,
                        format!(
                            "{key} was created {now_created} and deleted {now_deleted} times, without faults {created} and {deleted}"
                        ),
                    );
                }
            }
        }
        if outcome.traffic.requests > self.request_limit() {
            let (requests, usual) = (outcome.traffic.requests, self.requests);
            add(Oracle::Requests, format!("{requests} requests, {usual} without faults"));
        }
        if outcome.exits.len() > MAX_EXITS {
            let last = outcome.exits.last().map_or("", String::as_str);
            add(Oracle::Exit, format!("the process ended {} times: {last}", outcome.exits.len()));
        }
        findings
    }
}

/// What a run is to blame for whatever others did.
pub(crate) fn judge_alone(outcome: &Outcome, scenario: &Scenario, rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |oracle, message: String| findings.push(Finding { oracle, message });
    outcome.trouble.iter().for_each(|trouble| add(Oracle::Convergence, trouble.clone()));
    let panics: BTreeSet<&String> = outcome.panics.iter().collect();
    panics.into_iter().take(SHOWN).for_each(|panic| add(Oracle::Panic, panic.clone()));
    outcome.at_restart.iter().take(SHOWN).for_each(|change| {
        add(Oracle::Stability, format!("{change}, though nothing had happened but a restart"));
    });
    outcome.traffic.deposed_writes.iter().take(SHOWN).for_each(|write| add(Oracle::Deposed, write.clone()));
    let is_whole = outcome.trouble.is_none() && !outcome.ends_early;
    if let Some(Some(last)) = outcome.states.last().filter(|_| is_whole) {
        leaked(last, outcome, scenario, rules).take(SHOWN).for_each(|key| {
            add(
                Oracle::Leak,
                format!("{key} is still there, though everything that the user applied is gone"),
            );
        });
    }
    for state in outcome.states.iter().flatten() {
        let stuck = state.iter().find(|(_, object)| !object["metadata"]["deletionTimestamp"].is_null());
        if let Some((key, object)) = stuck {
            let finalizers = &object["metadata"]["finalizers"];
            add(Oracle::Leak, format!("{key} is being deleted and stays: its finalizers are {finalizers}"));
            break;
        }
    }
    if rules.invariants.is_empty() {
        return findings;
    }
    let mut objects = Objects::new();
    let mut broken = BTreeSet::new();
    for change in &outcome.changes {
        match change.verb {
            "DELETED" => drop(objects.remove(&change.key)),
            _ => drop(objects.insert(change.key.clone(), change.object())),
        }
        for invariant in &rules.invariants {
            if let Err(why) = invariant.check(&objects, &change.key)
                && broken.insert(&invariant.name)
            {
                let (revision, key) = (change.revision, &change.key);
                add(
                    Oracle::Invariant,
                    format!("{} (at revision {revision}, {} {key}): {why}", invariant.name, change.verb),
                );
            }
        }
    }
    findings
}

/// Objects of the operator that outlive all objects of the user.
fn leaked<'a>(
    last: &'a Objects,
    outcome: &'a Outcome,
    scenario: &Scenario,
    rules: &'a Rules,
) -> impl Iterator<Item = &'a String> {
    let has_applied = scenario.steps.iter().any(|step| matches!(step, Step::Apply(_)));
    let complete = has_applied && !scenario.has_objects_in(last.values());
    let resource = |key: &str| key.split(['/', '.']).next().unwrap_or_default().to_owned();
    let kept = move |key: &str| rules.kept.contains(key) || rules.kept.contains(&resource(key));
    last.keys().filter(move |key| complete && outcome.made.contains(*key) && !kept(key))
}

/// How often each object of the operator was created and deleted, up to a revision. An object that is made for an owner that is
/// gone does not count: the garbage collector takes it, and whether it is made depends on which of two watches is faster.
fn counts(outcome: &Outcome, masks: &Masks, revision: u64) -> Counts {
    let mut counts = Counts::new();
    let counted = |key: &String| outcome.made.contains(key) && !masks.ignores(key);
    let (mut gone, mut orphans) = (BTreeSet::new(), BTreeSet::new());
    let is_relevant = |change: &&Change| change.revision <= revision && change.verb != "MODIFIED";
    for change in outcome.changes.iter().filter(is_relevant) {
        let object = change.metadata();
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let is_added = change.verb == "ADDED";
        if is_added && is_orphan(&object, &gone) {
            orphans.insert(uid.clone());
        }
        if counted(&change.key) && !orphans.contains(&uid) {
            let count = counts.entry(masks.key(&change.key, &object)).or_default();
            if is_added {
                count.0 += 1;
            } else {
                count.1 += 1;
            }
        }
        if !is_added {
            gone.insert(uid);
        }
    }
    counts
}

/// Whether an object has owners, and all of them are gone.
fn is_orphan(object: &Value, gone: &BTreeSet<String>) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().filter(|owners| !owners.is_empty());
    owners.is_some_and(|owners| {
        owners.iter().all(|owner| owner["uid"].as_str().is_some_and(|uid| gone.contains(uid)))
    })
}

fn place(scenario: &Scenario, number: usize) -> String {
    match number.checked_sub(1).and_then(|index| scenario.steps.get(index)) {
        Some(step) => format!("after step {number} ({})", step.describe()),
        None => "after the start".into(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::{
        Api,
        api::{DeleteParams, PostParams},
    };
    use serde_json::{from_value, json};
    use steersman_cluster::Cluster;

    use super::*;
    use crate::state::Tables;

    #[tokio::test]
    async fn objects_made_for_an_owner_that_is_gone_are_not_counted() {
        let cluster = Cluster::builder().start().await.unwrap();
        let client = cluster.client();
        let owners: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let children: Api<Secret> = Api::namespaced(client, "default");
        let before = cluster.server().store().latest();
        let owner = from_value(json!({"metadata": {"name": "owner"}})).unwrap();
        let owner = owners.create(&PostParams::default(), &owner).await.unwrap();
        let child = |name: &str| {
            let owner =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid});
            from_value(json!({"metadata": {"name": name, "ownerReferences": [owner]}})).unwrap()
        };
        children.create(&PostParams::default(), &child("timely")).await.unwrap();
        owners.delete("owner", &DeleteParams::background()).await.unwrap();
        children.create(&PostParams::default(), &child("late")).await.unwrap();
        cluster.settled().await;
        let key = |name: &str| format!("secrets/default/{name}");
        let outcome = Outcome {
            changes: Tables::of(&cluster.server().catalog()).changes(&cluster, before),
            made: [key("timely"), key("late")].into(),
            ..Outcome::default()
        };
        let late = outcome.changes.iter().filter(|change| change.key == key("late"));
        assert_eq!(late.map(|change| change.verb).collect::<Vec<_>>(), ["ADDED", "DELETED"]);
        assert_eq!(counts(&outcome, &Masks::default(), u64::MAX), BTreeMap::from([(key("timely"), (1, 1))]));
    }
}
