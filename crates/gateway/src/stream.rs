//! Server-sent events.

use std::{collections::HashSet, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt as _, stream};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, interval, sleep_until},
};

use crate::{
    access,
    answer::{self, Body},
    instances::{self, Selection},
    kinds::Kind,
    problem::{Problem, Result},
    request::RequestContext,
    shared_watch::{Change, Changes, Next},
    tree::Tree,
    watch::Target,
};

/// The interval of keep-alive comments, and of checks of the caller's token.
const ALIVE: Duration = Duration::from_secs(15);
/// The minimum interval between two reads of a changing tree.
const LOOK: Duration = Duration::from_secs(1);
/// How long changes to a tree are batched before it is read.
const GATHER: Duration = Duration::from_millis(100);
/// The maximum interval between two reads of a tree: there may be new kinds that are not watched yet.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// The number of frames buffered for a slow client; beyond it, reading from its watch pauses.
const WAITING: usize = 64;
/// The interval of deliveries to a client. Changes in between are sent together, which costs both sides far less.
const DELIVERY: Duration = Duration::from_millis(20);

/// Formats one frame. JSON has no raw line breaks, so the data is a single line.
fn frame(event: &str, id: Option<&str>, data: &Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Bytes::from(format!("{id}event: {event}\ndata: {data}\n\n"))
}

/// The sending side of a stream.
struct Frames(mpsc::Sender<Bytes>);

/// The client has disconnected, or the stream was ended.
struct Disconnected;

impl Frames {
    async fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        self.0.send(frame).await.map_err(|_| Disconnected)
    }
}

fn response(receiver: mpsc::Receiver<Bytes>) -> Response<Body> {
    let chunks =
        stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    let mut response = answer::stream("text/event-stream", chunks);
    // A buffering proxy would hold events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the resourceVersion that a client resumes from.
fn resume_from(ctx: &RequestContext) -> Result<Option<String>> {
    let given =
        ctx.header("last-event-id").or_else(|| ctx.query.get("lastEventId")).filter(|id| !id.is_empty());
    let Some(id) = given else { return Ok(None) };
    let is_version = id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_version
        .then(|| Some(id.to_owned()))
        .ok_or_else(|| Problem::bad_request("Last-Event-ID: not a valid event id"))
}

/// A stream of the objects of a kind, or of one of them.
struct Feed {
    ctx: RequestContext,
    kind: Arc<Kind>,
    path: String,
    selection: Selection,
    /// The key of how changes are shown: streams of one watch with the same rendition share frames.
    rendition: String,
    /// The UIDs of the objects that the client has; unknown after a resume.
    known: Option<HashSet<String>>,
    frames: Frames,
    /// Reserves the stream's slot until dropped.
    _place: crate::limits::StreamPlace,
}

/// Serves the stream of a list, or of one instance.
pub(crate) async fn instances(
    ctx: RequestContext,
    kind: Arc<Kind>,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<Response<Body>> {
    let mut selection = Selection::read(&ctx, &kind)?;
    if let Some(name) = name {
        selection.selectors +=
            &format!("&fieldSelector={}", crate::upstream::encode(&format!("metadata.name={name}")));
    }
    let place = ctx.shared.limits.stream(&ctx.caller.user.name)?;
    let (path, resumed) = (kind.path(namespace, None), resume_from(&ctx)?);
    // Checked before the response begins, so that a refusal has its own status, and before joining a watch that was authorized
    // earlier.
    let access = access::check(&ctx, &kind, "watch", "", namespace, name).await?;
    if access["allowed"] != true {
        let reason = access["reason"].as_str().unwrap_or_default();
        return Err(Problem::new(StatusCode::FORBIDDEN, "Forbidden", reason));
    }
    let (objects, version) = match resumed {
        None => {
            let (objects, version) = instances::all(&ctx.caller.cluster, &path, &selection.selectors).await?;
            (Some(objects), version)
        }
        Some(version) => (None, version),
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    let known = objects.is_some().then(HashSet::new);
    let rendition = format!(
        "{} {} {}",
        kind.definition_version(),
        ctx.query.flag("reveal")?,
        ctx.query.get("fields").unwrap_or_default()
    );
    let feed = Feed { ctx, kind, path, selection, rendition, known, frames: Frames(sender), _place: place };
    tokio::spawn(async move {
        // The client disconnecting is not an error.
        let _ = feed.run(objects, &version).await;
    });
    Ok(response(receiver))
}

impl Feed {
    fn changes(&self, version: &str) -> Changes {
        let target = Target::new(self.path.as_str(), self.selection.selectors.as_str());
        Changes::after(&self.ctx.shared.watches, &self.ctx.caller.cluster, target, version)
    }

    async fn run(mut self, objects: Option<Vec<Value>>, version: &str) -> Result<(), Disconnected> {
        // Joined before the initial state is sent: a client that reads it slowly misses no event.
        let mut changes = self.changes(version);
        if let Some(objects) = objects {
            self.state(objects, version).await?;
        }
        let mut alive = interval(ALIVE);
        // A shared watch may outlive the session of any one of its streams.
        let session_end = self.ctx.caller.session_end();
        tokio::pin!(session_end);
        let mut next_delivery = Instant::now();
        loop {
            let next = tokio::select! {
                () = self.frames.0.closed() => return Err(Disconnected),
                () = &mut session_end => return self.end(&session_ended()).await,
                _ = alive.tick() => {
                    if let Err(problem) = check_token(&self.ctx).await {
                        return self.end(&problem).await;
                    }
                    self.frames.send(Bytes::from_static(b":\n\n")).await?;
                    continue;
                }
                next = async { sleep_until(next_delivery).await; changes.next().await } => next,
            };
            self.tell(next, &mut changes).await?;
            // Events that have arrived meanwhile are sent in the same delivery.
            for _ in 1..WAITING {
                let Some(next) = changes.next().now_or_never() else { break };
                self.tell(next, &mut changes).await?;
            }
            next_delivery = Instant::now() + DELIVERY;
        }
    }

    async fn tell(&mut self, next: Result<Next>, changes: &mut Changes) -> Result<(), Disconnected> {
        let ended = match next {
            Ok(Next::Changed(change)) => return self.change(&change, &changes.version()).await,
            // A frame without data advances the client's last event ID and dispatches no event.
            Ok(Next::Bookmark) => {
                return self.frames.send(Bytes::from(format!("id: {}\n\n", changes.version()))).await;
            }
            Ok(Next::Expired) => {
                self.frames.send(frame("reset", None, &json!({}))).await?;
                self.known = Some(HashSet::new());
                let cluster = &self.ctx.caller.cluster;
                match instances::all(cluster, &self.path, &self.selection.selectors).await {
                    Ok((objects, version)) => {
                        *changes = self.changes(&version);
                        return self.state(objects, &version).await;
                    }
                    Err(problem) => problem,
                }
            }
            Err(problem) => problem,
        };
        self.end(&ended).await?;
        Err(Disconnected)
    }

    async fn end(&self, problem: &Problem) -> Result<(), Disconnected> {
        self.frames.send(frame("problem", None, &problem.document(&self.ctx.id))).await
    }

    /// Sends the complete state. The ID to resume from follows at its end: a partial state cannot be resumed.
    async fn state(&mut self, objects: Vec<Value>, version: &str) -> Result<(), Disconnected> {
        for object in objects {
            if self.selection.holds(&object, &self.kind) {
                self.note("ADDED", &object);
                self.show(self.render("ADDED", &object, None)).await?;
            }
        }
        self.frames.send(frame("sync", Some(version), &json!({"resourceVersion": version}))).await
    }

    async fn change(&mut self, change: &Change, version: &str) -> Result<(), Disconnected> {
        let (event, object) = (change.kind, &change.object);
        let wanted = event != "DELETED" && self.selection.holds(object, &self.kind);
        let had = self.known.as_ref().is_none_or(|known| known.contains(uid(object)));
        let event = match (wanted, had) {
            (false, false) => return self.frames.send(Bytes::from(format!("id: {version}\n\n"))).await,
            (false, true) => "DELETED",
            (true, false) => "ADDED",
            (true, true) if self.known.is_some() => "MODIFIED",
            (true, true) => event,
        };
        self.note(event, object);
        let made = change
            .frame(&format!("{event} {}", self.rendition), || self.render(event, object, Some(version)));
        self.show(made).await
    }

    /// Tracks whether the client has the object.
    fn note(&mut self, event: &str, object: &Value) {
        if let Some(known) = &mut self.known {
            if event == "DELETED" {
                known.remove(uid(object));
            } else {
                known.insert(uid(object).to_owned());
            }
        }
    }

    fn render(&self, event: &str, object: &Value, id: Option<&str>) -> Result<Bytes> {
        let item = self.selection.item(&self.ctx, &self.kind, object)?;
        Ok(frame("change", id, &json!({"type": event, "item": item})))
    }

    /// Sends a change. The parameters were validated before; an object that cannot be shown is sent as a problem.
    async fn show(&self, made: Result<Bytes>) -> Result<(), Disconnected> {
        match made {
            Ok(frame) => self.frames.send(frame).await,
            Err(problem) => self.end(&problem).await,
        }
    }
}

fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

fn session_ended() -> Problem {
    Problem::unauthorized("the session has ended")
}

/// Fails once the cluster no longer accepts the caller's token.
async fn check_token(ctx: &RequestContext) -> Result<()> {
    let caller = ctx.shared.identities.caller(&http::Method::GET, &ctx.headers, &ctx.shared.upstream).await;
    match caller {
        Err(problem) if problem.status.is_client_error() => Err(problem),
        _ => Ok(()),
    }
}

/// Serves the stream of a tree: the whole tree, whenever something in it has changed.
pub(crate) async fn tree(
    ctx: RequestContext,
    kind: Arc<Kind>,
    namespace: Option<String>,
    name: String,
) -> Result<Response<Body>> {
    let place = ctx.shared.limits.stream(&ctx.caller.user.name)?;
    let tree = Tree::look(&ctx, &kind, namespace.as_deref(), &name).await?;
    let (sender, receiver) = mpsc::channel(WAITING);
    let feed = TreeFeed { ctx, kind, namespace, name, frames: Frames(sender), _place: place };
    tokio::spawn(async move {
        // The client disconnecting is not an error.
        let _ = feed.run(tree).await;
    });
    Ok(response(receiver))
}

/// A stream of a changing tree.
struct TreeFeed {
    ctx: RequestContext,
    kind: Arc<Kind>,
    namespace: Option<String>,
    name: String,
    frames: Frames,
    /// Reserves the stream's slot until dropped.
    _place: crate::limits::StreamPlace,
}

impl TreeFeed {
    async fn run(self, mut tree: Tree) -> Result<(), Disconnected> {
        self.frames.send(frame("tree", None, &tree.document)).await?;
        let mut watching = tree.watch(&self.ctx);
        let mut looked = Instant::now();
        let mut next_look = looked + LOOK_AGAIN;
        let mut alive = interval(ALIVE);
        let session_end = self.ctx.caller.session_end();
        tokio::pin!(session_end);
        loop {
            tokio::select! {
                () = self.frames.0.closed() => return Err(Disconnected),
                () = &mut session_end => return self.end(&session_ended()).await,
                _ = alive.tick() => {
                    if let Err(problem) = check_token(&self.ctx).await {
                        return self.end(&problem).await;
                    }
                    self.frames.send(Bytes::from_static(b":\n\n")).await?;
                }
                change = watching.next() => {
                    if change.is_none_or(|change| tree.concerns(&change)) {
                        next_look = next_look.min((looked + LOOK).max(Instant::now() + GATHER));
                    }
                }
                () = sleep_until(next_look) => {
                    let look = Tree::look(&self.ctx, &self.kind, self.namespace.as_deref(), &self.name).await;
                    looked = Instant::now();
                    next_look = looked + LOOK_AGAIN;
                    match look {
                        Ok(now) => {
                            if now.document != tree.document {
                                self.frames.send(frame("tree", None, &now.document)).await?;
                            }
                            tree = now;
                            watching = tree.watch(&self.ctx);
                        }
                        Err(problem) if problem.status.is_server_error() => next_look = looked + LOOK,
                        Err(problem) => return self.end(&problem).await,
                    }
                }
            }
        }
    }

    async fn end(&self, problem: &Problem) -> Result<(), Disconnected> {
        self.frames.send(frame("problem", None, &problem.document(&self.ctx.id))).await
    }
}

/// Serves a stream of lines, each of them an event of the same name.
pub(crate) fn lines(receiver: mpsc::Receiver<Value>) -> Response<Body> {
    let chunks = stream::unfold(receiver, |mut receiver| async move {
        let line = receiver.recv().await?;
        Some((frame("line", None, &line), receiver))
    });
    answer::stream("text/event-stream", chunks)
}
