//! The `Ready` condition of instances.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::api::Api;
use serde_json::json;
use steersman::{Action, Conditions as _, Context, Kind, Readiness};
use steersman_kudo::{ExecutionStatus, Instance, PlanStatus, health, label, reason};

use crate::controller::post;

/// Sets the `Ready` condition while a plan is running and when it has ended.
pub(crate) fn set_plan_condition(instance: &mut Instance, status: &PlanStatus, context: &Context) {
    let (value, reason) = match status.status {
        ExecutionStatus::Complete => ("True", reason::RESOURCES_READY),
        ExecutionStatus::FatalError => ("Unknown", reason::PLAN_IN_FATAL_ERROR),
        // Other plans do not affect it.
        _ if matches!(status.name.as_str(), "deploy" | "upgrade" | "update") => {
            ("Unknown", reason::PLAN_IN_PROGRESS)
        }
        _ => return,
    };
    set_condition(instance, value, reason, "", context);
}

fn set_condition(instance: &mut Instance, value: &str, reason: &str, message: &str, context: &Context) {
    let condition = Condition {
        status: value.to_owned(),
        observed_generation: None,
        ..context.condition(reason::READY, true, reason, message)
    };
    instance.status.conditions.set(condition);
}

/// Updates the `Ready` condition of an instance without a running plan, from its workloads.
pub(crate) async fn readiness(
    mut instance: Instance,
    api: &Api<Instance>,
    context: &Context,
) -> steersman::Result<Action> {
    let before = instance.status.conditions.clone();
    let waiting = waiting(instance.name(), context).await?;
    if waiting.is_empty() {
        set_condition(&mut instance, "True", reason::RESOURCES_READY, "", context);
    } else {
        set_condition(&mut instance, "False", reason::RESOURCE_NOT_READY, &waiting.join(", "), context);
    }
    if instance.status.conditions != before {
        api.replace_status(instance.name(), &post(), &instance).await?;
    }
    Ok(Action::await_change())
}

/// Lists the workloads of an instance that are not ready, and why.
async fn waiting(instance: &str, context: &Context) -> steersman::Result<Vec<String>> {
    let labels = [(label::INSTANCE, instance), (label::HERITAGE, "kudo")];
    let mut waiting = Vec::new();
    for kind in [Kind::of::<Deployment>(), Kind::of::<StatefulSet>()] {
        for object in context.objects_of(&kind).labels(labels).list().await? {
            let name = object.name_any();
            if let Readiness::Waiting(why) | Readiness::Failed(why) = health(&json!(object)) {
                waiting.push(format!("{} {name}: {why}", kind.name()));
            }
        }
    }
    Ok(waiting)
}
