//! A run: installs its prerequisites, runs the test cases and collects their outcomes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use kube::Client;
use serde_json::{Map, Value};
use tokio::process::Child;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::actions::Controls;
use crate::case::{Case, Shared};
use crate::cluster::{Cluster, ObjectKey, text};
use crate::command::{self, CommandEnvironment};
use crate::error::{Error, LoadError};
use crate::load::{self, Typed};
use crate::names;
use crate::observe::{Event, Observer};
use crate::outcome::{Outcome, SuiteOutcome};
use crate::pattern::{self, Filter};
use crate::types::TestSuite;

/// Timeout for definitions to be established.
const ESTABLISH: Duration = Duration::from_secs(10);
/// Default number of test cases that run concurrently.
const PARALLEL: usize = 8;

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The settings of `kuttl-test.yaml`, overridden by those of the command line.
    pub suite: TestSuite,
    /// A regular expression that selects test cases by name. Default: all.
    pub filter: Option<String>,
    /// Labels of this run, which a `TestFile`'s selector matches.
    pub run_labels: BTreeMap<String, String>,
    /// Value of `.Vars` in templates.
    pub template_vars: Map<String, Value>,
    /// The kubeconfig passed to commands. Default: `kubeconfig` in the working directory.
    pub kubeconfig: Option<PathBuf>,
    /// Working directory of the suite's commands. Default: the process's.
    pub working_directory: PathBuf,
}

/// Reads a `kuttl-test.yaml`. Objects of other kinds are ignored.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn load_suite(path: &Path) -> Result<TestSuite, LoadError> {
    let mut suite = TestSuite::default();
    for document in load::from_file(path)? {
        if let Typed::Suite(read) = document.typed {
            suite = *read;
        }
    }
    Ok(suite)
}

/// Runs the suites on the client's cluster.
///
/// # Errors
/// Fails if the run cannot start: definitions or manifests cannot be installed, or a command of the suite fails. Failed test
/// cases are part of the outcome.
pub async fn run(client: Client, options: &Options, observer: Arc<dyn Observer>) -> Result<Outcome, Error> {
    run_with(client, options, observer, None).await
}

/// Runs the suites with control over the operator and the clock, for steps that inject faults.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    client: Client,
    options: &Options,
    observer: Arc<dyn Observer>,
    controls: Option<Arc<dyn Controls>>,
) -> BoxFuture<'_, Result<Outcome, Error>> {
    Box::pin(async move {
        let begun = Instant::now();
        let harness = Harness { cluster: Cluster { client }, options, observer, controls };
        let mut background = Vec::new();
        let ran = harness.run(&mut background).await;
        for child in background {
            command::stop(child).await;
        }
        Ok(Outcome { name: options.suite.metadata.name.clone(), duration: begun.elapsed(), suites: ran? })
    })
}

struct Harness<'a> {
    cluster: Cluster,
    options: &'a Options,
    observer: Arc<dyn Observer>,
    controls: Option<Arc<dyn Controls>>,
}

impl Harness<'_> {
    fn log(&self, line: &str) {
        self.observer.notify(&Event::Log { source: "", line });
    }

    async fn run(&self, background: &mut Vec<Child>) -> Result<Vec<SuiteOutcome>, Error> {
        let suite = &self.options.suite;
        let ignore_files = suite.ignore_files.clone().unwrap_or_else(|| vec!["README*".to_owned()]);
        if let Some(pattern) =
            ignore_files.iter().find(|pattern| pattern::matches(pattern, "dummy").is_none())
        {
            return Err(Error::IgnorePattern(pattern.clone()));
        }
        let filter = match self.options.filter.as_deref().filter(|pattern| !pattern.is_empty()) {
            None => None,
            Some(pattern) => Some(
                Filter::new(pattern)
                    .map_err(|message| Error::Filter { pattern: pattern.to_owned(), message })?,
            ),
        };
        if !suite.crd_dir.is_empty() {
            self.install(Path::new(&suite.crd_dir), true).await?;
        }
        for directory in &suite.manifest_dirs {
            self.install(Path::new(directory), false).await?;
        }
        let working_directory = &self.options.working_directory;
        let kubeconfig =
            self.options.kubeconfig.clone().unwrap_or_else(|| working_directory.join("kubeconfig"));
        let command_environment = CommandEnvironment {
            namespace: "default".to_owned(),
            kubeconfig: kubeconfig.clone(),
            working_directory: working_directory.clone(),
            directory: working_directory.clone(),
        };
        let log = |line: &str| self.log(line);
        let (started, ran) = command_environment.run_all(&suite.commands, suite.timeout, &log).await;
        background.extend(started);
        ran.map_err(|error| Error::Command(error.message))?;

        let shared = Arc::new(Shared {
            cluster: self.cluster.clone(),
            observer: Arc::clone(&self.observer),
            controls: self.controls.clone(),
            timeout: suite.step_timeout(),
            skip_delete: suite.skip_delete,
            is_events_suppressed: suite.suppress.iter().any(|kind| kind == "events"),
            ignore_files,
            run_labels: self.options.run_labels.clone(),
            template_vars: self.options.template_vars.clone(),
            kubeconfig,
            working_directory: working_directory.clone(),
        });
        let mut chosen = Vec::new();
        for directory in &suite.test_dirs {
            let cases = self.cases(Path::new(directory))?;
            self.log(&format!("testsuite: {directory} has {} tests", cases.len()));
            let is_chosen = |case: &Case| filter.as_ref().is_none_or(|filter| filter.matches(&case.name));
            chosen.push((directory.clone(), cases.into_iter().filter(is_chosen).collect::<Vec<_>>()));
        }
        Ok(self.run_cases(chosen, &shared).await)
    }

    /// Returns the test cases of a directory: one per subdirectory.
    fn cases(&self, directory: &Path) -> Result<Vec<Case>, Error> {
        let directory = std::path::absolute(directory).map_err(|error| LoadError::new(directory, &error))?;
        let is_directory =
            |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
        let paths = load::entries(&directory)?.into_iter().filter(is_directory);
        let given = &self.options.suite.namespace;
        let case = |path: PathBuf| Case {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            directory: path,
            namespace: if given.is_empty() { names::namespace() } else { given.clone() },
            is_namespace_given: !given.is_empty(),
        };
        Ok(paths.map(case).collect())
    }

    async fn run_cases(&self, chosen: Vec<(String, Vec<Case>)>, shared: &Arc<Shared>) -> Vec<SuiteOutcome> {
        let parallel = usize::try_from(self.options.suite.parallel).ok().filter(|number| *number > 0);
        let permits = Arc::new(Semaphore::new(parallel.unwrap_or(PARALLEL)));
        let mut running = JoinSet::new();
        let mut suites = Vec::new();
        for (index, (name, cases)) in chosen.into_iter().enumerate() {
            suites.push(SuiteOutcome { name, started: SystemTime::now(), cases: Vec::new() });
            for case in cases {
                let (permits, shared) = (Arc::clone(&permits), Arc::clone(shared));
                running.spawn(async move {
                    let _permit = permits.acquire().await;
                    (index, case.run(&shared).await)
                });
            }
        }
        while let Some(ended) = running.join_next().await {
            match ended {
                Ok((index, outcome)) => suites[index].cases.push(outcome),
                // Tasks are never cancelled: this is a panic, which is resumed here.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
        for suite in &mut suites {
            suite.cases.sort_by(|one, other| one.name.cmp(&other.name));
        }
        suites.sort_by(|one, other| one.name.cmp(&other.name));
        suites
    }

    /// Applies the objects in the files below a directory, and waits until definitions are served.
    async fn install(&self, directory: &Path, only_definitions: bool) -> Result<(), Error> {
        for path in load::walk(directory, &["yaml", "yml", "json"])? {
            for document in load::from_file(&path)? {
                let is_definition = document.kind() == "CustomResourceDefinition"
                    && text(&document.value, "/apiVersion").starts_with("apiextensions.k8s.io/");
                if only_definitions && !is_definition {
                    self.log(&format!(
                        "Skipping {} in {}: not a definition",
                        document.kind(),
                        path.display()
                    ));
                    continue;
                }
                let failed = |message: String| Error::Install { path: path.clone(), message };
                let place = self.cluster.place(&document.value, "default").await.map_err(failed)?;
                self.cluster.apply(&place, &place.placed(&document.value)).await.map_err(failed)?;
                self.log(&format!("{} applied", place.id()));
                if is_definition {
                    self.established(&place).await.map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    async fn established(&self, place: &ObjectKey) -> Result<(), String> {
        let mut wake = crate::wake::Wake::default();
        wake.watch(&self.cluster, place);
        let is_established = |definition: &Value| {
            let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
            conditions
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
        };
        let waiting = async {
            while !self.cluster.get(place).await.is_ok_and(|definition| is_established(&definition)) {
                wake.changed().await;
            }
        };
        let late = |_| format!("{} is not established after {} s", place.id(), ESTABLISH.as_secs());
        tokio::time::timeout(ESTABLISH, waiting).await.map_err(late)
    }
}
