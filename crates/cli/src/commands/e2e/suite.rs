//! Flags about suites that `steer e2e` and `steer kuttl test` share, named as kuttl names them.

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
    /// File with the settings of the run [default: kuttl-test.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,

    /// Regular expression for the names of the test cases to run
    #[arg(long, value_name = "PATTERN")]
    pub(crate) test: Option<String>,

    /// Directory with custom resource definitions to install first
    #[arg(long, value_name = "DIR")]
    crd_dir: Option<String>,

    /// Directories with manifests to apply first; may be repeated
    #[arg(long, value_name = "DIR")]
    manifest_dir: Vec<String>,

    /// Seconds that a step may take [default: 30]
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    timeout: Option<i64>,

    /// Number of test cases that run at once [default: 8]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    parallel: Option<i64>,

    /// Leave objects and namespaces of the tests in the cluster
    #[arg(long)]
    skip_delete: bool,

    /// Write a report: json or xml (JUnit)
    #[arg(long, value_name = "FORMAT")]
    report: Option<String>,

    /// Name of the report's file, without its ending [default: kuttl-report]
    #[arg(long, value_name = "NAME")]
    report_name: Option<String>,

    /// What a case of the report is: step or test [default: step]
    #[arg(long, value_name = "WHAT")]
    report_granularity: Option<String>,

    /// Directory for the report [default: the working directory]
    #[arg(long, value_name = "DIR")]
    artifacts_dir: Option<String>,

    /// Kinds of logs to leave out (events); may be repeated
    #[arg(long, value_name = "KIND")]
    suppress_log: Vec<String>,

    /// Labels of this run, which files select by a TestFile: key1=value1,key2=value2
    #[arg(long, value_name = "LABELS")]
    test_run_labels: Option<String>,

    /// Variables of templates, with values in YAML: name1=value1,name2=value2; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    template_var: Vec<String>,
}

impl SuiteArgs {
    /// Puts the flags that were given over the settings of the file.
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

    /// The labels of the run.
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

    /// What `.Vars` is in templates.
    pub(crate) fn template_vars(&self) -> Result<Map<String, Value>> {
        let mut vars = Map::new();
        for given in &self.template_var {
            // A single pair is taken whole: its value may have commas.
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
