//! The door to webhooks, which live outside of the server.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::Value;

use steersman_api::{object, store::Store};

use super::Client;
use crate::admission::BoxFuture;

/// Where a webhook is.
#[derive(Debug, Clone, Copy)]
pub enum WebhookTarget<'a> {
    /// At a URL.
    Url(&'a str),
    /// Behind a service of the cluster.
    Service {
        /// The service's namespace.
        namespace: &'a str,
        /// The service's name.
        name: &'a str,
        /// The service's port.
        port: u16,
        /// The path, which may be empty.
        path: &'a str,
        /// The stored service, if there is one.
        object: Option<&'a Value>,
    },
}

/// A question to a webhook.
#[derive(Debug, Clone, Copy)]
pub struct WebhookCall<'a> {
    /// Where it goes.
    pub target: WebhookTarget<'a>,
    /// The certificates in PEM that the webhook's own must lead to; empty for those that the machine trusts.
    pub ca_bundle: &'a [u8],
    /// The question, as JSON.
    pub body: &'a Bytes,
    /// How long an answer may take. The server gives up by itself after this time.
    pub timeout: Duration,
}

impl WebhookCall<'_> {
    /// The URL of the question, as the real server asks it.
    #[must_use]
    pub fn url(&self) -> String {
        let base = match &self.target {
            WebhookTarget::Url(url) => {
                let bare = url.split_once("://").is_some_and(|(_, rest)| !rest.contains('/'));
                if bare { format!("{url}/") } else { (*url).to_owned() }
            }
            WebhookTarget::Service { namespace, name, port, path, .. } => {
                format!("https://{name}.{namespace}.svc:{port}/{}", path.trim_start_matches('/'))
            }
        };
        let separator = if base.contains('?') { '&' } else { '?' };
        format!("{base}{separator}timeout={}s", self.timeout.as_secs())
    }
}

/// Asks webhooks.
pub trait WebhookClient: Send + Sync + fmt::Debug {
    /// The body of an answer with status 200.
    ///
    /// # Errors
    /// Why there is none, in words that follow `failed to call webhook: `.
    fn call<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Bytes, String>>;
}

/// Calls webhooks by their configuration, in time.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Where the services are that webhooks stand behind.
    pub(crate) store: Store,
    pub(crate) client: Option<Arc<dyn WebhookClient>>,
}

impl Caller {
    /// The body of the webhook's answer.
    ///
    /// # Errors
    /// Why there is none, in words that follow the name of the webhook.
    pub(crate) async fn call(
        &self,
        webhook: &Client,
        body: &Bytes,
        timeout: Duration,
    ) -> Result<Bytes, String> {
        let service = webhook
            .url
            .is_none()
            .then(|| self.store.get("services", &object::key(&webhook.namespace, &webhook.name)))
            .flatten()
            .map(|entry| entry.value());
        let target = match &webhook.url {
            Some(url) => WebhookTarget::Url(url),
            None => WebhookTarget::Service {
                namespace: &webhook.namespace,
                name: &webhook.name,
                port: webhook.port,
                path: &webhook.path,
                object: service.as_ref(),
            },
        };
        let call = WebhookCall { target, ca_bundle: &webhook.ca_bundle, body, timeout };
        let Some(client) = &self.client else {
            return Err(format!("Post \"{}\": webhooks are not reachable from here", call.url()));
        };
        match tokio::time::timeout(timeout, client.call(call)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("Post \"{}\": context deadline exceeded", call.url())),
        }
    }
}
