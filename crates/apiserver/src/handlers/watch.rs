//! Watches: streams one frame per change.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::{sync::broadcast, time::Instant};

use steersman_api::{
    environment::Environment,
    fields::FieldError,
    http::{Body, Include, Meta, Output, json_response},
    status::{ApiError, ApiResult},
    store::{Batch, Cursor, Entry, Event, EventKind, RevisionError, frame},
};

use super::list::{self, Filter};
use crate::{call::Call, catalog::Resource, convert, core::Core, render};

/// Interval of bookmarks for idle watchers that requested them.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Time before the end of a watch at which a last bookmark is sent.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Minimum watch lifetime in seconds if the client sets no timeout; the maximum is twice that.
const MIN_LIFETIME: u64 = 1800;
/// Maximum watch lifetime in seconds: a hundred years.
/// Does not overflow when added to the current time.
const MAX_LIFETIME: u64 = 100 * 365 * 24 * 3600;

/// Marks a response whose body is a watch stream with one event per frame.
///
/// Set as a response extension, for servers that can also send events as messages, such as over a WebSocket.
#[derive(Debug, Clone, Copy)]
pub struct EventStream;

fn stream_response(body: Body) -> Response<Body> {
    let mut response = json_response(StatusCode::OK, body);
    response.extensions_mut().insert(EventStream);
    response
}

pub(super) async fn watch(call: &Call) -> ApiResult<Response<Body>> {
    let revision = list::check_resource_version(call, false)?;
    check_initial_events(call)?;
    let filter = Filter::of(call)?;
    let prefix = list::prefix(call);
    let store = &call.core.store;
    let storage = &call.resource.storage;
    let options = &call.options;

    let streaming = options.send_initial_events == Some(true);
    let from_now = options.send_initial_events == Some(false) && revision.unwrap_or(0) == 0;
    let mut initial = Vec::new();
    let opened = match revision {
        Some(r) if r > 0 && !streaming => {
            // A future version is waited for.
            store.follow(storage, r.min(store.revision())).map(|c| (c, r))
        }
        _ if from_now => Ok(store.snapshot_and_follow(storage, &prefix)).map(|(s, c)| (c, s.revision)),
        _ => {
            let (snapshot, cursor) = store.snapshot_and_follow(storage, &prefix);
            initial = snapshot.entries;
            Ok((cursor, snapshot.revision))
        }
    };
    let (cursor, after) = match opened {
        Ok(opened) => opened,
        Err(RevisionError::TooOld | RevisionError::TooNew(_)) => {
            let asked = revision.unwrap_or_default();
            let body = error_frame(&expired(asked, store.revision()));
            return Ok(stream_response(Body::whole(body)));
        }
    };
    let lifetime = options.timeout_seconds.unwrap_or_else(|| lifetime(&*call.core.environment));
    let lifetime = Duration::from_secs(lifetime.min(MAX_LIFETIME));
    let started = Instant::now();
    let bookmarks = options.allow_bookmarks;
    let mut watch = Watch {
        encoder: Encoder {
            core: Arc::clone(&call.core),
            resource: Arc::clone(&call.resource),
            output: call.output,
            include: call.include()?,
            header: true,
        },
        filter,
        prefix,
        cursor,
        after,
        ready: VecDeque::new(),
        user: call.user.name.clone(),
        ended: call.core.ended_watches.subscribe(),
        ends: started + lifetime,
        next_bookmark: bookmarks.then_some(started + BOOKMARK_INTERVAL),
        last_bookmark: (bookmarks && lifetime > Duration::from_secs(10))
            .then_some(started + lifetime.saturating_sub(LAST_BOOKMARK)),
        done: false,
    };
    for entry in initial {
        if watch.filter.matches(&entry) {
            let frame = watch.encoder.encode(EventKind::Added, &entry, entry.revision(), None).await?;
            watch.ready.push_back(frame);
        }
    }
    if streaming && bookmarks {
        let frame = watch.encoder.bookmark(after, true);
        watch.ready.push_back(frame);
    }
    let frames = stream::unfold(watch, |mut watch| async move {
        let frame = watch.next().await?;
        Some((frame, watch))
    });
    Ok(stream_response(Body::stream(frames)))
}

fn check_initial_events(call: &Call) -> ApiResult<()> {
    let (o, field) = (&call.options, "resourceVersionMatch");
    let asked = o.resource_version_match.as_str();
    let mut errors = Vec::new();
    match o.send_initial_events {
        None if !asked.is_empty() => {
            errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        Some(_) if asked != "NotOlderThan" => {
            errors.push(FieldError::forbidden(
                field,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        _ => {}
    }
    if !matches!(asked, "" | "NotOlderThan") {
        errors.push(FieldError::not_supported(field, asked, &["NotOlderThan"]));
    }
    if !o.continue_token.is_empty() && !asked.is_empty() {
        errors.push(FieldError::forbidden(
            field,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid_kind("meta.k8s.io", "ListOptions", "", errors))
    }
}

fn lifetime(environment: &dyn Environment) -> u64 {
    MIN_LIFETIME + environment.random() % MIN_LIFETIME
}

fn expired(asked: u64, current: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {asked} ({current})"))
}

fn error_frame(error: &ApiError) -> Bytes {
    let mut text = json!({"type": "ERROR", "object": error.to_value()}).to_string();
    text.push('\n');
    text.into()
}

/// Encodes events in the requested format.
struct Encoder {
    core: Arc<Core>,
    resource: Arc<Resource>,
    output: Output,
    include: Include,
    /// Whether the next Table includes the column definitions.
    header: bool,
}

impl Encoder {
    async fn encode(
        &mut self,
        kind: EventKind,
        entry: &Entry,
        revision: u64,
        event: Option<&Event>,
    ) -> ApiResult<Bytes> {
        if self.resource.serves_bytes(entry) {
            match (self.output, event) {
                (Output::Object, Some(event)) => return Ok(event.frame()),
                (Output::Object, None) => return Ok(frame(kind, entry, revision)),
                (Output::Metadata(version) | Output::MetadataList(version), _) => {
                    if let Some(frame) = metadata_frame(kind, entry, revision, version) {
                        return Ok(frame);
                    }
                }
                (Output::Table(_), _) => {}
            }
        }
        let resource = &self.resource;
        let stored = resource.read_as(entry, revision);
        let served = convert::one(resource, stored, &resource.api_version()).await?;
        let object = match self.output {
            Output::Object => served,
            Output::Metadata(version) | Output::MetadataList(version) => render::partial(&served, version),
            Output::Table(version) => {
                let form =
                    render::Form { version, include: self.include, header: std::mem::take(&mut self.header) };
                let meta = render::ListMeta { revision, ..render::ListMeta::default() };
                render::rows(&self.core, resource, &[served], &meta, form)
            }
        };
        Ok(self.frame(kind.as_str(), &object))
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (api_version, kind) = match self.output {
            Output::Object => (self.resource.api_version(), self.resource.kind.as_str()),
            Output::Metadata(version) | Output::MetadataList(version) => {
                (version.api_version().to_owned(), "PartialObjectMetadata")
            }
            Output::Table(version) => (version.api_version().to_owned(), "Table"),
        };
        let mut object = json!({"kind": kind, "apiVersion": api_version});
        if let Output::Table(version) = self.output {
            object["metadata"] = json!({"resourceVersion": revision.to_string()});
            let partial = json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": version.api_version(),
                "metadata": metadata,
            });
            object["columnDefinitions"] = Value::Null;
            object["rows"] = json!([{"cells": [], "object": partial}]);
        } else {
            object["metadata"] = metadata;
        }
        self.frame("BOOKMARK", &object)
    }

    fn frame(&self, kind: &str, object: &Value) -> Bytes {
        format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
    }
}

/// Encodes an event with metadata only, copied verbatim from the object's bytes.
fn metadata_frame(kind: EventKind, entry: &Entry, revision: u64, version: Meta) -> Option<Bytes> {
    let (kind, object) = (kind.as_str(), render::partial_bytes(entry, revision, version)?);
    Some(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into())
}

struct Watch {
    encoder: Encoder,
    filter: Filter,
    prefix: String,
    cursor: Cursor,
    /// The client has received all changes up to this revision.
    after: u64,
    ready: VecDeque<Bytes>,
    user: String,
    /// Announces users whose watches are closed.
    ended: broadcast::Receiver<Arc<str>>,
    ends: Instant,
    next_bookmark: Option<Instant>,
    last_bookmark: Option<Instant>,
    done: bool,
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.done || Instant::now() >= self.ends {
                return None;
            }
            match self.cursor.poll() {
                Ok(Batch::Events(events)) => {
                    for event in events {
                        self.take(&event).await;
                        // Nothing follows a failure.
                        if self.done {
                            break;
                        }
                    }
                }
                Ok(Batch::Idle(revision)) => {
                    self.after = self.after.max(revision);
                    self.wait().await;
                }
                Ok(Batch::Ended) => return None,
                Err(_) => {
                    let current = self.encoder.core.store.revision();
                    self.fail(&expired(self.cursor.revision(), current));
                }
            }
        }
    }

    fn fail(&mut self, error: &ApiError) {
        self.done = true;
        self.ready.push_back(error_frame(error));
    }

    /// Waits for a change, the next bookmark or the end.
    async fn wait(&mut self) {
        let bookmark = [self.next_bookmark, self.last_bookmark].into_iter().flatten().min();
        let wake = bookmark.map_or(self.ends, |b| b.min(self.ends));
        tokio::select! {
            biased;
            () = self.cursor.changed() => {}
            ended = self.ended.recv() => self.done = ended.map_or(true, |user| *user == *self.user),
            () = tokio::time::sleep_until(wake) => {
                let now = Instant::now();
                let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
                if due(self.next_bookmark) || due(self.last_bookmark) {
                    self.ready.push_back(self.encoder.bookmark(self.after, false));
                    self.next_bookmark = Some(now + BOOKMARK_INTERVAL);
                    self.last_bookmark = self.last_bookmark.filter(|at| *at > now);
                }
            }
        }
    }

    /// Converts a change to what this watcher sees of it.
    async fn take(&mut self, event: &Event) {
        if event.revision <= self.after || !event.entry.key().starts_with(&self.prefix) {
            return;
        }
        self.after = event.revision;
        let is = event.kind != EventKind::Deleted && self.filter.matches(&event.entry);
        let was = event.previous.as_ref().is_some_and(|p| self.filter.matches(p));
        let (kind, entry, shared) = match (was, is) {
            (false, false) => return,
            // Encoded once for all watchers that see the event unchanged.
            (true, true) if event.kind == EventKind::Modified => (event.kind, &event.entry, Some(event)),
            (false, true) if event.kind == EventKind::Added => (event.kind, &event.entry, Some(event)),
            (true, false) if event.kind == EventKind::Deleted => (event.kind, &event.entry, Some(event)),
            (_, true) => (EventKind::Added, &event.entry, None),
            (true, false) => (EventKind::Deleted, event.previous.as_ref().unwrap_or(&event.entry), None),
        };
        let frame = self.encoder.encode(kind, entry, event.revision, shared).await;
        match frame {
            Ok(frame) => self.ready.push_back(frame),
            Err(error) => self.fail(&error),
        }
    }
}
