//! The embedded cluster as a whole.

mod access;
mod aggregation;
mod autoscaler;
mod checkpoint;
mod clock;
mod controller;
#[cfg(feature = "data-dir")]
mod disk;
#[cfg(feature = "data-dir")]
mod hostile;
mod hostile_listener;
mod jobs;
mod listener;
mod metrics;
mod placement;
mod real_autoscaler;
mod revisions;
mod watch;
mod webhooks;
mod websocket;
mod workloads;
