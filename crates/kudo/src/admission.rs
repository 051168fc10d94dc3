//! Admission of instances: which plan a create or update triggers, and why it is denied.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{
    ExecutionStatus, FINALIZER, Instance, InstanceSpec, OperatorVersion, Parameter, PlanExecution, annotation,
};
use crate::error::Error;
use crate::parameters;

/// Admits a new instance, and schedules its `deploy` plan with `uid` as the run's UID. Also adds the finalizer if there is a
/// `cleanup` plan, and sets the defaults of immutable parameters.
///
/// # Errors
/// Fails if there is no `deploy` plan, or parameters are unknown, missing or invalid.
pub fn create(
    instance: &mut Instance,
    version: &OperatorVersion,
    uid: impl FnOnce() -> String,
) -> Result<(), Error> {
    let name = format!("{}/{}", instance.namespace(), instance.name());
    let denied = |why: String| Error::Denied(format!("failed to create an Instance {name}: {why}"));
    let spec = &version.spec;
    if !spec.plans.contains_key("deploy") {
        return Err(denied("couldn't find 'deploy' plan in the operatorVersion".into()));
    }
    if let Some(unknown) = instance.spec.parameters.keys().find(|name| spec.parameter(name).is_none()) {
        return Err(denied(format!(
            "parameter {unknown:?} is not in the OperatorVersion {}",
            version.name()
        )));
    }
    for parameter in spec.parameters.iter().filter(|parameter| parameter.is_immutable()) {
        if let Some(default) = &parameter.default {
            instance.spec.parameters.entry(parameter.name.clone()).or_insert_with(|| default.clone());
        }
    }
    validate(version, instance).map_err(|error| denied(format!("parameters are not valid: {error}")))?;
    if spec.plans.contains_key("cleanup") && !instance.has_finalizer() {
        instance.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    }
    instance.spec.plan_execution =
        PlanExecution { plan_name: "deploy".into(), uid: uid(), ..PlanExecution::default() };
    remember(instance);
    Ok(())
}

/// Records the admitted spec in an annotation of the instance.
///
/// With it, a controller notices a spec that was changed without the webhook, and admits it itself.
pub fn remember(instance: &mut Instance) {
    let text = serde_json::to_string(&decided(&instance.spec)).unwrap_or_default();
    instance.metadata.annotations.get_or_insert_default().insert(annotation::ADMITTED.to_owned(), text);
}

/// Returns the spec that was admitted last, if it is recorded.
#[must_use]
pub fn admitted(instance: &Instance) -> Option<InstanceSpec> {
    serde_json::from_str(instance.annotation(annotation::ADMITTED)).ok()
}

/// Whether the spec was changed and has not been admitted yet.
#[must_use]
pub fn is_undecided(instance: &Instance) -> bool {
    admitted(instance).is_some_and(|spec| spec != decided(&instance.spec))
}

/// Returns the part of the spec that admission covers: everything but the plan's progress.
fn decided(spec: &InstanceSpec) -> InstanceSpec {
    let mut spec = spec.clone();
    spec.plan_execution.status = None;
    spec
}

fn validate(version: &OperatorVersion, instance: &Instance) -> Result<(), Error> {
    version.spec.parameters.iter().try_for_each(|parameter| {
        let value = instance.spec.parameters.get(&parameter.name).map_or("", String::as_str);
        parameters::validate(parameter, value)
    })
}

/// Admits an update of an instance, and schedules the plan that it triggers. Sets the plan's name and a new UID in `new`.
///
/// `old_version` is the operator version of `old`, equal to `version` unless this is an upgrade.
///
/// # Errors
/// Fails with the parameter or plan that causes the denial.
pub fn update(
    old: &Instance,
    new: &mut Instance,
    old_version: &OperatorVersion,
    version: &OperatorVersion,
    uid: impl FnOnce() -> String,
) -> Result<(), Error> {
    if old.spec == new.spec && old.status == new.status {
        return Ok(());
    }
    let triggered = triggered(old, new, old_version, version)?;
    match triggered {
        None => {}
        Some(plan) if plan.is_empty() => new.spec.plan_execution = PlanExecution::default(),
        Some(plan_name) => {
            let parameters = std::mem::take(&mut new.spec.plan_execution.parameters);
            new.spec.plan_execution =
                PlanExecution { plan_name, uid: uid(), status: Some(ExecutionStatus::NeverRun), parameters };
        }
    }
    remember(new);
    Ok(())
}

/// Returns the plan that an update triggers, if any. An empty name clears a run that has ended.
fn triggered(
    old: &Instance,
    new: &mut Instance,
    old_version: &OperatorVersion,
    version: &OperatorVersion,
) -> Result<Option<String>, Error> {
    // A run that has ended but is still scheduled does not block anything.
    let ended;
    let old = if old.has_ended() && !new.is_deleting() {
        if new.spec.plan_execution.uid == old.spec.plan_execution.uid {
            new.spec.plan_execution = PlanExecution::default();
        }
        let mut idle = old.clone();
        idle.spec.plan_execution = PlanExecution::default();
        ended = idle;
        &ended
    } else {
        old
    };
    let place = format!("{}/{}", old.namespace(), old.name());
    let denied = |why: String| Error::Denied(format!("failed to update Instance {place}: {why}"));
    let (old_run, new_run) = (old.spec.plan_execution.clone(), new.spec.plan_execution.clone());
    let (old_plan, new_plan) = (old_run.plan_name.as_str(), new_run.plan_name.as_str());
    let had_plan = !old_plan.is_empty();
    let is_upgrade = old.spec.operator_version != new.spec.operator_version;
    let is_novel = !had_plan && !new_plan.is_empty();
    let plans = &version.spec.plans;
    if !new_plan.is_empty() && !plans.contains_key(new_plan) {
        return Err(Error::Denied(format!("plan {new_plan} does not exist")));
    }

    keep_immutable(old, new, old_version, version);
    let changed = changed_parameters(old, new, version).map_err(denied)?;
    immutable(old, new, old_version, version, &changed, is_upgrade).map_err(|why| {
        Error::Denied(format!("failed to check immutable parameters for Instance {place}: {why}"))
    })?;
    validate(version, new)
        .map_err(|why| Error::Denied(format!("failed to validate parameters for Instance {place}: {why}")))?;
    run_parameters(&new.spec.plan_execution, version).map_err(denied)?;
    // A parameter that only the new version defines does not count as changed.
    let known = |name: &&Parameter| old_version.spec.parameter(&name.name).is_some();
    let by_parameters = by_parameters(changed.iter().copied().filter(known), version).map_err(denied)?;

    if new.is_deleting() {
        return if old_plan == "cleanup" && new_plan != "cleanup" && !old_run_ended(&old_run, &new_run) {
            Err(denied(format!(
                "'{old_plan}' plan can not be cancelled or overridden by another plan since the instance is being deleted"
            )))
        } else if by_parameters.is_some() || is_upgrade {
            Err(denied(
                "parameter update and/or upgrade is not allowed when an instance is being deleted".into(),
            ))
        } else if !matches!(new_plan, "" | "cleanup") {
            Err(denied("only 'cleanup' plan can be scheduled when an instance is being deleted".into()))
        } else {
            Ok(None)
        };
    }

    let reference = &new.spec.operator_version.name;
    match &by_parameters {
        Some(plan) if had_plan && plan != old_plan => {
            return Err(denied(format!(
                "plan '{old_plan}' is scheduled (or running) and an update would trigger a different plan '{plan}'"
            )));
        }
        _ if is_upgrade && had_plan => {
            return Err(denied(format!(
                "upgrade to new OperatorVersion {reference} while a plan '{old_plan}' is scheduled (or running) is not allowed"
            )));
        }
        _ if is_upgrade && is_novel => {
            return Err(denied(format!(
                "upgrade to new OperatorVersion {reference} and triggering new plan '{new_plan}' is not allowed"
            )));
        }
        Some(plan) if is_upgrade && plan != "deploy" => {
            return Err(denied(format!(
                "upgrade to new OperatorVersion {reference} together with a parameter update triggering '{plan}' is not allowed"
            )));
        }
        _ if had_plan && !new_plan.is_empty() && new_plan != old_plan => {
            return Err(denied(format!(
                "overriding currently scheduled (or running) plan '{old_plan}' with '{new_plan}' is not supported"
            )));
        }
        _ if had_plan && new_plan.is_empty() => {
            return Err(denied(format!(
                "cancelling currently scheduled (or running) plan '{old_plan}' is not supported"
            )));
        }
        Some(plan) if is_novel => {
            return Err(denied(format!(
                "triggering one plan '{new_plan}' directly and through parameter update '{plan}' is not allowed"
            )));
        }
        _ if new_plan == "cleanup" => {
            return Err(denied(
                "only the controller schedules the 'cleanup' plan when the instance is deleted".into(),
            ));
        }
        _ => {}
    }

    if is_upgrade {
        let plan = ["upgrade", "update", "deploy"].into_iter().find(|plan| plans.contains_key(*plan));
        return plan.map(|plan| Some(plan.to_owned())).ok_or_else(|| {
            denied(
                "couldn't find any suitable plan that would be triggered by an OperatorVersion upgrade"
                    .into(),
            )
        });
    }
    if by_parameters.is_some() {
        return Ok(by_parameters);
    }
    if is_novel {
        return Ok(Some(new_plan.to_owned()));
    }
    if new_run.status.is_some_and(ExecutionStatus::is_terminal) {
        return Ok(Some(String::new()));
    }
    if had_plan && new_run.uid != old_run.uid {
        return Ok(Some(new_plan.to_owned()));
    }
    Ok(None)
}

/// Restores immutable parameters that an update omits. They keep the value that the instance was created with.
fn keep_immutable(
    old: &Instance,
    new: &mut Instance,
    old_version: &OperatorVersion,
    version: &OperatorVersion,
) {
    for parameter in version.spec.parameters.iter().filter(|parameter| parameter.is_immutable()) {
        let name = &parameter.name;
        let was_immutable = old_version.spec.parameter(name).is_some_and(Parameter::is_immutable);
        if let Some(value) = old.spec.parameters.get(name).filter(|_| was_immutable) {
            new.spec.parameters.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// Validates the parameters of a single run.
fn run_parameters(run: &PlanExecution, version: &OperatorVersion) -> Result<(), String> {
    for (name, value) in &run.parameters {
        let definition = version.spec.parameter(name);
        let definition = definition
            .ok_or_else(|| format!("failed to find parameter \"{name}\" in the OperatorVersion"))?;
        if definition.is_immutable() {
            return Err(format!("parameter '{name}' is immutable, and cannot differ for one run"));
        }
        parameters::validate(definition, value).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Whether a plan that is being unscheduled has ended.
fn old_run_ended(old: &PlanExecution, new: &PlanExecution) -> bool {
    new.plan_name.is_empty() && old.status.is_some_and(ExecutionStatus::is_terminal)
}

/// Returns the definitions of parameters whose values were added, changed or removed.
fn changed_parameters<'a>(
    old: &Instance,
    new: &Instance,
    version: &'a OperatorVersion,
) -> Result<Vec<&'a Parameter>, String> {
    let (before, after) = (&old.spec.parameters, &new.spec.parameters);
    let mut changed = Vec::new();
    for (name, _) in after.iter().filter(|(name, value)| before.get(*name) != Some(*value)) {
        let definition = version.spec.parameter(name);
        changed.push(
            definition
                .ok_or_else(|| format!("failed to find parameter \"{name}\" in the OperatorVersion"))?,
        );
    }
    // The new version may no longer define a parameter.
    changed.extend(
        before
            .keys()
            .filter(|name| !after.contains_key(*name))
            .filter_map(|name| version.spec.parameter(name)),
    );
    Ok(changed)
}

fn immutable(
    old: &Instance,
    new: &mut Instance,
    old_version: &OperatorVersion,
    version: &OperatorVersion,
    changed: &[&Parameter],
    is_upgrade: bool,
) -> Result<(), String> {
    let value = |values: &BTreeMap<String, String>, name: &str| values.get(name).cloned().unwrap_or_default();
    if !is_upgrade {
        return match changed.iter().find(|parameter| parameter.is_immutable()) {
            None => Ok(()),
            Some(Parameter { name, .. }) => Err(format!(
                "parameter '{name}' is immutable but was changed from '{}' to '{}'",
                value(&old.spec.parameters, name),
                value(&new.spec.parameters, name)
            )),
        };
    }
    for parameter in version.spec.parameters.iter().filter(|parameter| parameter.is_immutable()) {
        let name = &parameter.name;
        if new.spec.parameters.contains_key(name) {
            continue;
        }
        let version_name = version.name();
        match (old_version.spec.parameter(name), &parameter.default) {
            (Some(before), _) if before.is_immutable() => {}
            (Some(_), _) => {
                return Err(format!(
                    "parameter '{name}' was changed to immutable in operator version {version_name} but no value was provided"
                ));
            }
            (None, Some(default)) => {
                return Err(format!(
                    "parameter '{name}' was added in operator version {version_name}, but no value was provided (default would be {default})"
                ));
            }
            (None, None) => {
                return Err(format!(
                    "parameter '{name}' was added in operator version {version_name}, but no value was provided"
                ));
            }
        }
    }
    new.spec.parameters.retain(|name, _| {
        old_version.spec.parameter(name).is_none() || version.spec.parameter(name).is_some()
    });
    Ok(())
}

/// Returns the single plan that the changed parameters trigger.
fn by_parameters<'a>(
    changed: impl Iterator<Item = &'a Parameter>,
    version: &OperatorVersion,
) -> Result<Option<String>, String> {
    let plans = &version.spec.plans;
    let mut any = false;
    let mut triggers = BTreeSet::new();
    for Parameter { name, trigger, .. } in changed {
        any = true;
        if trigger.is_empty() {
            continue;
        }
        if !plans.contains_key(trigger) {
            return Err(format!(
                "param {name} defined trigger plan {trigger}, but plan not defined in operatorversion"
            ));
        }
        triggers.insert(trigger.as_str());
    }
    let mut triggers: Vec<&str> = triggers.into_iter().collect();
    match (any, triggers.len()) {
        (false, _) => Ok(None),
        (true, 0) => {
            let fallback = ["update", "deploy"].into_iter().find(|plan| plans.contains_key(*plan));
            fallback
                .map(|plan| Some(plan.to_owned()))
                .ok_or_else(|| "couldn't find any plans that would be triggered by the update".into())
        }
        (true, 1) => Ok(triggers.pop().map(str::to_owned)),
        (true, _) => {
            Err(format!("triggering multiple plans: [{}] at once is not allowed", triggers.join(" ")))
        }
    }
}
