//! A zoo of operators with small, realistic bugs.
//!
//! Each one passes without faults, is caught with default settings, and has a corrected twin that passes.

#![allow(missing_docs, reason = "a test")]

mod electing;
mod making;
mod site;
mod surroundings;
mod unmaking;

use std::time::{Duration, Instant};

use Exhibit::{Program, Runtime};
use futures::future::BoxFuture;
use kube::{Client, CustomResourceExt as _};
use serde_json::json;
use site::{Site, site};
use steersman::{BoxError, Operator};
use steersman_simulate::{Command, Oracle, Scenario, Simulation};

/// An operator of the zoo, with its bug or corrected.
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
    ("drift-overlooked", Runtime(surroundings::drift_overlooked)),
    ("quota-is-final", Runtime(surroundings::quota_is_final)),
    ("denied-taken-for-foreign", Runtime(surroundings::denied_taken_for_foreign)),
    ("crash-is-final", Runtime(surroundings::crash_is_final)),
    ("lost-node-excluded", Runtime(surroundings::lost_node_excluded)),
    ("deadline-since-creation", Runtime(surroundings::deadline_since_creation)),
    ("caches-of-one-moment", Runtime(surroundings::caches_of_one_moment)),
    ("named-after-version", Runtime(surroundings::named_after_version)),
    ("recovery-breaks-off", Runtime(unmaking::recovery_breaks_off)),
    ("deposed-leader-writes", Program(electing::deposed_leader_writes)),
];

/// Bugs that only one fault kind finds.
const FOUND_BY_ONE: &[(&str, &str)] = &[
    ("drift-overlooked", "edited-outside"),
    ("quota-is-final", "quota"),
    ("denied-taken-for-foreign", "denied"),
    ("crash-is-final", "pod-failed"),
    ("lost-node-excluded", "node-lost"),
    ("deadline-since-creation", "clock-jump"),
    ("caches-of-one-moment", "kind-held"),
    ("named-after-version", "version-changed"),
    ("deposed-leader-writes", "lease-lost"),
];

/// Operators that are not part of the zoo.
const OTHERS: &[(&str, Exhibit)] =
    &[("hoarder", Runtime(making::hoarder)), ("slow-cleanup", Runtime(unmaking::slow_cleanup))];

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
    // The corrected twin leaves objects behind on purpose.
    let simulation = if name == "uid-ignored" { simulation.keeps("configmaps") } else { simulation };
    let replicas = if name == "deposed-leader-writes" { 2 } else { 1 };
    simulation.replicas(replicas).workloads(matches!(name, "crash-is-final" | "lost-node-excluded"))
}

fn exhibit(name: &str) -> Exhibit {
    ZOO.iter().find(|(one, _)| *one == name).unwrap().1
}

/// Returns all exhibits, or those whose names contain the variable `ZOO`; their timelines are shown.
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

/// Maximum time to find a bug.
const MINUTE: Duration = Duration::from_secs(60);

fn find(exhibits: impl Iterator<Item = &'static (&'static str, Exhibit)>) {
    let (mut count, mut missed, mut longest) = (0, Vec::new(), Duration::ZERO);
    for (name, exhibit) in exhibits {
        let begin = Instant::now();
        let report = simulation(name, *exhibit, false).stop_early(true).run().unwrap();
        let elapsed = begin.elapsed();
        (count, longest) = (count + 1, longest.max(elapsed));
        let Some(failure) = report.failures.first() else {
            println!("{name}: NOT FOUND in {} runs, {elapsed:.1?}", report.runs);
            missed.push(format!("{name}: not found in {} runs", report.runs));
            continue;
        };
        let oracle = failure.findings[0].oracle;
        println!("{name}: found by {oracle}, {} after {} runs, {elapsed:.1?}", failure.plan, report.runs);
        if std::env::var_os("ZOO").is_some() {
            println!("{failure}");
        }
        if failure.plan.faults.is_empty() {
            missed.push(format!("{name}: not clean without faults\n{failure}"));
        } else if elapsed > MINUTE {
            missed.push(format!("{name}: took {elapsed:?}"));
        }
        assert!(failure.findings.iter().all(|finding| finding.oracle != Oracle::Determinism));
    }
    println!("{} of {count} mistakes found, the slowest in {longest:.1?}", count - missed.len());
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
#[ignore = "thousands of runs: make sim"]
fn no_corrected_twin_raises_an_alarm() {
    let (mut count, mut alarms, mut longest) = (0, Vec::new(), Duration::ZERO);
    for (name, exhibit) in chosen() {
        let report = simulation(name, *exhibit, true).run().unwrap();
        let (runs, failed, elapsed) = (report.runs, report.failed, report.elapsed);
        (count, longest) = (count + 1, longest.max(elapsed));
        println!("{name}, corrected: {runs} runs, {failed} failed, {elapsed:.1?}");
        if let Some(failure) = report.failures.first() {
            alarms.push(format!("{name}: {failed} of {runs} runs\n{failure}"));
        }
    }
    println!(
        "{} of {count} corrected twins without an alarm, the slowest in {longest:.1?}",
        count - alarms.len()
    );
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
}

/// Each fault kind finds its bugs, and the corrected twins pass with it.
#[test]
#[ignore = "hundreds of runs: make sim"]
fn each_kind_of_faults_finds_what_no_other_does() {
    let wanted = std::env::var("ZOO").unwrap_or_default();
    for (name, kind) in FOUND_BY_ONE.iter().filter(|(name, _)| name.contains(&wanted)) {
        let of = |corrected| simulation(name, exhibit(name), corrected);
        let report = of(false).only([*kind]).random(0).run().unwrap();
        assert!(!report.passed() && !report.failures[0].plan.faults.is_empty(), "{name}: {report}");
        println!("{name}: {} of {} runs with {kind} failed", report.failed, report.runs);
        let report = of(true).only([*kind]).random(0).run().unwrap();
        assert!(report.passed(), "{name}, corrected: {report}");
        let tried = report.faults[kind];
        assert!(tried.planned > 0 && tried.planned == tried.injected, "{name}, corrected: {report}");
        let report = of(false).without(kind).run().unwrap();
        assert!(report.passed(), "{name} without {kind}: {report}");
        println!("{name}: {} runs without {kind} passed", report.runs);
    }
    let recovery = simulation("recovery-breaks-off", Runtime(unmaking::recovery_breaks_off), false);
    recovery.pairs(false).random(0).run().unwrap().assert_passed();
}

/// The bug is in the recovery: no single fault shows it.
#[test]
fn pairs_of_crashes_find_what_no_single_crash_does() {
    let of = |corrected| {
        let exhibit = Runtime(unmaking::recovery_breaks_off);
        let simulation = simulation("recovery-breaks-off", exhibit, corrected);
        simulation.only(["crash-after", "stale-restart"]).random(0)
    };
    let report = of(false).run().unwrap();
    let failure = report.failures.first().unwrap_or_else(|| panic!("{report}"));
    assert_eq!(failure.plan.faults.len(), 2, "{report}");
    assert!(report.pairs > 0 && report.equivalent > report.pairs, "{report}");
    of(true).run().unwrap().assert_passed();
}

/// The variable with the plan that a child process executes.
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

/// The operator crashes while it catches up with two steps that it did not see.
#[test]
fn an_operator_that_is_to_stay_dead_is_not_forgotten() {
    let twin = Runtime(making::replaced_by_delete_and_create);
    for plan in ["42/blind@3+dead-after@6", "42/blind@3+dead-after@5+dead-after@6"] {
        let simulation = simulation("replaced-by-delete-and-create", twin, true);
        let report = simulation.replay(plan.parse().unwrap()).run().unwrap();
        report.assert_passed();
        assert!(report.faults.values().all(|tried| tried.injected == tried.planned), "{report}");
    }
}

#[test]
fn a_corrected_twin_survives_every_crash() {
    for (name, exhibit) in chosen().take(2) {
        let crashes = ["crash-before", "crash-after"];
        let report = simulation(name, *exhibit, true).only(crashes).random(0).pairs(false).run().unwrap();
        assert!(report.passed(), "{name}: {report}");
        let crashes = report.faults["crash-after"];
        assert!(crashes.planned > 0 && crashes.planned == crashes.injected, "{name}: {report}");
        assert_eq!(report.runs, crashes.injected * 2, "{name}");
    }
}

/// The variable with the name of the exhibit that a child process runs.
const OPERATOR: &str = "STEERSMAN_ZOO_OPERATOR";
/// Set for the corrected twin.
const CORRECTED: &str = "STEERSMAN_ZOO_CORRECTED";

/// Runs an exhibit as an external program; as a test it does nothing.
#[tokio::test]
async fn an_exhibit_as_a_program() {
    let Ok(wanted) = std::env::var(OPERATOR) else { return };
    let (_, exhibit) = ZOO.iter().chain(OTHERS).find(|(name, _)| *name == wanted).unwrap();
    let (client, corrected) = (Client::try_default().await.unwrap(), std::env::var_os(CORRECTED).is_some());
    match exhibit {
        Runtime(operator) => operator(corrected).run_until(client, std::future::pending()).await.unwrap(),
        Program(program) => program(corrected, client).await.unwrap(),
    }
}

fn program(name: &str, corrected: bool) -> Simulation {
    let command = Command::new(std::env::current_exe().unwrap());
    let command = command.argument("--exact").argument("an_exhibit_as_a_program").argument("--nocapture");
    let command = command.variable(OPERATOR, name);
    let command = if corrected { command.variable(CORRECTED, "yes") } else { command };
    let scenario = Scenario::lifecycle(&site(1, "red")).given(serde_json::to_value(Site::crd()).unwrap());
    Simulation::of_command(command).scenario(scenario).workloads(false).quiet(Duration::from_millis(500))
}

#[test]
fn a_mistake_is_found_in_a_program() {
    let plan = "1/crash-after@2";
    let report = program("generated-twice", false).replay(plan.parse().unwrap()).run().unwrap();
    let failure = report.failures.first().unwrap_or_else(|| panic!("{report}"));
    assert_eq!(failure.plan.to_string(), plan);
    let finding = &failure.findings[0];
    assert_eq!(finding.oracle, Oracle::EndState, "{report}");
    assert!(finding.message.contains("configmaps/default/shop-*"), "{report}");
    // The killed process and its successor.
    let starts = failure.timeline.iter().filter(|entry| entry.text == "replica 1 starts");
    assert_eq!(starts.count(), 2, "{report}");
}

#[test]
fn a_corrected_program_raises_no_alarm() {
    let plans = ["1/crash-after@2", "1/stale-restart@2+watch-expired@3", "1/lost@2"];
    for plan in plans {
        let report = program("generated-twice", true).replay(plan.parse().unwrap()).run().unwrap();
        assert!(report.passed(), "{report}");
        assert!(report.faults.values().all(|tried| tried.planned == tried.injected), "{report}");
    }
}

/// Its pause is four times the quiet time.
#[test]
fn a_program_that_pauses_is_waited_for() {
    let report = program("slow-cleanup", true).replay("1/crash-after@2".parse().unwrap()).run().unwrap();
    report.assert_passed();
    assert_eq!(report.unrepeated, 0, "{report}");
}

#[test]
fn a_program_that_ends_fails_without_faults() {
    let command = Command::new(std::env::current_exe().unwrap()).argument("--list");
    let report = Simulation::of_command(command).scenario(Scenario::new()).workloads(false).run().unwrap();
    let failure = &report.failures[0];
    assert!(failure.plan.faults.is_empty(), "{report}");
    assert!(
        failure.findings[0].message.starts_with("the operator exited 6 times: it exited: exit status: 0"),
        "{report}"
    );
    assert!(failure.log.iter().any(|line| line.contains("a_program_that_ends")), "{report}");
}

#[test]
fn an_invariant_is_asked_in_every_state() {
    let twin = || simulation("generated-twice", Runtime(making::generated_twice), true).only([]);
    let count = "objects.filter(one, one.kind == 'ConfigMap').size() <= 1";
    let report = twin().invariant_expression(None, count).unwrap().run().unwrap();
    report.assert_passed();
    let wrong = "object.status.made > object.spec.size";
    let report = twin().invariant_expression(Some("Site"), wrong).unwrap().run().unwrap();
    let finding = &report.failures[0].findings[0];
    assert_eq!(finding.oracle, Oracle::Invariant, "{report}");
    assert!(
        finding.message.starts_with("Site: object.status.made > object.spec.size (at revision"),
        "{report}"
    );
    let misspelt = "object.status.maid > 0";
    let report = twin().invariant_expression(Some("Site"), misspelt).unwrap().run().unwrap();
    let message = &report.failures[0].findings[0].message;
    assert!(message.ends_with("could not be evaluated in any state: no such key: maid"), "{message}");
}

#[test]
fn properties_are_changed_one_at_a_time_and_back() {
    let of = |name: &str, exhibit, corrected| {
        let report = simulation(name, exhibit, corrected).only([]).properties(true).run().unwrap();
        let findings = report.failures.iter().flat_map(|failure| &failure.findings);
        (report.properties, findings.map(|finding| finding.message.clone()).collect::<Vec<_>>())
    };
    // The migration depends only on the colour.
    let (changes, findings) = of("repeated-migration", Runtime(making::repeated_migration), true);
    assert!(changes >= 2, "{findings:?}");
    assert!(findings.iter().all(|finding| finding.starts_with(".spec.size")), "{findings:?}");
    let (_, findings) = of("hoarder", Runtime(making::hoarder), false);
    let left = findings.iter().find(|finding| finding.starts_with(".spec.color")).unwrap();
    assert!(left.ends_with("and back: configmaps/default/shop-red-changed is left over"), "{findings:?}");
}
