//! Whether what a task applied is as far as the plan wants it.

use serde_json::Value;
use steersman_core::readiness::{Readiness, readiness};

use crate::admission;
use crate::api::{ExecutionStatus, Instance};

/// How far an object is, by KUDO's rules: workloads by their rollout, jobs by their end, services by their address.
///
/// Kinds without a rule are ready when they are there. Of a Job, all completions count, not one as in KUDO; a StatefulSet that is
/// updated on deletion is ready by its pods.
pub fn health(object: &Value) -> Readiness {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    match (group, object["kind"].as_str().unwrap_or_default()) {
        ("apps", "Deployment" | "StatefulSet")
        | ("batch", "Job")
        | ("", "Namespace")
        | ("apiextensions.k8s.io", "CustomResourceDefinition") => readiness(object),
        // A pod is not ready when it has ended: what a plan waits for is that it runs.
        ("", "Pod") => match object.pointer("/status/phase").and_then(Value::as_str) {
            Some("Running") => readiness(object),
            phase => Readiness::Waiting(format!("is {}", phase.unwrap_or("new"))),
        },
        ("", "Service") => service(object),
        ("kudo.dev", "Instance") => match serde_json::from_value(object.clone()) {
            Ok(instance) => settled(&instance),
            Err(error) => Readiness::Waiting(format!("is no instance: {error}")),
        },
        _ => Readiness::Ready,
    }
}

/// Whether an instance has run its plans: no plan is scheduled or about to be, and the last one was complete.
pub fn settled(instance: &Instance) -> Readiness {
    let plan = &instance.spec.plan_execution.plan_name;
    if !plan.is_empty() {
        return Readiness::Waiting(format!("plan {plan} is scheduled"));
    }
    if admission::is_undecided(instance) {
        return Readiness::Waiting("its change has not been seen yet".into());
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
