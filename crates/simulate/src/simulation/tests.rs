use std::sync::Mutex;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::*;

/// Writes three objects, one after the other, then idles.
async fn program(client: Client) -> Result<(), BoxError> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for name in ["one", "two", "three"] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        maps.patch(name, &PatchParams::apply("program").force(), &Patch::Apply(map)).await?;
    }
    std::future::pending().await
}

fn simulation() -> Simulation {
    let wish = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wish"}});
    let scenario = Scenario::new().apply(wish.clone()).delete(&wish);
    Simulation::of_program(program).workloads(false).scenario(scenario)
}

fn execute(simulation: &Simulation, plan: &str) -> Outcome {
    simulation.execute(&plan.parse().unwrap(), Course::Scenario, run::REQUEST_LIMIT).unwrap()
}

#[test]
fn a_run_that_goes_on_from_a_crash_is_the_whole_run() {
    let whole = simulation();
    let mut parted = whole.clone();
    parted.settings.crash_points = execute(&whole, "1/none").past;
    let past = parted.settings.crash_points.clone().unwrap();
    let plans = [
        "1/crash-before@1",
        "1/crash-after@2",
        "1/dead-after@2",
        "1/stale-restart@3",
        "1/restart@1",
        "1/crash-after@1+lost@3+crash-before@4",
    ];
    for plan in plans {
        assert!(past.crash_point(&plan.parse().unwrap()).is_some(), "{plan}");
        let (one, other) = (execute(&whole, plan), execute(&parted, plan));
        // The cluster is polled from the crash on, so users act some milliseconds later.
        let lines = |outcome: &Outcome| -> Vec<_> {
            let entries = outcome.timeline.iter();
            entries.map(|entry| format!("{} {}@{}", entry.actor, entry.text, entry.revision)).collect()
        };
        assert_eq!(lines(&one), lines(&other), "{plan}");
        assert_eq!(one.traffic.used, other.traffic.used, "{plan}");
        assert_eq!(one.traffic.requests, other.traffic.requests, "{plan}");
        assert_eq!(one.made, other.made, "{plan}");
        let keys = |outcome: &Outcome| -> Vec<_> {
            let states = outcome.states.iter();
            states
                .map(|state| state.as_ref().map(|state| state.keys().cloned().collect::<Vec<_>>()))
                .collect()
        };
        assert_eq!(keys(&one), keys(&other), "{plan}");
    }
}

#[test]
fn a_run_that_differs_before_the_crash_is_made_as_a_whole() {
    let past = execute(&simulation(), "1/none").past.unwrap();
    for plan in [
        "2/crash-after@2",
        "1/lost@1+crash-after@2",
        "1/lost@2",
        "1/restart@0+crash-after@2",
        "1/crash-after@9",
    ] {
        assert!(past.crash_point(&plan.parse().unwrap()).is_none(), "{plan}");
    }
}

#[test]
fn a_run_ends_where_a_restart_at_rest_goes_on() {
    let mut simulation = simulation().keeps("configmaps");
    let free = execute(&simulation, "1/none");
    let baseline = Arc::new(Baseline::new(&free, &[&execute(&simulation, "2/none")], &simulation.rules));
    simulation.settings.expected = Some(Arc::clone(&baseline));
    let restarts = ["1/restart@0", "1/restart@1"].map(|plan| plan.parse().unwrap());
    simulation.settings.restarted_after = Arc::new(simulation.restarted_after(&restarts));
    // The program writes when it starts, before the user's two steps.
    for (plan, states) in [("1/crash-after@2", 1), ("1/dead-after@2", 2), ("1/lost@2", 3), ("1/restart@0", 3)]
    {
        let outcome = execute(&simulation, plan);
        assert_eq!(outcome.states.len(), states, "{plan}");
        assert_eq!(outcome.ends_early, states < 3, "{plan}");
        let findings =
            baseline.judge(&outcome, &plan.parse().unwrap(), &simulation.scenario, &simulation.rules);
        assert_eq!(findings, [], "{plan}");
    }
    simulation.settings.restarted_after = Arc::default();
    assert_eq!(execute(&simulation, "1/crash-after@2").states.len(), 3);
}

#[test]
fn an_operator_that_dies_over_a_fault_at_rest_is_started_for_it() {
    let outcome =
        execute(&simulation(), "1/deleted-outside@0:configmaps/default/three+restart@0+dead-after@4");
    let state = outcome.states[0].as_ref().unwrap();
    assert!(state.contains_key("configmaps/default/three"), "{:?}", outcome.timeline);
    assert_eq!(outcome.traffic.used.len(), 3);
}

/// Writes an object if a read fails.
async fn reader(client: Client) -> Result<(), BoxError> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    if maps.get_opt("one").await.is_err() {
        let note = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}});
        maps.patch("note", &PatchParams::apply("program").force(), &Patch::Apply(note)).await?;
    }
    std::future::pending().await
}

#[test]
fn a_restart_is_not_alone_when_a_read_fails_in_it() {
    let wish = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wish"}});
    let scenario = Scenario::new().apply(wish);
    let simulation = Simulation::of_program(reader).workloads(false).scenario(scenario);
    let outcome = execute(&simulation, "1/restart@0+read-failed@2");
    let state = outcome.states[0].as_ref().unwrap();
    assert!(state.contains_key("configmaps/default/note"), "{:?}", outcome.timeline);
    assert_eq!(outcome.at_restart, Vec::<String>::new());
}

#[test]
fn every_run_is_told_of_as_it_ends() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let simulation = simulation().keeps("configmaps").threads(1).random(3);
    let report = simulation.on_progress(move |progress| heard.lock().unwrap().push(*progress)).run().unwrap();
    let told = told.lock().unwrap();
    assert_eq!(told[0], Progress::FaultFree);
    let tried = |progress: &Progress| match progress {
        Progress::Tried { tried, planned, failed } => (*tried, *planned, *failed),
        Progress::FaultFree => panic!("{progress:?} again"),
    };
    let runs: Vec<_> = told[1..].iter().map(tried).collect();
    assert_eq!(runs.iter().map(|run| run.0).collect::<Vec<_>>(), (1..=report.runs).collect::<Vec<_>>());
    assert_eq!(runs.last().unwrap(), &(report.runs, report.runs, report.failed));
}

#[test]
fn seeds_are_compared_with_one_slow_run() {
    let make = || simulation().keeps("configmaps").only(["restart"]).random(0);
    let shared = make();
    for seed in 1..=3 {
        let report = shared.clone().seed(seed).run().unwrap();
        report.assert_passed();
        let alone = make().seed(seed).run().unwrap();
        assert_eq!((report.hash, report.runs), (alone.hash, alone.runs), "seed {seed}");
    }
    assert_eq!(shared.prepared.slow.get().map(|(seed, _)| *seed), Some(2));
}
