//! Connects to a cluster as kubectl and Helm do. All commands create their client here.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use steersman_release::{Releases, StorageKind};

use crate::args::GlobalArgs;
use crate::failure::{Failure, Result};
use crate::{namespace, runtime};

/// Runs a future that accesses a cluster.
pub(crate) fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    runtime::current_thread()?.block_on(work)
}

fn unreachable(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("Kubernetes cluster unreachable: {error}"))
        .help("--kubeconfig names the file, `steer cluster` can start a cluster on this machine")
}

/// Returns a client for the cluster selected by flags and environment.
pub(crate) async fn client(globals: &GlobalArgs) -> Result<Client> {
    Client::try_from(config(globals).await?).map_err(|error| unreachable(&error))
}

/// Returns the client configuration of the cluster selected by flags and environment.
pub(crate) async fn config(globals: &GlobalArgs) -> Result<Config> {
    let given = globals.kubeconfig.clone().filter(|path| !path.as_os_str().is_empty());
    let context = globals.context();
    let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
    match given {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|error| unreachable(&error))?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| unreachable(&error))
        }
        None => match Config::from_kubeconfig(&options).await {
            Ok(config) => Ok(config),
            // A missing context that was requested explicitly must not fall back to another cluster.
            Err(error) if context.is_some() => Err(unreachable(&error)),
            Err(error) => Config::incluster().map_err(|_| unreachable(&error)),
        },
    }
}

/// Returns the releases of the namespace selected by flags and environment.
pub(crate) async fn releases(globals: &GlobalArgs) -> Result<Releases> {
    let storage = match std::env::var("HELM_DRIVER").unwrap_or_default().as_str() {
        "" | "secret" | "secrets" => StorageKind::Secrets,
        "configmap" | "configmaps" => StorageKind::ConfigMaps,
        other => {
            return Err(Failure::new(format!("HELM_DRIVER={other} is not supported"))
                .help("steer keeps releases in secrets or configmaps"));
        }
    };
    let client = client(globals).await?;
    Ok(Releases::new(client, namespace::resolve(globals)).storage(storage))
}
