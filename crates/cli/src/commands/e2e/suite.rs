//! Suite flags shared by `steer e2e` and `steer kuttl test`, with kuttl's names.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value};
use steersman_testkit::TestSuite;

use crate::failure::{Failure, Result};
use crate::flags;

/// What to run, and what to report of it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Suite options")]
pub(crate) struct SuiteArgs {
    /// Path to the file with the test settings [default: kuttl-test.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,

    /// Regular expression for the names of the test cases to run
    #[arg(long, value_name = "PATTERN")]
    pub(crate) test: Option<String>,

    /// Directory with CRDs to install before the tests
    #[arg(long, value_name = "DIR")]
    crd_dir: Option<String>,

    /// Directory with manifests to apply before the tests; may be repeated
    #[arg(long, value_name = "DIR")]
    manifest_dir: Vec<String>,

    /// Timeout of a step, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    timeout: Option<i64>,

    /// Maximum number of test cases to run at once [default: 8]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    parallel: Option<i64>,

    /// Do not delete objects and namespaces that the tests created
    #[arg(long)]
    skip_delete: bool,

    /// Format of the report to write: json or xml (JUnit)
    #[arg(long, value_name = "FORMAT")]
    report: Option<String>,

    /// File name of the report, without extension [default: kuttl-report]
    #[arg(long, value_name = "NAME")]
    report_name: Option<String>,

    /// Granularity of the report's cases: step or test [default: step]
    #[arg(long, value_name = "WHAT")]
    report_granularity: Option<String>,

    /// Directory for the report [default: the working directory]
    #[arg(long, value_name = "DIR")]
    artifacts_dir: Option<String>,

    /// Kinds of logs to suppress (events); may be repeated
    #[arg(long, value_name = "KIND")]
    suppress_log: Vec<String>,

    /// Labels of this test run, which TestFiles select by: key1=value1,key2=value2
    #[arg(long, value_name = "LABELS")]
    test_run_labels: Option<String>,

    /// Template variables, with YAML values: name1=value1,name2=value2; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    template_var: Vec<String>,
}

impl SuiteArgs {
    /// Overrides the settings of the file with the flags.
    pub(crate) fn apply(&self, suite: &mut TestSuite) -> Result {
        let texts = [
            (&self.crd_dir, &mut suite.crd_dir),
            (&self.report_name, &mut suite.report_name),
            (&self.artifacts_dir, &mut suite.artifacts_dir),
        ];
        for (given, setting) in texts {
            if let Some(given) = given {
                setting.clone_from(given);
            }
        }
        if !self.manifest_dir.is_empty() {
            suite.manifest_dirs = flags::split_list(&self.manifest_dir);
        }
        if let Some(timeout) = self.timeout {
            suite.timeout = timeout;
        }
        if let Some(parallel) = self.parallel {
            suite.parallel = parallel;
        }
        if suite.parallel < 0 {
            return Err(Failure::new("--parallel can only be given a positive number"));
        }
        suite.skip_delete |= self.skip_delete;
        if let Some(report) = &self.report {
            suite.report_format = match report.to_lowercase() {
                format if format == "json" || format == "xml" => format,
                _ => String::new(),
            };
        }
        match self.report_granularity.as_deref() {
            None => {}
            Some(granularity @ ("step" | "test")) => suite.report_granularity = granularity.to_owned(),
            Some(other) => return Err(Failure::new(format!("unrecognized report granularity {other:?}"))),
        }
        suite.suppress.extend(flags::split_list(&self.suppress_log).iter().map(|kind| kind.to_lowercase()));
        Ok(())
    }

    /// Parses the labels of the run.
    pub(crate) fn run_labels(&self) -> Result<BTreeMap<String, String>> {
        let text = self.test_run_labels.as_deref().unwrap_or_default();
        let pairs = text.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').filter(|(key, _)| !key.trim().is_empty())?;
            Some((key.trim().to_owned(), value.trim().to_owned()))
        });
        let labels: Option<BTreeMap<String, String>> = pairs.collect();
        labels.ok_or_else(|| {
            Failure::new(format!("cannot parse label set {text:?}"))
                .help("write it as key1=value1,key2=value2")
        })
    }

    /// Parses the value of `.Vars` in templates.
    pub(crate) fn template_vars(&self) -> Result<Map<String, Value>> {
        let mut vars = Map::new();
        for given in &self.template_var {
            // A single pair is not split: its value may contain commas.
            let pairs = if given.matches('=').count() == 1 {
                vec![given.trim_matches('"').to_owned()]
            } else {
                flags::split_list(std::slice::from_ref(given))
            };
            for pair in pairs {
                let (name, text) = pair
                    .split_once('=')
                    .ok_or_else(|| Failure::new(format!("{pair} must be formatted as key=value")))?;
                let value = steersman_yaml::from_str(text).map_err(|error| {
                    Failure::new(format!(
                        "invalid --template-var: failed to parse value of {name:?} as YAML: {error}"
                    ))
                })?;
                vars.insert(name.to_owned(), value);
            }
        }
        Ok(vars)
    }
}
