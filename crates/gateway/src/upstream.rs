//! Requests to the cluster, made with a caller's credentials.

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kube::{Client, Config, client::Body};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::problem::{Problem, Result};

/// The characters not percent-encoded in a path segment or query parameter: RFC 3986's unreserved ones.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The largest response that is buffered: a page of objects.
const LARGEST_ANSWER: usize = 256 << 20;

/// Percent-encodes a path segment or query parameter.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Clients of the cluster: with the gateway's own credentials, and for callers' credentials.
pub(crate) struct Upstream {
    own: Client,
    anonymous: Client,
}

/// The credentials that a call is made with.
#[derive(Clone, Debug)]
pub(crate) enum Credentials {
    /// The gateway's own.
    Own,
    /// A bearer token, as the header's value.
    Token(HeaderValue),
}

impl Upstream {
    pub(crate) fn new(config: Config) -> Result<Self, kube::Error> {
        let mut anonymous = config.clone();
        anonymous.auth_info = kube::config::AuthInfo::default();
        Ok(Self { own: Client::try_from(config)?, anonymous: Client::try_from(anonymous)? })
    }

    /// Returns the cluster, called with these credentials.
    pub(crate) fn calls_as(&self, credentials: &Credentials) -> Cluster {
        match credentials {
            Credentials::Own => Cluster { client: self.own.clone(), authorization: None },
            Credentials::Token(token) => {
                Cluster { client: self.anonymous.clone(), authorization: Some(token.clone()) }
            }
        }
    }
}

/// The cluster, accessed with one caller's credentials.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    authorization: Option<HeaderValue>,
}

/// The hash of a caller's credentials; None for the gateway's own.
pub(crate) type CredentialsHash = Option<[u8; 32]>;

impl Cluster {
    pub(crate) fn credentials_hash(&self) -> CredentialsHash {
        self.authorization.as_ref().map(|value| Sha256::digest(value.as_bytes()).into())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<http::Response<Body>> {
        let mut request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept);
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let body = match body {
            Some((content_type, body)) => {
                request = request.header(header::CONTENT_TYPE, content_type);
                Body::from(body)
            }
            None => Body::empty(),
        };
        let request = request.body(body).map_err(|_| Problem::bad_request("invalid URL"))?;
        self.client.send(request).await.map_err(|error| Problem::unreachable(&error))
    }

    async fn read(response: http::Response<Body>) -> Result<(StatusCode, Value)> {
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| Problem::unreachable(&error))?.to_bytes();
        let value = match serde_json::from_slice(&body) {
            Ok(value) => value,
            Err(_) if !status.is_success() => Value::Null,
            Err(error) => return Err(Problem::unreachable(&error)),
        };
        if status.is_success() { Ok((status, value)) } else { Err(Problem::from_status(status, &value)) }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        self.get_as(path, "application/json").await
    }

    /// Gets a resource in a media type.
    pub(crate) async fn get_as(&self, path: &str, accept: &'static str) -> Result<Value> {
        Ok(Self::read(self.send(Method::GET, path, accept, None).await?).await?.1)
    }

    pub(crate) async fn write(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Value)> {
        let sent = self.send(method, path, "application/json", Some((content_type, body))).await?;
        Self::read(sent).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        Ok(self.write(Method::POST, path, "application/json", body.to_string().into_bytes()).await?.1)
    }

    /// Returns the chunks of a streaming response, such as a log.
    pub(crate) async fn chunks(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<impl Stream<Item = Result<Bytes>> + Send + use<>> {
        let response = self.send(Method::GET, path, accept, None).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(match Self::read(response).await {
                Err(problem) => problem,
                Ok(_) => Problem::unreachable(&status),
            });
        }
        let chunks = response.into_body().into_data_stream();
        Ok(chunks.map(|chunk| chunk.map_err(|error| Problem::unreachable(&error))))
    }

    /// Returns the lines of a streaming response.
    pub(crate) async fn lines(&self, path: &str, accept: &'static str) -> Result<Lines> {
        Ok(Lines { chunks: Box::pin(self.chunks(path, accept).await?), buffer: Vec::new() })
    }
}

/// The lines of a response, as they arrive.
pub(crate) struct Lines {
    chunks: std::pin::Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>,
    buffer: Vec<u8>,
}

impl Lines {
    /// Returns the next line, None at the end. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Result<Vec<u8>>> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=searched + end).collect();
                line.pop();
                return Some(Ok(line));
            }
            searched = self.buffer.len();
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(problem)) => return Some(Err(problem)),
                None if self.buffer.is_empty() => return None,
                None => return Some(Ok(std::mem::take(&mut self.buffer))),
            }
        }
    }
}
