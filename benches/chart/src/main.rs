//! Renders real charts with `helm template` and `steer template`, alternating, and with the library.
//!
//! Each line has the format `bench NAME ours=… peer=… ratio=… unit=…`; a ratio above 1 is in our favour.

mod process;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use process::{Cost, run};
use steersman_bench::{arguments, beside_me, figure, line, median};
use steersman_chart::{Chart, KubeVersion, OutputOptions, Release, RenderOptions, System, Values};

const USAGE: &str = "steersman-bench-chart [--rounds N] [--charts N] [--steer PATH] [--helm PATH] [--check]

  --rounds  how often each program renders each chart, after one warm-up (15)
  --charts  how many charts, from the smallest to the largest output (10)
  --steer   the steer to measure (beside this program)
  --helm    the helm to measure (built by oracles/helm/build)
  --check   fail if steer is less than 10 times faster, or a second render in the library less than 50 times";

/// The ratios that `--check` requires.
const WANTED_PROCESS: f64 = 10.0;
const WANTED_SECOND: f64 = 50.0;

struct Options {
    rounds: usize,
    charts: usize,
    steer: Option<PathBuf>,
    helm: Option<PathBuf>,
    check: bool,
}

/// The medians of one chart.
struct Measured {
    helm: Cost,
    steer: Cost,
    second: Duration,
}

impl Measured {
    fn process_ratio(&self) -> f64 {
        ratio(self.steer.time.as_secs_f64(), self.helm.time.as_secs_f64())
    }

    fn second_ratio(&self) -> f64 {
        ratio(self.second.as_secs_f64(), self.helm.time.as_secs_f64())
    }

    fn memory_ratio(&self) -> f64 {
        ratio(self.steer.mebibytes, self.helm.mebibytes)
    }
}

fn main() -> ExitCode {
    steersman_bench::exit(bench())
}

fn bench() -> Result<bool, String> {
    let options = options()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("STEERSMAN_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let charts = charts(&shared.join("charts"), options.charts);
    if charts.is_empty() {
        eprintln!("NOT MEASURED: no charts under {}", shared.display());
        return Ok(true);
    }
    let helm = match options.helm {
        Some(path) => path,
        None => build_helm(&root)?,
    };
    let steer = match options.steer {
        Some(path) => path,
        None => beside_me("steer")?,
    };
    // Processes first: a child's peak memory starts at its parent's, which the library would raise.
    let mut processes = Vec::new();
    for (name, chart) in &charts {
        processes.push(alternate(name, chart, &helm, &steer, options.rounds)?);
    }
    let mut measured = Vec::new();
    for ((name, chart), (helm, steer)) in charts.iter().zip(processes) {
        let second = second_render(name, chart, options.rounds)?;
        let one = Measured { helm, steer, second };
        line(name, ms(one.steer.time), ms(one.helm.time), "ms");
        line(&format!("{name}/second"), ms(one.second), ms(one.helm.time), "ms");
        line(&format!("{name}/memory"), one.steer.mebibytes, one.helm.mebibytes, "MiB");
        measured.push(one);
    }
    Ok(summary(&measured) || !options.check)
}

/// Prints the medians over all charts, and returns whether they meet the requirements.
fn summary(measured: &[Measured]) -> bool {
    let over = |of: fn(&Measured) -> f64| median(measured.iter().map(of).collect());
    let (process, second) = (over(Measured::process_ratio), over(Measured::second_ratio));
    let (helm, steer) = (over(|m| ms(m.helm.time)), over(|m| ms(m.steer.time)));
    figure("template", steer, helm, process, "ms");
    figure("second-render", over(|m| ms(m.second)), helm, second, "ms");
    figure(
        "memory",
        over(|m| m.steer.mebibytes),
        over(|m| m.helm.mebibytes),
        over(Measured::memory_ratio),
        "MiB",
    );
    process >= WANTED_PROCESS && second >= WANTED_SECOND
}

/// Measures each program's median cost of one chart. After a warm-up they alternate, so that other load affects both.
fn alternate(
    name: &str,
    chart: &Path,
    helm: &Path,
    steer: &Path,
    rounds: usize,
) -> Result<(Cost, Cost), String> {
    let command = |program: &Path| {
        let mut command = Command::new(program);
        command.args(["template", "rel"]).arg(chart).args(["--namespace", "ns", "--kube-version", "v1.33.0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut costs = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for (program, costs) in [helm, steer].into_iter().zip(&mut costs) {
            let cost =
                run(&mut command(program)).map_err(|e| format!("{} on {name}: {e}", program.display()))?;
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    let [helm, steer] = costs.map(|costs| Cost {
        time: Duration::from_secs_f64(median(costs.iter().map(|c| c.time.as_secs_f64()).collect())),
        mebibytes: median(costs.iter().map(|c| c.mebibytes).collect()),
    });
    Ok((helm, steer))
}

/// Measures the median time to render a chart again, from the loaded chart to the output.
fn second_render(name: &str, chart: &Path, rounds: usize) -> Result<Duration, String> {
    let failed = |error: steersman_chart::Error| format!("{name}: {error}");
    let chart = Chart::load(chart).map_err(failed)?;
    let mut options = RenderOptions {
        release: Release { name: "rel".into(), namespace: "ns".into(), ..Release::default() },
        ..RenderOptions::default()
    };
    options.capabilities.kube_version = KubeVersion::parse("v1.33.0")?;
    let render = || -> Result<Duration, String> {
        let start = Instant::now();
        let rendered = chart.render(&Values::new(), &options, System::default()).map_err(failed)?;
        let text = rendered.output(&OutputOptions::default(), None).map_err(failed)?;
        std::hint::black_box(text);
        Ok(start.elapsed())
    };
    render()?;
    let times: Result<Vec<f64>, String> = (0..rounds).map(|_| Ok(render()?.as_secs_f64())).collect();
    Ok(Duration::from_secs_f64(median(times?)))
}

/// Selects charts by name, spread evenly from the smallest to the largest output.
fn charts(directory: &Path, count: usize) -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<(u64, String, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let size = entry.path().join("expected/default.yaml").metadata().ok()?.len();
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((size, name, entry.path().join("chart")))
        })
        .collect();
    found.sort();
    let last = found.len().saturating_sub(1);
    let steps = count.saturating_sub(1).max(1);
    let mut chosen: Vec<usize> = (0..count.min(found.len())).map(|step| last * step / steps).collect();
    chosen.dedup();
    chosen.into_iter().map(|at| (found[at].1.clone(), found[at].2.clone())).collect()
}

fn build_helm(root: &Path) -> Result<PathBuf, String> {
    let script = root.join("oracles/helm/build");
    let output = Command::new(&script).arg("helm").stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| format!("{}: {e}", script.display()))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(path.into()) } else { Err("building helm failed".into()) }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn ratio(ours: f64, peer: f64) -> f64 {
    peer / ours
}

fn options() -> Result<Options, String> {
    let mut options = Options { rounds: 15, charts: 10, steer: None, helm: None, check: false };
    options.check = arguments(USAGE, |name, value| {
        match name {
            "--rounds" => options.rounds = value.parse()?,
            "--charts" => options.charts = value.parse()?,
            "--steer" => options.steer = Some(value.into()),
            "--helm" => options.helm = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(options)
}
