//! The built-in kinds of Kubernetes: one file per kind, in folders by API group.
//! A kind's file contains everything specific to it: `KIND` declares its properties (storage, names, status,
//! generations, selectable fields, printer columns, deprecation), `Rules` implements defaulting, preparation,
//! validation and warnings, and `cell` its printer columns. To change how a CronJob is printed, edit
//! `batch/cron_job.rs`; to add a kind, add a file and list its `KIND` in the table of its group. Names, verbs and
//! categories are read from the data file, see [`groups`].
//!
//! ```
//! let (name, apps) = steersman_kinds::groups().iter().find(|(name, _)| name == "apps").unwrap();
//! let deployments = apps.versions[0].resources.iter().find(|r| r.plural == "deployments").unwrap();
//! assert_eq!((name.as_str(), deployments.kind.as_str()), ("apps", "Deployment"));
//!
//! let mut deployment = serde_json::json!({"spec": {"template": {"spec": {}}}});
//! deployments.strategy.default("v1", &mut deployment);
//! assert_eq!(deployment["spec"]["replicas"], 1);
//! ```

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod catalog;
mod cells;
mod certificates;
mod check;
mod coordination;
mod core;
mod diff;
mod discovery;
mod events;
mod flowcontrol;
mod internal;
mod ip;
mod kind;
mod networking;
mod node;
pub mod pem;
mod policy;
mod rbac;
mod resource;
mod resources;
mod scheduling;
mod storage;
mod strategy;
mod workload;

pub use admissionregistration::expression;
pub use catalog::groups;
pub use strategy::types;

use kind::Kind;

/// Kinds of all groups.
static KINDS: &[&[Kind]] = &[
    admissionregistration::KINDS,
    apiextensions::KINDS,
    apiregistration::KINDS,
    apps::KINDS,
    autoscaling::KINDS,
    batch::KINDS,
    certificates::KINDS,
    coordination::KINDS,
    core::KINDS,
    discovery::KINDS,
    events::KINDS,
    flowcontrol::KINDS,
    networking::KINDS,
    node::KINDS,
    policy::KINDS,
    rbac::KINDS,
    resource::KINDS,
    scheduling::KINDS,
    storage::KINDS,
];

/// Returns the kind of a resource. Resources without a file get a kind with all defaults.
fn kind(group: &str, plural: &str) -> &'static Kind {
    static UNDESCRIBED: Kind = Kind::new("", "");
    let mut all = KINDS.iter().copied().flatten();
    all.find(|kind| kind.group == group && kind.plural == plural).unwrap_or(&UNDESCRIBED)
}
