//! A zoo of operators with small, realistic mistakes. Each is clean without faults, is caught by default settings, and has a
//! corrected twin that raises no alarm.

#![allow(missing_docs, reason = "a test")]

mod making;
mod site;
mod unmaking;

use std::time::{Duration, Instant};

use Exhibit::{Program, Runtime};
use futures::future::BoxFuture;
use kube::{Client, CustomResourceExt as _};
use serde_json::json;
use site::{Site, site};
use steersman::{BoxError, Operator};
use steersman_simulate::{Oracle, Scenario, Simulation};

/// An operator of the zoo: with its mistake, or corrected.
#[derive(Clone, Copy)]
enum Exhibit {
    /// On the runtime.
    Runtime(fn(corrected: bool) -> Operator),
    /// On plain kube-rs.
    Program(fn(corrected: bool, client: Client) -> BoxFuture<'static, Result<(), BoxError>>),
}

const ZOO: &[(&str, Exhibit)] = &[
    ("status-as-memory", Runtime(making::status_as_memory)),
    ("create-without-adoption", Runtime(making::create_without_adoption)),
    ("generated-twice", Runtime(making::generated_twice)),
    ("repeated-migration", Runtime(making::repeated_migration)),
    ("double-scale-up", Runtime(making::double_scale_up)),
    ("conflict-taken-for-done", Runtime(making::conflict_taken_for_done)),
    ("swallowed-error", Runtime(making::swallowed_error)),
    ("memory-of-the-process", Runtime(making::memory_of_the_process)),
    ("edge-triggered-delta", Runtime(making::edge_triggered_delta)),
    ("observed-before-applied", Runtime(making::observed_before_applied)),
    ("first-stands-for-all", Runtime(making::first_stands_for_all)),
    ("abandoned-lock", Runtime(making::abandoned_lock)),
    ("new-name-after-timeout", Runtime(making::new_name_after_timeout)),
    ("panic-on-missing", Runtime(making::panic_on_missing)),
    ("hot-loop-after-error", Runtime(making::hot_loop_after_error)),
    ("writes-on-every-start", Runtime(making::writes_on_every_start)),
    ("history-repeats", Runtime(making::history_repeats)),
    ("replaced-by-delete-and-create", Runtime(making::replaced_by_delete_and_create)),
    ("unwatched-child", Runtime(making::unwatched_child)),
    ("uid-ignored", Runtime(making::uid_ignored)),
    ("finalizer-after-side-effect", Program(unmaking::finalizer_after_side_effect)),
    ("finalizer-removed-first", Program(unmaking::finalizer_removed_first)),
    ("leaked-secret", Runtime(unmaking::leaked_secret)),
    ("cleanup-gives-up", Runtime(unmaking::cleanup_gives_up)),
    ("orphan-on-rename", Runtime(unmaking::orphan_on_rename)),
    ("failed-list-is-empty", Runtime(unmaking::failed_list_is_empty)),
];

fn simulation(name: &str, exhibit: Exhibit, corrected: bool) -> Simulation {
    let shop = site(1, "red");
    let scenario = Scenario::new()
        .apply(shop.clone())
        .patch(&shop, json!({"spec": {"size": 3, "color": "blue"}}))
        .delete(&shop)
        .apply(shop.clone())
        .delete(&shop);
    let simulation = match exhibit {
        Runtime(operator) => Simulation::of(move || operator(corrected)).scenario(scenario),
        Program(program) => Simulation::of_program(move |client| program(corrected, client))
            .scenario(scenario.given(serde_json::to_value(Site::crd()).unwrap())),
    };
    // What the twin that watches uids leaves is meant to stay.
    let simulation = if name == "uid-ignored" { simulation.keeps("configmaps") } else { simulation };
    simulation.workloads(false)
}

/// All exhibits, or those whose names contain what the variable `ZOO` says: their timelines are shown.
fn chosen() -> impl Iterator<Item = &'static (&'static str, Exhibit)> {
    let wanted = std::env::var("ZOO").unwrap_or_default();
    ZOO.iter().filter(move |(name, _)| name.contains(&wanted))
}

#[test]
fn mistakes_are_found() {
    find(chosen().take(4));
}

#[test]
#[ignore = "hundreds of runs: make sim"]
fn every_mistake_is_found_within_a_minute() {
    assert!(ZOO.len() >= 25);
    find(chosen());
}

fn find(exhibits: impl Iterator<Item = &'static (&'static str, Exhibit)>) {
    let mut missed = Vec::new();
    for (name, exhibit) in exhibits {
        let begin = Instant::now();
        let report = simulation(name, *exhibit, false).stop_early(true).run().unwrap();
        let Some(failure) = report.failures.first() else {
            missed.push(format!("{name}: not found in {} runs", report.runs));
            continue;
        };
        println!("{name}: {} after {} runs, {:?}", failure.plan, report.runs, begin.elapsed());
        if std::env::var_os("ZOO").is_some() {
            println!("{failure}");
        }
        for finding in &failure.findings {
            println!("    {}: {}", finding.oracle, finding.message);
        }
        if failure.plan.faults.is_empty() {
            missed.push(format!("{name}: not clean without faults\n{failure}"));
        }
        if begin.elapsed() > Duration::from_secs(60) {
            missed.push(format!("{name}: took {:?}", begin.elapsed()));
        }
        assert!(failure.findings.iter().all(|finding| finding.oracle != Oracle::Determinism));
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
#[ignore = "thousands of runs: make sim"]
fn no_corrected_twin_raises_an_alarm() {
    let mut alarms = Vec::new();
    for (name, exhibit) in chosen() {
        let report = simulation(name, *exhibit, true).run().unwrap();
        println!("{name}: {} runs, {} failed in {:?}", report.runs, report.failed, report.elapsed);
        if let Some(failure) = report.failures.first() {
            alarms.push(format!("{name}: {} of {} runs\n{failure}", report.failed, report.runs));
        }
    }
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
}

/// The variable with the plan that a child process makes the run of.
const PLAN: &str = "STEERSMAN_ZOO_PLAN";

#[test]
fn the_same_plan_gives_the_same_timeline_in_every_process() {
    if let Ok(plan) = std::env::var(PLAN) {
        let simulation = simulation("generated-twice", Runtime(making::generated_twice), false);
        let report = simulation.replay(plan.parse().unwrap()).run().unwrap();
        println!("\nhashes: {} {}", report.hash, report.failures[0].hash);
        return;
    }
    let hashes = |plan: &str| {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "the_same_plan_gives_the_same_timeline_in_every_process"])
            .env(PLAN, plan)
            .output()
            .unwrap();
        let text = String::from_utf8(child.stdout).unwrap();
        text.lines().find_map(|line| line.strip_prefix("hashes: ")).expect(&text).to_owned()
    };
    let first = hashes("7/crash-after@2+watch-broken@4");
    for _ in 0..3 {
        assert_eq!(hashes("7/crash-after@2+watch-broken@4"), first);
    }
    assert_ne!(hashes("7/crash-after@2+watch-broken@5"), first);
}

#[test]
fn a_corrected_twin_survives_every_crash() {
    for (name, exhibit) in chosen().take(2) {
        let crashes = ["crash-before", "crash-after"];
        let report = simulation(name, *exhibit, true).only(crashes).random(0).run().unwrap();
        assert!(report.passed(), "{name}: {report}");
        let crashes = report.faults["crash-after"];
        assert!(crashes.planned > 0 && crashes.planned == crashes.injected, "{name}: {report}");
        assert_eq!(report.runs, crashes.injected * 2, "{name}");
    }
}
