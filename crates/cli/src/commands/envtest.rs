//! `steer envtest`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use crate::envtest::PROGRAMS;
use crate::failure::{Failure, Result};
use crate::output::Output;

const ABOUT: &str = "\
Set up the embedded API server for suites that use envtest

Replaces setup-envtest: the directory that it prints contains kube-apiserver and etcd, both links to this program, \
and the machine's kubectl, if installed. Nothing is downloaded. The server has no controllers, as in envtest; \
with STEER_ENVTEST_WORKLOADS=1 in its environment, it has those of steer cluster.";

const EXAMPLES: &str = "\
Examples:
  KUBEBUILDER_ASSETS=\"$(steer envtest use -p path)\" go test ./...
  eval \"$(steer envtest use -p env)\"
  steer envtest list";

/// Set up the embedded API server for suites that use envtest
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Envtest {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Use(Use),
    List(List),
    Installed(Installed),
}

/// Install the binaries that envtest starts, and print their path
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Use {
    /// Kubernetes version that the suite requests, such as 1.36.x [default: the embedded one]
    #[arg(value_name = "VERSION")]
    version: Option<String>,

    /// Output format
    #[arg(short, long, value_name = "FORM", default_value = "overview")]
    print: Form,

    #[command(flatten)]
    directory: DirectoryArgs,
}

/// List the available versions
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct List {
    #[command(flatten)]
    directory: DirectoryArgs,
}

/// List the installed versions
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Installed {
    #[command(flatten)]
    directory: DirectoryArgs,
}

#[derive(Args, Debug)]
struct DirectoryArgs {
    /// Directory to install the binaries in [default: steersman/envtest in the user's data directory]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
}

/// Forms of the answer, as setup-envtest has them.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    /// Version, platform and path
    Overview,
    /// Path only
    Path,
    /// Shell command that exports KUBEBUILDER_ASSETS
    Env,
}

impl Envtest {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        match self.command {
            Command::Use(command) => command.run(output),
            Command::List(List { directory }) => {
                let state = if is_laid_out(&directory.directory()?) { "installed" } else { "available" };
                output.line(line(state));
                Ok(())
            }
            Command::Installed(Installed { directory }) => {
                if is_laid_out(&directory.directory()?) {
                    output.line(line("installed"));
                }
                Ok(())
            }
        }
    }
}

fn line(state: &str) -> String {
    format!("({state})  {}  {}", steersman_cluster::KUBERNETES_VERSION, platform())
}

/// Returns the platform in Go's notation.
fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}/{processor}")
}

fn version() -> &'static str {
    steersman_cluster::KUBERNETES_VERSION.trim_start_matches('v')
}

impl DirectoryArgs {
    fn directory(&self) -> Result<PathBuf> {
        let base = match &self.bin_dir {
            Some(directory) => directory.clone(),
            None => {
                let variable =
                    |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
                variable("XDG_DATA_HOME")
                    .or_else(|| Some(variable("HOME")?.join(".local/share")))
                    .ok_or_else(|| {
                        Failure::new("no directory for the binaries: HOME is not set")
                            .help("name one with --bin-dir")
                    })?
                    .join("steersman/envtest")
            }
        };
        let base = std::path::absolute(&base).unwrap_or(base);
        Ok(base.join("k8s").join(format!("{}-{}", version(), platform().replace('/', "-"))))
    }
}

fn is_laid_out(directory: &Path) -> bool {
    PROGRAMS.iter().all(|program| directory.join(program).exists())
}

impl Use {
    fn run(&self, output: &mut Output) -> Result {
        if let Some(asked) = &self.version {
            check_version(asked)?;
        }
        let directory = self.directory.directory()?;
        let failed =
            |error: std::io::Error| Failure::new(format!("cannot lay out {}: {error}", directory.display()));
        std::fs::create_dir_all(&directory).map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        for name in PROGRAMS {
            link(&program, &directory.join(name)).map_err(failed)?;
        }
        let kubectl = on_path("kubectl", &directory);
        if let Some(kubectl) = &kubectl {
            link(kubectl, &directory.join("kubectl")).map_err(failed)?;
        }
        let path = directory.display();
        match self.print {
            Form::Path => output.line(path),
            Form::Env => output.line(format_args!("export KUBEBUILDER_ASSETS='{path}'")),
            Form::Overview => {
                let kubectl =
                    kubectl.map_or("none on this machine".to_owned(), |path| path.display().to_string());
                output.line(format_args!(
                    "Version: {}\nOS/Arch: {}\nkubectl: {kubectl}\nPath: {path}",
                    version(),
                    platform()
                ));
            }
        }
        Ok(())
    }
}

/// Warns if another version than the embedded one is requested, and rejects an invalid one.
fn check_version(asked: &str) -> Result {
    let text = asked.trim_start_matches('v').trim_end_matches('!');
    let numbers: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| matches!(*part, "x" | "X" | "*") || part.parse::<u32>().is_ok();
    let is_version = text == "latest" || ((1..=3).contains(&numbers.len()) && numbers.iter().all(is_number));
    if !is_version {
        return Err(Failure::new(format!("invalid version {asked}")).help("such as 1.36.3, 1.36.x or latest"));
    }
    let fits = |(asked, own): (&&str, &str)| matches!(*asked, "x" | "X" | "*") || *asked == own;
    if text != "latest" && !numbers.iter().zip(version().split('.')).all(fits) {
        crate::failure::warn(&format!(
            "the embedded API server is Kubernetes {} whatever version is asked for, not {asked}",
            version()
        ));
    }
    Ok(())
}

/// Creates or replaces a link atomically for concurrent users.
fn link(program: &Path, link: &Path) -> std::io::Result<()> {
    if std::fs::read_link(link).is_ok_and(|target| target == program) {
        return Ok(());
    }
    let mut name = link.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = link.with_file_name(name);
    #[cfg(unix)]
    std::os::unix::fs::symlink(program, &temporary)?;
    #[cfg(not(unix))]
    std::fs::copy(program, &temporary)?;
    std::fs::rename(&temporary, link)
}

/// Finds a program in PATH, except in the given directory.
fn on_path(name: &str, except: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|directory| directory != except)
        .map(|d| d.join(name))
        .find(|p| p.is_file())
}
