//! Compares `steer run ansible` with an operator that starts ansible-runner per reconcile. The latter is what operator-sdk
//! does. Both run the same plays on one embedded cluster. Measures processor and wall time of a reconcile, a hundred objects,
//! the memory of eight concurrent runs, idle load, and memory growth over a thousand runs.
//!
//! Each line has the format `bench NAME ours=… peer=… ratio=… unit=…`; a ratio above 1 is in our favour.

mod lab;
mod tree;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use lab::{Lab, Operator};
use steersman_bench::{beside_me, figure, line, median};

const USAGE: &str = "steersman-bench-ansible --python PATH [OPTION...]

  --python     Python with ansible-core, kubernetes.core and ansible-runner
  --steer      the steer to measure (beside this program)
  --rounds N   reconciles of each play whose median counts (10)
  --objects N  how many objects converge (100)
  --idle N     how long idleness is watched, in seconds (60)
  --runs N     of how many further runs the memory is watched (1000)
  --check      fail if a figure is not what we promise";

/// The required ratios and limits.
const PROCESSOR: f64 = 10.0;
const WALL: f64 = 8.0;
const CONVERGE: f64 = 8.0;
const MEMORY: f64 = 4.0;
/// The processor seconds per minute that count as idle: the kernel's resolution is a hundredth.
const IDLE: f64 = 0.02;
/// The tolerated memory growth after a thousand runs, in MiB: allocators round.
const GROWTH: f64 = 8.0;

/// The number of concurrent runs in the memory measurement.
const AT_ONCE: usize = 8;
/// The delay for background work of the processes to finish.
const SETTLE: Duration = Duration::from_secs(3);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Options {
    python: PathBuf,
    steer: Option<PathBuf>,
    rounds: usize,
    objects: usize,
    idle: u64,
    runs: usize,
    check: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    steersman_bench::exit(bench().await)
}

async fn bench() -> Result<bool> {
    let options = options()?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let steer = match &options.steer {
        Some(path) => path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?,
        None => beside_me("steer")?,
    };
    let lab = Lab::start(&steer).await?;
    let plays = here.join("plays");
    let peer = lab.operator("peer", &plays, |watches, directory| {
        let mut command = Command::new(&options.python);
        command.arg(here.join("../peers/ansible-runner/peer.py")).args([watches, directory]);
        command
    })?;
    let ours = lab.operator("ours", &plays, |watches, _| {
        let mut command = Command::new(&steer);
        command.args(["run", "ansible", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
        command.arg("--python").arg(&options.python).arg("--watches-file").arg(watches);
        command
    })?;
    let mut kept = true;
    for (kind, name) in [("One", "one-task"), ("Five", "five-tasks")] {
        kept &= reconciles(&ours, &peer, kind, name, options.rounds).await?;
    }
    kept &= converge(&ours, &peer, options.objects).await?;
    kept &= at_once(&ours, &peer).await?;
    kept &= idle(&ours, options.idle).await?;
    kept &= growth(&ours, options.objects, options.runs).await?;
    Ok(kept || !options.check)
}

/// Measures processor and wall time of reconciles, one object per operator, alternating between them.
async fn reconciles(ours: &Operator, peer: &Operator, kind: &str, name: &str, rounds: usize) -> Result<bool> {
    eprintln!("{name}: {rounds} rounds");
    for operator in [ours, peer] {
        operator.create(kind, "turns").await?;
        operator.next(kind, "turns", None).await?;
    }
    let mut taken: [Vec<(f64, f64)>; 2] = [Vec::new(), Vec::new()];
    // The first round warms the caches of both.
    for round in 0..=rounds {
        for (operator, taken) in [ours, peer].into_iter().zip(&mut taken) {
            tokio::time::sleep(SETTLE / 3).await;
            let before = operator.completion(kind, "turns").await?;
            let processor = operator.tree.processor()?;
            let begun = Instant::now();
            operator.touch(kind, "turns", round).await?;
            operator.next(kind, "turns", before.as_deref()).await?;
            let wall = begun.elapsed().as_secs_f64();
            tokio::time::sleep(SETTLE / 6).await;
            if round > 0 {
                taken.push((operator.tree.processor()? - processor, wall));
            }
        }
    }
    let [ours, peer] = &taken;
    let mean = |of: &[(f64, f64)]| of.iter().map(|(processor, _)| processor).sum::<f64>() / rounds as f64;
    let processor = line(&format!("{name}-cpu"), mean(ours), mean(peer), "s");
    let wall = |of: &[(f64, f64)]| median(of.iter().map(|(_, wall)| *wall).collect());
    // Other load on the machine varies, so rounds are compared with their neighbours.
    let ratio = median(ours.iter().zip(peer).map(|(ours, peer)| peer.1 / ours.1).collect());
    figure(&format!("{name}-wall"), wall(ours), wall(peer), ratio, "s");
    Ok(processor >= PROCESSOR && ratio >= WALL)
}

/// Measures the convergence of many objects created at the same time.
async fn converge(ours: &Operator, peer: &Operator, objects: usize) -> Result<bool> {
    eprintln!("converge: {objects} objects");
    let mut taken = Vec::new();
    for operator in [ours, peer] {
        let after = operator.latest("One").await?;
        let begun = Instant::now();
        for number in 0..objects {
            operator.create("One", &format!("many-{number}")).await?;
        }
        // Excludes the object of the previous rounds.
        operator.all_after("One", objects, &after).await?;
        taken.push(begun.elapsed().as_secs_f64());
    }
    Ok(line(&format!("converge-{objects}"), taken[0], taken[1], "s") >= CONVERGE)
}

/// Measures the memory of concurrent runs, each waiting in its last task.
async fn at_once(ours: &Operator, peer: &Operator) -> Result<bool> {
    eprintln!("memory: {AT_ONCE} runs at once");
    let mut taken = Vec::new();
    for operator in [ours, peer] {
        for number in 0..AT_ONCE {
            operator.create("Gate", &format!("held-{number}")).await?;
        }
        operator.at_gate(AT_ONCE).await?;
        // The last task starts shortly after the first one was observed.
        tokio::time::sleep(SETTLE * 3).await;
        taken.push(operator.tree.memory()?);
        eprintln!("  {}: {} processes", operator.name, operator.tree.count()?);
        operator.open_gate().await?;
        operator.all_after("Gate", AT_ONCE, "").await?;
    }
    Ok(line(&format!("memory-{AT_ONCE}-runs"), taken[0], taken[1], "MiB") >= MEMORY)
}

/// Measures the idle load of the operator.
async fn idle(ours: &Operator, seconds: u64) -> Result<bool> {
    eprintln!("idle: {seconds} s");
    tokio::time::sleep(SETTLE).await;
    let before = ours.tree.processor()?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let taken = ours.tree.processor()? - before;
    println!("bench idle-{seconds}s-cpu ours={taken:.3} most={IDLE} unit=s");
    Ok(taken <= IDLE)
}

/// Measures the memory growth of the operator and its fork server over further runs.
async fn growth(ours: &Operator, objects: usize, runs: usize) -> Result<bool> {
    if objects == 0 || runs == 0 {
        return Ok(true);
    }
    let rounds = runs.div_ceil(objects);
    eprintln!("growth: {} runs", rounds * objects);
    let before = ours.tree.memory()?;
    let begun = Instant::now();
    for round in 1..=rounds {
        let after = ours.latest("One").await?;
        for number in 0..objects {
            ours.touch("One", &format!("many-{number}"), round).await?;
        }
        ours.all_after("One", objects, &after).await?;
    }
    let each = begun.elapsed().as_secs_f64() / (rounds * objects) as f64;
    tokio::time::sleep(SETTLE).await;
    let after = ours.tree.memory()?;
    println!("bench runs-{}-time ours={each:.3} unit=s/run", rounds * objects);
    println!(
        "bench runs-{}-memory before={before:.1} after={after:.1} most=+{GROWTH} unit=MiB",
        rounds * objects
    );
    Ok(after - before <= GROWTH)
}

fn options() -> Result<Options> {
    let mut options = Options {
        python: PathBuf::new(),
        steer: None,
        rounds: 10,
        objects: 100,
        idle: 60,
        runs: 1000,
        check: false,
    };
    options.check = steersman_bench::arguments(USAGE, |argument, value| {
        match argument {
            "--python" => options.python = value.into(),
            "--steer" => options.steer = Some(value.into()),
            "--rounds" => options.rounds = value.parse()?,
            "--objects" => options.objects = value.parse()?,
            "--idle" => options.idle = value.parse()?,
            "--runs" => options.runs = value.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if options.python.as_os_str().is_empty() {
        return Err(format!("--python is missing\n{USAGE}").into());
    }
    Ok(options)
}
