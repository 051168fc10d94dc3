//! `steer e2e`.

mod display;
mod operator;
mod suite;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use kube::Client;
use steersman_testkit::{Controls, Event, Observer as _, Options, TestSuite};

use self::display::{Display, shown};
pub(super) use self::operator::Embedded;
use self::operator::{LogLine, Operators};
pub(super) use self::suite::SuiteArgs;
use crate::args::GlobalArgs;
use crate::cluster;
use crate::commands::cluster::interrupted;
use crate::commands::dev::watch;
use crate::failure::{Failure, Result, note, warn};

const ABOUT: &str = "\
Run declarative tests in kuttl's format

Starts a cluster in this process, installs the project's CRDs and role, runs its operator with that role (a Rust operator \
is built by cargo first), and runs the suites: each directory of a suite is a test case with its own namespace, and the files with the same number are a step. \
With --kubeconfig, the tests run on that cluster instead, with the operators installed there.";

const EXAMPLES: &str = "\
A directory can be a project, whose suites are those of its kuttl-test.yaml or in tests/e2e, or a suite.

Examples:
  steer e2e                                  the project in this directory
  steer e2e examples/minimart --test scale   test cases whose names match
  steer e2e --report xml                     JUnit for CI, in kuttl-report.xml
  steer e2e --watch                          again on every change
  steer e2e --kubeconfig ~/.kube/config tests/e2e";

/// The kubeconfig passed to the commands of tests.
const KUBECONFIG: &str = ".steer/e2e.kubeconfig";
/// Default directory of a project's suites.
const SUITES: &str = "tests/e2e";
/// The file with the settings of a run.
pub(super) const CONFIG: &str = "kuttl-test.yaml";

/// Run declarative tests in kuttl's format
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct E2e {
    /// Directories of projects or suites
    #[arg(value_name = "DIR", default_value = ".")]
    directories: Vec<PathBuf>,

    #[command(flatten)]
    suite: SuiteArgs,

    /// Show the log of each step
    #[arg(short, long)]
    verbose: bool,

    /// Do not run the project's operator
    #[arg(long)]
    no_operator: bool,

    /// File to write an HTML report to
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Rerun whenever a file of the project or its suites changes, until interrupted
    #[arg(short, long)]
    watch: bool,
}

impl E2e {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result {
        crate::runtime::multi_thread()?.block_on(self.serve(globals))
    }

    async fn serve(self, globals: &GlobalArgs) -> Result {
        tokio::select! {
            ended = self.run_once_or_watch(globals) => ended,
            signal = interrupted() => {
                signal.map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
                Err(Failure::new("interrupted"))
            }
        }
    }

    async fn run_once_or_watch(&self, globals: &GlobalArgs) -> Result {
        if !self.watch {
            return self.run_suites(globals).await;
        }
        let mut watched = self.directories.clone();
        watched.extend(projects(&self.directories));
        loop {
            let seen = watch::snapshot(&watched);
            if let Err(failure) = self.run_suites(globals).await {
                failure.show();
            }
            note(" ⋯ waiting for changes");
            watch::changed(&watched, &seen).await;
        }
    }

    async fn run_suites(&self, globals: &GlobalArgs) -> Result {
        let display = Arc::new(Display::new(self.verbose));
        let suite = self.settings(globals)?;
        let working_directory = std::env::current_dir()
            .map_err(|error| Failure::new(format!("no working directory: {error}")))?;
        let mut options = Options {
            filter: self.suite.test.clone(),
            run_labels: self.suite.run_labels()?,
            template_vars: self.suite.template_vars()?,
            suite,
            kubeconfig: None,
            working_directory,
        };
        let given = globals.kubeconfig.clone().filter(|path| !path.as_os_str().is_empty());
        if let Some(path) = given {
            options.kubeconfig = Some(std::path::absolute(&path).unwrap_or(path));
            let client = cluster::client(globals).await?;
            return self.run_on(client, &options, &display, None).await;
        }
        let begun = Instant::now();
        let embedded = Embedded::start(KUBECONFIG.into(), true).await?;
        display.say(&format!("embedded cluster in {}", shown(begun.elapsed())));
        options.kubeconfig = Some(embedded.kubeconfig().to_owned());
        let projects = if self.no_operator { Vec::new() } else { projects(&self.directories) };
        let shown = Arc::clone(&display);
        let log: LogLine =
            Arc::new(move |line| shown.notify(&Event::Log { source: "operator", line: &line }));
        let operators = Arc::new(Operators::start(projects, &embedded, log).await?);
        for description in operators.descriptions().await {
            display.say(&description);
        }
        let ran = self.run_on(embedded.client(), &options, &display, Some(Arc::clone(&operators) as _)).await;
        for denied in operators.stop().await? {
            warn(&format!("the operator was not allowed to {denied}"));
        }
        ran
    }

    async fn run_on(
        &self,
        client: Client,
        options: &Options,
        display: &Arc<Display>,
        controls: Option<Arc<dyn Controls>>,
    ) -> Result {
        let outcome = steersman_testkit::run_with(client, options, Arc::clone(display) as _, controls).await;
        let report = steersman_testkit::write_report(&options.suite, &outcome).map_err(failure)?;
        let outcome = outcome.map_err(failure)?;
        if outcome.cases().next().is_none() {
            return Err(Failure::new("no test cases")
                .help("a test case is a directory in a suite, such as tests/e2e/install"));
        }
        display.summary(&outcome);
        if let Some(path) = &self.html {
            std::fs::write(path, steersman_testkit::html_report(&outcome))
                .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
            display.say(&format!("report in {}", path.display()));
        }
        if let Some(path) = report {
            display.say(&format!("report in {}", path.display()));
        }
        if outcome.is_success() { Ok(()) } else { Err(Failure::of_tests()) }
    }

    /// Returns the settings of the run: those of a file, overridden by flags.
    fn settings(&self, globals: &GlobalArgs) -> Result<TestSuite> {
        let mut suite = TestSuite::default();
        if let Some(config) = &self.suite.config {
            suite = load(Path::new(config))?;
        }
        let mut directories = Vec::new();
        for directory in &self.directories {
            let config = directory.join(CONFIG);
            if self.suite.config.is_none() && config.is_file() {
                let loaded = load(&config)?;
                directories.extend(loaded.test_dirs.iter().map(PathBuf::from));
                suite = loaded;
            } else if directory.join(SUITES).is_dir() {
                directories.push(directory.join(SUITES));
            } else if self.suite.config.is_none() {
                directories.push(directory.clone());
            }
        }
        if !directories.is_empty() {
            suite.test_dirs = directories.iter().map(|path| path.display().to_string()).collect();
        }
        self.suite.apply(&mut suite)?;
        if let Some(namespace) = &globals.namespace {
            suite.namespace.clone_from(namespace);
        }
        Ok(suite)
    }
}

/// Reads settings, with paths relative to the file's directory.
fn load(config: &Path) -> Result<TestSuite> {
    let mut suite = steersman_testkit::load_suite(config).map_err(|error| Failure::new(error.to_string()))?;
    let directory = config.parent().unwrap_or(Path::new(""));
    let from_there = |path: &mut String| *path = directory.join(&*path).display().to_string();
    suite.test_dirs.iter_mut().chain(&mut suite.manifest_dirs).for_each(from_there);
    if !suite.crd_dir.is_empty() {
        from_there(&mut suite.crd_dir);
    }
    Ok(suite)
}

pub(super) fn failure(error: steersman_testkit::Error) -> Failure {
    Failure::new(error.to_string())
}

/// Returns the projects that contain the directories: of charts, plays, or Rust packages with config/.
fn projects(directories: &[PathBuf]) -> Vec<PathBuf> {
    let is_project = |path: &&Path| {
        let is_package = || path.join("Cargo.toml").is_file() && path.join("config").is_dir();
        path.join("watches.yaml").is_file() || is_package()
    };
    let mut found = Vec::new();
    for directory in directories {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.clone());
        let project = directory.ancestors().find(is_project);
        if let Some(project) = project.filter(|project| !found.iter().any(|other| other == project)) {
            found.push(project.to_owned());
        }
    }
    found
}
