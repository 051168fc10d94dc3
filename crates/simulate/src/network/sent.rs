//! What an operator demands of an object: the body that it creates or applies it with.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use steersman_api::protobuf;

use crate::{query::verb, target::Target};

/// The body of a create or an apply. It is read when it is asked for, since few are.
#[derive(Debug, Clone)]
pub(crate) struct Sent(Bytes);

impl Sent {
    /// The body of a request by which an operator says what an object is to be, with the key of the object. Updates say that of fields
    /// that were only read as well, so that they are no demand.
    pub(super) async fn of(
        request: &mut Request<Body>,
        target: &Target,
    ) -> Result<Option<(String, Self)>, kube::Error> {
        let is_demand = match *request.method() {
            Method::POST => true,
            Method::PATCH => verb(request.method(), request.headers()) == "apply",
            _ => false,
        };
        if !is_demand || target.subresource.is_some() {
            return Ok(None);
        }
        let body = std::mem::replace(request.body_mut(), Body::empty());
        let sent = Self(body.collect().await?.to_bytes());
        *request.body_mut() = Body::from(sent.0.clone());
        let name = target.name.clone();
        let name = name.or_else(|| sent.object()["metadata"]["name"].as_str().map(str::to_owned));
        let key = Target { name, ..target.clone() }.key();
        Ok(key.map(|key| (key, sent)))
    }

    /// The object, or null if it can't be read.
    pub(crate) fn object(&self) -> Value {
        serde_json::from_slice(&self.0).ok().or_else(|| protobuf::decode(&self.0).ok()).unwrap_or_default()
    }
}
