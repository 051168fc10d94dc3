//! The inventory of applied objects in an instance's status. Objects that a new version drops are pruned.
//!
//! The inventory is not trusted: everyone who may write an instance's status may write it. So an object is only deleted by it if
//! it has the instance's ownership, as only plans set it, and is in the instance's namespace.

use std::collections::BTreeSet;

use kube::Client;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use steersman_chart::System;
use steersman_kudo::task::{Failure, Run, TaskPosition, pipes};
use steersman_kudo::{
    AppliedResource, Instance, InstanceStatus, OperatorVersion, Renderer, annotation, label, parameters,
    reason,
};
use steersman_release::Kinds;

use crate::apply::Target;
use crate::error::{Error, Result};
use crate::execute::Executor;

/// The plans that define an instance's desired state. Objects of other plans are not maintained.
const LIFECYCLE: [&str; 3] = ["deploy", "update", "upgrade"];

/// An action of a task.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Applied(AppliedResource),
    Deleted { api_version: String, kind: String, name: String },
}

impl Entry {
    pub(crate) fn deleted(target: &Target) -> Self {
        let resource = &target.kind.resource;
        Self::Deleted {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            name: target.name().to_owned(),
        }
    }
}

/// Records the actions of a pass.
pub(crate) fn note(status: &mut InstanceStatus, ledger: Vec<Entry>) {
    for entry in ledger {
        match entry {
            Entry::Applied(resource) => status.note_applied(resource),
            Entry::Deleted { api_version, kind, name } => status.note_deleted(&api_version, &kind, &name),
        }
    }
}

impl Executor<'_> {
    /// Returns the inventory entry of an applied object. Cluster-scoped objects have no owner, and are not recorded.
    pub(crate) fn entry(&self, at: &TaskPosition<'_>, target: &Target) -> Option<AppliedResource> {
        let resource = &target.kind.resource;
        target.kind.namespaced.then(|| AppliedResource {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            name: target.name().to_owned(),
            operator_version: self.operator_version.clone(),
            plan: at.run.plan_name.to_owned(),
            phase: at.phase.to_owned(),
            step: at.step.to_owned(),
            task: at.task.to_owned(),
            uid: at.run.plan_uid.to_owned(),
            managed: LIFECYCLE.contains(&at.run.plan_name),
            digest: if self.has_own_parameters { String::new() } else { digest(&target.content) },
        })
    }
}

/// Computes the digest of an object, before the dependencies' hash is added to it.
pub(crate) fn digest(content: &Value) -> String {
    let digest = Sha256::digest(content.to_string().as_bytes());
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether an object is annotated as unmanaged.
pub(crate) fn is_unmanaged(live: &Value) -> bool {
    live["metadata"]["annotations"][annotation::UNMANAGED] == "true"
}

/// Whether an object's controller is an owner other than `uid`.
pub(crate) fn is_of_another(live: &Value, uid: &str) -> bool {
    let mut owners = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["controller"] == true && owner["uid"] != uid)
}

/// Whether an object was applied by a plan of exactly this instance.
pub(crate) fn is_owned(live: &Value, instance: &Instance) -> bool {
    let labels = &live["metadata"]["labels"];
    let uid = instance.metadata.uid.as_deref().unwrap_or_default();
    let mut owners = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    labels[label::HERITAGE] == "kudo"
        && labels[label::INSTANCE] == instance.name()
        && !uid.is_empty()
        && owners.any(|owner| owner["uid"] == uid && owner["controller"] == true)
}

/// The result of pruning.
#[derive(Debug, Default)]
pub(crate) struct Pruned {
    /// Reason and message of each event.
    pub(crate) events: Vec<(&'static str, String)>,
    /// Why something is left to the end of the next plan.
    pub(crate) warnings: Vec<(&'static str, String)>,
}

/// Prunes the inventory: deletes objects that an older version rendered and no plan of this one does.
///
/// PersistentVolumeClaims are kept, as they hold data, and so are objects from a run with its own parameters, or from plans such
/// as a backup.
pub(crate) async fn prune(
    instance: &mut Instance,
    version: &OperatorVersion,
    client: &Client,
    kinds: &Kinds,
) -> Pruned {
    let mut pruned = Pruned::default();
    let is_old = |one: &AppliedResource| {
        one.managed
            && !one.digest.is_empty()
            && one.operator_version != version.name()
            && one.kind != "PersistentVolumeClaim"
    };
    if !instance.status.resources.iter().any(is_old) {
        return pruned;
    }
    let rendered = match rendered(instance, version) {
        Ok(rendered) => rendered,
        Err(Failure { message, .. }) => {
            let why = format!("pruning skipped: not every plan of {} renders: {message}", version.name());
            pruned.warnings.push((reason::PRUNE_FAILED, why));
            return pruned;
        }
    };
    let group = |api_version: &str| api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    let candidates: Vec<AppliedResource> = instance
        .status
        .resources
        .iter()
        .filter(|one| is_old(one))
        .filter(|one| !rendered.contains(&(group(&one.api_version), one.kind.clone(), one.name.clone())))
        .cloned()
        .collect();
    for one in candidates {
        match prune_one(&one, instance, client, kinds).await {
            Ok(said) => {
                instance.status.note_deleted(&one.api_version, &one.kind, &one.name);
                pruned.events.extend(
                    said.map(|said| {
                        (reason::PRUNED, format!("{said}: it is not part of {}", version.name()))
                    }),
                );
            }
            Err(error) => pruned.warnings.push((reason::PRUNE_FAILED, error.to_string())),
        }
    }
    pruned
}

/// Deletes an object if the instance owns it. Returns the event, if there is one.
async fn prune_one(
    one: &AppliedResource,
    instance: &Instance,
    client: &Client,
    kinds: &Kinds,
) -> Result<Option<String>> {
    let Some(kind) = kinds.find_opt(&one.api_version, &one.kind).await?.filter(|kind| kind.namespaced) else {
        return Ok(None);
    };
    let content = json!({
        "apiVersion": one.api_version, "kind": one.kind,
        "metadata": { "name": one.name, "namespace": instance.namespace() },
    });
    let target = Target { kind, content };
    let Some(live) = target.live(client).await? else { return Ok(None) };
    if !is_owned(&live, instance) {
        return Ok(Some(format!("{} is kept: it is not owned by this instance", target.title())));
    }
    if is_unmanaged(&live) {
        return Ok(Some(format!("{} is kept: it is annotated as unmanaged", target.title())));
    }
    // Preconditions: an object changed since it was read may have a different owner.
    let text = |field: &str| live["metadata"][field].as_str().map(str::to_owned);
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions { uid: text("uid"), resource_version: text("resourceVersion") }),
        ..DeleteParams::default()
    };
    match target.api(client).delete(target.name(), &params).await {
        Ok(_) => Ok(Some(format!("{} was deleted", target.title()))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(Error::kube(target.title())(error)),
    }
}

/// Returns group, kind and name of everything that the tasks of any plan render.
fn rendered(
    instance: &Instance,
    version: &OperatorVersion,
) -> std::result::Result<BTreeSet<(String, String, String)>, Failure> {
    let mut spec = instance.spec.clone();
    spec.plan_execution.parameters.clear();
    let values = parameters::resolve(&version.spec, &spec)
        .map_err(|error| Failure::new(reason::INVALID_PARAMS, error.to_string()))?;
    let mut found = BTreeSet::new();
    for (plan_name, plan) in &version.spec.plans {
        let mut run = Run {
            version: &version.spec,
            instance: instance.name(),
            namespace: instance.namespace(),
            plan_name,
            plan_uid: "",
            parameters: values.clone(),
            pipes: Default::default(),
        };
        run.pipes = pipes(&run, plan)?;
        let steps = plan.phases.iter().flat_map(|phase| phase.steps.iter().map(move |step| (phase, step)));
        for (phase, step) in steps {
            for task in step.tasks.iter().filter_map(|name| version.spec.task(name)) {
                let at = TaskPosition { run: &run, phase: &phase.name, step: &step.name, task: &task.name };
                for one in at.render(&mut Renderer::new(System::default()), &task.spec.resources)? {
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let api_version = text(&one.object["apiVersion"]);
                    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
                    found.insert((group, text(&one.object["kind"]), text(&one.object["metadata"]["name"])));
                }
            }
        }
    }
    Ok(found)
}
