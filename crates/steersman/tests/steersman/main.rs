//! The runtime on the embedded cluster.

mod common;
mod hostile;
mod manager;
mod metrics;
mod properties;
mod runtime;
mod sets;
mod sharding;
mod webhooks;
