//! The webhook client of the API server: over HTTPS, or in the process.

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use steersman_api::BoxFuture;
use steersman_apiserver::{WebhookCall, WebhookClient, WebhookTarget};
use tokio::net::TcpStream;

use crate::{
    services::{Route, Services},
    tls_client::{TlsPeer, dial, secure},
};

/// Advice in the error for a webhook without a known server.
const ADVICE: &str =
    "the address at which the webhook runs, such as 127.0.0.1:9443, or skip the webhook with --webhooks auto";

/// Maximum size of a response: that of an object, with some margin.
const MAX_ANSWER: usize = 8 << 20;

/// How writes proceed if their webhooks are behind services whose pods are simulated.
///
/// Webhooks at URLs, or behind services with a known address, are called regardless.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookPolicy {
    /// Such writes fail, unless the webhook's `failurePolicy` is `Ignore`.
    #[default]
    Fail,
    /// Such writes skip the webhook, with a warning.
    Ignore,
    /// Such writes skip the webhook with a warning if its service has ready pods. If not, they fail as in a real cluster.
    Auto,
}

/// Calls webhooks at URLs and behind services.
#[derive(Debug, Clone)]
pub(crate) struct Webhooks {
    services: Services,
    policy: WebhookPolicy,
}

impl Webhooks {
    pub(crate) fn new(services: Services, policy: WebhookPolicy) -> Self {
        Self { services, policy }
    }

    /// Connects to a webhook.
    async fn route(&self, target: WebhookTarget<'_>, url: &Uri) -> Result<Route, String> {
        if let WebhookTarget::Service { service, .. } = target {
            return self.services.find(service, ADVICE)?.open().await;
        }
        let (host, port) = (url.host().unwrap_or_default(), url.port_u16().unwrap_or(443));
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Route::Connection(dial((bare, port), &format!("{host}:{port}")).await?))
    }

    async fn ask(&self, call: WebhookCall<'_>, url: &Uri) -> Result<Response<Bytes>, String> {
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let host = url.host().unwrap_or_default();
        let request = Request::post(path)
            .header(header::HOST, url.authority().map_or(host, |authority| authority.as_str()))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(call.body.clone())
            .map_err(|error| error.to_string())?;
        match self.route(call.target, url).await? {
            Route::Handler(handler) => Ok(handler(request).await),
            Route::Connection(stream) => {
                let name = host.trim_start_matches('[').trim_end_matches(']');
                send(stream, name, call.ca_bundle, request).await
            }
        }
    }
}

impl WebhookClient for Webhooks {
    fn skips(&self, target: WebhookTarget<'_>) -> Option<String> {
        let WebhookTarget::Service { service, .. } = target else { return None };
        if self.policy == WebhookPolicy::Fail || self.services.known(service).is_some() {
            return None;
        }
        let skips = self.policy == WebhookPolicy::Ignore || service.endpoints.any_ready();
        let (namespace, name) = (service.namespace, service.name);
        skips.then(|| format!("the pods behind service \"{namespace}/{name}\" are simulated"))
    }

    fn call<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async move {
            let text = call.url();
            let url: Uri = text.parse().map_err(|error| format!("parse \"{text}\": {error}"))?;
            let response = self.ask(call, &url).await.map_err(|error| format!("Post \"{text}\": {error}"))?;
            match response.status() {
                StatusCode::OK => Ok(response.into_body()),
                StatusCode::NOT_FOUND => Err("the server could not find the requested resource".into()),
                status if status.is_server_error() => {
                    Err("an error on the server (\"unknown\") has prevented the request from succeeding"
                        .into())
                }
                _ => Err("the server rejected our request for an unknown reason".into()),
            }
        })
    }
}

/// Sends one request over a new connection.
async fn send(
    stream: TcpStream,
    name: &str,
    ca_bundle: &[u8],
    request: Request<Bytes>,
) -> Result<Response<Bytes>, String> {
    let stream = secure(stream, TlsPeer { name, ca_bundle, insecure: false, identity: None }).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let answer = async {
        let response =
            sender.send_request(request.map(Full::new)).await.map_err(|error| error.to_string())?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|error| error.to_string())?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    };
    tokio::pin!(answer);
    // The connection must be polled while the response is pending, and is closed after it.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(error.to_string()),
        },
    }
}
