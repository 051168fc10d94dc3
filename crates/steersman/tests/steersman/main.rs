//! The runtime on the embedded cluster.

mod common;
mod hostile;
mod manager;
mod manifests;
mod metrics;
mod outside;
mod properties;
mod runtime;
mod sets;
mod sharding;
mod webhooks;
