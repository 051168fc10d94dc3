//! `steer kuttl`, which `kubectl kuttl` also runs if this program is named `kubectl-kuttl`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use steersman_testkit::{CaseOutcome, Event, FileAssertion, Observer, Options, Outcome, TestSuite};

use super::e2e::{CONFIG, Embedded, SuiteArgs, failure};
use crate::args::GlobalArgs;
use crate::cluster;
use crate::commands::cluster::interrupted;
use crate::failure::{Failure, Result, note};
use crate::kubeconfig;

const ABOUT: &str = "\
Run kuttl test suites, with kuttl's command line and output

For scripts that call `kubectl kuttl test`: flags, exit codes, reports and the summary are kuttl's. With a link to this program \
named kubectl-kuttl, `kubectl kuttl` runs it. --start-control-plane and --start-kind start the embedded cluster. \
`steer e2e` runs the same suites with human-readable output and with the project's operator.";

const EXAMPLES: &str = "\
Examples:
  steer kuttl test ./tests/e2e
  steer kuttl test --start-kind --report xml ./tests/e2e
  steer kuttl test --config kuttl-test.yaml --test install";

/// kuttl's exit code if it cannot start.
const USAGE: u8 = 255;
/// Timeout for a new cluster's default service account to exist.
const FUNCTIONAL: Duration = Duration::from_secs(60);

/// Run kuttl test suites, with kuttl's command line and output
#[derive(Args, Debug)]
#[command(long_about = ABOUT)]
pub(crate) struct Kuttl {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Test(Box<Test>),
    Assert(Assert),
    Errors(Errors),
}

/// Wait until objects in the cluster match those in files
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kuttl assert tests/e2e/install/00-assert.yaml --namespace shop")]
struct Assert {
    #[command(flatten)]
    files: Files,
}

/// Wait until no object in the cluster matches those in files
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  steer kuttl errors tests/e2e/install/01-errors.yaml --namespace shop")]
struct Errors {
    #[command(flatten)]
    files: Files,
}

#[derive(Args, Debug)]
struct Files {
    /// Files or directories with objects
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Timeout, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    timeout: u64,
}

/// Run test suites
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Test {
    /// Directories of suites [default: those of kuttl-test.yaml]
    #[arg(value_name = "SUITE")]
    suites: Vec<String>,

    #[command(flatten)]
    suite: SuiteArgs,

    /// Start a control plane for the tests: the embedded API server, without controllers
    #[arg(long)]
    start_control_plane: bool,

    /// Show the control plane's log; only with --start-control-plane
    #[arg(long)]
    attach_control_plane_output: bool,

    /// Has no effect
    #[arg(long, value_name = "FILE", hide = true)]
    control_plane_config: Option<String>,

    /// Start a cluster for the tests: the embedded cluster, with simulated workloads
    #[arg(long)]
    start_kind: bool,

    /// Path to the kind configuration, which is not read; implies --start-kind
    #[arg(long, value_name = "FILE")]
    kind_config: Option<String>,

    /// Name of kind's context; has no effect
    #[arg(long, value_name = "NAME")]
    kind_context: Option<String>,

    /// Has no effect: the embedded cluster ends with the run
    #[arg(long)]
    skip_cluster_delete: bool,

    /// User to impersonate
    #[arg(long = "as", value_name = "USER")]
    impersonate: Option<String>,
}

impl Kuttl {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result {
        let test = match self.command {
            Command::Test(test) => test,
            Command::Assert(assert) => return assert.files.check(globals, FileAssertion::Present),
            Command::Errors(errors) => return errors.files.check(globals, FileAssertion::Absent),
        };
        let options = test.options(globals).map_err(|failure| failure.with_exit_code(USAGE))?;
        crate::runtime::multi_thread()?.block_on(async {
            tokio::select! {
                ended = test.run(globals, options) => ended,
                signal = interrupted() => {
                    signal.map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
                    Err(Failure::new("interrupted").with_exit_code(USAGE))
                }
            }
        })
    }
}

impl Files {
    fn check(&self, globals: &GlobalArgs, assertion: FileAssertion) -> Result {
        let namespace = globals.namespace.as_deref().unwrap_or("default");
        let timeout = Duration::from_secs(self.timeout);
        let failures = cluster::run(async {
            let client = cluster::client(globals).await?;
            steersman_testkit::check_files(client, namespace, timeout, &self.files, assertion)
                .await
                .map_err(|error| Failure::new(error.to_string()))
        });
        let failures = failures.map_err(|failure| failure.with_exit_code(USAGE))?;
        let what = if assertion == FileAssertion::Present { "assert" } else { "error assert" };
        if failures.is_empty() {
            note(&format!("{what} is valid"));
            return Ok(());
        }
        let lines: Vec<&str> = failures.iter().map(|failure| failure.message.as_str()).collect();
        Err(Failure::new(format!("{what}s not valid\n{}", lines.join("\n"))).with_exit_code(USAGE))
    }
}

impl Test {
    fn options(&self, globals: &GlobalArgs) -> Result<Options> {
        let default = Path::new(CONFIG).is_file().then(|| CONFIG.to_owned());
        let mut suite = match self.suite.config.clone().or(default) {
            Some(path) => steersman_testkit::load_suite(Path::new(&path))
                .map_err(|error| Failure::new(error.to_string()))?,
            None => TestSuite::default(),
        };
        suite.start_control_plane |= self.start_control_plane;
        suite.attach_control_plane_output |= self.attach_control_plane_output;
        suite.start_kind |= self.start_kind || self.kind_config.is_some();
        if suite.start_control_plane && suite.start_kind {
            return Err(Failure::new("only one of --start-control-plane and --start-kind can be set"));
        }
        if suite.attach_control_plane_output && !suite.start_control_plane {
            return Err(Failure::new("only use --attach-control-plane-output with --start-control-plane"));
        }
        // Without controllers, deletion of a namespace never completes.
        suite.skip_delete |= suite.start_control_plane;
        self.suite.apply(&mut suite)?;
        match globals.namespace.as_deref().map(str::trim) {
            None => {}
            Some("") => {
                return Err(Failure::new(
                    "setting namespace explicitly to \"\" or empty string is not supported",
                ));
            }
            Some(namespace) => suite.namespace = namespace.to_owned(),
        }
        if !self.suites.is_empty() {
            suite.test_dirs.clone_from(&self.suites);
        }
        if suite.test_dirs.is_empty() {
            return Err(Failure::new(
                "no test directories provided, please provide either --config or test directories on the command line",
            ));
        }
        let working_directory = std::env::current_dir()
            .map_err(|error| Failure::new(format!("no working directory: {error}")))?;
        Ok(Options {
            suite,
            filter: self.suite.test.clone(),
            run_labels: self.suite.run_labels()?,
            template_vars: self.suite.template_vars()?,
            kubeconfig: None,
            working_directory,
        })
    }

    async fn run(&self, globals: &GlobalArgs, options: Options) -> Result {
        let log = Arc::new(GoTest::default());
        log.line("=== RUN   kuttl");
        let begun = Instant::now();
        let started = self.cluster(globals, &options).await;
        let outcome = match &started {
            Ok((client, _)) => steersman_testkit::run(client.clone(), &options, Arc::clone(&log) as _).await,
            Err(why) => {
                log.line(&format!("    fatal error getting client: {}", why.message()));
                log.summary(&[], false, begun.elapsed());
                return Err(Failure::of_tests());
            }
        };
        steersman_testkit::write_report(&options.suite, &outcome).map_err(failure)?;
        match outcome {
            Ok(outcome) => {
                let cases: Vec<&CaseOutcome> = outcome.cases().collect();
                log.summary(&cases, outcome.is_success(), begun.elapsed());
                verdict(&outcome)
            }
            Err(error) => {
                log.line(&format!("    {error}"));
                log.summary(&[], false, begun.elapsed());
                Err(Failure::of_tests())
            }
        }
    }

    /// Returns a client for the tests' cluster, and writes its kubeconfig to the working directory.
    async fn cluster(&self, globals: &GlobalArgs, options: &Options) -> Result<(Client, Option<Embedded>)> {
        let file = options.working_directory.join("kubeconfig");
        let suite = &options.suite;
        if suite.start_control_plane || suite.start_kind {
            let embedded = Embedded::start(file, suite.start_kind).await?;
            let client = embedded.client();
            if suite.start_kind {
                wait_for_account(&client, &suite.namespace).await?;
            }
            return Ok((client, Some(embedded)));
        }
        let client = self.connect(globals, &file).await?;
        wait_for_account(&client, &suite.namespace).await?;
        Ok((client, None))
    }

    async fn connect(&self, globals: &GlobalArgs, file: &Path) -> Result<Client> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(format!("error getting kubernetes client config: {error}"))
        };
        let given = globals.kubeconfig.clone().filter(|path| !path.as_os_str().is_empty());
        let read = match &given {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let mut config = match read {
            Ok(mut content) => {
                if let Some(user) = &self.impersonate {
                    for named in &mut content.auth_infos {
                        named.auth_info.get_or_insert_default().impersonate = Some(user.clone());
                    }
                }
                if let Some(context) = globals.context() {
                    content.current_context = Some(context);
                }
                write_kubeconfig(file, &content).map_err(|error| failed(&error))?;
                Config::from_custom_kubeconfig(content, &KubeConfigOptions::default())
                    .await
                    .map_err(|error| failed(&error))?
            }
            // The tests' commands then use the pod's own account, as kubectl does.
            Err(error) => Config::incluster().map_err(|_| failed(&error))?,
        };
        if let Some(user) = &self.impersonate {
            config.auth_info.impersonate = Some(user.clone());
        }
        Client::try_from(config).map_err(|error| failed(&error))
    }
}

fn verdict(outcome: &Outcome) -> Result {
    if outcome.is_success() { Ok(()) } else { Err(Failure::of_tests()) }
}

/// Writes the kubeconfig for the tests' commands, readable only by its owner.
fn write_kubeconfig(path: &Path, content: &Kubeconfig) -> std::io::Result<()> {
    let text = steersman_yaml::to_string(content).map_err(std::io::Error::other)?;
    let temporary: PathBuf = path.with_file_name(format!("kubeconfig.{}", std::process::id()));
    kubeconfig::private(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, path))
        .inspect_err(|_| {
            let _ = std::fs::remove_file(&temporary);
        })
}

/// Waits until the default service account exists: pods of a new cluster are rejected before.
async fn wait_for_account(client: &Client, namespace: &str) -> Result {
    let deadline = Instant::now() + FUNCTIONAL;
    let namespaces: Vec<&str> = ["default", namespace].into_iter().filter(|name| !name.is_empty()).collect();
    loop {
        for namespace in &namespaces {
            let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
            if accounts.get("default").await.is_ok() {
                return Ok(());
            }
        }
        if Instant::now() >= deadline {
            return Err(Failure::new("the cluster has no service account default/default"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Prints the log like `go test -v`, which kuttl's users and their scripts expect.
#[derive(Default)]
struct GoTest {
    out: Mutex<()>,
}

impl GoTest {
    fn line(&self, line: &str) {
        let _held = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A reader that went away is noticed when the command ends.
        let _ = writeln!(anstream::stdout(), "{line}");
    }

    fn summary(&self, cases: &[&CaseOutcome], is_success: bool, elapsed: Duration) {
        let word = |is_success: bool| if is_success { "PASS" } else { "FAIL" };
        self.line(&format!("--- {}: kuttl ({:.2}s)", word(is_success), elapsed.as_secs_f64()));
        if !cases.is_empty() {
            self.line(&format!("    --- {}: kuttl/harness (0.00s)", word(is_success)));
        }
        for case in cases {
            let seconds = case.duration.as_secs_f64();
            self.line(&format!(
                "        --- {}: kuttl/harness/{} ({seconds:.2}s)",
                word(case.is_success()),
                case.name
            ));
        }
        self.line(word(is_success));
    }
}

impl Observer for GoTest {
    fn notify(&self, event: &Event<'_>) {
        match event {
            Event::Log { source: "", line } => self.line(&format!("    {line}")),
            Event::Log { source, line } => {
                let time = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
                self.line(&format!("    {time} | {source} | {line}"));
            }
            Event::CaseStarted { case, .. } => self.line(&format!("=== RUN   kuttl/harness/{case}")),
            Event::StepFinished { case, step } => {
                for failure in &step.failures {
                    self.line(&format!("    {case}: {}: {}", step.name, failure.message));
                }
            }
            _ => {}
        }
    }
}
