//! `steer cluster`.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use steersman_cluster::{Builder, Cluster as Embedded, WebhookPolicy};

use super::background::Background;

use crate::args::GlobalArgs;
use crate::failure::{Failure, Result};
use crate::output::Output;

pub(super) const DEFAULT_KUBECONFIG: &str = ".steer/kubeconfig";

const ABOUT: &str = "\
Run an embedded Kubernetes cluster until it is interrupted

The cluster serves the Kubernetes API with everything that clients see of it, in one process, without Docker or a download. \
It does not run programs: Deployments, pods and nodes go through their states, but no container starts. \
Annotations on pods simulate failures, such as cluster.steersman.dev/fail: crash-loop. \
Webhooks behind Services have no running backend either: --webhooks sets how writes are handled, and the annotation \
cluster.steersman.dev/address: 127.0.0.1:9443 on a Service routes to a webhook or an API server on this machine. \
With --metrics, or a metrics-server installed, kubectl top and autoscalers work: containers use half of their requests, or the \
usage set by cluster.steersman.dev/cpu-usage and memory-usage on a pod or a Deployment, as 450m, 64Mi, or 90% of the requests. \
State is in memory and lost when the command ends, unless --data-dir is set; the cluster is reachable from this machine only. \
The kubeconfig file contains the administrator's token and is removed on exit.";

const EXAMPLES: &str = "\
Examples:
  steer cluster
  steer cluster --port 6443 --nodes 3 --kubeconfig ./kubeconfig
  steer cluster --data-dir ./cluster
  steer cluster --no-workloads
  steer cluster --webhooks auto
  steer cluster --metrics                    for kubectl top and autoscalers
  steer cluster create ci                    in the background";

/// Run an embedded Kubernetes cluster until it is interrupted
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    command: Option<Background>,

    #[command(flatten)]
    options: Options,
}

/// What a cluster is like.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Port to listen on [default: a free port]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Number of nodes
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    nodes: u8,

    /// Serve only the API, without simulated nodes and workloads
    #[arg(long)]
    no_workloads: bool,

    /// Delay before a pod's containers start
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = super::release::duration)]
    pod_start_delay: Duration,

    /// Run time of pods that are meant to complete, unless their command sets it, as sleep does
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = super::release::duration)]
    pod_run_time: Duration,

    /// Image that fails to be pulled, as written in containers; may be repeated
    #[arg(long = "missing-image", value_name = "IMAGE")]
    missing_images: Vec<String>,

    /// Handling of writes whose webhooks are behind Services, which have no running backend
    #[arg(long, value_name = "POLICY", default_value = "fail")]
    webhooks: Webhooks,

    /// Serve the metrics API, for kubectl top and autoscalers, as if metrics-server were installed
    #[arg(long)]
    metrics: bool,

    /// Directory to persist the cluster in, and to restore it from [default: in memory only]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Fate of writes whose webhooks are behind services of the cluster.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Webhooks {
    /// Fail, unless the webhook's failurePolicy is Ignore
    Fail,
    /// Continue with a warning
    Ignore,
    /// Continue with a warning if the Service has ready pods, otherwise fail as on a real cluster
    Auto,
}

impl Options {
    /// Returns a builder for the cluster described by the flags, listening on localhost.
    pub(super) fn builder(&self) -> Builder {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.unwrap_or_default()));
        let webhooks = match self.webhooks {
            Webhooks::Fail => WebhookPolicy::Fail,
            Webhooks::Ignore => WebhookPolicy::Ignore,
            Webhooks::Auto => WebhookPolicy::Auto,
        };
        let mut builder = Embedded::builder()
            .workloads(!self.no_workloads)
            .nodes(self.nodes.into())
            .listen(address)
            .webhooks(webhooks)
            .metrics(self.metrics)
            .pod_start_delay(self.pod_start_delay)
            .pod_run_time(self.pod_run_time);
        for image in &self.missing_images {
            builder = builder.missing_image(image);
        }
        if let Some(directory) = &self.data_dir {
            builder = builder.data_directory(directory);
        }
        builder
    }

    /// Returns the equivalent command-line arguments.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec![
            format!("--nodes={}", self.nodes),
            format!("--pod-start-delay={}ms", self.pod_start_delay.as_millis()),
            format!("--pod-run-time={}ms", self.pod_run_time.as_millis()),
        ];
        if let Some(policy) = self.webhooks.to_possible_value() {
            words.push(format!("--webhooks={}", policy.get_name()));
        }
        words.extend(self.port.map(|port| format!("--port={port}")));
        words.extend(self.missing_images.iter().map(|image| format!("--missing-image={image}")));
        if self.no_workloads {
            words.push("--no-workloads".to_owned());
        }
        if self.metrics {
            words.push("--metrics".to_owned());
        }
        if let Some(directory) = &self.data_dir {
            let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.clone());
            words.push(format!("--data-dir={}", directory.display()));
        }
        words
    }
}

impl Cluster {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        if let Some(command) = self.command {
            return command.run(globals, output);
        }
        crate::runtime::multi_thread()?.block_on(self.serve(globals))
    }

    async fn serve(self, globals: &GlobalArgs) -> Result {
        let path = globals.kubeconfig.clone().unwrap_or_else(|| DEFAULT_KUBECONFIG.into());
        let claim = Claim::new(path)?;
        let interruption =
            interruption().map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
        let begun = Instant::now();
        let cluster =
            self.options.builder().start().await.map_err(|error| Failure::new(error.to_string()))?;
        let file = claim.write(&cluster)?;
        let spent = begun.elapsed().as_millis();
        let version = steersman_cluster::KUBERNETES_VERSION;
        let server = cluster.address().map(|address| format!("https://{address}")).unwrap_or_default();
        let text = format!(
            "Kubernetes {version} API in {spent} ms at {server}\n\n  export KUBECONFIG={}\n  kubectl get nodes\n\nCtrl-C stops it.\n",
            file.path.display()
        );
        let mut stdout = std::io::stdout().lock();
        // The cluster is usable even if standard output is closed.
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        drop(stdout);
        interruption.await;
        Ok(())
    }
}

/// Waits for a termination signal.
pub(super) async fn interrupted() -> std::io::Result<()> {
    interruption()?.await;
    Ok(())
}

/// Starts listening for termination signals.
///
/// Call it before the program reports readiness, as a signal may arrive right after that.
pub(crate) fn interruption() -> std::io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminated, mut interrupted) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(async move {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = interrupted.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(async {
        // Without a handler, the signal terminates the program on its own.
        let _ = tokio::signal::ctrl_c().await;
    })
}

/// The exclusive right to write a kubeconfig, which neither a running cluster nor the user wrote.
///
/// The process id is stored in a locked file next to it. Not in `FILE.lock`, which kubectl locks while it writes.
pub(super) struct Claim {
    path: PathBuf,
    /// The directory that was created for the file.
    made: Option<PathBuf>,
    holder: PathBuf,
    _lock: File,
}

impl Claim {
    pub(super) fn new(path: PathBuf) -> Result<Self> {
        let path = std::path::absolute(&path).unwrap_or(path);
        let failed =
            |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
        if path.exists() && !is_left_behind(&path) {
            return Err(Failure::new(format!(
                "{} already exists and was not written by steer cluster",
                path.display()
            ))
            .help("name another file with --kubeconfig"));
        }
        let made = path.parent().filter(|directory| !directory.exists()).map(Path::to_path_buf);
        if let Some(made) = &made {
            std::fs::create_dir_all(made).map_err(failed)?;
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".pid");
        let holder = path.with_file_name(name);
        let lock = lock(&holder).map_err(failed)?.map_err(|pid| {
            let pid = if pid.is_empty() { String::new() } else { format!(" (process {pid})") };
            Failure::new(format!("{} belongs to a running cluster{pid}", path.display()))
                .help("use that cluster, or name another file with --kubeconfig")
        })?;
        Ok(Self { path, made, holder, _lock: lock })
    }

    pub(super) fn write(self, cluster: &Embedded) -> Result<Kubeconfig> {
        cluster.write_kubeconfig(&self.path).map_err(|error| Failure::new(error.to_string()))?;
        let server = cluster.address().map(|address| format!("server: https://{address}\n"));
        Ok(Kubeconfig { path: self.path.clone(), server: server.unwrap_or_default(), _claim: self })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.holder);
        if let Some(made) = &self.made {
            // Fails if the directory contains other files by now, which are kept.
            let _ = std::fs::remove_dir(made);
        }
    }
}

/// Locks a file and writes this process's id into it; the inner error is the id of the current holder.
fn lock(path: &Path) -> std::io::Result<std::result::Result<File, String>> {
    loop {
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = file.read_to_string(&mut pid);
                return Ok(Err(pid.trim().to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The previous holder may have removed the file between open and lock.
        if is_at(&file, path) {
            file.set_len(0)?;
            file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
            return Ok(Ok(file));
        }
    }
}

/// Whether an open file is the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        matches!((file.metadata(), std::fs::metadata(path)), (Ok(a), Ok(b)) if same(&a, &b))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

/// A kubeconfig that is removed when the command exits.
pub(super) struct Kubeconfig {
    pub(super) path: PathBuf,
    /// The line with the address of this command's cluster.
    server: String,
    _claim: Claim,
}

/// Whether a file was written by this command and left behind, for example when it was killed.
fn is_left_behind(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.contains("current-context: steersman\n"))
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // It is kept if it points to another cluster by now.
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text.contains(&self.server)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
