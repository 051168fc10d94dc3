//! Maintains five hundred instances of a KUDO package on the embedded cluster. `steer cluster` and `steer run kudo` are separate
//! processes.
//!
//! Each line has the format `bench NAME ours=… most=… unit=…`, with `most` where there is a limit. There is no peer to measure:
//! KUDO itself does not start on current versions of Kubernetes.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use steersman_bench::{Process, beside_me, held_memory, peak_memory, processor_time};
use steersman_kudo::{ExecutionStatus, Instance, Package};
use steersman_kudo_operator::Kudo;

const USAGE: &str = "steersman-bench-kudo [--instances N] [--idle SECONDS] [--steer PATH] [--check]

  --instances  how many instances (500)
  --idle       how long each idle state is watched, in seconds (60)
  --steer      the steer to measure (beside this program)
  --check      fail if a figure is not what we promise";

/// The limit of the operator's memory, in MiB.
const MOST_MEMORY: f64 = 100.0;
/// The limit of an idle operator's processor time, as a share of one processor.
const MOST_IDLE: f64 = 0.01;
/// The timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(900);
/// The time for background work after a plan.
const SETTLE: Duration = Duration::from_secs(10);

/// An operator with a step that completes, and one that never does until the plan is aborted.
const OPERATOR: &str = "
name: bench
operatorVersion: 0.1.0
tasks:
- {name: app, kind: Apply, spec: {resources: [app.yaml]}}
- {name: hold, kind: Dummy}
plans:
  deploy:
    strategy: serial
    phases: [{name: main, strategy: serial, steps: [{name: app, tasks: [app]}]}]
  hold:
    strategy: serial
    phases: [{name: main, strategy: serial, steps: [{name: app, tasks: [app]}, {name: hold, tasks: [hold]}]}]
";

const APP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Name }}'}
data: {text: '{{ .Params.TEXT }}'}
---
apiVersion: v1
kind: Service
metadata: {name: '{{ .Name }}'}
spec: {selector: {app: '{{ .Name }}'}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: '{{ .Name }}'}
spec:
  selector: {matchLabels: {app: '{{ .Name }}'}}
  template:
    metadata: {labels: {app: '{{ .Name }}'}}
    spec:
      containers: [{name: app, image: nginx}]
      volumes: [{name: config, configMap: {name: '{{ .Name }}'}}]
";

struct Options {
    instances: usize,
    idle: u64,
    steer: Option<PathBuf>,
    check: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    steersman_bench::exit(bench().await)
}

async fn bench() -> Result<bool, String> {
    let options = options()?;
    let steer = match &options.steer {
        Some(path) => path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?,
        None => beside_me("steer")?,
    };
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = |name: &str| directory.path().join(name);
    let kubeconfig = path("kubeconfig");
    let mut command = Command::new(&steer);
    command.args(["cluster", "--nodes", "10", "--kubeconfig"]).arg(&kubeconfig);
    let _cluster = Process::start(&mut command, &path("cluster.log"))?;
    let client = connect(&kubeconfig).await?;
    let mut command = Command::new(&steer);
    command.args(["run", "kudo", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command.env("KUBECONFIG", &kubeconfig).current_dir(directory.path());
    let operator = Process::start(&mut command, &path("operator.log"))?;
    let process = operator.id();
    let kudo = Kudo::new(client, "default");
    kudo.init().await.map_err(|error| error.to_string())?;

    let package = Package::from_files([
        ("operator.yaml", OPERATOR),
        ("params.yaml", "parameters: [{name: TEXT, default: usual}]"),
        ("templates/app.yaml", APP),
    ])
    .map_err(|error| error.to_string())?;
    kudo.install_packages(std::slice::from_ref(&package)).await.map_err(|error| error.to_string())?;
    let begun = Instant::now();
    for number in 0..options.instances {
        let instance = package.instance("default", Some(&format!("it-{number}")), Default::default());
        let created = kudo.api::<Instance>().create(&PostParams::default(), &instance).await;
        created.map_err(|error| error.to_string())?;
    }
    all(&kudo, &options, "deploy", ExecutionStatus::Complete).await?;
    let deployed = begun.elapsed().as_secs_f64();
    let cpu = processor_time(process)?;
    println!("bench kudo-deploy-time ours={deployed:.1} unit=s");
    println!("bench kudo-deploy-cpu ours={cpu:.2} unit=s");
    let done = idle(process, options.idle).await?;
    println!("bench kudo-idle-cpu ours={done:.4} most={MOST_IDLE} unit=processors");
    println!("bench kudo-idle-memory ours={:.1} most={MOST_MEMORY:.0} unit=MiB", held_memory(process)?);

    for number in 0..options.instances {
        let name = format!("it-{number}");
        kudo.trigger(&name, "hold", Default::default()).await.map_err(|error| error.to_string())?;
    }
    all(&kudo, &options, "hold", ExecutionStatus::InProgress).await?;
    let running = idle(process, options.idle).await?;
    let peak = peak_memory(process)?;
    println!("bench kudo-running-plans-cpu ours={running:.4} unit=processors");
    println!(
        "bench kudo-running-plans-memory ours={:.1} most={MOST_MEMORY:.0} unit=MiB",
        held_memory(process)?
    );
    println!("bench kudo-peak-memory ours={peak:.1} most={MOST_MEMORY:.0} unit=MiB");
    Ok(!options.check || (peak < MOST_MEMORY && done < MOST_IDLE))
}

async fn connect(kubeconfig: &Path) -> Result<Client, String> {
    let begun = Instant::now();
    while !kubeconfig.exists() {
        if begun.elapsed() > Duration::from_secs(30) {
            return Err("the embedded cluster does not start".into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    Client::try_from(config.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

/// Waits until a plan of all instances has a status.
async fn all(kudo: &Kudo, options: &Options, plan: &str, wanted: ExecutionStatus) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let instances: Vec<Instance> = kudo.list().await.map_err(|error| error.to_string())?;
        let status = |instance: &Instance| instance.status.plan_status.get(plan).map(|plan| plan.status);
        let have = instances.iter().filter(|instance| status(instance) == Some(wanted)).count();
        if have >= options.instances {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("{plan} is {} for {have} of {}", wanted.as_str(), options.instances));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Returns the share of a processor that a process uses while idle.
async fn idle(process: u32, seconds: u64) -> Result<f64, String> {
    tokio::time::sleep(SETTLE).await;
    let before = processor_time(process)?;
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    Ok((processor_time(process)? - before) / begun.elapsed().as_secs_f64())
}

fn options() -> Result<Options, String> {
    let mut options = Options { instances: 500, idle: 60, steer: None, check: false };
    options.check = steersman_bench::arguments(USAGE, |argument, value| {
        match argument {
            "--instances" => options.instances = value.parse()?,
            "--idle" => options.idle = value.parse()?,
            "--steer" => options.steer = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(options)
}
