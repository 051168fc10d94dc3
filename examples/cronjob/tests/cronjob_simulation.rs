//! The operator under simulation: every crash, lost answer and stale view.

use std::time::Duration;

use cronjob_operator::operator;
use serde_json::json;
use steersman_simulate::{Scenario, Simulation};

fn simulation() -> Simulation {
    let cron = json!({
        "apiVersion": "batch.tutorial.kubebuilder.io/v1", "kind": "CronJob", "metadata": {"name": "hello"},
        "spec": {
            "schedule": "*/30 * * * *", "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "hello", "image": "busybox"}],
            }}}},
        },
    });
    // Two runs, the first of which is pruned, and a schedule that is due at another time.
    let half_hour = Duration::from_secs(30 * 60);
    let change = json!({"spec": {"schedule": "20,50 * * * *"}});
    let scenario = Scenario::new().apply(cron.clone()).advance(half_hour).advance(half_hour);
    let scenario = scenario.patch(&cron, change).advance(half_hour).delete(&cron);
    // What was due while the operator was away or blind is run by the schedule of afterwards, a job that someone deletes is not
    // run again, and more is due when the clock jumps: other faults must not make a difference.
    let simulation = Simulation::of(operator).scenario(scenario);
    simulation.without("down").without("blind").without("deleted-outside").without("clock-jump")
}

/// After its object is made, and before the status says so.
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
    assert!(report.writes > 0 && report.faults["crash-after"].injected >= report.writes, "{report}");
}
