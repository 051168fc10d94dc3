//! Sends the same requests to the embedded cluster (in process and over TLS) and a real control plane.
//!
//! Each line has the format `bench NAME ours=… peer=… ratio=… unit=…`; a ratio above 1 is in our favour.

mod load;
mod objects;
mod servers;

use std::path::PathBuf;
use std::process::ExitCode;

use kube::Client;
use load::{Failure, Load};
use servers::{ControlPlane, Embedded};
use steersman_bench::{arguments, beside_me, median};
use steersman_cluster::Cluster;

/// Objects are trees of small allocations. Allocating and freeing them takes much of the time, and mimalloc halves it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "steersman-bench-cluster [--rounds N] [--writes N] [--pods N] [--steer PATH] [--check]

  --rounds  how often each figure is taken, ours and the peer's in turn (5)
  --writes  how many writes a round sends (1000)
  --pods    how many pods the memory is measured with (10000)
  --steer   the steer to measure behind TLS (beside this program)
  --check   fail unless every figure is what we promise";

struct Options {
    rounds: usize,
    writes: usize,
    pods: usize,
    steer: Option<PathBuf>,
    check: bool,
}

/// The requirement of `--check` on a figure.
#[derive(Clone, Copy)]
enum Wanted {
    /// At least this ratio to the peer.
    Ratio(f64),
    /// At most this value.
    AtMost(f64),
    /// Reported without a requirement.
    Nothing,
}

/// The figures reported so far.
#[derive(Default)]
struct Report {
    missed: Vec<String>,
}

impl Report {
    /// Prints a figure, and records whether it misses its requirement.
    fn line(&mut self, name: &str, ours: f64, peer: f64, unit: &str, wanted: Wanted) {
        let ratio = steersman_bench::line(name, ours, peer, unit);
        let missed = match wanted {
            Wanted::Ratio(least) => (ratio < least).then(|| format!("{name}: ratio below {least}")),
            Wanted::AtMost(most) => (ours > most).then(|| format!("{name}: above {most} {unit}")),
            Wanted::Nothing => None,
        };
        self.missed.extend(missed);
    }
}

fn main() -> ExitCode {
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::from(error.to_string()))
        .and_then(|runtime| runtime.block_on(bench()));
    steersman_bench::exit(outcome)
}

async fn bench() -> Result<bool, Failure> {
    let options = options()?;
    let steer = match &options.steer {
        Some(path) => path.clone(),
        None => beside_me("steer")?,
    };
    let mut report = Report::default();

    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        ours.push(Embedded::start(&steer).await?.first_write.as_secs_f64() * 1e3);
    }
    // A single start of the real server takes longer than all of ours; more would not change the result.
    let peer = ControlPlane::start().await?;
    peers.push(peer.first_write.as_secs_f64() * 1e3);
    report.line("start", median(ours), median(peers), "ms", Wanted::AtMost(50.0));

    let embedded = Embedded::start(&steer).await?;
    let cluster = Cluster::builder().workloads(false).start().await?;
    let sides = Sides { inside: cluster.client(), tls: embedded.client.clone(), peer: peer.client.clone() };
    for client in [&sides.inside, &sides.tls, &sides.peer] {
        load::prepare(client).await?;
    }
    let loads = [(Load::CreateConfigMaps, 20.0, 8.0), (Load::CreatePods, 20.0, 8.0), (Load::Apply, 5.0, 5.0)];
    for (load, inside, tls) in loads {
        sides.throughput(load, inside, tls, &options, &mut report).await?;
    }
    sides.latency(&options, &mut report).await?;
    drop((cluster, embedded));

    let fresh = Embedded::start(&steer).await?;
    let (ours, peers) = (fresh.fill(options.pods).await?, peer.fill(options.pods).await?);
    report.line("memory-growth", ours.growth, peers.growth, "MiB", Wanted::AtMost(60.0));
    report.line("memory", ours.total, peers.total, "MiB", Wanted::Nothing);

    for missed in &report.missed {
        eprintln!("missed: {missed}");
    }
    Ok(report.missed.is_empty() || !options.check)
}

/// The compared ways to reach a server.
struct Sides {
    inside: Client,
    tls: Client,
    peer: Client,
}

impl Sides {
    /// Measures each of them in turn, round by round, so that other load affects all of them.
    async fn throughput(
        &self,
        load: Load,
        inside_wanted: f64,
        tls_wanted: f64,
        options: &Options,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let (mut inside, mut tls, mut peer) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=options.rounds {
            let sides = [(&self.inside, &mut inside), (&self.tls, &mut tls), (&self.peer, &mut peer)];
            for (client, rates) in sides {
                let rate = load.rate(client, round, options.writes).await?;
                // The first round warms up.
                if round > 0 {
                    rates.push(rate);
                }
            }
        }
        let (name, peer) = (load.name(), median(peer));
        report.line(name, median(inside), peer, "/s", Wanted::Ratio(inside_wanted));
        report.line(&format!("{name}/tls"), median(tls), peer, "/s", Wanted::Ratio(tls_wanted));
        Ok(())
    }

    async fn latency(&self, options: &Options, report: &mut Report) -> Result<(), Failure> {
        let (mut inside, mut tls, mut peer) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=options.rounds {
            let sides = [(&self.inside, &mut inside), (&self.tls, &mut tls), (&self.peer, &mut peer)];
            for (client, times) in sides {
                let seen = load::watch_latency(client, round, options.writes.div_ceil(5)).await?;
                if round > 0 {
                    times.push(median(seen));
                }
            }
        }
        let peer = median(peer);
        report.line("watch-event", median(inside), peer, "µs", Wanted::AtMost(200.0));
        report.line("watch-event/tls", median(tls), peer, "µs", Wanted::Nothing);
        Ok(())
    }
}

fn options() -> Result<Options, Failure> {
    let mut options = Options { rounds: 5, writes: 1000, pods: 10_000, steer: None, check: false };
    options.check = arguments(USAGE, |name, value| {
        match name {
            "--rounds" => options.rounds = value.parse()?,
            "--writes" => options.writes = value.parse()?,
            "--pods" => options.pods = value.parse()?,
            "--steer" => options.steer = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(options)
}
