//! Compares an API server with the real one, case by case.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use steersman_k8s_oracle::compare::Known;
use steersman_k8s_oracle::corpus::{self, Case};
use steersman_k8s_oracle::generate::{self, Schemas};
use steersman_k8s_oracle::recording::cache_folder;
use steersman_k8s_oracle::suite;
use steersman_k8s_oracle::target::Target;

/// Send the same requests to a real Kubernetes API server and to another one, and report differences.
///
/// The real server's responses are recorded, so each case is sent there once; the real server is started only
/// if a response is missing.
#[derive(Parser)]
struct Options {
    /// Kubeconfig of the server under test [default: the embedded one, in this process].
    #[arg(long)]
    ours: Option<PathBuf>,
    /// Record the real server's responses without comparing them.
    #[arg(long)]
    record_only: bool,
    /// Kubeconfig of a running real server [default: start one if needed].
    #[arg(long)]
    real: Option<PathBuf>,
    /// Run only features whose name contains this; may be repeated.
    #[arg(long = "feature")]
    features: Vec<String>,
    /// Run only cases whose name contains this.
    #[arg(long)]
    case: Option<String>,
    /// Send the cases to the real server again, even if a response is recorded.
    #[arg(long)]
    refresh: bool,
    /// Number of cases to run concurrently.
    #[arg(long, default_value_t = 8)]
    jobs: usize,
    /// File to write the differences to.
    #[arg(long, default_value = "differences.txt")]
    out: PathBuf,
    /// Number of cases to generate, in addition to the written ones.
    #[arg(long, default_value_t = 0)]
    generated: usize,
    /// Seed for generated cases.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only generated cases.
    #[arg(long)]
    only_generated: bool,
    /// Minimum percentage of equal cases for the run to succeed.
    #[arg(long, default_value_t = 99.5)]
    equal: f64,
    /// List the cases without running them.
    #[arg(long)]
    list: bool,
    /// Print the recorded responses of the real server to the selected cases.
    #[arg(long)]
    show: bool,
}

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Options::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("k8s-oracle: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(options: Options) -> Result<bool, Failure> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cases = if options.only_generated { Vec::new() } else { corpus::load(&home.join("corpus"))? };
    if options.generated > 0 {
        let schemas = Schemas::load(&generate::schema_file())?;
        cases.extend(generate::cases(&schemas, options.seed, options.generated));
    }
    let chosen = |case: &Case| {
        (options.features.is_empty() || options.features.iter().any(|feature| case.feature.contains(feature)))
            && options.case.as_ref().is_none_or(|name| case.name.contains(name))
    };
    cases.retain(chosen);
    if options.list {
        for case in &cases {
            println!("{} / {} ({} requests)", case.feature, case.name, case.steps.len());
        }
        println!("{} cases", cases.len());
        return Ok(true);
    }
    let recordings = cache_folder().join("answers");
    if options.refresh {
        for case in &cases {
            steersman_k8s_oracle::recording::Recording::open(&recordings, &case.feature).clear()?;
        }
    }
    if !suite::unrecorded(&cases, &recordings).is_empty() {
        let control_plane = ControlPlane::new(home, options.real.clone())?;
        let real = Target::from_kubeconfig(&control_plane.kubeconfig).await?;
        let asked = suite::record(&real, &cases, &recordings, options.jobs).await?;
        println!("recorded {asked} cases on the real server");
    }
    if options.show {
        for case in &cases {
            let recording = steersman_k8s_oracle::recording::Recording::open(&recordings, &case.feature);
            println!("== {} / {}", case.feature, case.name);
            for answer in recording.get(&case.key()).unwrap_or_default() {
                println!("{}\n  {} {:?}\n  {}", answer.request, answer.status, answer.headers, answer.body);
            }
        }
    }
    if options.record_only || options.show {
        return Ok(true);
    }
    let ours = match &options.ours {
        Some(kubeconfig) => Target::from_kubeconfig(kubeconfig).await?,
        None => Target::in_process(),
    };
    if steersman_recordings::recording() {
        suite::keep(&ours, &cases, &recordings, options.jobs).await?;
        return Ok(true);
    }
    let known = Known::load(&home.join("known.yaml"))?;
    let report = suite::compare(&ours, &cases, &known, &recordings, options.jobs).await?;
    std::fs::write(&options.out, report.differences())?;
    print!("{}", report.summary());
    println!("differences: {}", options.out.display());
    let total = report.total();
    let equal = 100.0 * (total.tried - total.different) as f64 / total.tried.max(1) as f64;
    println!("equal: {equal:.2} %");
    Ok(equal >= options.equal)
}

/// A real control plane: a given one, or one started here and stopped on drop.
struct ControlPlane {
    kubeconfig: PathBuf,
    /// The script and the directory of a control plane started here.
    started: Option<(PathBuf, PathBuf)>,
}

impl ControlPlane {
    fn new(home: &Path, given: Option<PathBuf>) -> Result<Self, Failure> {
        if let Some(kubeconfig) = given {
            return Ok(Self { kubeconfig, started: None });
        }
        let script = home.join("../kubernetes/control-plane");
        let folder = std::env::temp_dir().join(format!("k8s-oracle-{}", std::process::id()));
        let status = Command::new(&script).arg("up").arg(&folder).status()?;
        if !status.success() {
            return Err("the control plane does not start".into());
        }
        Ok(Self { kubeconfig: folder.join("kubeconfig"), started: Some((script, folder)) })
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Some((script, folder)) = &self.started {
            let ended = Command::new(script).arg("down").arg(folder).status();
            if !ended.is_ok_and(|status| status.success()) {
                eprintln!("k8s-oracle: {} may still run", folder.display());
            }
        }
    }
}
