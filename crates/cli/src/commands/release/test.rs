//! `steer test`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use steersman_release::{Progress, TestOptions, Timeout};

use super::show::{self, FormatArgs, Shown};
use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::{self, Failure, Result};
use crate::flags;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  steer test shop --logs
  steer test shop --filter name=shop-connection
  steer test shop --filter '!name=slow'";

/// Run the tests of a release
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Test {
    /// Name of the release
    name: String,

    /// Time limit for each test
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = super::duration)]
    timeout: Duration,

    /// Print the logs of the test pods
    #[arg(long)]
    logs: bool,

    /// Run only the test of this name, or with `!` all tests except it; may be repeated
    #[arg(long, value_name = "name=NAME")]
    filter: Vec<String>,

    /// Do not show notes
    #[arg(long)]
    hide_notes: bool,

    #[command(flatten)]
    format: FormatArgs,
}

impl Test {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let options = self.options()?;
        let written = Arc::new(Mutex::new(String::new()));
        let log = Arc::clone(&written);
        let listener = move |progress: &Progress| {
            if let Progress::Log { pod, text, .. } = progress {
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                log.push_str(&format!("POD LOGS: {pod}\n{text}\n"));
            }
        };
        let (mut release, failure) = cluster::run(async {
            let releases = cluster::releases(globals).await?.on_progress(listener);
            Ok(releases.test(&self.name, &options).await?)
        })?;
        release.chart = steersman_release::ChartRecord::default();
        let written = written.lock().unwrap_or_else(PoisonError::into_inner);
        if show::data(self.format.output, &release, output)? {
            // Structured output contains nothing else.
            if !written.is_empty() {
                failure::note(written.trim_end_matches('\n'));
            }
        } else {
            show::release(&release, Shown { hide_notes: self.hide_notes, ..Shown::default() }, output)?;
            output.push(&written);
        }
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn options(&self) -> Result<TestOptions> {
        let mut options =
            TestOptions { timeout: Timeout(self.timeout), logs: self.logs, ..TestOptions::default() };
        for word in flags::split_list(&self.filter) {
            match word.split_once('=') {
                Some(("name", name)) => options.only.push(name.to_owned()),
                Some(("!name", name)) => options.skip.push(name.to_owned()),
                _ => {
                    return Err(Failure::new(format!(
                        "--filter {word:?} is neither name=NAME nor !name=NAME"
                    )));
                }
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Result<TestOptions> {
        let command = Test::augment_args(clap::Command::new("test"));
        let matches = command.try_get_matches_from([&["test", "shop"], words].concat()).unwrap();
        <Test as clap::FromArgMatches>::from_arg_matches(&matches).unwrap().options()
    }

    #[test]
    fn filters_choose_and_leave_out() {
        let chosen = options(&["--filter", "name=a,!name=b", "--filter", "name=c", "--logs"]).unwrap();
        assert_eq!((chosen.only, chosen.skip), (vec!["a".to_owned(), "c".to_owned()], vec!["b".to_owned()]));
        assert!(chosen.logs);
        let usual = options(&[]).unwrap();
        assert_eq!(usual.timeout.0, Duration::from_secs(300));
        assert!(!usual.logs && usual.only.is_empty() && usual.skip.is_empty());
    }

    #[test]
    fn other_filters_are_refused() {
        for word in ["attempt=a", "name"] {
            let failure = options(&["--filter", word]).unwrap_err();
            assert_eq!(failure.message(), format!("--filter {word:?} is neither name=NAME nor !name=NAME"));
        }
    }
}
