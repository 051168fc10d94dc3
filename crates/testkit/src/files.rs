//! Assertions of single files, outside a suite.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;
use kube::Client;
use tokio::time::Instant;

use crate::check::{Checker, Expectation};
use crate::cluster::Cluster;
use crate::command::CommandEnvironment;
use crate::error::LoadError;
use crate::load;
use crate::outcome::Failure;
use crate::subset::ListMatch;

/// Whether the objects in files must be present or absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAssertion {
    /// Each matches an object of the cluster.
    Present,
    /// None matches an object of the cluster.
    Absent,
}

/// Waits until the assertion is met for all files, and returns the failures left at the timeout.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn check_files<'a>(
    client: Client,
    namespace: &'a str,
    timeout: Duration,
    files: &'a [PathBuf],
    assertion: FileAssertion,
) -> BoxFuture<'a, Result<Vec<Failure>, LoadError>> {
    Box::pin(async move {
        let mut documents = Vec::new();
        for file in files {
            documents.extend(load::from_path(Path::new(file))?);
        }
        let cluster = Cluster { client };
        let command_environment = CommandEnvironment {
            namespace: namespace.to_owned(),
            kubeconfig: PathBuf::new(),
            working_directory: PathBuf::new(),
            directory: PathBuf::new(),
        };
        let deadline = Instant::now() + timeout;
        let mut failures = Vec::new();
        for document in &documents {
            let mut checker = Checker::new(&cluster, &command_environment, ListMatch::Exact);
            let expectation = match assertion {
                FileAssertion::Present => Expectation::Present(&document.value),
                FileAssertion::Absent => Expectation::Absent(&document.value),
            };
            failures.extend(checker.until(deadline, expectation).await);
        }
        Ok(failures)
    })
}
