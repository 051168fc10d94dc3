//! `steer cluster`.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use steersman_cluster::Cluster as Embedded;

use crate::args::GlobalArgs;
use crate::failure::{Failure, Result};

pub(super) const DEFAULT_KUBECONFIG: &str = ".steer/kubeconfig";

const ABOUT: &str = "\
Run an embedded Kubernetes cluster until it is interrupted

It is the Kubernetes API with everything that clients see of it, in one process, without Docker or a download.
It is not a place to run programs: deployments, pods and nodes go through their states, but no container starts.
Pods fail on request, by annotations such as cluster.steersman.dev/fail: crash-loop.
Everything is in memory and gone when the command ends, unless --data-dir keeps it; only this machine can reach it.
The kubeconfig file holds the administrator's token and is removed at the end.";

const EXAMPLES: &str = "\
Examples:
  steer cluster
  steer cluster --port 6443 --nodes 3 --kubeconfig ./kubeconfig
  steer cluster --data-dir ./cluster
  steer cluster --no-workloads";

/// Run an embedded Kubernetes cluster until it is interrupted
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Cluster {
    /// Port to listen on [default: one that is free]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Number of nodes
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    nodes: u8,

    /// Simulate nothing: only the API
    #[arg(long)]
    no_workloads: bool,

    /// How long pods wait for their containers
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = super::release::duration)]
    pod_start_delay: Duration,

    /// How long pods run that are meant to end, unless their program says it, as sleep does
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = super::release::duration)]
    pod_run_time: Duration,

    /// Image that cannot be pulled, as containers name it; may be repeated
    #[arg(long = "missing-image", value_name = "IMAGE")]
    missing_images: Vec<String>,

    /// Directory to keep everything in, and to start from [default: nothing is kept]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Cluster {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))?;
        runtime.block_on(self.serve(globals))
    }

    async fn serve(self, globals: &GlobalArgs) -> Result {
        let begun = Instant::now();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.unwrap_or_default()));
        let mut builder =
            Embedded::builder().workloads(!self.no_workloads).nodes(self.nodes.into()).listen(address);
        builder = builder.pod_start_delay(self.pod_start_delay).pod_run_time(self.pod_run_time);
        for image in self.missing_images {
            builder = builder.missing_image(image);
        }
        if let Some(directory) = self.data_dir {
            builder = builder.data_directory(directory);
        }
        let cluster = builder.start().await.map_err(|error| Failure::new(error.to_string()))?;
        let path = globals.kubeconfig.clone().unwrap_or_else(|| DEFAULT_KUBECONFIG.into());
        let file = Kubeconfig::write(&cluster, path)?;
        let spent = begun.elapsed().as_millis();
        let version = steersman_cluster::KUBERNETES_VERSION;
        let server = cluster.address().map(|address| format!("https://{address}")).unwrap_or_default();
        let text = format!(
            "Kubernetes {version} API in {spent} ms at {server}\n\n  export KUBECONFIG={}\n  kubectl get nodes\n\nCtrl-C ends it.\n",
            file.path.display()
        );
        let mut stdout = std::io::stdout().lock();
        // Whoever does not read this can still use the cluster.
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        drop(stdout);
        interrupted().await.map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))
    }
}

pub(super) async fn interrupted() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminated.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// A kubeconfig that goes when the command does, with the directory that was made for it.
pub(super) struct Kubeconfig {
    pub(super) path: PathBuf,
    made: Option<PathBuf>,
}

impl Kubeconfig {
    pub(super) fn write(cluster: &Embedded, path: PathBuf) -> Result<Self> {
        let failed =
            |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
        if path.exists() && left_behind(&path).is_none() {
            return Err(Failure::new(format!(
                "{} exists and was not written by steer cluster",
                path.display()
            ))
            .help("name another file by --kubeconfig"));
        }
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty() && !d.exists());
        let made = directory.map(Path::to_path_buf);
        if let Some(made) = &made {
            std::fs::create_dir_all(made).map_err(failed)?;
        }
        cluster.write_kubeconfig(&path).map_err(|error| Failure::new(error.to_string()))?;
        Ok(Self { path: std::path::absolute(&path).unwrap_or(path), made })
    }
}

/// Something if the file was left by this command, for instance when it was killed.
fn left_behind(path: &Path) -> Option<()> {
    let text = std::fs::read_to_string(path).ok()?;
    text.contains("current-context: steersman\n").then_some(())
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        if let Some(made) = &self.made {
            // Stays if somebody put something else there.
            let _ = std::fs::remove_dir(made);
        }
    }
}
