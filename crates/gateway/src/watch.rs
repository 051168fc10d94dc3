//! Watches of the cluster, which resume when a connection ends.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use crate::{
    kinds::Kind,
    problem::{Problem, Result},
    upstream::{Cluster, Lines, encode},
};

/// The lifetime of one watch request: opening the next one authorizes the caller again.
const SECONDS: u32 = 300;
const RETRY: Duration = Duration::from_millis(500);

/// The media type of a metadata-only watch.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The objects that are watched.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    path: String,
    selectors: String,
    accept: &'static str,
}

impl Target {
    /// Creates a target from a list's path; `selectors` are query parameters, each preceded by `&`.
    pub(crate) fn new(path: impl Into<String>, selectors: impl Into<String>) -> Self {
        Self { path: path.into(), selectors: selectors.into(), accept: "*/*" }
    }

    /// Creates a target that returns metadata only.
    pub(crate) fn metadata(path: impl Into<String>) -> Self {
        Self { accept: METADATA, ..Self::new(path, "") }
    }
}

/// An event of a watch.
pub(crate) enum Event {
    Changed {
        /// ADDED, MODIFIED or DELETED.
        kind: &'static str,
        object: Value,
    },
    /// Nothing happened up to [`Watch::version`].
    Bookmark,
    /// The resourceVersion is too old: the cluster no longer has the events after it (410 Gone).
    Expired,
}

/// A watch of a kind's objects.
pub(crate) struct Watch {
    cluster: Cluster,
    /// Includes the selectors, but not the resourceVersion.
    path: String,
    accept: &'static str,
    version: String,
    lines: Option<Lines>,
    line_bytes: usize,
}

impl Watch {
    /// Watches from a resourceVersion.
    pub(crate) fn new(cluster: &Cluster, target: &Target, version: &str) -> Self {
        let Target { path, selectors, accept } = target;
        let path = format!("{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={SECONDS}{selectors}");
        let version = version.to_owned();
        Self { cluster: cluster.clone(), path, accept, version, lines: None, line_bytes: 0 }
    }

    pub(crate) fn one(
        cluster: &Cluster,
        kind: &Kind,
        namespace: Option<&str>,
        name: &str,
        version: &str,
    ) -> Self {
        let selector = format!("&fieldSelector={}", encode(&format!("metadata.name={name}")));
        Self::new(cluster, &Target::new(kind.path(namespace, None), selector), version)
    }

    /// Returns the resourceVersion up to which all events have been returned.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Returns the size of the last event on the wire.
    pub(crate) fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    async fn open(&mut self) -> Result<()> {
        let path = format!("{}&resourceVersion={}", self.path, encode(&self.version));
        self.lines = Some(self.cluster.lines(&path, self.accept).await?);
        Ok(())
    }

    /// Returns the next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Event> {
        loop {
            let Some(lines) = &mut self.lines else {
                match self.open().await {
                    Ok(()) => continue,
                    Err(problem) if problem.status.as_u16() == 410 => return Ok(Event::Expired),
                    Err(problem) if problem.status.is_client_error() && problem.status.as_u16() != 429 => {
                        return Err(problem);
                    }
                    Err(_) => {
                        sleep(RETRY).await;
                        continue;
                    }
                }
            };
            match lines.next().await {
                Some(Ok(line)) => {
                    self.line_bytes = line.len();
                    if let Some(event) = self.read(&line)? {
                        return Ok(event);
                    }
                }
                Some(Err(_)) | None => self.lines = None,
            }
        }
    }

    fn read(&mut self, line: &[u8]) -> Result<Option<Event>> {
        let mut event: Value = serde_json::from_slice(line).map_err(|error| Problem::unreachable(&error))?;
        let object = event["object"].take();
        let kind = match event["type"].as_str().unwrap_or_default() {
            "ADDED" => "ADDED",
            "MODIFIED" => "MODIFIED",
            "DELETED" => "DELETED",
            "BOOKMARK" => "",
            _ => {
                let code = object["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
                if code == 410 {
                    return Ok(Some(Event::Expired));
                }
                let code = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::BAD_GATEWAY);
                return Err(Problem::from_status(code, &object));
            }
        };
        if let Some(version) = object.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
            version.clone_into(&mut self.version);
        }
        Ok(Some(if kind.is_empty() { Event::Bookmark } else { Event::Changed { kind, object } }))
    }
}
