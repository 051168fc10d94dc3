//! The servers that run as separate processes, with their startup time and memory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use steersman_bench::held_memory;
use tempfile::TempDir;

use crate::load::{self, Failure};

/// The startup timeout of a server.
const PATIENCE: Duration = Duration::from_secs(120);

/// The memory of a server's processes after a number of pods were created.
pub(crate) struct Memory {
    /// The growth in MiB.
    pub(crate) growth: f64,
    /// The total in MiB.
    pub(crate) total: f64,
}

/// `steer cluster` without workloads.
pub(crate) struct Embedded {
    process: Child,
    pub(crate) client: Client,
    /// From process start to the response of the first write.
    pub(crate) first_write: Duration,
    _folder: TempDir,
}

impl Embedded {
    pub(crate) async fn start(steer: &Path) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let start = Instant::now();
        let mut command = Command::new(steer);
        command.args(["cluster", "--no-workloads", "--kubeconfig"]).arg(&kubeconfig);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let mut embedded = Unready(Some(process));
        while !kubeconfig.exists() {
            if start.elapsed() > PATIENCE {
                return Err("steer cluster does not start".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let client = connect(&kubeconfig).await?;
        load::first_write(&client).await?;
        let first_write = start.elapsed();
        let process = embedded.0.take().ok_or("it was taken")?;
        Ok(Self { process, client, first_write, _folder: folder })
    }

    pub(crate) async fn fill(&self, pods: usize) -> Result<Memory, Failure> {
        fill(&self.client, &[self.process.id()], pods).await
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// A process that is killed unless it becomes ready.
struct Unready(Option<Child>);

impl Drop for Unready {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            end(process);
        }
    }
}

fn end(process: &mut Child) {
    // It may have exited on its own.
    let _ = process.kill();
    let _ = process.wait();
}

/// etcd and kube-apiserver.
pub(crate) struct ControlPlane {
    processes: Processes,
    pub(crate) client: Client,
    pub(crate) first_write: Duration,
}

/// The processes of a control plane, stopped on drop.
struct Processes {
    script: PathBuf,
    folder: TempDir,
}

impl Drop for Processes {
    fn drop(&mut self) {
        // The directory is removed either way.
        let _ = Command::new(&self.script).arg("down").arg(self.folder.path()).status();
    }
}

impl ControlPlane {
    pub(crate) async fn start() -> Result<Self, Failure> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracles/kubernetes/control-plane");
        let processes = Processes { script, folder: tempfile::tempdir()? };
        let folder = processes.folder.path();
        let start = Instant::now();
        let status = Command::new(&processes.script).arg("up").arg(folder).stdout(Stdio::null()).status()?;
        if !status.success() {
            return Err("the control plane does not start".into());
        }
        let client = connect(&folder.join("kubeconfig")).await?;
        while load::first_write(&client).await.is_err() {
            if start.elapsed() > PATIENCE {
                return Err("the control plane takes no writes".into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Self { processes, client, first_write: start.elapsed() })
    }

    pub(crate) async fn fill(&self, pods: usize) -> Result<Memory, Failure> {
        let pid = |name: &str| -> Result<u32, Failure> {
            let text = std::fs::read_to_string(
                self.processes.folder.path().join("run").join(format!("{name}.pid")),
            )?;
            Ok(text.split_whitespace().next().unwrap_or_default().parse()?)
        };
        fill(&self.client, &[pid("etcd")?, pid("kube-apiserver")?], pods).await
    }
}

async fn connect(kubeconfig: &Path) -> Result<Client, Failure> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn fill(client: &Client, processes: &[u32], pods: usize) -> Result<Memory, Failure> {
    load::prepare(client).await?;
    load::create_pods(client, 0..1).await?;
    let before = resident(processes)?;
    load::create_pods(client, 1..pods).await?;
    let total = resident(processes)?;
    Ok(Memory { growth: total - before, total })
}

/// Returns the total resident memory of processes, in MiB.
fn resident(processes: &[u32]) -> Result<f64, Failure> {
    let held: Result<f64, String> = processes.iter().map(|process| held_memory(*process)).sum();
    Ok(held?)
}
