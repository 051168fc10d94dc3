//! An API server that responds to each request with the next entry of a script.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, client::Body};
use serde_json::{Value, json};
use tower_service::Service;

/// How a watch ends after its events.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// Closed by the server, as at its timeout.
    Closed,
    /// Connection error.
    Broken,
    /// Stays open.
    Open,
}

/// The answer to one request.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A body of JSON.
    Body(Value),
    /// A failure, with its code.
    Refused(u16),
    /// Connection error before any response.
    Unreachable,
    /// The events of a watch.
    Events(Vec<Value>, End),
}

/// Scripted responses, and the requests received. A request beyond the script gets no response.
#[derive(Clone)]
pub(crate) struct Server {
    script: Arc<Mutex<VecDeque<Answer>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self { script: Arc::new(Mutex::new(script.into_iter().collect())), requests: Arc::default() }
    }

    pub(crate) fn api(&self) -> Api<ConfigMap> {
        Api::default_namespaced(Client::new(self.clone(), "default"))
    }

    /// Returns the queries of the requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;

impl Service<Request<Body>> for Server {
    type Response = Response<AnswerBody>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Response<AnswerBody>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default().trim_start_matches('&').to_owned();
        self.requests.lock().unwrap().push(query);
        let answer = self.script.lock().unwrap().pop_front();
        Box::pin(async move {
            let Some(answer) = answer else { return std::future::pending().await };
            let (code, body) = match answer {
                Answer::Body(body) => (200, body_of(vec![body], End::Closed)),
                Answer::Refused(code) => (code, body_of(vec![status(code)], End::Closed)),
                Answer::Unreachable => return Err(io::ErrorKind::ConnectionRefused.into()),
                Answer::Events(events, end) => (200, body_of(events, end)),
            };
            Ok(Response::builder().status(code).body(body).unwrap())
        })
    }
}

fn body_of(lines: Vec<Value>, end: End) -> AnswerBody {
    let lines = lines.into_iter().map(|line| Ok(Frame::data(Bytes::from(format!("{line}\n")))));
    let end = match end {
        End::Closed => stream::empty().boxed(),
        End::Broken => stream::iter([Err(io::ErrorKind::ConnectionReset.into())]).boxed(),
        End::Open => stream::pending().boxed(),
    };
    StreamBody::new(stream::iter(lines).chain(end)).boxed_unsync()
}

/// A failure as the API server sends it.
pub(crate) fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": if code == 410 { "Expired" } else { "Other" }, "message": format!("refused: {code}")})
}

/// An object.
pub(crate) fn map(name: &str, version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "resourceVersion": version}})
}

/// An unpaged list, or the last page of one.
pub(crate) fn list(version: &str, items: &[Value]) -> Answer {
    page(version, items, "")
}

/// A page of a list.
pub(crate) fn page(version: &str, items: &[Value], token: &str) -> Answer {
    Answer::Body(json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": items,
        "metadata": {"resourceVersion": version, "continue": token}}))
}

pub(crate) fn added(name: &str, version: &str) -> Value {
    json!({"type": "ADDED", "object": map(name, version)})
}

pub(crate) fn modified(name: &str, version: &str) -> Value {
    json!({"type": "MODIFIED", "object": map(name, version)})
}

pub(crate) fn deleted(name: &str, version: &str) -> Value {
    json!({"type": "DELETED", "object": map(name, version)})
}

pub(crate) fn bookmark(version: &str) -> Value {
    json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"resourceVersion": version}}})
}

/// The bookmark at the end of a streaming list.
pub(crate) fn end_of_list(version: &str) -> Value {
    json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}}})
}

/// An error as an event.
pub(crate) fn error(code: u16) -> Value {
    json!({"type": "ERROR", "object": status(code)})
}
