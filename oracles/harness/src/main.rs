//! `helm-oracle-suite`: runs the differential suite against Helm. Fails on more than the tolerated differences.

use std::process::ExitCode;

use steersman_oracles::areas;
use steersman_oracles::suite::{self, Mode, Options};

const USAGE: &str = "helm-oracle-suite [--seed N] [--scale X] [--only AREA] [--show N] [--survey | --print]

Each option can also come from the environment: STEERSMAN_ORACLE_SEED, STEERSMAN_ORACLE_SCALE, ...";

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // A panic in our crates is a difference, reported with the request that caused it.
    std::panic::set_hook(Box::new(|_| {}));
    // Some cases are deeply nested documents and templates: our own limits are to be tested, not the default
    // stack size.
    let run = std::thread::Builder::new().stack_size(16 << 20).spawn(move || {
        let outcome = suite::run(&areas::all(), areas::KNOWN, &options, &mut std::io::stdout().lock());
        outcome.map(suite::Outcome::passed)
    });
    match run.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(true))) => ExitCode::SUCCESS,
        Ok(Ok(Ok(false))) => ExitCode::FAILURE,
        Ok(Ok(Err(error))) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    for name in ["seed", "scale", "only", "show"] {
        if let Ok(value) = std::env::var(format!("STEERSMAN_ORACLE_{}", name.to_uppercase())) {
            set(&mut options, name, &value)?;
        }
    }
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let name = argument.strip_prefix("--").ok_or_else(|| format!("unexpected {argument}"))?;
        match name {
            "survey" => options.mode = Mode::Survey,
            "print" => options.mode = Mode::Print,
            _ => {
                let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
                set(&mut options, name, &value)?;
            }
        }
    }
    Ok(options)
}

fn set(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    let bad = |_| format!("--{name} {value}: not a number");
    match name {
        "seed" => options.seed = value.parse().map_err(bad)?,
        "scale" => options.scale = value.parse().map_err(|_| format!("--{name} {value}: not a number"))?,
        "only" => options.only = Some(value.to_owned()),
        "show" => options.show = value.parse().map_err(bad)?,
        _ => return Err(format!("unknown option --{name}")),
    }
    Ok(())
}
