//! Serves the portal for the cluster of `steer dev`.

use std::net::{Ipv4Addr, SocketAddr};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use steersman_cluster::Cluster;
use steersman_gateway::{Builder, Gateway, OperatorLog};
use tokio::net::TcpListener;

use super::operators::Board;
use crate::commands::serve::{PORT, Serving};
use crate::failure::{Failure, Result};

/// The operators' log lines for the portal.
#[derive(Clone, Default)]
pub(super) struct PortalLog(OperatorLog);

impl PortalLog {
    pub(super) fn push(&self, line: &str) {
        self.0.push(line);
    }
}

/// Serves the portal on localhost, and reports its address.
///
/// `samples` prefill forms; `operators` are names with metrics addresses.
pub(super) async fn start(
    cluster: &Cluster,
    board: &Board,
    samples: Vec<Value>,
    operators: Vec<(String, SocketAddr)>,
    log: PortalLog,
) -> Result {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("the portal cannot start: {error}"));
    let kubeconfig = cluster.kubeconfig().map_err(|error| failed(&error))?;
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).map_err(|error| failed(&error))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| failed(&error))?;
    let mut builder = samples.into_iter().fold(Gateway::builder(config), Builder::sample);
    for (name, metrics) in operators {
        builder = builder.operator(name, format!("http://{metrics}/metrics"));
    }
    let gateway =
        builder.operator_log(log.0).cluster_name("embedded").build().map_err(|error| failed(&error))?;
    let socket = match TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).await {
        Ok(socket) => socket,
        // The port is in use: any other one will do.
        Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|error| failed(&error))?,
    };
    let serving = Serving::new(gateway, socket, "http").await?;
    board.say(&format!("portal              {}      (this link signs you in once)", serving.link));
    tokio::spawn(serving.serve());
    Ok(())
}
