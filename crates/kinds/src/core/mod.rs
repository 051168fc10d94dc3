//! The core group.

mod component_status;
mod config_data;
mod config_map;
pub(crate) mod endpoints;
pub(crate) mod event;
mod limit_range;
mod namespace;
mod node;
mod persistent_volume;
pub(crate) mod persistent_volume_claim;
pub(crate) mod pod;
mod pod_template;
mod replication_controller;
mod resource_quota;
mod secret;
mod service;
mod service_account;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[
    component_status::KIND,
    config_map::KIND,
    endpoints::KIND,
    event::KIND,
    limit_range::KIND,
    namespace::KIND,
    node::KIND,
    persistent_volume::KIND,
    persistent_volume_claim::KIND,
    pod::KIND,
    pod_template::KIND,
    replication_controller::KIND,
    resource_quota::KIND,
    secret::KIND,
    service::KIND,
    service_account::KIND,
];
