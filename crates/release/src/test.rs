//! Tests of a release.

use futures::future::BoxFuture;
use steersman_chart::HookEvent;

use crate::error::{Error, Result};
use crate::record::{Hook, Release};
use crate::releases::{Releases, Timeout};

/// Options of a test run.
#[derive(Clone, Debug, Default)]
pub struct TestOptions {
    /// Timeout of each test. Five minutes by default.
    pub timeout: Timeout,
    /// Names of the tests to run. All by default.
    pub only: Vec<String>,
    /// Names of tests to skip. None by default.
    pub skip: Vec<String>,
    /// Report the logs of the tests. False by default.
    pub logs: bool,
}

impl Releases {
    /// Runs the tests of a release. Returns the release with their results, even if one failed.
    ///
    /// # Errors
    /// Fails if there is no such release, or if its record cannot be written; a failed test is the second value.
    pub fn test<'a>(
        &'a self,
        name: &'a str,
        options: &'a TestOptions,
    ) -> BoxFuture<'a, Result<(Release, Option<Error>)>> {
        Box::pin(async move {
            let mut release = self.get(name, None).await?;
            let chosen = |hook: &Hook| {
                !options.skip.contains(&hook.name)
                    && (options.only.is_empty() || options.only.contains(&hook.name))
            };
            let failure =
                self.run_hooks(&mut release, HookEvent::Test, options.timeout.0, chosen).await.err();
            self.storage.update(&release).await?;
            if options.logs {
                let is_test =
                    |hook: &&Hook| hook.events.iter().any(|event| event == HookEvent::Test.as_str());
                for hook in release.hooks.iter().filter(is_test).filter(|hook| chosen(hook)) {
                    self.collect_logs(hook).await?;
                }
            }
            Ok((release, failure))
        })
    }
}
