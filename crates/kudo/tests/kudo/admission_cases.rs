//! Table test of admission: one row per kind of update, with old state, request and outcome.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use steersman_kudo::{ExecutionStatus, Instance, OperatorVersion, admission};

/// The outcome of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// Admitted without starting a plan.
    Passes,
    /// Admitted, and starts a plan.
    Starts(&'static str),
    /// Admitted, and unschedules the plan that has ended.
    Clears,
    Denied,
}
use Verdict::{Clears, Denied, Passes, Starts};

fn version(name: &str, plans: &[&str], parameters: Value) -> OperatorVersion {
    let mut version = OperatorVersion::new("shop", name);
    version.spec.plans = plans.iter().map(|plan| ((*plan).to_owned(), Default::default())).collect();
    version.spec.parameters = serde_json::from_value(parameters).unwrap();
    version
}

/// Parameters that trigger deploy (two), update, backup and a missing plan, and an immutable one.
fn parameters() -> Vec<Value> {
    let of = |name: &str, trigger: &str| json!({ "name": name, "trigger": trigger });
    vec![
        of("size", "deploy"),
        of("height", "deploy"),
        of("colour", "update"),
        of("schedule", "backup"),
        of("lost", "nowhere"),
        json!({ "name": "zone", "trigger": "deploy", "immutable": true }),
        of("late", "deploy"),
    ]
}

fn operator_version(name: &str, parameters: Vec<Value>) -> OperatorVersion {
    version(name, &["deploy", "update", "cleanup", "backup"], parameters.into())
}

/// Returns the parameters with one of them changed or removed.
fn with(name: &str, change: impl Fn(Value) -> Option<Value>) -> Vec<Value> {
    let all = parameters().into_iter();
    all.filter_map(|one| if one["name"] == name { change(one) } else { Some(one) }).collect()
}

fn immutable(mut parameter: Value) -> Option<Value> {
    parameter["immutable"] = true.into();
    Some(parameter)
}

fn mutable(mut parameter: Value) -> Option<Value> {
    parameter["immutable"] = false.into();
    Some(parameter)
}

fn new_immutable() -> Vec<Value> {
    let mut all = parameters();
    all.push(json!({ "name": "fresh", "trigger": "deploy", "immutable": true }));
    all
}

fn idle() -> Instance {
    let mut instance = Instance::new("shop", "web");
    instance.spec.operator_version.name = "web-1".into();
    instance.spec.parameters = [("size", "5"), ("zone", "a")].map(|(k, v)| (k.into(), v.into())).into();
    instance
}

fn scheduled(plan: &str, uid: &str) -> Instance {
    let mut instance = idle();
    instance.spec.plan_execution.plan_name = plan.into();
    instance.spec.plan_execution.uid = uid.into();
    instance
}

fn deleting(plan: &str) -> Instance {
    let mut instance = scheduled(plan, "first");
    instance.metadata.deletion_timestamp = Some(Time("2019-10-17T01:01:01Z".parse().unwrap()));
    instance.metadata.finalizers = Some(vec!["kudo.dev.instance.cleanup".into()]);
    instance
}

fn set(mut instance: Instance, values: &[(&str, &str)]) -> Instance {
    instance.spec.parameters = values.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    instance
}

fn and(mut instance: Instance, name: &str, value: &str) -> Instance {
    instance.spec.parameters.insert(name.into(), value.into());
    instance
}

fn upgraded(mut instance: Instance) -> Instance {
    instance.spec.operator_version.name = "web-2".into();
    instance
}

fn plan(mut instance: Instance, plan: &str, uid: &str) -> Instance {
    instance.spec.plan_execution.plan_name = plan.into();
    instance.spec.plan_execution.uid = uid.into();
    instance
}

fn ended(mut instance: Instance, status: ExecutionStatus) -> Instance {
    instance.spec.plan_execution.status = Some(status);
    instance
}

fn judge(
    old: &Instance,
    new: &Instance,
    old_version: &OperatorVersion,
    version: &OperatorVersion,
) -> Verdict {
    let mut admitted = new.clone();
    if admission::update(old, &mut admitted, old_version, version, || "admitted".into()).is_err() {
        return Denied;
    }
    let run = &admitted.spec.plan_execution;
    let plans = ["deploy", "update", "backup", "upgrade"];
    match plans.into_iter().find(|plan| run.plan_name == *plan && run.uid == "admitted") {
        Some(plan) => Starts(plan),
        None if !new.spec.plan_execution.plan_name.is_empty() && run.plan_name.is_empty() => Clears,
        None => Passes,
    }
}

#[test]
fn changes_of_an_instance_start_their_plan_or_are_denied() {
    let first = operator_version("web-1", parameters());
    let second = operator_version("web-2", parameters());
    let second_with = |parameters| operator_version("web-2", parameters);
    let mut labelled = scheduled("deploy", "first");
    labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    let running = || scheduled("deploy", "first");
    let fresh = || second_with(new_immutable());
    let late_immutable = || second_with(with("late", immutable));
    #[rustfmt::skip]
    let cases = [
        ("nothing", idle(), idle(), &first, Passes),
        ("a label", running(), labelled, &first, Passes),
        ("a plan while none runs", idle(), running(), &first, Starts("deploy")),
        ("the same plan anew", running(), scheduled("deploy", "second"), &first, Starts("deploy")),
        ("another plan while one runs", running(), scheduled("update", ""), &first, Denied),
        ("cleanup while being deleted", deleting("deploy"), deleting("cleanup"), &first, Passes),
        ("another plan than cleanup while being deleted", deleting("cleanup"), plan(deleting("cleanup"), "deploy", ""), &first, Denied),
        ("no cleanup while being deleted", deleting("cleanup"), plan(deleting("cleanup"), "", ""), &first, Denied),
        ("a plan that is complete", running(), ended(running(), ExecutionStatus::Complete), &first, Clears),
        ("a plan that failed", running(), ended(running(), ExecutionStatus::FatalError), &first, Clears),
        ("cleanup by hand", idle(), scheduled("cleanup", ""), &first, Denied),
        ("a parameter while being deleted", deleting("deploy"), set(deleting("deploy"), &[("size", "6")]), &first, Denied),
        ("an upgrade while being deleted", deleting("deploy"), upgraded(deleting("deploy")), &second, Denied),
        ("no plan while one runs", running(), idle(), &first, Denied),
        ("an upgrade", idle(), upgraded(idle()), &second, Starts("update")),
        ("an upgrade while a plan runs", running(), upgraded(idle()), &second, Denied),
        ("an upgrade and a plan", idle(), upgraded(scheduled("deploy", "")), &second, Denied),
        ("a parameter, an immutable one left out", idle(), set(idle(), &[("size", "6")]), &first, Starts("deploy")),
        ("two parameters of one plan", idle(), set(idle(), &[("size", "6"), ("height", "2")]), &first, Starts("deploy")),
        ("a parameter of the plan that runs", running(), set(running(), &[("size", "6")]), &first, Starts("deploy")),
        ("a parameter of another plan than runs", running(), and(running(), "colour", "red"), &first, Denied),
        ("parameters of two plans", idle(), set(idle(), &[("size", "6"), ("colour", "red")]), &first, Denied),
        ("a parameter that is not there", idle(), and(idle(), "shape", "round"), &first, Denied),
        ("a parameter of a plan that is not there", idle(), and(idle(), "lost", "1"), &first, Denied),
        ("an upgrade with a parameter of another plan", idle(), and(upgraded(idle()), "schedule", "daily"), &second, Denied),
        ("an upgrade with a parameter of deploy", idle(), set(upgraded(idle()), &[("size", "6")]), &second, Starts("update")),
        ("an upgrade without a parameter that goes", and(idle(), "late", "1"), upgraded(idle()), &second_with(with("late", |_| None)), Starts("update")),
        ("a parameter and a plan", idle(), set(running(), &[("size", "6")]), &first, Denied),
        ("an immutable parameter", idle(), and(idle(), "zone", "b"), &first, Denied),
        ("an upgrade to a new immutable parameter", idle(), set(upgraded(idle()), &[]), &fresh(), Denied),
        ("the same with a value", idle(), set(upgraded(idle()), &[("fresh", "1")]), &fresh(), Starts("update")),
        ("an upgrade without the immutable parameter", idle(), set(upgraded(idle()), &[]), &second_with(with("zone", |_| None)), Starts("update")),
        ("an upgrade that makes a set parameter immutable", idle(), upgraded(idle()), &second_with(with("size", immutable)), Starts("update")),
        ("an upgrade that makes an unset parameter immutable", idle(), set(upgraded(idle()), &[]), &late_immutable(), Denied),
        ("the same with its value", idle(), and(upgraded(idle()), "late", "1"), &late_immutable(), Starts("update")),
        ("an upgrade that makes a parameter mutable", idle(), set(upgraded(idle()), &[]), &second_with(with("zone", mutable)), Starts("update")),
        ("a plan that is not there", idle(), scheduled("nowhere", ""), &first, Denied),
    ];
    for (change, old, new, version, verdict) in cases {
        assert_eq!(judge(&old, &new, &first, version), verdict, "{change}");
    }
}

#[test]
fn changed_parameters_start_one_plan() {
    let version = |parameters: Value| version("web-1", &["deploy", "update", "backup"], parameters);
    let a = |trigger: &str| json!({ "name": "a", "trigger": trigger });
    let b = |trigger: &str| json!({ "name": "b", "trigger": trigger });
    for (change, parameters, changed, verdict) in [
        ("none", json!([a("")]), &[][..], Passes),
        ("one without a trigger", json!([a("")]), &["a"][..], Starts("update")),
        ("one with a trigger", json!([a("backup")]), &["a"], Starts("backup")),
        ("two with one trigger", json!([a("deploy"), b("deploy")]), &["a", "b"], Starts("deploy")),
        ("two with two triggers", json!([a("deploy"), b("update")]), &["a", "b"], Denied),
        ("one whose plan is not there", json!([a("fake")]), &["a"], Denied),
    ] {
        let version = version(parameters);
        let old = set(idle(), &[]);
        let values: Vec<(&str, &str)> = changed.iter().map(|name| (*name, "1")).collect();
        assert_eq!(judge(&old, &set(idle(), &values), &version, &version), verdict, "{change}");
    }
}

#[test]
fn an_immutable_parameter_that_is_left_out_keeps_its_value() {
    let version = operator_version("web-1", parameters());
    let mut new = set(idle(), &[("size", "6")]);
    admission::update(&idle(), &mut new, &version, &version, || "new".into()).unwrap();
    assert_eq!(new.spec.parameters["zone"], "a");
}

#[test]
fn a_change_that_admission_has_not_seen_is_known_by_the_annotation() {
    let version = operator_version("web-1", parameters());
    let mut instance = idle();
    assert!(!admission::is_undecided(&instance), "nothing is known of an instance that KUDO made");
    admission::create(&mut instance, &version, || "first".into()).unwrap();
    assert!(!admission::is_undecided(&instance));
    instance.spec.plan_execution.status = Some(ExecutionStatus::InProgress);
    assert!(!admission::is_undecided(&instance), "how far a plan is, is not decided about");
    instance.spec.parameters.insert("size".into(), "6".into());
    assert!(admission::is_undecided(&instance));
    let admitted = admission::admitted(&instance).unwrap();
    assert_eq!(admitted.parameters["size"], "5");
}

#[test]
fn a_run_has_values_of_its_own_if_they_fit() {
    let mut definitions = parameters();
    definitions.push(json!({ "name": "count", "value-type": "integer" }));
    let version = operator_version("web-1", definitions);
    let run = |name: &str, value: &str| {
        let mut new = scheduled("backup", "");
        new.spec.plan_execution.parameters.insert(name.into(), value.into());
        let result = admission::update(&idle(), &mut new, &version, &version, || "new".into());
        result.map(|()| new.spec.plan_execution).map_err(|error| error.to_string())
    };
    let admitted = run("count", "3").unwrap();
    assert_eq!((admitted.uid.as_str(), admitted.parameters["count"].as_str()), ("new", "3"));
    for (name, value, words) in [
        ("count", "many", "type is \"integer\""),
        ("zone", "b", "is immutable"),
        ("shape", "1", "failed to find"),
    ] {
        let denied = run(name, value).unwrap_err();
        assert!(denied.contains(words), "{denied}");
    }
}
