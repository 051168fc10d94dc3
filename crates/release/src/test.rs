//! Running a release's tests.

use futures::future::BoxFuture;
use steersman_chart::HookEvent;

use crate::error::{Error, Result};
use crate::record::{Hook, Release};
use crate::releases::{Releases, Timeout};

/// Which tests to run, and how.
#[derive(Clone, Debug, Default)]
pub struct TestOptions {
    /// How long each test may take. Five minutes by default.
    pub timeout: Timeout,
    /// Only these. All by default.
    pub only: Vec<String>,
    /// Not these. None by default.
    pub skip: Vec<String>,
    /// Report what the tests wrote. False by default.
    pub logs: bool,
}

impl Releases {
    /// Runs the tests of a release. The release is given back with how they went even if one failed.
    ///
    /// # Errors
    /// Fails if there is no such release, or its record cannot be written; a test that failed is the second value.
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
