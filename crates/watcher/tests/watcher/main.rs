//! Watches of a server that follows a script.

mod backoff;
mod lists;
mod object;
mod peer;
mod server;
mod watches;

use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Resource, ResourceExt as _};
use steersman_watcher::{Config, Error, Event, InitialList, watcher};

use server::{Answer, Server};

/// Reads until the stream is idle: with the clock paused, time passes only when every task waits.
async fn rest<S: Stream>(stream: S, what: impl Fn(S::Item) -> String) -> Vec<String> {
    let mut stream = std::pin::pin!(stream);
    let mut seen = Vec::new();
    while let Ok(Some(item)) = tokio::time::timeout(Duration::from_secs(1), stream.next()).await {
        seen.push(what(item));
    }
    seen
}

/// An event in one word, and an error by its variant and its code or text.
fn brief<K: Resource>(event: Result<Event<K>, Error>) -> String {
    let name = |object: K| {
        let version = object.resource_version().unwrap_or_default();
        format!("{}@{version}", object.name_any())
    };
    match event {
        Ok(Event::Init) => "init".into(),
        Ok(Event::InitApply(object)) => format!("init-apply {}", name(object)),
        Ok(Event::InitDone) => "init-done".into(),
        Ok(Event::Apply(object)) => format!("apply {}", name(object)),
        Ok(Event::Delete(object)) => format!("delete {}", name(object)),
        Err(error) => brief_error(&error),
    }
}

fn brief_error(error: &Error) -> String {
    let what = match error {
        Error::InitialListFailed(_) => "list failed",
        Error::WatchStartFailed(_) => "watch refused",
        Error::WatchFailed(_) => "watch failed",
        Error::WatchError(_) => "watch error",
        Error::NoResourceVersion => "no version",
        _ => "other",
    };
    error.status().map_or_else(|| what.into(), |status| format!("{what} {}", status.code))
}

/// Returns the events and the requests of a watcher that runs against a script.
async fn run(config: Config, script: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    let server = Server::new(script);
    let seen = rest(watcher(server.api(), config), brief::<ConfigMap>).await;
    (seen, server.requests())
}

async fn paged(script: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    run(Config::default(), script).await
}

async fn streaming(script: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    run(Config { initial_list: InitialList::Streaming, ..Config::default() }, script).await
}

/// The query of a list.
const LIST: &str = "limit=500";

/// The query of a streaming list.
const STREAM: &str = "watch=true&timeoutSeconds=290&allowWatchBookmarks=true\
    &sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0";

/// The query of a watch from a version.
fn from(version: &str) -> String {
    format!("watch=true&timeoutSeconds=290&allowWatchBookmarks=true&resourceVersion={version}")
}
