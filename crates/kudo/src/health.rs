//! The health of applied objects and instances, which a plan waits for.

use serde_json::Value;
use steersman_core::readiness::{Readiness, readiness};

use crate::admission;
use crate::api::{ExecutionStatus, Instance};

/// Determines an object's readiness by KUDO's rules. Workloads need their rollout, jobs completion, services an address.
///
/// Kinds without a rule are ready once they exist. Unlike in KUDO, a Job needs all of its completions, not one; a StatefulSet
/// with the update strategy `OnDelete` is ready by its pods.
pub fn health(object: &Value) -> Readiness {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    match (group, object["kind"].as_str().unwrap_or_default()) {
        ("apps", "Deployment" | "StatefulSet")
        | ("batch", "Job")
        | ("", "Namespace")
        | ("apiextensions.k8s.io", "CustomResourceDefinition") => readiness(object),
        // A completed pod is not ready: the plan waits for it to run.
        ("", "Pod") => match object.pointer("/status/phase").and_then(Value::as_str) {
            Some("Running") => readiness(object),
            phase => Readiness::Waiting(format!("is {}", phase.unwrap_or("new"))),
        },
        ("", "Service") => service(object),
        ("kudo.dev", "Instance") => match serde_json::from_value(object.clone()) {
            Ok(instance) => settled(&instance),
            Err(error) => Readiness::Waiting(format!("invalid Instance: {error}")),
        },
        _ => Readiness::Ready,
    }
}

/// Determines whether an instance has settled. No plan is scheduled or pending, and the last one was complete.
pub fn settled(instance: &Instance) -> Readiness {
    let plan = &instance.spec.plan_execution.plan_name;
    if !plan.is_empty() {
        return Readiness::Waiting(format!("plan {plan} is scheduled"));
    }
    if admission::is_undecided(instance) {
        return Readiness::Waiting("the latest change has not been observed yet".into());
    }
    match instance.status.last_plan() {
        None => Readiness::Waiting("no plan has run yet".into()),
        Some(plan) if plan.status == ExecutionStatus::FatalError => {
            Readiness::Failed(format!("plan {} failed: {}", plan.name, plan.messages().join("; ")))
        }
        Some(_) => Readiness::Ready,
    }
}

fn service(object: &Value) -> Readiness {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let has =
        |path: &str| object.pointer(path).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    match text("/spec/type") {
        "ExternalName" => Readiness::Ready,
        _ if text("/spec/clusterIP").is_empty() => Readiness::Waiting("has no cluster IP yet".into()),
        "LoadBalancer" if !has("/spec/externalIPs") && !has("/status/loadBalancer/ingress") => {
            Readiness::Waiting("no address from the load balancer yet".into())
        }
        _ => Readiness::Ready,
    }
}
