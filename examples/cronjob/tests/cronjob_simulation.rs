//! The operator under simulation: every crash, lost response and stale read.

use std::time::Duration;

use cronjob_operator::operator;
use serde_json::json;
use steersman_simulate::{Scenario, Simulation};

fn simulation() -> Simulation {
    let cron = json!({
        "apiVersion": "batch.tutorial.kubebuilder.io/v1", "kind": "CronJob", "metadata": {"name": "hello"},
        "spec": {
            "schedule": "0 */2 * * *", "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "hello", "image": "busybox"}],
            }}}},
        },
    });
    // Two runs, the first of which is pruned, and a schedule that is next due an hour later, as failed nodes take ten minutes
    // each.
    let two_hours = Duration::from_secs(2 * 60 * 60);
    let change = json!({"spec": {"schedule": "0 1-23/2 * * *"}});
    let scenario = Scenario::new().apply(cron.clone()).advance(two_hours).advance(two_hours);
    let scenario = scenario.patch(&cron, change).advance(two_hours).delete(&cron);
    // These faults legitimately change the result: runs missed while the operator is down or disconnected follow the later
    // schedule, a deleted job is not run again, and a clock jump makes more runs due. All other faults must not make a
    // difference.
    let simulation = Simulation::of(operator).scenario(scenario);
    simulation.without("down").without("blind").without("deleted-outside").without("clock-jump")
}

/// A crash after the object is created, and before the status is updated.
#[test]
fn it_survives_a_crash() {
    let report = simulation().replay("1/crash-after@1".parse().unwrap()).run().unwrap();
    report.assert_passed();
    assert_eq!(report.faults["crash-after"].injected, 1);
}

#[test]
#[ignore = "hundreds of runs: make sim"]
fn it_survives_every_fault() {
    let report = simulation().run().unwrap();
    println!("CronJob: {}", report.summary());
    report.assert_passed();
    let is_replay = report.replayed.is_some();
    assert!(is_replay || report.faults["crash-after"].injected >= report.writes.max(1), "{report}");
}
