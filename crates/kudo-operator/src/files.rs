//! Reads files from the pods of Pipe tasks.

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, AttachParams};
use steersman_kudo::pipe::{MAX_FILE, WAITER};
use tokio::io::AsyncReadExt as _;

/// The reason why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The command in the pod failed, and would fail again.
    #[error("{0}")]
    Failed(String),
    /// The pod could not be reached.
    #[error("{0}")]
    Unreachable(String),
}

/// Reads files from pods.
pub trait PodFiles: Send + Sync + 'static {
    /// Returns a file from the waiting container of a Pipe task's pod, up to one byte more than allowed.
    fn read<'a>(
        &'a self,
        client: Client,
        namespace: &'a str,
        pod: &'a str,
        path: &'a str,
    ) -> BoxFuture<'a, Result<Vec<u8>, FileError>>;
}

/// Executes `cat` in the pod. For real clusters.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExecFiles;

impl PodFiles for ExecFiles {
    fn read<'a>(
        &'a self,
        client: Client,
        namespace: &'a str,
        pod: &'a str,
        path: &'a str,
    ) -> BoxFuture<'a, Result<Vec<u8>, FileError>> {
        Box::pin(async move {
            let unreachable = |error: &dyn std::fmt::Display| FileError::Unreachable(error.to_string());
            let api: Api<Pod> = Api::namespaced(client, namespace);
            let params = AttachParams::default().container(WAITER).stdin(false).stderr(false);
            let mut process =
                api.exec(pod, ["cat", "--", path], &params).await.map_err(|error| unreachable(&error))?;
            let status = process.take_status();
            let mut content = Vec::new();
            if let Some(stdout) = process.stdout() {
                let mut limited = stdout.take(MAX_FILE as u64 + 1);
                limited.read_to_end(&mut content).await.map_err(|error| unreachable(&error))?;
            }
            if content.len() > MAX_FILE {
                return Ok(content);
            }
            let ended = match status {
                Some(status) => status.await,
                None => None,
            };
            match ended {
                Some(ended) if ended.status.as_deref() == Some("Success") => Ok(content),
                Some(ended) => {
                    let why = ended.message.unwrap_or_default();
                    Err(FileError::Failed(format!("cat {path} in pod {pod}: {why}")))
                }
                None => Err(FileError::Unreachable(format!("cat {path} in pod {pod}: no answer"))),
            }
        })
    }
}

/// For pods of the embedded cluster, which run nothing: every file has one line, `KEY=` and its path.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedFiles;

impl PodFiles for SimulatedFiles {
    fn read<'a>(
        &'a self,
        _: Client,
        _: &'a str,
        _: &'a str,
        path: &'a str,
    ) -> BoxFuture<'a, Result<Vec<u8>, FileError>> {
        Box::pin(async move { Ok(format!("KEY={path}\n").into_bytes()) })
    }
}
