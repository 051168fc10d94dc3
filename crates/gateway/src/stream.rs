//! Server-sent events.

use std::{collections::HashSet, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::interval};

use crate::{
    answer::{self, Body},
    instances::{self, Selection},
    kinds::Kind,
    problem::{Problem, Result},
    request::Ask,
    tree,
    watch::{Event, Watch},
};

/// How often a connection is shown to be alive.
const ALIVE: Duration = Duration::from_secs(15);
/// How often a tree is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Frames that wait for a slow client, after which its watch waits too.
const WAITING: usize = 64;

/// One frame. Data is in one line, as JSON is.
fn frame(event: &str, id: Option<&str>, data: &Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Bytes::from(format!("{id}event: {event}\ndata: {data}\n\n"))
}

/// Where frames go.
struct Frames(mpsc::Sender<Bytes>);

/// The client has left.
struct Left;

impl Frames {
    async fn send(&self, frame: Bytes) -> Result<(), Left> {
        self.0.send(frame).await.map_err(|_| Left)
    }
}

fn response(receiver: mpsc::Receiver<Bytes>) -> Response<Body> {
    let chunks =
        stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    let mut response = answer::stream("text/event-stream", chunks);
    // Proxies that gather answers would hold events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The version that a client has seen everything up to.
fn resume_from(ask: &Ask) -> Result<Option<String>> {
    let given =
        ask.header("last-event-id").or_else(|| ask.query.get("lastEventId")).filter(|id| !id.is_empty());
    let Some(id) = given else { return Ok(None) };
    let is_version = id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_version
        .then(|| Some(id.to_owned()))
        .ok_or_else(|| Problem::bad_request("Last-Event-ID: no id of an event here"))
}

/// Objects of a kind, or one of them, as they change.
struct Feed {
    ask: Ask,
    kind: Arc<Kind>,
    path: String,
    selection: Selection,
    /// The objects that the client knows, by UID; not known after a resume.
    known: Option<HashSet<String>>,
    frames: Frames,
    /// Counted as long as it lives.
    _place: crate::limits::StreamPlace,
}

/// The stream of a list, or of one instance.
pub(crate) async fn instances(
    ask: Ask,
    kind: Arc<Kind>,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<Response<Body>> {
    let mut selection = Selection::read(&ask, &kind)?;
    if let Some(name) = name {
        selection.selectors +=
            &format!("&fieldSelector={}", crate::upstream::encode(&format!("metadata.name={name}")));
    }
    let place = ask.shared.limits.stream(&ask.caller.user.name)?;
    let (path, resumed) = (kind.path(namespace, None), resume_from(&ask)?);
    // The first request is made before the answer begins, so that a refusal is an answer of its own.
    let (objects, watch) = match &resumed {
        None => {
            let (objects, version) = instances::all(&ask, &path, &selection.selectors).await?;
            (Some(objects), Watch::new(&ask.caller.cluster, &path, &selection.selectors, &version))
        }
        Some(version) => {
            let mut watch = Watch::new(&ask.caller.cluster, &path, &selection.selectors, version);
            match watch.open().await {
                Err(problem) if problem.status.is_client_error() && problem.status.as_u16() != 410 => {
                    return Err(problem);
                }
                _ => {}
            }
            (None, watch)
        }
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    let known = objects.is_some().then(HashSet::new);
    let feed = Feed { ask, kind, path, selection, known, frames: Frames(sender), _place: place };
    tokio::spawn(async move {
        // An end because the client has left is no error.
        let _ = feed.run(objects, watch).await;
    });
    Ok(response(receiver))
}

impl Feed {
    async fn run(mut self, objects: Option<Vec<Value>>, mut watch: Watch) -> Result<(), Left> {
        if let Some(objects) = objects {
            self.state(objects, watch.version()).await?;
        }
        let mut alive = interval(ALIVE);
        loop {
            if watch.is_closed()
                && let Err(problem) = still_signed_in(&self.ask).await
            {
                return self.end(&problem).await;
            }
            let event = tokio::select! {
                () = self.frames.0.closed() => return Err(Left),
                _ = alive.tick() => {
                    self.frames.send(Bytes::from_static(b":\n\n")).await?;
                    continue;
                }
                event = watch.next() => event,
            };
            match event {
                Ok(Event::Changed { kind, object }) => self.change(kind, &object, watch.version()).await?,
                // A frame without data moves the client's place and tells it nothing.
                Ok(Event::Bookmark) => {
                    self.frames.send(Bytes::from(format!("id: {}\n\n", watch.version()))).await?;
                }
                Ok(Event::Expired) => {
                    self.frames.send(frame("reset", None, &json!({}))).await?;
                    self.known = Some(HashSet::new());
                    match instances::all(&self.ask, &self.path, &self.selection.selectors).await {
                        Ok((objects, version)) => {
                            watch = Watch::new(
                                &self.ask.caller.cluster,
                                &self.path,
                                &self.selection.selectors,
                                &version,
                            );
                            self.state(objects, &version).await?;
                        }
                        Err(problem) => return self.end(&problem).await,
                    }
                }
                Err(problem) => return self.end(&problem).await,
            }
        }
    }

    async fn end(&self, problem: &Problem) -> Result<(), Left> {
        self.frames.send(frame("problem", None, &problem.document(&self.ask.id))).await
    }

    /// Sends all that there is. The place to resume from is given at its end: half of a state is none.
    async fn state(&mut self, objects: Vec<Value>, version: &str) -> Result<(), Left> {
        for object in objects {
            if self.selection.holds(&object, &self.kind) {
                self.item("ADDED", &object, None).await?;
            }
        }
        self.frames.send(frame("sync", Some(version), &json!({"resourceVersion": version}))).await
    }

    async fn change(&mut self, event: &'static str, object: &Value, version: &str) -> Result<(), Left> {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        let wanted = event != "DELETED" && self.selection.holds(object, &self.kind);
        let had = self.known.as_ref().is_none_or(|known| known.contains(uid));
        let event = match (wanted, had) {
            (false, false) => return self.frames.send(Bytes::from(format!("id: {version}\n\n"))).await,
            (false, true) => "DELETED",
            (true, false) => "ADDED",
            (true, true) if self.known.is_some() => "MODIFIED",
            (true, true) => event,
        };
        self.item(event, object, Some(version)).await
    }

    async fn item(&mut self, event: &str, object: &Value, id: Option<&str>) -> Result<(), Left> {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        if let Some(known) = &mut self.known {
            if event == "DELETED" {
                known.remove(uid);
            } else {
                known.insert(uid.to_owned());
            }
        }
        // The parameters were read before; an item that cannot be shown now is told as a problem.
        match self.selection.item(&self.ask, &self.kind, object) {
            Ok(item) => self.frames.send(frame("change", id, &json!({"type": event, "item": item}))).await,
            Err(problem) => self.end(&problem).await,
        }
    }
}

/// Refuses to go on when the caller's session or token has ended.
async fn still_signed_in(ask: &Ask) -> Result<()> {
    let caller = ask.shared.identities.caller(&http::Method::GET, &ask.headers, &ask.shared.upstream).await;
    match caller {
        Err(problem) if problem.status.is_client_error() => Err(problem),
        _ => Ok(()),
    }
}

async fn looked(ask: &Ask, kind: &Kind, namespace: Option<&str>, name: &str) -> Result<Value> {
    still_signed_in(ask).await?;
    tree::document(ask, kind, namespace, name).await
}

/// The stream of a tree: all of it, whenever something in it is different.
pub(crate) async fn tree(
    ask: Ask,
    kind: Arc<Kind>,
    namespace: Option<String>,
    name: String,
) -> Result<Response<Body>> {
    let place = ask.shared.limits.stream(&ask.caller.user.name)?;
    let mut last = tree::document(&ask, &kind, namespace.as_deref(), &name).await?;
    let (sender, receiver) = mpsc::channel(WAITING);
    let frames = Frames(sender);
    tokio::spawn(async move {
        let _place = place;
        let mut alive = interval(ALIVE);
        let mut look = interval(LOOK);
        if frames.send(frame("tree", None, &last)).await.is_err() {
            return;
        }
        loop {
            let sent = tokio::select! {
                () = frames.0.closed() => return,
                _ = alive.tick() => frames.send(Bytes::from_static(b":\n\n")).await,
                _ = look.tick() => match looked(&ask, &kind, namespace.as_deref(), &name).await {
                    Ok(now) if now == last => Ok(()),
                    Ok(now) => {
                        last = now;
                        frames.send(frame("tree", None, &last)).await
                    }
                    Err(problem) if problem.status.is_server_error() => Ok(()),
                    Err(problem) => {
                        let _ = frames.send(frame("problem", None, &problem.document(&ask.id))).await;
                        return;
                    }
                },
            };
            if sent.is_err() {
                return;
            }
        }
    });
    Ok(response(receiver))
}

/// The stream of lines, each an event of one name.
pub(crate) fn lines(receiver: mpsc::Receiver<Value>) -> Response<Body> {
    let chunks = stream::unfold(receiver, |mut receiver| async move {
        let line = receiver.recv().await?;
        Some((frame("line", None, &line), receiver))
    });
    answer::stream("text/event-stream", chunks)
}
