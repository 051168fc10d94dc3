//! `steer cluster create` and its siblings: clusters that run in the background.
//!
//! Each has its own directory, in which it holds a lock on the file with its process id while it runs. On exit, the process
//! removes that directory and its entries in the kubeconfig.

use std::fs::{File, TryLockError};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::ListParams};
use steersman_cluster::Cluster;

use super::cluster::{Options, interruption};
use crate::args::GlobalArgs;
use crate::failure::{Failure, Result};
use crate::kubeconfig;
use crate::output::Output;

const DEFAULT_NAME: &str = "steer";
/// The line that a cluster prints once it is ready.
const READY: &str = "ready";
/// Timeout for a cluster to start or stop.
const PATIENCE: Duration = Duration::from_secs(30);

const EXAMPLES: &str = "\
Examples:
  steer cluster create
  steer cluster create ci --wait 30s --ttl 1h
  steer cluster kubeconfig ci > kubeconfig
  steer cluster delete ci";

#[derive(Debug, Subcommand)]
pub(crate) enum Background {
    Create(Create),
    Delete(Delete),
    List(List),
    Kubeconfig(Kubeconfig),
    Load(Load),
    #[command(hide = true)]
    Serve(Serve),
}

/// Start a cluster in the background and add it to the kubeconfig, as kind does
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    #[command(flatten)]
    name: Name,

    /// Time to wait for the nodes to be ready [default: do not wait]
    #[arg(long, value_name = "DURATION", value_parser = super::release::duration)]
    wait: Option<Duration>,

    #[command(flatten)]
    served: Served,
}

/// What a cluster in the background is told.
#[derive(Args, Debug)]
struct Served {
    /// Time without connected clients after which the cluster stops [default: never]
    #[arg(long, value_name = "DURATION", value_parser = super::release::duration)]
    ttl: Option<Duration>,

    #[command(flatten)]
    options: Options,
}

/// Stop a background cluster and remove it from the kubeconfig
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Delete {
    #[command(flatten)]
    name: Name,
}

/// List the background clusters
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {}

/// Print the kubeconfig of a background cluster
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Kubeconfig {
    #[command(flatten)]
    name: Name,
}

/// Accepted as in kind: images need no loading, as containers are simulated
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer cluster load docker-image controller:dev")]
pub(crate) struct Load {
    /// Arguments of `kind load`, which are ignored
    #[arg(value_name = "WHAT", trailing_var_arg = true, allow_hyphen_values = true)]
    what: Vec<String>,
}

/// Run a background cluster in this process
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer cluster create")]
pub(crate) struct Serve {
    #[command(flatten)]
    name: Name,

    /// Kubeconfig to add the cluster to
    #[arg(long, value_name = "FILE")]
    merge_into: PathBuf,

    #[command(flatten)]
    served: Served,
}

#[derive(Args, Debug)]
struct Name {
    /// Name of the cluster; its context is steer-NAME
    #[arg(value_name = "NAME", default_value = DEFAULT_NAME)]
    place: String,

    /// Name of the cluster, as a flag as in kind
    #[arg(long = "name", value_name = "NAME", hide = true)]
    flag: Option<String>,
}

impl Name {
    fn get(&self) -> Result<&str> {
        let name = self.flag.as_deref().unwrap_or(&self.place);
        let letters = name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
        if name.is_empty() || name.len() > 63 || !letters || name.starts_with(['-', '.']) {
            return Err(Failure::new(format!("{name:?} is not a valid cluster name"))
                .help("lower case letters, digits, '-' and '.', beginning with a letter or digit"));
        }
        Ok(name)
    }
}

fn context(name: &str) -> String {
    format!("steer-{name}")
}

impl Background {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        match self {
            Self::Create(create) => create.run(globals, output),
            Self::Delete(delete) => delete.run(output),
            Self::List(_) => list(output),
            Self::Kubeconfig(kubeconfig) => kubeconfig.run(output),
            Self::Load(_) => {
                output.line("nothing to load: the containers of this cluster are simulated");
                Ok(())
            }
            Self::Serve(serve) => serve.run(),
        }
    }
}

/// Returns the directory of all clusters.
fn clusters() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    let state = state.ok_or_else(|| {
        Failure::new("no directory for clusters: HOME is not set").help("set HOME or XDG_STATE_HOME")
    })?;
    Ok(state.join("steersman/clusters"))
}

/// The files of one cluster.
struct Files {
    directory: PathBuf,
}

impl Files {
    fn of(name: &str) -> Result<Self> {
        Ok(Self { directory: clusters()?.join(name) })
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Returns the path of the file with the process id, which the process holds locked.
    fn holder(&self) -> PathBuf {
        self.directory.join("pid")
    }

    /// Returns the path of the file that records which kubeconfig the cluster was added to.
    fn merged(&self) -> PathBuf {
        self.directory.join("merged")
    }

    /// Returns the id of the cluster's process, if it is running.
    fn process(&self) -> Option<u32> {
        let file = File::open(self.holder()).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => std::fs::read_to_string(self.holder()).ok()?.trim().parse().ok(),
            _ => None,
        }
    }

    /// Waits until the process has exited.
    fn wait_for_end(&self) {
        if let Ok(file) = File::open(self.holder()) {
            let _ = file.lock_shared();
        }
    }

    /// Removes what a cluster left behind, for example if it was killed.
    fn clean(&self, name: &str) {
        if let Ok(path) = std::fs::read_to_string(self.merged())
            && let Err(error) = kubeconfig::remove(Path::new(&path), &context(name))
        {
            crate::failure::warn(&format!("{path}: {error}"));
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Create {
    fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let name = self.name.get()?;
        let files = Files::of(name)?;
        if files.process().is_some() {
            return Err(Failure::new(format!("cluster {name:?} is already running"))
                .help(format!("stop it with `steer cluster delete {name}`")));
        }
        files.clean(name);
        let merge_into = kubeconfig::file(globals.kubeconfig.as_deref())
            .ok_or_else(|| Failure::new("no kubeconfig to add the cluster to: HOME is not set"))?;
        let merge_into = std::path::absolute(&merge_into).unwrap_or(merge_into);
        let failed = |error: std::io::Error| Failure::new(format!("cannot start the cluster: {error}"));
        std::fs::create_dir_all(&files.directory).map_err(failed)?;
        let log = kubeconfig::private(&files.log()).map_err(failed)?;
        let mut process = Process::new(std::env::current_exe().map_err(failed)?);
        process.args(["cluster", "serve", name]).arg("--merge-into").arg(&merge_into);
        process.args(self.served.words());
        process.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt as _;
            // A separate process group, so that Ctrl-C in the terminal does not stop the cluster.
            process.process_group(0);
        }
        let begun = Instant::now();
        let mut child = process.spawn().map_err(failed)?;
        let mut said = String::new();
        let stdout = child.stdout.take().map(BufReader::new);
        let up = stdout.is_some_and(|mut stdout| stdout.read_line(&mut said).is_ok()) && said.trim() == READY;
        if !up {
            let _ = child.wait();
            let why = std::fs::read_to_string(files.log()).unwrap_or_default();
            files.clean(name);
            return Err(Failure::new(format!("the cluster did not start: {}", why.trim())));
        }
        if let Some(patience) = self.wait {
            crate::cluster::run(wait_for_nodes(&files.kubeconfig(), patience))?;
        }
        let context = context(name);
        output.line(format_args!("Created cluster {name:?} in {} ms", begun.elapsed().as_millis()));
        output.line(format_args!("Set kubectl context to {context:?}"));
        output.line(format_args!("\n  kubectl cluster-info --context {context}"));
        Ok(())
    }
}

/// Waits until all nodes are ready.
async fn wait_for_nodes(path: &Path, patience: Duration) -> Result {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("cannot list the nodes: {error}"));
    let file = kube::config::Kubeconfig::read_from(path).map_err(|error| failed(&error))?;
    let options = kube::config::KubeConfigOptions::default();
    let config =
        kube::Config::from_custom_kubeconfig(file, &options).await.map_err(|error| failed(&error))?;
    let nodes: Api<Node> = Api::all(kube::Client::try_from(config).map_err(|error| failed(&error))?);
    let is_ready = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|list| list.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
    };
    let ready = async {
        loop {
            let listed = nodes.list(&ListParams::default()).await;
            let listed = listed.map_err(|error| Failure::of_kube(&error).within("cannot list the nodes"))?;
            if !listed.items.is_empty() && listed.items.iter().all(is_ready) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(patience, ready).await {
        Ok(ready) => ready,
        Err(_) => Err(Failure::new(format!("the nodes are not ready after {patience:?}"))
            .help("a cluster with --no-workloads has no nodes")),
    }
}

impl Served {
    /// Returns the equivalent command-line arguments.
    fn words(&self) -> Vec<String> {
        let mut words = self.options.words();
        if let Some(ttl) = self.ttl {
            words.push(format!("--ttl={}ms", ttl.as_millis()));
        }
        words
    }
}

impl Delete {
    fn run(&self, output: &mut Output) -> Result {
        let name = self.name.get()?;
        let files = Files::of(name)?;
        if let Some(process) = files.process() {
            terminate(process)?;
            files.wait_for_end();
        }
        files.clean(name);
        output.line(format_args!("Deleted cluster {name:?}"));
        Ok(())
    }
}

#[cfg(unix)]
fn terminate(process: u32) -> Result {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let sent = pid.map_or(Ok(()), |pid| kill_process(pid, Signal::TERM));
    match sent {
        // It has just exited on its own.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Failure::new(format!("cannot end process {process}: {error}"))),
    }
}

#[cfg(not(unix))]
fn terminate(process: u32) -> Result {
    Err(Failure::new(format!(
        "stopping background clusters is not supported on this platform: end process {process}"
    )))
}

fn list(output: &mut Output) -> Result {
    let mut names: Vec<String> = std::fs::read_dir(clusters()?)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| Files::of(name).is_ok_and(|files| files.process().is_some()))
        .collect();
    names.sort_unstable();
    if names.is_empty() {
        crate::failure::note("no clusters");
    }
    for name in names {
        output.line(name);
    }
    Ok(())
}

impl Kubeconfig {
    fn run(&self, output: &mut Output) -> Result {
        let name = self.name.get()?;
        let files = Files::of(name)?;
        let missing = || {
            Failure::new(format!("cluster {name:?} not found"))
                .help("`steer cluster list` shows the running clusters")
        };
        files.process().ok_or_else(missing)?;
        let text = std::fs::read(files.kubeconfig()).map_err(|_| missing())?;
        let failed = |error: steersman_yaml::Error| Failure::new(error.to_string());
        let config = steersman_yaml::from_slice(&text).map_err(failed)?;
        output
            .push(&steersman_yaml::to_string(&kubeconfig::renamed(&context(name), &config)).map_err(failed)?);
        Ok(())
    }
}

impl Serve {
    fn run(self) -> Result {
        let runtime = crate::runtime::multi_thread()?;
        let name = self.name.get()?.to_owned();
        let files = Files::of(&name)?;
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", files.directory.display()));
        let mut holder = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(files.holder())
            .map_err(failed)?;
        if holder.try_lock().is_err() {
            return Err(Failure::new(format!("cluster {name:?} is already running")));
        }
        holder.write_all(std::process::id().to_string().as_bytes()).map_err(failed)?;
        let result = runtime.block_on(self.serve(&name, &files));
        files.clean(&name);
        // Open connections must not delay the exit.
        runtime.shutdown_background();
        drop(holder);
        result
    }

    async fn serve(self, name: &str, files: &Files) -> Result {
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", self.merge_into.display()));
        let interruption =
            interruption().map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
        let builder = self.served.options.builder();
        let cluster = builder.start().await.map_err(|error| Failure::new(error.to_string()))?;
        cluster.write_kubeconfig(files.kubeconfig()).map_err(|error| Failure::new(error.to_string()))?;
        let text = cluster.kubeconfig().map_err(|error| Failure::new(error.to_string()))?;
        let config = steersman_yaml::from_str(&text).map_err(|error| Failure::new(error.to_string()))?;
        let note = self.merge_into.to_string_lossy().into_owned();
        kubeconfig::private(&files.merged())
            .and_then(|mut file| file.write_all(note.as_bytes()))
            .map_err(failed)?;
        kubeconfig::merge(&self.merge_into, &context(name), &config).map_err(failed)?;
        println!("{READY}");
        tokio::select! {
            () = interruption => {}
            () = idle(&cluster, self.served.ttl) => {}
        }
        Ok(())
    }
}

/// Returns when no client was connected for the given time; never without a limit.
async fn idle(cluster: &Cluster, ttl: Option<Duration>) {
    let Some(ttl) = ttl else { return std::future::pending().await };
    loop {
        let quiet = cluster.idle_since().map_or(Duration::ZERO, |since| since.elapsed());
        if quiet >= ttl {
            return;
        }
        tokio::time::sleep((ttl - quiet).min(PATIENCE)).await;
    }
}
