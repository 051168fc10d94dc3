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

It is the Kubernetes API with everything that clients see of it, in one process, without Docker or a download. \
It is not a place to run programs: deployments, pods and nodes go through their states, but no container starts. \
Pods fail on request, by annotations such as cluster.steersman.dev/fail: crash-loop. \
Nothing answers webhooks behind its services either: --webhooks says what becomes of writes, and the annotation \
cluster.steersman.dev/address: 127.0.0.1:9443 on a Service leads to a webhook or an API server that runs on this machine. \
With --metrics, or a metrics-server installed, kubectl top and autoscalers work: containers use half of their requests, or what \
cluster.steersman.dev/cpu-usage and memory-usage say on a pod or a Deployment, such as 450m, 64Mi, or 90% of the requests. \
Everything is in memory and gone when the command ends, unless --data-dir keeps it; only this machine can reach it. \
The kubeconfig file holds the administrator's token and is removed at the end.";

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

    /// Fate of writes whose webhooks are behind services of the cluster, where nothing runs
    #[arg(long, value_name = "POLICY", default_value = "fail")]
    webhooks: Webhooks,

    /// Serve the metrics API, for kubectl top and autoscalers, as if metrics-server were installed
    #[arg(long)]
    metrics: bool,

    /// Directory to keep everything in, and to start from [default: nothing is kept]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Fate of writes whose webhooks are behind services of the cluster.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Webhooks {
    /// They fail, unless the webhook's own policy ignores it
    Fail,
    /// They go on with a warning
    Ignore,
    /// They go on with a warning if the service has ready pods, and fail as on a real cluster if it has none
    Auto,
}

impl Options {
    /// The cluster that the flags describe, listening on this machine.
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

    /// The command line that says the same.
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
            "Kubernetes {version} API in {spent} ms at {server}\n\n  export KUBECONFIG={}\n  kubectl get nodes\n\nCtrl-C ends it.\n",
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

/// Waits for a signal that ends the program.
pub(super) async fn interrupted() -> std::io::Result<()> {
    interruption()?.await;
    Ok(())
}

/// Listens for the signals that end the program from now on: they may come as soon as it has said that it is up.
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
        // Without a handler the signal ends the program by itself.
        let _ = tokio::signal::ctrl_c().await;
    })
}

/// The right to write a kubeconfig: no other cluster that runs has written it, and it is no file of the user's.
///
/// The process id is kept in a locked file beside it. Not in `FILE.lock`, which kubectl takes while it writes.
pub(super) struct Claim {
    path: PathBuf,
    /// The directory that was made for the file.
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
                "{} exists and was not written by steer cluster",
                path.display()
            ))
            .help("name another file by --kubeconfig"));
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
            Failure::new(format!("{} belongs to a cluster that is running{pid}", path.display()))
                .help("use that one, or name another file for this one by --kubeconfig")
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
            // Stays if it has other files by now.
            let _ = std::fs::remove_dir(made);
        }
    }
}

/// Locks a file and writes this process's id into it; or tells the id of the process that has it.
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
        // Its last holder may have removed the file between the opening and the locking.
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

/// A kubeconfig that goes when the command does.
pub(super) struct Kubeconfig {
    pub(super) path: PathBuf,
    /// The line that names this command's cluster.
    server: String,
    _claim: Claim,
}

/// Whether a file was written by this command, and left for instance when it was killed.
fn is_left_behind(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.contains("current-context: steersman\n"))
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // Stays if it leads to another cluster by now.
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text.contains(&self.server)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
