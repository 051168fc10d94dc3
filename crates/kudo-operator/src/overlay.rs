//! A dry-run client: writes are kept in memory, where reads find them, and reported. Updates of existing objects are sent to the
//! API server as a dry run.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// An object before and after a write; None if it did or would not exist.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

/// An overlay over a cluster's objects.
#[derive(Clone)]
pub(crate) struct Overlay {
    inner: Client,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The objects by path; None if deleted.
    objects: HashMap<String, Option<Value>>,
    written: Vec<Written>,
}

impl Overlay {
    pub(crate) fn new(inner: Client) -> Self {
        Self { inner, state: Arc::default() }
    }

    /// Returns a client of the overlay.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.clone(), self.inner.default_namespace())
    }

    /// Returns the writes since the previous call.
    pub(crate) fn take(&self) -> Vec<Written> {
        std::mem::take(&mut self.lock().written)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn object(&self, path: &str) -> Result<Option<Value>, BoxError> {
        if let Some(known) = self.lock().objects.get(path) {
            return Ok(known.clone());
        }
        let request = Request::get(path).body(Vec::new())?;
        match self.inner.request::<Value>(request).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the server's result of an update: with defaulting, or the rejection. Objects that exist in the overlay cannot be
    /// checked.
    async fn rehearse(&self, path: &str, object: Value) -> Result<Rehearsal, BoxError> {
        if self.lock().objects.contains_key(path) {
            return Ok(Rehearsal::Accepted(object));
        }
        let request = Request::put(format!("{path}?dryRun=All")).body(serde_json::to_vec(&object)?)?;
        match self.inner.request::<Value>(request).await {
            Ok(after) => Ok(Rehearsal::Accepted(after)),
            // Webhooks with side effects make the server reject a dry run.
            Err(kube::Error::Api(status)) if status.code == 400 => Ok(Rehearsal::Accepted(object)),
            Err(kube::Error::Api(status)) => {
                let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                Ok(Rehearsal::Refused(code, status.message.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        if method == Method::GET {
            let known = self.lock().objects.get(&path).cloned();
            return match known {
                None => Ok(self.inner.send(request).await?),
                Some(Some(object)) => respond(StatusCode::OK, &object),
                Some(None) => not_found(&path),
            };
        }
        let body: Value = match request.into_body().collect_bytes().await? {
            bytes if bytes.is_empty() => Value::Null,
            bytes => serde_json::from_slice(&bytes)?,
        };
        let place = match method {
            Method::POST => format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default()),
            _ => path,
        };
        let before = self.object(&place).await?;
        let after = match method {
            Method::POST if before.is_some() => return conflict(&place),
            Method::PUT => match self.rehearse(&place, body).await? {
                Rehearsal::Accepted(after) => Some(after),
                Rehearsal::Refused(code, message) => return failure(code, "Refused", &message),
            },
            Method::POST => Some(body),
            Method::PATCH => {
                let Some(mut object) = before.clone() else { return not_found(&place) };
                merge(&mut object, &body);
                Some(object)
            }
            _ if before.is_none() => return not_found(&place),
            _ => None,
        };
        let mut state = self.lock();
        state.objects.insert(place, after.clone());
        state.written.push(Written { before, after: after.clone() });
        respond(StatusCode::OK, &after.unwrap_or_else(|| json!({ "kind": "Status", "status": "Success" })))
    }
}

/// The server's response to a dry run.
enum Rehearsal {
    /// The resulting object.
    Accepted(Value),
    /// The reason of the rejection.
    Refused(StatusCode, String),
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl tower_service::Service<Request<Body>> for Overlay {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

fn respond(code: StatusCode, body: &Value) -> Result<Response<Body>, BoxError> {
    let response = Response::builder().status(code).header(http::header::CONTENT_TYPE, "application/json");
    Ok(response.body(Body::from(serde_json::to_vec(body)?))?)
}

fn failure(code: StatusCode, reason: &str, message: &str) -> Result<Response<Body>, BoxError> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(), "reason": reason,
        "message": message,
    });
    respond(code, &status)
}

fn not_found(path: &str) -> Result<Response<Body>, BoxError> {
    failure(StatusCode::NOT_FOUND, "NotFound", &format!("{path} not found"))
}

fn conflict(path: &str) -> Result<Response<Body>, BoxError> {
    failure(StatusCode::CONFLICT, "AlreadyExists", &format!("{path} already exists"))
}

/// Applies a JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(table) = target.as_object_mut() else { return };
    for (key, value) in fields {
        if value.is_null() {
            table.remove(key);
        } else {
            merge(table.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
