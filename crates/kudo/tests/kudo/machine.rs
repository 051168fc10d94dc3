//! The state machine of plans, crashed after every write and restarted.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use steersman_kudo::plan::{self, Outcome, TaskRef};
use steersman_kudo::{ExecutionStatus, Phase, Plan, PlanStatus, Step, Strategy as Order};

/// A cluster on which a task is complete after it has run a number of times.
#[derive(Clone, Default)]
struct World {
    runs: BTreeMap<TaskRef, usize>,
    /// The order in which tasks were first complete.
    done: Vec<TaskRef>,
    writes: usize,
}

impl World {
    fn run(&mut self, task: &TaskRef, needed: usize) -> Outcome {
        self.writes += 1;
        let runs = self.runs.entry(task.clone()).or_default();
        *runs += 1;
        if *runs < needed {
            return Outcome::Waiting("not yet".into());
        }
        if !self.done.contains(task) {
            self.done.push(task.clone());
        }
        Outcome::Done
    }
}

/// Runs a plan to its end; at the given write, everything but the stored status is lost.
fn run(plan: &Plan, needed: usize, crash_at: Option<usize>) -> (PlanStatus, World) {
    let mut world = World::default();
    let mut stored = plan::scheduled("deploy", plan, "uid");
    for _ in 0..1000 {
        let mut outcomes = BTreeMap::new();
        let mut crashed = false;
        let status = 'pass: loop {
            let evaluation = plan::evaluate(plan, &stored, &outcomes);
            if evaluation.due.is_empty() {
                break evaluation.status;
            }
            for task in evaluation.due {
                let outcome = world.run(&task, needed);
                if crash_at == Some(world.writes) {
                    crashed = true;
                    break 'pass stored.clone();
                }
                outcomes.insert(task, outcome);
            }
        };
        world.writes += 1;
        if crashed || crash_at == Some(world.writes) {
            continue;
        }
        stored = status;
        if stored.status.is_terminal() {
            return (stored, world);
        }
    }
    panic!("the plan does not end");
}

fn plans() -> impl Strategy<Value = Plan> {
    let order =
        || prop_oneof![Just("serial"), Just("parallel"), Just("")].prop_map(|word| Order(word.into()));
    let steps = (order(), 1..4_usize, 1..3_usize);
    (order(), prop::collection::vec(steps, 1..4)).prop_map(|(strategy, phases)| Plan {
        strategy,
        phases: phases
            .into_iter()
            .enumerate()
            .map(|(p, (strategy, steps, tasks))| Phase {
                name: format!("p{p}"),
                strategy,
                steps: (0..steps)
                    .map(|s| Step {
                        name: format!("s{s}"),
                        tasks: (0..tasks).map(|t| format!("t{t}")).collect(),
                        ..Step::default()
                    })
                    .collect(),
            })
            .collect(),
        ..Plan::default()
    })
}

fn is_complete(status: &PlanStatus) -> bool {
    let steps = status.phases.iter().flat_map(|phase| &phase.steps);
    status.status == ExecutionStatus::Complete
        && status.phases.iter().all(|phase| phase.status == ExecutionStatus::Complete)
        && steps.into_iter().all(|step| step.status == ExecutionStatus::Complete)
}

proptest! {
    #[test]
    fn a_plan_that_is_ended_after_any_write_comes_to_the_same_end(plan in plans(), needed in 1..4_usize) {
        let (status, world) = run(&plan, needed, None);
        prop_assert!(is_complete(&status));
        for crash in 1..=world.writes {
            let (again, other) = run(&plan, needed, Some(crash));
            prop_assert_eq!(&again, &status);
            prop_assert_eq!(other.done.iter().collect::<BTreeSet<_>>(), world.done.iter().collect::<BTreeSet<_>>());
        }
    }

    #[test]
    fn serial_waits_and_parallel_does_not(plan in plans()) {
        let (_, world) = run(&plan, 3, None);
        let first = |wanted: &dyn Fn(&TaskRef) -> bool| world.done.iter().position(wanted);
        for (p, phase) in plan.phases.iter().enumerate() {
            let last_done = world.done.iter().rposition(|task| task.phase == phase.name).unwrap();
            if plan.strategy.is_serial() && p + 1 < plan.phases.len() {
                let next = format!("p{}", p + 1);
                prop_assert!(first(&|task| task.phase == next).unwrap() > last_done);
            }
        }
        let stored = plan::scheduled("deploy", &plan, "uid");
        let due = plan::evaluate(&plan, &stored, &BTreeMap::new()).due;
        let phases: BTreeSet<_> = due.iter().map(|task| &task.phase).collect();
        prop_assert_eq!(phases.len(), if plan.strategy.is_serial() { 1 } else { plan.phases.len() });
    }
}

#[test]
fn a_transient_failure_is_the_steps_alone_and_a_fatal_one_is_all() {
    let step = |name: &str| Step { name: name.into(), tasks: vec!["t".into()], ..Step::default() };
    let plan = Plan {
        strategy: Order("serial".into()),
        phases: vec![Phase {
            name: "p".into(),
            strategy: Order("serial".into()),
            steps: vec![step("a"), step("b")],
        }],
        ..Plan::default()
    };
    let stored = plan::scheduled("deploy", &plan, "uid");
    let task = TaskRef { phase: "p".into(), step: "a".into(), task: "t".into() };
    let failed = BTreeMap::from([(task.clone(), Outcome::Transient("no".into()))]);
    let status = plan::evaluate(&plan, &stored, &failed).status;
    assert_eq!(status.status, ExecutionStatus::InProgress);
    assert_eq!(status.phases[0].status, ExecutionStatus::InProgress);
    assert_eq!(status.phases[0].steps[0].status, ExecutionStatus::Error);
    assert_eq!(status.phases[0].steps[1].status, ExecutionStatus::Pending);
    // A failed step is retried, and then no longer in error.
    let done = BTreeMap::from([(task.clone(), Outcome::Done)]);
    let next = plan::evaluate(&plan, &status, &done);
    assert_eq!(next.status.phases[0].steps[0].status, ExecutionStatus::Complete);
    assert_eq!(next.status.phases[0].steps[0].message, "");
    assert_eq!(next.due[0].step, "b");
    let fatal = BTreeMap::from([(task, Outcome::Fatal { reason: "DummyTaskError", message: "no".into() })]);
    let status = plan::evaluate(&plan, &stored, &fatal).status;
    assert_eq!(status.status, ExecutionStatus::FatalError);
    assert_eq!(status.phases[0].status, ExecutionStatus::FatalError);
    assert_eq!(status.phases[0].steps[0].message, "no");
    assert!(plan::evaluate(&plan, &status, &BTreeMap::new()).due.is_empty());
    assert_eq!(plan::progress(&next.status), 50);
}
