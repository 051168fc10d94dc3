//! Runs the same kubectl commands against two clusters and reports where the output differs.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use steersman_k8s_oracle::commands::{self, Session};

/// Run `kubectl/script.txt` with several kubectl versions against two clusters.
#[derive(Parser)]
struct Options {
    /// Kubeconfig of a real cluster (`control-plane up DIR --all`).
    #[arg(long)]
    real: PathBuf,
    /// Kubeconfig of the cluster under test.
    #[arg(long)]
    ours: PathBuf,
    /// Names of the kubectl binaries, as in the build script.
    #[arg(long, default_values_t = ["kubectl".to_owned(), "kubectl-1.34".to_owned(), "kubectl-1.30".to_owned()])]
    kubectl: Vec<String>,
    /// File to write the differences to.
    #[arg(long, default_value = "differences-kubectl.txt")]
    out: PathBuf,
    /// Print each command, with the real cluster's output.
    #[arg(long)]
    verbose: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("kubectl-oracle: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<bool, Box<dyn std::error::Error>> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lines = commands::parse(&std::fs::read_to_string(home.join("kubectl/script.txt"))?);
    let files = home.join("kubectl/files");
    let scratch = std::env::temp_dir().join(format!("kubectl-oracle-{}", std::process::id()));
    let mut text = String::new();
    for version in &options.kubectl {
        let built = Command::new(home.join("../kubernetes/build")).arg(version).output()?;
        let kubectl = PathBuf::from(String::from_utf8(built.stdout)?.trim());
        let real = Session::start(&kubectl, &options.real, &files, &scratch)?;
        let ours = Session::start(&kubectl, &options.ours, &files, &scratch)?;
        let mut different = 0;
        for line in &lines {
            let (real, ours) = (real.run(&line.text)?, ours.run(&line.text)?);
            if options.verbose {
                println!("$ kubectl {}\n{}\n[{}]", line.text, real.output, real.code);
            }
            if let Some(difference) = commands::difference(line, &real, &ours) {
                different += 1;
                text.push_str(&format!("{version}\n{difference}\n"));
            }
        }
        println!("oracle {version} tried={} different={different}", lines.len());
        real.end()?;
        ours.end()?;
    }
    std::fs::write(&options.out, &text)?;
    println!("differences: {}", options.out.display());
    std::fs::remove_dir_all(&scratch)?;
    Ok(text.is_empty())
}
