//! Oracles: what must be true at the end of a run, and in every state on the way.

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

/// Maximum number of times the process may exit on its own in a run with faults.
pub(crate) const MAX_EXITS: usize = 5;
/// Limit of requests relative to the fault-free run: a factor, and an allowance for restarts.
const REQUESTS: (u64, u64) = (5, 300);
/// Maximum number of messages kept per oracle.
const SHOWN: usize = 5;

/// The oracle that reported a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Oracle {
    /// The run never became quiet, or a user's step was rejected.
    Convergence,
    /// The state after a step differs from that of the fault-free run.
    EndState,
    /// An object was created or deleted more or less often than in the fault-free run.
    Counts,
    /// The operator changed something after a restart at rest.
    Stability,
    /// An object of the operator outlived all objects that the user applied, or a deletion is stuck.
    Leak,
    /// The operator panicked.
    Panic,
    /// The operator's process exited repeatedly.
    Exit,
    /// The operator sent many times the requests of the fault-free run.
    Requests,
    /// A replica wrote while another replica held the lease.
    Deposed,
    /// An invariant of the user was violated.
    Invariant,
    /// A property change had no effect, or left something behind when it was reverted.
    Property,
    /// Two runs with the same seed had different timelines.
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

/// A finding of an oracle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The oracle.
    pub oracle: Oracle,
    /// The message: where, what was expected, and what was found.
    pub message: String,
}

/// Objects by `resource.group/namespace/name`, for invariants.
pub type Objects = BTreeMap<String, Value>;

/// How often objects were created and deleted.
type Counts = BTreeMap<String, (usize, usize)>;

/// The fault-free results that other runs are compared with.
#[derive(Debug)]
pub(crate) struct Baseline {
    pub(crate) states: Vec<State>,
    /// The same states before masking.
    unmasked: Vec<Arc<Objects>>,
    /// How often each object of the operator was created and deleted by the end of each step.
    pub(crate) counts: Vec<Counts>,
    pub(crate) requests: u64,
    pub(crate) masks: Masks,
}

/// What the user's configuration allows and requires.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    /// Resources and objects that may outlive their owner.
    pub(crate) kept: BTreeSet<String>,
    pub(crate) ignored: Ignored,
    /// Whether the operator may roll a step back when a write fails.
    pub(crate) rolls_back: bool,
    pub(crate) invariants: Vec<Invariant>,
    /// Paths of properties that need not have an effect.
    pub(crate) ignored_properties: Vec<String>,
}

impl Baseline {
    /// Learns from fault-free runs: the states of the first, masked where the others differ from it.
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

    /// Whether objects are in the expected state after a step; step 0 is the start.
    pub(crate) fn expects(&self, step: u32, objects: &Objects) -> bool {
        let expected = usize::try_from(step).ok().and_then(|step| self.states.get(step));
        expected.is_none_or(|expected| {
            self.masks.differences(expected, &self.masks.normalize(objects)).is_empty()
        })
    }

    /// Returns the maximum number of requests of a run with faults.
    pub(crate) fn request_limit(&self) -> u64 {
        self.requests * REQUESTS.0 + REQUESTS.1
    }

    /// Judges a run in which properties were changed.
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

    /// Judges a run with faults.
    pub(crate) fn judge(
        &self,
        outcome: &Outcome,
        plan: &Plan,
        scenario: &Scenario,
        rules: &Rules,
    ) -> Vec<Finding> {
        let mut findings = judge_alone(outcome, scenario, rules);
        // The operator need not repair ignored objects at once, and a later restart may be when it does.
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
            // A run that continues the fault-free run shares its states, and one that ends early ended in an expected state.
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
            add(Oracle::Exit, format!("the process exited {} times: {last}", outcome.exits.len()));
        }
        findings
    }
}

/// Judges a run without comparing it with others.
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
                format!("{key} still exists, though everything that the user applied was deleted"),
            );
        });
    }
    for state in outcome.states.iter().flatten() {
        let stuck = state.iter().find(|(_, object)| !object["metadata"]["deletionTimestamp"].is_null());
        if let Some((key, object)) = stuck {
            let finalizers = &object["metadata"]["finalizers"];
            add(Oracle::Leak, format!("{key} is stuck in deletion: its finalizers are {finalizers}"));
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

/// Returns the operator's objects that outlive all of the user's.
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

/// Counts how often each object of the operator was created and deleted, up to a revision.
///
/// Objects created for an owner that is already deleted do not count: the garbage collector deletes them, and whether they
/// are created depends on which of two watches is faster.
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

/// Whether an object has owners, and all of them are deleted.
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
