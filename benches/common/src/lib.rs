//! Shared by the comparative benchmarks: the output format, and the resource usage of processes.

use std::fmt::Display;
use std::fs::File;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// The kernel's unit of processor time, always hundredths of a second in user space.
const TICKS: f64 = 100.0;

/// Prints a figure and returns its ratio, above 1 in our favour. Higher is better for units per second, else lower is.
pub fn line(name: &str, ours: f64, peer: f64, unit: &str) -> f64 {
    let ratio = if unit.ends_with("/s") { ours / peer } else { peer / ours };
    figure(name, ours, peer, ratio, unit);
    ratio
}

/// Prints a figure with a given ratio, such as the median of several ratios.
pub fn figure(name: &str, ours: f64, peer: f64, ratio: f64, unit: &str) {
    println!("bench {name} ours={ours:.3} peer={peer:.3} ratio={ratio:.2} unit={unit}");
}

/// Returns the median; the mean of the middle two for an even count, and NaN for none.
pub fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    match of.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => of[n / 2],
        n => f64::midpoint(of[n / 2 - 1], of[n / 2]),
    }
}

/// A process that is stopped on drop.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a program with its output in a log file.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        let file = File::create(log).map_err(|error| error.to_string())?;
        let copy = file.try_clone().map_err(|error| error.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(copy).spawn();
        child.map(Self).map_err(|error| format!("{command:?}: {error}"))
    }

    /// Returns its process ID.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Converts the outcome of a benchmark. It fails if it misses its requirements, or on an error, which is printed.
pub fn exit(outcome: Result<bool, impl Display>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

/// Parses the command line. Returns whether `--check` is given; `set` receives options with a value, and returns whether it knows
/// them.
pub fn arguments(
    usage: &str,
    mut set: impl FnMut(&str, &str) -> Result<bool, ParseIntError>,
) -> Result<bool, String> {
    let mut check = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--check" {
            check = true;
            continue;
        }
        let value =
            arguments.next().ok_or_else(|| format!("{argument}: unknown or without a value\n{usage}"))?;
        let known = set(&argument, &value);
        if !known.map_err(|_| format!("{argument} {value}: not a number\n{usage}"))? {
            return Err(format!("unknown option {argument}\n{usage}"));
        }
    }
    Ok(check)
}

/// Returns the path of a program built next to this one.
pub fn beside_me(name: &str) -> Result<PathBuf, String> {
    let path = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name(name);
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("{} is not there: build it, or say --{name}", path.display()))
    }
}

/// Returns the processor time that a running process has used, in seconds.
pub fn processor_time(process: u32) -> Result<f64, String> {
    let account = account(process, "stat")?;
    // The program's name, before the last parenthesis, may contain anything.
    let fields: Vec<&str> = account.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    match (ticks(11), ticks(12)) {
        (Some(user), Some(system)) => Ok((user + system) / TICKS),
        _ => Err(format!("cannot read {account:?}")),
    }
}

/// Returns the peak memory of a running process, in MiB.
pub fn peak_memory(process: u32) -> Result<f64, String> {
    memory(process, "VmHWM:")
}

/// Returns the current memory of a running process, in MiB.
pub fn held_memory(process: u32) -> Result<f64, String> {
    memory(process, "VmRSS:")
}

fn memory(process: u32, name: &str) -> Result<f64, String> {
    let account = account(process, "status")?;
    let line = account.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kibibytes.map(|number| number / 1024.0).ok_or_else(|| format!("no {name} in its status"))
}

fn account(process: u32, name: &str) -> Result<String, String> {
    let path = format!("/proc/{process}/{name}");
    std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}: the process ended"))
}
