//! Compares `steer run helm` with an operator based on Helm's Go packages. Each maintains a hundred Minimarts on a
//! real control plane, one after the other. Also measures `steer run helm` with two thousand on the embedded cluster.
//!
//! Each line has the format `bench NAME ours=… peer=… ratio=… unit=…`; a ratio above 1 is in our favour.

mod cluster;
mod process;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use cluster::Cluster;
use process::Process;
use steersman_bench::{beside_me, line};

const USAGE: &str = "steersman-bench-helm-operator [--releases N] [--idle SECONDS] [--many N] [--steer PATH] [--peer PATH] [--check]

  --releases  how many Minimarts on the real control plane (100)
  --idle      how long idleness is watched, in seconds (120)
  --many      how many Minimarts on the embedded cluster (2000); 0 leaves that out
  --steer     the steer to measure (beside this program)
  --peer      the peer to measure (built from benches/peers/helm-operator)
  --check     fail if a figure is not what we promise";

/// The requirements of `--check`.
const WANTED_INSTALL: f64 = 10.0;
const WANTED_IDLE: f64 = 100.0;
const WANTED_MEMORY: f64 = 4.0;
const MOST_MEMORY: f64 = 150.0;

/// The time for background work after an install, which counts as part of it.
const SETTLE: Duration = Duration::from_secs(10);

struct Options {
    releases: usize,
    idle: u64,
    many: usize,
    steer: Option<PathBuf>,
    peer: Option<PathBuf>,
    check: bool,
}

/// The cost of maintaining releases.
struct Taken {
    /// Wall time until all were deployed, in seconds.
    seconds: f64,
    /// Processor seconds to install them.
    install: f64,
    /// Processor seconds while idle.
    idle: f64,
    /// Peak memory in MiB.
    peak: f64,
}

fn main() -> ExitCode {
    steersman_bench::exit(bench())
}

fn bench() -> Result<bool, String> {
    let options = options()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().map_err(|error| error.to_string())?;
    let steer = match options.steer {
        Some(path) => path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?,
        None => beside_me("steer")?,
    };
    let peer = match options.peer {
        Some(path) => path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?,
        None => build_peer(&root)?,
    };
    let watches = root.join("examples/minimart/watches.yaml");
    let mut good = true;
    if options.releases > 0 {
        let cluster = Cluster::real(&root)?;
        let ours = keep(
            &cluster,
            "ours",
            operator(&steer, &["run", "helm"], &watches),
            options.releases,
            options.idle,
        )?;
        let theirs = keep(&cluster, "peer", operator(&peer, &[], &watches), options.releases, options.idle)?;
        line("install-time", ours.seconds, theirs.seconds, "s");
        line("install-cpu", ours.install, theirs.install, "s");
        line("idle-cpu", ours.idle, theirs.idle, "s");
        line("peak-memory", ours.peak, theirs.peak, "MiB");
        good = theirs.install / ours.install >= WANTED_INSTALL
            && theirs.idle / ours.idle >= WANTED_IDLE
            && theirs.peak / ours.peak >= WANTED_MEMORY;
    }
    if options.many > 0 {
        good &= many(&root, &steer, &watches, options.many)? <= MOST_MEMORY;
    }
    Ok(good || !options.check)
}

fn operator(program: &Path, words: &[&str], watches: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(words).args(["--metrics-bind-address=0", "--health-probe-bind-address=0", "--watches-file"]);
    command.arg(watches);
    command
}

/// Runs an operator through installing releases, idling, and uninstalling them.
fn keep(
    cluster: &Cluster,
    name: &str,
    mut command: Command,
    releases: usize,
    idle: u64,
) -> Result<Taken, String> {
    eprintln!("{name}: {releases} releases, then {idle} s of nothing");
    cluster.environment(&mut command);
    let namespace = format!("bench-{name}");
    let log = cluster.path(&format!("{name}.log"));
    let process = Process::start(&mut command, &log)?;
    let told = |problem| with_log(name, problem, &log);
    let begun = Instant::now();
    cluster.create(&namespace, releases).map_err(told)?;
    cluster.wait(&namespace, releases, "Deployed").map_err(told)?;
    let seconds = begun.elapsed().as_secs_f64();
    std::thread::sleep(SETTLE);
    let install = process.cpu().map_err(told)?;
    std::thread::sleep(Duration::from_secs(idle));
    // The resolution is a hundredth of a second.
    let idle = (process.cpu().map_err(told)? - install).max(0.01);
    let peak = process.peak().map_err(told)?;
    cluster.remove(&namespace).map_err(told)?;
    Ok(Taken { seconds, install, idle, peak })
}

/// Returns an error message with the end of the operator's log.
fn with_log(name: &str, problem: String, log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    format!("{name}: {problem}\n{}", end(&log, 5))
}

/// Returns the last lines of a string.
fn end(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

/// Returns the operator's memory for a large number of releases; further figures are printed.
fn many(root: &Path, steer: &Path, watches: &Path, count: usize) -> Result<f64, String> {
    eprintln!("ours: {count} releases on the embedded cluster");
    let cluster = Cluster::embedded(root, steer)?;
    let mut command = operator(steer, &["run", "helm"], watches);
    cluster.environment(&mut command);
    let log = cluster.path("many.log");
    let process = Process::start(&mut command, &log)?;
    let told = |problem| with_log("many", problem, &log);
    let begun = Instant::now();
    cluster.create("many", count).map_err(told)?;
    cluster.wait("many", count, "Ready").map_err(told)?;
    let seconds = begun.elapsed().as_secs_f64();
    std::thread::sleep(SETTLE);
    let install = process.cpu().map_err(told)?;
    std::thread::sleep(Duration::from_secs(60));
    let idle = process.cpu().map_err(told)? - install;
    let (peak, held) = (process.peak().map_err(told)?, process.held().map_err(told)?);
    let server = cluster.process().map_or(Ok(0.0), Process::peak)?;
    println!("bench many-time ours={seconds:.1} unit=s");
    println!("bench many-install-cpu ours={install:.2} unit=s");
    println!("bench many-idle-minute-cpu ours={idle:.2} unit=s");
    println!("bench many-memory ours={held:.1} unit=MiB");
    println!("bench many-peak-memory ours={peak:.1} most={MOST_MEMORY:.0} unit=MiB");
    println!("bench many-cluster-peak-memory ours={server:.1} unit=MiB");
    Ok(peak)
}

fn build_peer(root: &Path) -> Result<PathBuf, String> {
    let path = cluster::run(Command::new(root.join("benches/peers/build")).arg("helm-operator"))?;
    Ok(path.trim().into())
}

fn options() -> Result<Options, String> {
    let mut options = Options { releases: 100, idle: 120, many: 2000, steer: None, peer: None, check: false };
    options.check = steersman_bench::arguments(USAGE, |argument, value| {
        match argument {
            "--releases" => options.releases = value.parse()?,
            "--idle" => options.idle = value.parse()?,
            "--many" => options.many = value.parse()?,
            "--steer" => options.steer = Some(value.into()),
            "--peer" => options.peer = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::end;

    #[test]
    fn the_end_of_a_log_reads_forwards() {
        assert_eq!(end("1\n2\n3\n", 2), "2\n3");
        assert_eq!(end("1\n", 2), "1");
        assert_eq!(end("", 2), "");
    }
}
