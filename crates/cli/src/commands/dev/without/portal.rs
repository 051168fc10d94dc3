//! Replacement for the portal in a build without the feature `serve`.

use std::net::SocketAddr;

use serde_json::Value;
use steersman_cluster::Cluster;

use crate::commands::dev::operators::Board;
use crate::failure::Result;

/// A log that discards everything.
#[derive(Clone, Default)]
pub(in crate::commands::dev) struct PortalLog {}

impl PortalLog {
    pub(in crate::commands::dev) fn push(&self, _: &str) {}
}

pub(in crate::commands::dev) async fn start(
    _: &Cluster,
    _: &Board,
    _: Vec<Value>,
    _: Vec<(String, SocketAddr)>,
    _: PortalLog,
) -> Result {
    Ok(())
}
