//! Watches of all objects of an API.

use std::{fmt::Debug, io, mem, vec};

use futures_util::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use kube::{
    Api, Resource,
    api::{ListParams, WatchParams},
    core::{WatchEvent, watch::Bookmark},
};
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// Annotation of the bookmark that ends the initial events of a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Any resourceVersion: a streaming list is served from the server's watch cache, as client-go's first list is.
const ANY_VERSION: &str = "0";

/// Configuration of a watcher: which objects to watch, and how to list them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Label selector, such as `app=web,tier!=db`. Default: all objects.
    pub label_selector: Option<String>,
    /// Field selector, such as `metadata.name=web-0`. Default: all objects.
    pub field_selector: Option<String>,
    /// Seconds after which the server ends a watch, which then resumes. Default: 290, below the 5 minutes after which many
    /// proxies close a connection.
    pub timeout: Option<u32>,
    /// How to list. Default: [`InitialList::Paged`].
    pub initial_list: InitialList,
    /// Objects per page of a paged list, or `None` for a single page. Default: 500.
    pub page_size: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            label_selector: None,
            field_selector: None,
            timeout: None,
            initial_list: InitialList::default(),
            page_size: Some(500),
        }
    }
}

impl Config {
    fn list_params(&self, page_size: Option<u32>, token: Option<String>) -> ListParams {
        ListParams {
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            limit: page_size,
            continue_token: token,
            ..ListParams::default()
        }
    }

    /// Starts a watch.
    async fn watch<K>(&self, api: &Api<K>, send_initial_events: bool, version: &str) -> Result<Events<K>>
    where
        K: Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let params = WatchParams {
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            timeout: self.timeout,
            bookmarks: true,
            send_initial_events,
        };
        let events = api.watch(&params, version).await.map_err(Error::WatchStartFailed)?;
        Ok(events.boxed())
    }
}

/// How to list the objects before watching them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InitialList {
    /// List requests, page by page, at the latest version. Every API server supports them.
    #[default]
    Paged,
    /// A watch that starts with the existing objects (`sendInitialEvents`), which takes less memory than pages. Servers
    /// that don't support it, such as Kubernetes before 1.32 by default, refuse it with 400 or 422:
    /// [`Error::WatchStartFailed`].
    Streaming,
}

/// A change to the watched objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<K> {
    /// A list starts: `InitApply` of each existing object follows.
    Init,
    /// An object of the list. In a streaming list a later state of the same object may follow, or its `Delete`.
    InitApply(K),
    /// The list is complete: objects that it did not include do not exist.
    InitDone,
    /// An object was created or changed.
    Apply(K),
    /// An object was deleted or no longer matches the selectors. This is its last state.
    Delete(K),
}

/// Lists and then watches the objects of an API. The stream never ends: see the [crate] for its order and its errors.
pub fn watcher<K>(api: Api<K>, config: Config) -> impl Stream<Item = Result<Event<K>>> + Send + use<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let watcher = Watcher { api, config, state: State::Unlisted, whole: false };
    stream::unfold(watcher, |mut watcher| async move { Some((watcher.next().await, watcher)) })
}

/// The events of one watch.
type Events<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

struct Watcher<K> {
    api: Api<K>,
    config: Config,
    state: State<K>,
    /// Whether lists are unpaged: from an expired continue token until a list succeeds, as in client-go.
    whole: bool,
}

enum State<K> {
    /// A list starts next.
    Unlisted,
    /// A page was read: its objects that have not been yielded yet, and what follows them.
    Page { objects: vec::IntoIter<K>, rest: Rest },
    /// A streaming list is being read.
    InitialEvents(Events<K>),
    /// The objects are known up to this resourceVersion. A watch starts next.
    Unwatched { version: String },
    /// A watch is open. `version` is the resourceVersion of its last event.
    Watching { version: String, events: Events<K> },
}

/// What follows a page of a list.
enum Rest {
    /// Another page, by its continue token.
    Page(String),
    /// A watch, from the list's resourceVersion.
    Watch { version: String },
}

impl<K> Watcher<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    async fn next(&mut self) -> Result<Event<K>> {
        loop {
            if let Some(event) = self.step().await? {
                return Ok(event);
            }
        }
    }

    /// Sends one request or reads one event. If a step sets no state, as most errors do, a new list follows.
    async fn step(&mut self) -> Result<Option<Event<K>>> {
        match mem::replace(&mut self.state, State::Unlisted) {
            State::Unlisted => {
                self.state = match self.config.initial_list {
                    InitialList::Paged => self.list(None).await?,
                    InitialList::Streaming => {
                        State::InitialEvents(self.config.watch(&self.api, true, ANY_VERSION).await?)
                    }
                };
                Ok(Some(Event::Init))
            }
            State::Page { mut objects, rest } => {
                if let Some(object) = objects.next() {
                    self.state = State::Page { objects, rest };
                    return Ok(Some(Event::InitApply(object)));
                }
                match rest {
                    Rest::Page(token) => {
                        self.state = self.list(Some(token)).await?;
                        Ok(None)
                    }
                    Rest::Watch { version } => {
                        self.state = State::Unwatched { version };
                        Ok(Some(Event::InitDone))
                    }
                }
            }
            State::InitialEvents(events) => self.read_initial(events).await,
            State::Unwatched { version } => match self.config.watch(&self.api, false, &version).await {
                Ok(events) => {
                    self.state = State::Watching { version, events };
                    Ok(None)
                }
                Err(error) => Err(self.fail(version, error)),
            },
            State::Watching { version, events } => self.read(version, events).await,
        }
    }

    /// Requests a page of the list.
    async fn list(&mut self, token: Option<String>) -> Result<State<K>> {
        let is_continued = token.is_some();
        let page_size = self.config.page_size.filter(|_| !self.whole);
        let page = self.api.list(&self.config.list_params(page_size, token)).await;
        let page = page.map_err(Error::InitialListFailed).inspect_err(|error| {
            self.whole |= is_continued && error.is_expired();
        })?;
        let rest = match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => Rest::Page(token),
            None => {
                self.whole = false;
                Rest::Watch { version: known(page.metadata.resource_version)? }
            }
        };
        Ok(State::Page { objects: page.items.into_iter(), rest })
    }

    /// Reads an event of a streaming list, which only its last bookmark completes.
    async fn read_initial(&mut self, mut events: Events<K>) -> Result<Option<Event<K>>> {
        let event = match events.next().await {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => Event::InitApply(object),
            Some(Ok(WatchEvent::Deleted(object))) => Event::Delete(object),
            Some(Ok(WatchEvent::Bookmark(bookmark))) if ends_list(&bookmark) => {
                let version = known(Some(bookmark.metadata.resource_version))?;
                self.state = State::Watching { version, events };
                return Ok(Some(Event::InitDone));
            }
            Some(Ok(WatchEvent::Bookmark(_))) => {
                self.state = State::InitialEvents(events);
                return Ok(None);
            }
            Some(Ok(WatchEvent::Error(status))) => return Err(Error::WatchError(status)),
            Some(Err(error)) => return Err(Error::WatchFailed(error)),
            None => {
                return Err(Error::WatchFailed(kube::Error::ReadEvents(io::ErrorKind::UnexpectedEof.into())));
            }
        };
        self.state = State::InitialEvents(events);
        Ok(Some(event))
    }

    /// Reads an event of a watch.
    async fn read(&mut self, version: String, mut events: Events<K>) -> Result<Option<Event<K>>> {
        let (version, event) = match events.next().await {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                (version_of(&object), Event::Apply(object))
            }
            Some(Ok(WatchEvent::Deleted(object))) => (version_of(&object), Event::Delete(object)),
            Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                // A bookmark without a resourceVersion does not advance the watch.
                let version = known(Some(bookmark.metadata.resource_version)).unwrap_or(version);
                self.state = State::Watching { version, events };
                return Ok(None);
            }
            Some(Ok(WatchEvent::Error(status))) => return Err(self.fail(version, Error::WatchError(status))),
            Some(Err(error)) => {
                let error = Error::WatchFailed(error);
                if error.is_undecodable() {
                    self.state = State::Watching { version, events };
                    return Err(error);
                }
                return Err(self.fail(version, error));
            }
            None => {
                self.state = State::Unwatched { version };
                return Ok(None);
            }
        };
        self.state = State::Watching { version: version?, events };
        Ok(Some(event))
    }

    /// Resumes at `version` after an error, unless the server no longer has it.
    fn fail(&mut self, version: String, error: Error) -> Error {
        if !error.is_expired() {
            self.state = State::Unwatched { version };
        }
        error
    }
}

/// Returns a resourceVersion that a watch can start at.
fn known(version: Option<String>) -> Result<String> {
    version.filter(|version| !version.is_empty()).ok_or(Error::NoResourceVersion)
}

fn version_of<K: Resource>(object: &K) -> Result<String> {
    known(object.meta().resource_version.clone())
}

fn ends_list(bookmark: &Bookmark) -> bool {
    bookmark.metadata.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true")
}
