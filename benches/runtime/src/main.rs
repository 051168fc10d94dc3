//! Compares MyOwnShell on this runtime, on controller-runtime and on plain kube-rs. Measures time to converge, processor time
//! and peak memory, on one real API server in a single run. Also measures this runtime on the embedded cluster.
//!
//! Each line has the format `bench NAME ours=… peer=… ratio=… unit=…`; a ratio above 1 is in our favour.

mod process;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResourceExt as _, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use myownshell_operator::{MyOwnShell, MyOwnShellSpec};
use process::Operator;
use serde_json::json;
use steersman::{
    Conditions as _,
    testing::{Cluster, TestEnv},
};
use steersman_bench::line;

/// Objects are trees of small allocations. Allocating and freeing them takes much of the time, and mimalloc halves it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "steersman-bench-runtime [OPTION...]

  --ours PATH                the operator to measure
  --controller-runtime PATH  its port to controller-runtime
  --plain-kube PATH          its port to plain kube-rs
  --resources N              how many resources on the real API server, which KUBECONFIG names (2000)
  --embedded N               how many resources on the embedded cluster, 0 for none (10000)
  --check                    fail if a figure is not what the project promises";

/// The requirements of `--check`. Processor time and memory relative to controller-runtime, time relative to the fastest
/// peer, and seconds on the embedded cluster.
const PROCESSOR: f64 = 2.0;
const MEMORY: f64 = 4.0;
const TIME: f64 = 1.0;
const EMBEDDED: f64 = 5.0;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Options {
    ours: Option<PathBuf>,
    controller_runtime: Option<PathBuf>,
    plain_kube: Option<PathBuf>,
    resources: usize,
    embedded: usize,
    check: bool,
}

/// The cost of one operator for all resources.
struct Measured {
    /// From its start until each resource has a status.
    converge: f64,
    /// From the first change of the resources until each status is updated.
    follow: f64,
    /// Processor time of both phases.
    processor: f64,
    /// Peak memory.
    mebibytes: f64,
}

#[tokio::main]
async fn main() -> ExitCode {
    steersman_bench::exit(bench().await)
}

async fn bench() -> Result<bool> {
    let options = options()?;
    let mut kept = true;
    if let (Some(ours), Some(go), Some(kube)) =
        (&options.ours, &options.controller_runtime, &options.plain_kube)
    {
        let client = Client::try_default().await?;
        install(&client).await?;
        // The first operator would otherwise find a cold server.
        measure(&client, "warm-up", ours, options.resources / 20 + 1).await?;
        let go = measure(&client, "controller-runtime", go, options.resources).await?;
        let ours = measure(&client, "ours", ours, options.resources).await?;
        let kube = measure(&client, "plain-kube", kube, options.resources).await?;
        kept &= compare(&ours, &go, &kube);
    } else {
        eprintln!(
            "NOT MEASURED beside the peers: not all of --ours, --controller-runtime and --plain-kube are given"
        );
    }
    if options.embedded > 0 {
        let seconds = on_embedded(options.embedded).await?;
        kept &= line(&format!("embedded-{}", options.embedded), seconds, EMBEDDED, "s") >= 1.0;
    }
    Ok(kept || !options.check)
}

fn options() -> Result<Options> {
    let mut options = Options {
        ours: None,
        controller_runtime: None,
        plain_kube: None,
        resources: 2_000,
        embedded: 10_000,
        check: false,
    };
    options.check = steersman_bench::arguments(USAGE, |argument, value| {
        match argument {
            "--ours" => options.ours = Some(value.into()),
            "--controller-runtime" => options.controller_runtime = Some(value.into()),
            "--plain-kube" => options.plain_kube = Some(value.into()),
            "--resources" => options.resources = value.parse()?,
            "--embedded" => options.embedded = value.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(options)
}

/// Prints the figures, and returns whether they meet the requirements.
fn compare(ours: &Measured, go: &Measured, kube: &Measured) -> bool {
    let processor = line("processor/controller-runtime", ours.processor, go.processor, "s");
    line("processor/plain-kube", ours.processor, kube.processor, "s");
    let memory = line("memory/controller-runtime", ours.mebibytes, go.mebibytes, "MiB");
    line("memory/plain-kube", ours.mebibytes, kube.mebibytes, "MiB");
    let converge = [
        line("converge/controller-runtime", ours.converge, go.converge, "s"),
        line("converge/plain-kube", ours.converge, kube.converge, "s"),
    ];
    line("follow/controller-runtime", ours.follow, go.follow, "s");
    line("follow/plain-kube", ours.follow, kube.follow, "s");
    processor >= PROCESSOR && memory >= MEMORY && converge.iter().all(|ratio| *ratio >= TIME)
}

/// Creates resources in the embedded cluster with the operator running, and waits for their statuses. Workloads are not
/// simulated, so only the operator and the API server are measured.
async fn on_embedded(count: usize) -> Result<f64> {
    let mut env = TestEnv::on(Cluster::builder().workloads(false).start().await?);
    env.deploy(myownshell_operator::operator()).await?;
    let client = env.client();
    let start = Instant::now();
    create(&client, "default", count).await?;
    converged(&client, "default", count, 1, || Ok(())).await?;
    Ok(start.elapsed().as_secs_f64())
}

async fn install(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = MyOwnShell::crd();
    api.patch(&crd.name_any(), &PatchParams::apply("bench").force(), &Patch::Apply(&crd)).await?;
    let shells: Api<MyOwnShell> = Api::all(client.clone());
    while shells.list(&ListParams::default().limit(1)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("shell-{number:05}")
}

async fn create(client: &Client, namespace: &str, count: usize) -> Result<()> {
    let api: Api<MyOwnShell> = Api::namespaced(client.clone(), namespace);
    stream::iter(0..count)
        .map(|number| {
            let api = api.clone();
            async move {
                let shell = MyOwnShell::new(&name(number), MyOwnShellSpec { size: 1 });
                api.create(&PostParams::default(), &shell).await.map(drop)
            }
        })
        .buffer_unordered(16)
        .try_collect::<()>()
        .await?;
    Ok(())
}

/// Updates every resource.
async fn change(client: &Client, namespace: &str, count: usize) -> Result<()> {
    let api: Api<MyOwnShell> = Api::namespaced(client.clone(), namespace);
    let patch = Patch::Merge(json!({"spec": {"size": 2}}));
    stream::iter(0..count)
        .map(|number| {
            let (api, patch) = (api.clone(), patch.clone());
            async move { api.patch(&name(number), &PatchParams::default(), &patch).await.map(drop) }
        })
        .buffer_unordered(16)
        .try_collect::<()>()
        .await?;
    Ok(())
}

/// Waits until the status of each resource has observed a generation.
async fn converged(
    client: &Client,
    namespace: &str,
    count: usize,
    generation: i64,
    mut alive: impl FnMut() -> Result<()>,
) -> Result<()> {
    let api: Api<MyOwnShell> = Api::namespaced(client.clone(), namespace);
    let done = |shell: &MyOwnShell| {
        let condition = shell.status.as_ref().and_then(|status| status.conditions.find("Available"));
        condition.is_some_and(|condition| condition.observed_generation >= Some(generation))
    };
    loop {
        alive()?;
        // An operator that works in order finishes with the last object, so only then are all of them counted.
        if done(&api.get(&name(count - 1)).await?) {
            let all = api.list(&ListParams::default()).await?;
            if all.items.iter().filter(|shell| done(shell)).count() == count {
                return Ok(());
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn measure(client: &Client, who: &str, program: &Path, count: usize) -> Result<Measured> {
    let namespace = format!("bench-{who}");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let object: Namespace = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
    namespaces.create(&PostParams::default(), &object).await?;
    create(client, &namespace, count).await?;
    let start = Instant::now();
    let mut operator = Operator::start(program, &namespace)?;
    converged(client, &namespace, count, 1, || operator.alive()).await?;
    let converge = start.elapsed().as_secs_f64();
    let start = Instant::now();
    change(client, &namespace, count).await?;
    converged(client, &namespace, count, 2, || operator.alive()).await?;
    let follow = start.elapsed().as_secs_f64();
    // Lets the operator process the last watch events.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (processor, mebibytes) = (operator.processor_time()?, operator.peak_memory()?);
    eprintln!(
        "{who}: {converge:.2} s to converge, {follow:.2} s to follow, {processor:.2} s of processor time, {mebibytes:.1} MiB"
    );
    Ok(Measured { converge, follow, processor, mebibytes })
}
