//! Which updates of an instance are admitted, and which plan they trigger.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use steersman_kudo::{ExecutionStatus, Instance, OperatorVersion, PlanExecution, admission};

fn version(name: &str, plans: &[&str], parameters: serde_json::Value) -> OperatorVersion {
    let mut version = OperatorVersion::new("default", name);
    version.spec.plans = plans.iter().map(|plan| ((*plan).to_owned(), Default::default())).collect();
    version.spec.parameters = serde_json::from_value(parameters).unwrap();
    version
}

fn parameters() -> serde_json::Value {
    json!([
        {"name": "PLAIN"}, {"name": "BACKUP", "trigger": "backup"}, {"name": "OTHER", "trigger": "deploy"},
        {"name": "FIXED", "immutable": true},
    ])
}

fn instance(version: &str, plan: &str, values: &[(&str, &str)]) -> Instance {
    let mut instance = Instance::new("default", "test");
    instance.spec.operator_version.name = version.to_owned();
    instance.spec.parameters = values.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    if !plan.is_empty() {
        instance.spec.plan_execution =
            PlanExecution { plan_name: plan.into(), uid: "old".into(), ..PlanExecution::default() };
    }
    instance
}

/// Returns the plan and UID after an update, or why it is denied.
fn admit(old: &Instance, new: &Instance) -> Result<(String, String), String> {
    let plans = ["deploy", "update", "backup", "cleanup"];
    let versions: BTreeMap<&str, OperatorVersion> = [
        ("v1", version("v1", &plans, parameters())),
        (
            "v2",
            version(
                "v2",
                &["deploy", "upgrade"],
                json!([{"name": "PLAIN"}, {"name": "OTHER", "trigger": "upgrade"}]),
            ),
        ),
        ("v3", version("v3", &["deploy"], json!([{"name": "PLAIN", "immutable": true}, {"name": "NEW"}]))),
    ]
    .into();
    let mut new = new.clone();
    let of = |instance: &Instance| versions[instance.spec.operator_version.name.as_str()].clone();
    let (old_version, version) = (of(old), of(&new));
    admission::update(old, &mut new, &old_version, &version, || "new".into())
        .map_err(|error| error.to_string())?;
    Ok((new.spec.plan_execution.plan_name, new.spec.plan_execution.uid))
}

#[test]
fn a_change_starts_the_one_plan_that_it_is_for() {
    let idle = instance("v1", "", &[("PLAIN", "a"), ("FIXED", "x")]);
    let with = |values: &[(&str, &str)]| instance("v1", "", values);
    let started = |plan: &str| Ok((plan.to_owned(), "new".to_owned()));
    assert_eq!(admit(&idle, &idle), Ok((String::new(), String::new())));
    assert_eq!(admit(&idle, &with(&[("PLAIN", "b"), ("FIXED", "x")])), started("update"));
    assert_eq!(admit(&idle, &with(&[("FIXED", "x")])), started("update"));
    assert_eq!(admit(&idle, &with(&[("PLAIN", "a"), ("FIXED", "x"), ("BACKUP", "1")])), started("backup"));
    assert_eq!(admit(&idle, &instance("v1", "backup", &[("PLAIN", "a"), ("FIXED", "x")])), started("backup"));
    assert_eq!(admit(&idle, &instance("v2", "", &[("PLAIN", "a")])), started("upgrade"));
    // A parameter of the running plan restarts it.
    let running = instance("v1", "deploy", &[]);
    assert_eq!(admit(&running, &instance("v1", "deploy", &[("OTHER", "1")])), started("deploy"));
    // A new UID restarts the plan, and a terminal status unschedules it.
    let mut again = running.clone();
    again.spec.plan_execution.uid = "other".into();
    assert_eq!(admit(&running, &again), started("deploy"));
    let mut ended = running.clone();
    ended.spec.plan_execution.status = Some(ExecutionStatus::Complete);
    assert_eq!(admit(&running, &ended), Ok((String::new(), String::new())));
}

#[test]
fn what_would_lose_or_mix_plans_is_denied() {
    let idle = instance("v1", "", &[("PLAIN", "a"), ("FIXED", "x")]);
    let running = instance("v1", "deploy", &[("PLAIN", "a")]);
    let keep = [("PLAIN", "a"), ("FIXED", "x")];
    let mut deleting = running.clone();
    deleting.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
    let mut deleting_backup = deleting.clone();
    deleting_backup.spec.plan_execution.plan_name = "backup".into();
    for (old, new, words) in [
        (&idle, instance("v1", "nope", &keep), "plan nope does not exist"),
        (&idle, instance("v1", "cleanup", &keep), "only the controller schedules the 'cleanup' plan"),
        (
            &idle,
            instance("v1", "", &[("PLAIN", "a"), ("FIXED", "y")]),
            "'FIXED' is immutable but was changed from 'x' to 'y'",
        ),
        (&idle, instance("v1", "", &[("NOPE", "1"), ("FIXED", "x")]), "failed to find parameter \"NOPE\""),
        (
            &idle,
            instance("v1", "", &[("BACKUP", "1"), ("OTHER", "1"), ("FIXED", "x")]),
            "triggering multiple plans: [backup deploy]",
        ),
        (
            &idle,
            instance("v1", "backup", &[("PLAIN", "b"), ("FIXED", "x")]),
            "directly and through parameter update",
        ),
        (
            &idle,
            instance("v2", "deploy", &[("PLAIN", "a")]),
            "and triggering new plan 'deploy' is not allowed",
        ),
        (
            &idle,
            instance("v2", "", &[("PLAIN", "a"), ("OTHER", "1")]),
            "together with a parameter update triggering 'upgrade'",
        ),
        (&idle, instance("v3", "", &[]), "'PLAIN' was changed to immutable in operator version v3"),
        (&running, instance("v1", "deploy", &[("PLAIN", "b")]), "would trigger a different plan 'update'"),
        (&running, instance("v2", "deploy", &[("PLAIN", "a")]), "while a plan 'deploy' is scheduled"),
        (
            &running,
            instance("v1", "backup", &[("PLAIN", "a")]),
            "overriding currently scheduled (or running) plan 'deploy'",
        ),
        (
            &running,
            instance("v1", "", &[("PLAIN", "a")]),
            "cancelling currently scheduled (or running) plan 'deploy'",
        ),
        (&deleting, deleting_backup, "only 'cleanup' plan can be scheduled"),
    ] {
        let denied = admit(old, &new).unwrap_err();
        assert!(denied.contains(words), "{denied} is not about {words}");
    }
}

#[test]
fn a_new_instance_is_scheduled_and_checked() {
    let definitions =
        json!([{"name": "FIXED", "immutable": true, "default": "x"}, {"name": "MUST", "required": true}]);
    let plans = version("v1", &["deploy", "cleanup"], definitions);
    let mut new = instance("v1", "", &[]);
    let denied = admission::create(&mut new, &plans, || "new".into()).unwrap_err().to_string();
    assert!(denied.contains("parameter \"MUST\" is required but has no value set"), "{denied}");
    let mut new = instance("v1", "", &[("MUST", "1")]);
    admission::create(&mut new, &plans, || "new".into()).unwrap();
    assert_eq!(new.spec.parameters["FIXED"], "x");
    assert_eq!(
        (new.spec.plan_execution.plan_name.as_str(), new.spec.plan_execution.uid.as_str()),
        ("deploy", "new")
    );
    assert!(new.has_finalizer());
    let denied =
        admission::create(&mut new, &version("v1", &["update"], json!([])), String::new).unwrap_err();
    assert!(denied.to_string().contains("couldn't find 'deploy' plan"), "{denied}");
}
