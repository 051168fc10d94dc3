//! The built-in kinds.

mod admission;
mod admissionregistration;
mod apiextensions;
mod apps;
mod autoscaling;
mod batch;
mod catalog;
mod check;
mod claim;
mod config;
mod convert;
mod diff;
mod endpoints;
mod event;
mod facts;
mod internal;
mod job_status;
mod namespace;
mod networking;
mod pem;
mod pod;
mod policy;
mod print;
mod print_rest;
mod quota;
mod rbac;
mod resources;
mod schedule;
mod service;
mod service_rules;
mod signing;
mod storage;
mod strategy;
mod webhooks;

pub use admissionregistration::expression;
pub use catalog::groups;
pub use service::claim as claim_service;
pub use strategy::types;

use steersman_api::{
    allocator, environment, fields, group_version, metadata, names, object, resource, schema, status, table,
};

use strategy::{Change, Rules};
