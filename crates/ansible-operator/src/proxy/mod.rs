//! The proxy between runs and the cluster. Completes requests that have a run's token, and forwards them as the operator.
//!
//! A single server for the whole operator listens on the loopback interface, on a port chosen by the system. A run's token is
//! random, stored in a file that only the operator's user can read, and revoked when the run ends; requests without a token are
//! rejected.

mod owner;
mod recent;
mod target;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName,
    HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper_util::rt::TokioIo;
use kube::api::DynamicObject;
use kube::client::Body;
use serde_json::{Value, json};
use steersman::{Context, Key, Kind, Meta, Snapshot, Watch, predicate};
use steersman_listener::{Limits, Listener, RequestBody, Tunnel};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) use self::owner::{Owner, owners};
pub(crate) use self::recent::Recent;
use self::target::Target;
use crate::error::{Error, Result};
use crate::redact::Redactor;
use crate::resources::{Found, Resources};
use crate::runs::Dependent;
use crate::watches::GroupVersionKind;

/// The maximum size of a buffered body: several times etcd's limit.
const LARGEST_BODY: usize = 32 << 20;
/// Subresources with effects outside of the store, which a dry run cannot prevent.
const ACTING_SUBRESOURCES: [&str; 4] = ["exec", "attach", "portforward", "proxy"];

/// Prefix of the annotations in which the Deployment controller keeps its state.
const BOOKKEEPING: &str = "deployment.kubernetes.io/";

/// Header that marks a read served from the cache; operator-sdk's name.
const CACHE: HeaderName = HeaderName::from_static("x-cache");

/// The settings for the requests of a run.
pub(crate) struct RunScope {
    pub(crate) context: Context,
    pub(crate) owner: Owner,
    /// Whether created objects get an owner reference or annotation.
    pub(crate) inject_owner: bool,
    /// Whether the kinds of created objects are watched.
    pub(crate) watch_dependents: bool,
    /// Whether cluster-scoped kinds are watched, too.
    pub(crate) watch_cluster_scoped: bool,
    /// Kinds that are not watched.
    pub(crate) blacklist: Vec<GroupVersionKind>,
    /// Whether writes are dry runs.
    pub(crate) dry_run: bool,
    pub(crate) resources: Resources,
    pub(crate) redactor: Redactor,
    /// Kinds that the controller watches, shared by all of its runs.
    pub(crate) watched: Arc<Mutex<HashSet<Kind>>>,
    /// Recent responses, shared by all runs of the controller.
    pub(crate) recent: Arc<Recent>,
    /// Objects of watched kinds that the run wrote: true if it owns them, false if it deleted them.
    pub(crate) touched: Mutex<HashMap<Dependent, bool>>,
}

type Runs = Arc<Mutex<HashMap<String, Arc<RunScope>>>>;

/// The proxy server.
pub(crate) struct Proxy {
    address: SocketAddr,
    runs: Runs,
    server: JoinHandle<()>,
}

/// A run's access to the proxy, revoked on drop.
pub(crate) struct Access {
    token: String,
    address: SocketAddr,
    runs: Runs,
}

impl Proxy {
    /// Listens on a port of the loopback interface.
    pub(crate) async fn start() -> Result<Self> {
        let failed = |source| Error::io("the proxy cannot listen on 127.0.0.1", source);
        let socket = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let runs = Runs::default();
        let serving = Arc::clone(&runs);
        let server = tokio::spawn(Listener::new(socket).limits(Limits::default()).serve(move |_| {
            let runs = Arc::clone(&serving);
            move |request| answer(Arc::clone(&runs), request)
        }));
        Ok(Self { address, runs, server })
    }

    /// Grants access to a run.
    pub(crate) fn open(&self, scope: Arc<RunScope>) -> std::io::Result<Access> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), scope);
        Ok(Access { token, address: self.address, runs: Arc::clone(&self.runs) })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Access {
    /// Returns the run's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "proxy-server", "cluster": { "server": format!("http://{}", self.address) } }],
            "users": [{ "name": "run", "user": { "token": self.token } }],
            "contexts": [{ "name": "proxy-server", "context": { "cluster": "proxy-server", "user": "run" } }],
            "current-context": "proxy-server",
        })
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.token);
    }
}

async fn answer(runs: Runs, request: Request<RequestBody>) -> Response<Body> {
    let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer "));
    let scope =
        token.and_then(|token| runs.lock().unwrap_or_else(PoisonError::into_inner).get(token).cloned());
    let Some(scope) = scope else {
        return refusal(
            StatusCode::UNAUTHORIZED,
            "Unauthorized",
            "only the operator's own runs may use this proxy",
        );
    };
    match scope.handle(request).await {
        Ok(response) => response,
        Err(ProxyError::Refused(message)) => refusal(StatusCode::FORBIDDEN, "Forbidden", &message),
        Err(ProxyError::Failed(message)) => refusal(StatusCode::BAD_GATEWAY, "ServiceUnavailable", &message),
    }
}

/// Errors that prevent a request from being forwarded.
enum ProxyError {
    Refused(String),
    Failed(String),
}

impl From<kube::Error> for ProxyError {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

fn refusal(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let status = json!({
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code.as_u16(),
    });
    reply(code, &status)
}

fn reply(code: StatusCode, content: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(content.to_string().into_bytes()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl RunScope {
    async fn handle(&self, request: Request<RequestBody>) -> std::result::Result<Response<Body>, ProxyError> {
        let target = Target::of(request.uri().path());
        let (mut parts, body) = request.into_parts();
        for name in [AUTHORIZATION, HOST, ACCEPT_ENCODING, TRANSFER_ENCODING, TE, CONTENT_LENGTH] {
            parts.headers.remove(name);
        }
        let is_write = matches!(parts.method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE);
        if self.dry_run {
            if let Some(acting) = target.as_ref().and_then(|target| target.subresource.as_deref())
                && ACTING_SUBRESOURCES.contains(&acting.split('/').next().unwrap_or_default())
            {
                return Err(ProxyError::Refused(format!("{acting} does not support dry run")));
            }
            if is_write {
                parts.uri = with_dry_run(&parts.uri)?;
            }
        }
        if parts.headers.contains_key(UPGRADE) {
            return self.tunnel(parts).await;
        }
        parts.headers.remove(CONNECTION);
        let body = read(body).await?;
        let Some(target) = target else {
            return self.pass(parts, body).await;
        };
        let is_object = target.subresource.is_none();
        if parts.method == Method::GET {
            return self.get(parts, body, &target).await;
        }
        if !is_write || !is_object {
            return self.pass(parts, body).await;
        }
        let found = self.found(&target).await;
        let body = match &found {
            Some(found) if found.watchable => self.completed(&parts, &target, found, body).await,
            _ => body,
        };
        if target.resource == "secrets"
            && let Ok(secret) = steersman_yaml::from_slice(&body)
        {
            self.redactor.learn(&secret);
        }
        let method = parts.method.clone();
        let response = self.pass(parts, body).await?;
        if self.dry_run || !response.status().is_success() {
            return Ok(response);
        }
        let (head, content) = whole(response).await?;
        if let Some(found) = found.filter(|found| found.watchable) {
            if method == Method::PATCH && found.kind != self.owner.kind && !self.is_watched(&found.kind) {
                self.watch_made_before(&found.kind, &content).await;
            }
            self.observe(&method, &target, &found.kind, &content);
        }
        Ok(Response::from_parts(head, Body::from(content.to_vec())))
    }

    async fn found(&self, target: &Target) -> Option<Found> {
        let client = self.context.client();
        self.resources.by_plural(&client, &target.api_version, &target.resource).await.ok().flatten()
    }

    /// Serves a read. Uses the cache if the object is of a watched kind and unchanged, else the cluster.
    async fn get(
        &self,
        parts: http::request::Parts,
        body: Bytes,
        target: &Target,
    ) -> std::result::Result<Response<Body>, ProxyError> {
        let Some((kind, key)) = self.dependent(&parts, target).await else {
            let response = self.pass(parts, body).await?;
            return self.learn_secrets(target, response).await;
        };
        if !self.is_watched(&kind) {
            let (head, content) = whole(self.pass(parts, body).await?).await?;
            if head.status == StatusCode::OK {
                self.watch_made_before(&kind, &content).await;
            }
            let response = Response::from_parts(head, Body::from(content.to_vec()));
            return self.learn_secrets(target, response).await;
        }
        let version = self
            .context
            .cached(&kind, &key)
            .and_then(|snapshot| snapshot.meta().ok().map(|meta| meta.resource_version.to_string()));
        let kept = version.and_then(|version| self.recent.get(&kind, &key, &version));
        let response = match kept {
            Some(content) => {
                let mut response = Response::new(Body::from(content.to_vec()));
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                headers.insert(CACHE, HeaderValue::from_static("HIT"));
                response
            }
            None => {
                let (head, content) = whole(self.pass(parts, body).await?).await?;
                if head.status == StatusCode::OK {
                    self.recent.keep(&kind, &key, &content);
                }
                Response::from_parts(head, Body::from(content.to_vec()))
            }
        };
        self.learn_secrets(target, response).await
    }

    /// Returns the object that a request reads, if it may be cached. A run must be able to create it, and the request is for its
    /// default representation.
    async fn dependent(&self, parts: &http::request::Parts, target: &Target) -> Option<(Kind, Key)> {
        let name = target.name.as_deref()?;
        let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
        let is_plain = target.subresource.is_none()
            && parts.uri.query().unwrap_or_default().is_empty()
            && accept.split(',').any(|one| matches!(one.trim(), "*/*" | "application/json"))
            && !accept.contains("as=");
        if !is_plain {
            return None;
        }
        let found = self.found(target).await.filter(|found| found.watchable)?;
        // Writes to the controller's own kind are not passed to the caches, which may therefore be behind.
        (found.kind != self.owner.kind).then(|| (found.kind, Key::new(target.namespace.as_deref(), name)))
    }

    fn is_watched(&self, kind: &Kind) -> bool {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).contains(kind)
    }

    /// Forwards a connection that upgrades its protocol, such as `exec`.
    async fn tunnel(&self, parts: http::request::Parts) -> std::result::Result<Response<Body>, ProxyError> {
        let mut response = self.context.client().send(Request::from_parts(parts, Body::empty())).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(without_hop_headers(response));
        }
        let upstream = hyper::upgrade::on(&mut response).await;
        let upstream = upstream.map_err(|error| ProxyError::Failed(error.to_string()))?;
        response.extensions_mut().insert(Tunnel::new(TokioIo::new(upstream)));
        Ok(response)
    }

    /// Forwards a request with the operator's credentials.
    async fn pass(
        &self,
        parts: http::request::Parts,
        body: Bytes,
    ) -> std::result::Result<Response<Body>, ProxyError> {
        let request = Request::from_parts(parts, Body::from(body.to_vec()));
        Ok(without_hop_headers(self.context.client().send(request).await?))
    }

    /// Returns the body of a write. Adds the owner where a new object needs it, and where an update would lose it.
    async fn completed(
        &self,
        parts: &http::request::Parts,
        target: &Target,
        found: &Found,
        body: Bytes,
    ) -> Bytes {
        let is_apply = parts.headers.get(CONTENT_TYPE).is_some_and(|value| {
            value.to_str().is_ok_and(|value| value.starts_with("application/apply-patch"))
        });
        let creates = parts.method == Method::POST;
        if !self.inject_owner || !(creates || is_apply || parts.method == Method::PUT) {
            return body;
        }
        let Ok(mut object) = steersman_yaml::from_slice(&body) else { return body };
        let namespace = target.namespace.as_deref().filter(|_| found.kind.namespaced());
        if !creates {
            // Only objects that the run creates are owned: an existing object without the mark stays without it.
            let live = self.live(target, found).await;
            let is_ours = match &live {
                Some(live) => self.owner.is_on(live),
                None => is_apply,
            };
            if !is_ours {
                return body;
            }
        }
        self.owner.mark(&mut object, namespace);
        self.watch(&found.kind).await;
        Bytes::from(object.to_string())
    }

    async fn live(&self, target: &Target, found: &Found) -> Option<Value> {
        let api: kube::Api<DynamicObject> = match &target.namespace {
            Some(namespace) => {
                kube::Api::namespaced_with(self.context.client(), namespace, found.kind.resource())
            }
            None => kube::Api::all_with(self.context.client(), found.kind.resource()),
        };
        let live = api.get_opt(target.name.as_deref()?).await.ok()??;
        serde_json::to_value(live).ok()
    }

    /// Watches the kind of an object created by an earlier process. After a restart, a run may find nothing left to create.
    async fn watch_made_before(&self, kind: &Kind, content: &Bytes) {
        if self.inject_owner && serde_json::from_slice(content).is_ok_and(|object| self.owner.is_on(&object))
        {
            self.watch(kind).await;
        }
    }

    /// Watches the kind of an object that the run is about to create. Called before the write, so that it is recognized as an
    /// own write.
    async fn watch(&self, kind: &Kind) {
        let resource = kind.resource();
        let listed = self.blacklist.iter().any(|one| {
            one.group == resource.group && one.version == resource.version && one.kind == resource.kind
        });
        let wanted = self.watch_dependents && (kind.namespaced() || self.watch_cluster_scoped);
        if !wanted || listed || self.dry_run {
            return;
        }
        if !self.watched.lock().unwrap_or_else(PoisonError::into_inner).insert(kind.clone()) {
            return;
        }
        let owner_kind = self.owner.kind.clone();
        let watch = Watch::mapped_kind(kind.clone(), "ansible-dependents", move |snapshot| {
            owners(&owner_kind, snapshot)
        });
        // Without permission to list and watch the kind, the run still continues.
        if let Err(error) = self.context.watch(watch.when(is_drift).optional()).await {
            tracing::warn!(%kind, %error, "cannot watch dependents");
        }
    }

    /// Updates the caches with the run's own write.
    fn observe(&self, method: &Method, target: &Target, kind: &Kind, content: &Bytes) {
        // A change of the controller's own kind has to trigger a run.
        if *kind == self.owner.kind {
            return;
        }
        let is_watched = self.is_watched(kind);
        if *method == Method::DELETE {
            let answer: Value = serde_json::from_slice(content).unwrap_or_default();
            let uid =
                ["/details/uid", "/metadata/uid"].iter().find_map(|path| answer.pointer(path)?.as_str());
            if let (Some(uid), Some(name)) = (uid, &target.name) {
                let key = Key::new(target.namespace.as_deref(), name);
                self.context.observe_deleted(kind, &key, uid);
                self.recent.forget(kind, &key);
                self.touch(kind, key, false);
            }
            return;
        }
        let Ok(object) = serde_json::from_slice::<DynamicObject>(content) else { return };
        if let Err(error) = self.context.observe_dynamic(kind, &object) {
            tracing::debug!(%kind, %error, "cannot parse a response");
        }
        if is_watched && let Some(name) = &object.metadata.name {
            let key = Key::new(target.namespace.as_deref(), name);
            self.recent.keep(kind, &key, content);
            if serde_json::from_slice(content).is_ok_and(|object| self.owner.is_on(&object)) {
                self.touch(kind, key, true);
            }
        }
    }

    fn touch(&self, kind: &Kind, key: Key, is_there: bool) {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).insert((kind.clone(), key), is_there);
    }

    /// Returns the objects that the run wrote and deleted.
    pub(crate) fn take_touched(&self) -> HashMap<Dependent, bool> {
        std::mem::take(&mut self.touched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn learn_secrets(
        &self,
        target: &Target,
        response: Response<Body>,
    ) -> std::result::Result<Response<Body>, ProxyError> {
        let is_secret = target.resource == "secrets" && target.api_version == "v1";
        // A watch is streamed unread.
        let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
        if !is_secret || !is_json || !response.status().is_success() {
            return Ok(response);
        }
        let (head, content) = whole(response).await?;
        if let Ok(secret) = serde_json::from_slice(&content) {
            self.redactor.learn(&secret);
        }
        Ok(Response::from_parts(head, Body::from(content.to_vec())))
    }
}

/// Whether a change of a dependent triggers a run: anything except status and bookkeeping.
fn is_drift(old: &Snapshot, new: &Snapshot) -> bool {
    if !predicate::spec_changed(old, new) {
        return false;
    }
    if let (Ok(before), Ok(now)) = (old.meta(), new.meta())
        && now.generation > 0
    {
        return is_edited(&before, &now);
    }
    let essence = |snapshot: &Snapshot| -> Option<Value> {
        let mut object: Value = serde_json::from_slice(snapshot.json()).ok()?;
        object.as_object_mut()?.remove("status");
        let meta = object.get_mut("metadata")?.as_object_mut()?;
        meta.remove("resourceVersion");
        meta.remove("managedFields");
        Some(object)
    };
    match (essence(old), essence(new)) {
        (Some(old), Some(new)) => old != new,
        _ => true,
    }
}

/// Whether an object changed in more than status and bookkeeping, for a kind with generations.
fn is_edited(before: &Meta<'_>, now: &Meta<'_>) -> bool {
    fn annotations<'a>(meta: &'a Meta<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = meta.annotations.iter().map(|(name, value)| (&**name, &**value));
        all.filter(|(name, _)| !name.starts_with(BOOKKEEPING))
    }
    before.generation != now.generation
        || before.labels != now.labels
        || before.finalizers != now.finalizers
        || !annotations(before).eq(annotations(now))
}

fn without_hop_headers(mut response: Response<Body>) -> Response<Body> {
    for name in [CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH] {
        response.headers_mut().remove(name);
    }
    response
}

async fn read(body: RequestBody) -> std::result::Result<Bytes, ProxyError> {
    match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(ProxyError::Refused(format!("failed to read request body: {error}"))),
    }
}

async fn whole(response: Response<Body>) -> std::result::Result<(http::response::Parts, Bytes), ProxyError> {
    let (head, body) = response.into_parts();
    match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(body) => Ok((head, body.to_bytes())),
        Err(error) => Err(ProxyError::Failed(format!("failed to read the response: {error}"))),
    }
}

fn with_dry_run(uri: &http::Uri) -> std::result::Result<http::Uri, ProxyError> {
    let query = uri.query().unwrap_or_default();
    let others = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("dryRun="));
    let query: Vec<&str> = others.chain(["dryRun=All"]).collect();
    let text = format!("{}?{}", uri.path(), query.join("&"));
    text.parse().map_err(|error| ProxyError::Failed(format!("{text}: {error}")))
}

#[cfg(test)]
mod tests;
