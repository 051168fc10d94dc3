//! Idempotency keys: a repeated request with the same key receives the first one's response.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt as _;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::{
    answer::{self, Body},
    problem::{Problem, Result},
    request::RequestContext,
};

/// How long a response is kept.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of responses kept, and their total size; the oldest are evicted first.
const MOST: usize = 10_000;
const MOST_BYTES: usize = 64 << 20;
const LONGEST_KEY: usize = 255;

type Hash = [u8; 32];

/// A request, identified by its idempotency key and its content.
pub(crate) struct Request {
    key: Hash,
    content: Hash,
}

impl Request {
    /// Hashes a request's key and content. Keys are scoped to the user.
    pub(crate) fn of(ctx: &RequestContext, key: &str) -> Result<Self> {
        if key.is_empty() || key.len() > LONGEST_KEY {
            return Err(Problem::bad_request(format!(
                "Idempotency-Key must have 1 to {LONGEST_KEY} characters"
            )));
        }
        let digest = |parts: &[&[u8]]| {
            let mut hash = Sha256::new();
            for part in parts {
                hash.update(part.len().to_be_bytes());
                hash.update(part);
            }
            hash.finalize().into()
        };
        let query = format!("{:?}", ctx.query);
        let if_match = ctx.header("if-match").unwrap_or_default();
        Ok(Self {
            key: digest(&[ctx.caller.user.name.as_bytes(), key.as_bytes()]),
            content: digest(&[
                ctx.method.as_str().as_bytes(),
                ctx.path.as_bytes(),
                query.as_bytes(),
                ctx.media_type().as_bytes(),
                if_match.as_bytes(),
                &ctx.body,
            ]),
        })
    }
}

struct StoredResponse {
    content: Hash,
    at: Instant,
    /// None while the request is in progress.
    answer: Option<(StatusCode, HeaderMap, Bytes)>,
}

/// The responses kept for replay.
#[derive(Default)]
pub(crate) struct Replays(Mutex<HashMap<Hash, StoredResponse>>);

/// Releases the key on drop, unless there is a response to keep.
struct Claim<'a> {
    replays: &'a Replays,
    key: Hash,
    settled: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.replays.lock().remove(&self.key);
        }
    }
}

impl Replays {
    fn lock(&self) -> MutexGuard<'_, HashMap<Hash, StoredResponse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a request, or replays the response of the first one with its key. Errors are not kept, so that the request can be
    /// retried.
    pub(crate) async fn once(
        &self,
        request: Request,
        work: impl Future<Output = Result<Response<Body>>>,
    ) -> Result<Response<Body>> {
        if let Some(response) = self.claim(&request)? {
            return Ok(response);
        }
        let mut claim = Claim { replays: self, key: request.key, settled: false };
        let (head, body) = work.await?.into_parts();
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        let mut kept = self.lock();
        if let Some(entry) = kept.get_mut(&request.key) {
            entry.answer = Some((head.status, head.headers.clone(), body.clone()));
            claim.settled = true;
        }
        shrink(&mut kept);
        drop(kept);
        let mut response = answer::empty(head.status).map(|_| http_body_util::Full::new(body).boxed_unsync());
        *response.headers_mut() = head.headers;
        Ok(response)
    }

    fn claim(&self, request: &Request) -> Result<Option<Response<Body>>> {
        let mut kept = self.lock();
        if let Some(entry) = kept.get(&request.key).filter(|entry| entry.at.elapsed() < KEPT) {
            if entry.content != request.content {
                let detail = "the Idempotency-Key was used for another request";
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "IdempotencyKeyReused", detail));
            }
            let Some((status, headers, body)) = &entry.answer else {
                let detail = "the first request with this Idempotency-Key is still in progress";
                return Err(Problem::new(StatusCode::CONFLICT, "Conflict", detail));
            };
            let mut response =
                answer::empty(*status).map(|_| http_body_util::Full::new(body.clone()).boxed_unsync());
            *response.headers_mut() = headers.clone();
            response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
            return Ok(Some(response));
        }
        kept.insert(
            request.key,
            StoredResponse { content: request.content, at: Instant::now(), answer: None },
        );
        Ok(None)
    }
}

/// Evicts the oldest responses until the rest is within the limits.
fn shrink(kept: &mut HashMap<Hash, StoredResponse>) {
    let size = |entry: &StoredResponse| entry.answer.as_ref().map_or(0, |(_, _, body)| body.len());
    let mut bytes: usize = kept.values().map(size).sum();
    while kept.len() > MOST || bytes > MOST_BYTES {
        let finished = kept.iter().filter(|(_, entry)| entry.answer.is_some());
        let Some(oldest) = finished.min_by_key(|(_, entry)| entry.at).map(|(key, _)| *key) else { return };
        bytes -= kept.remove(&oldest).as_ref().map_or(0, size);
    }
}
