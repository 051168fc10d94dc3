//! The client interface for calling webhooks.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::Value;

use steersman_api::{BoxFuture, store::Store};

use super::Client;
use crate::cluster_service::{self, Endpoints, ServiceTarget};

/// The address of a webhook.
#[derive(Debug, Clone, Copy)]
pub enum WebhookTarget<'a> {
    /// A URL.
    Url(&'a str),
    /// A service of the cluster.
    Service {
        /// The service.
        service: ServiceTarget<'a>,
        /// The path, which may be empty.
        path: &'a str,
    },
}

/// A call of a webhook.
#[derive(Debug, Clone, Copy)]
pub struct WebhookCall<'a> {
    /// The address of the webhook.
    pub target: WebhookTarget<'a>,
    /// CA certificates in PEM to verify the webhook's certificate; empty for the system's trust store.
    pub ca_bundle: &'a [u8],
    /// The request body, as JSON.
    pub body: &'a Bytes,
    /// The timeout. The server also enforces it on its own.
    pub timeout: Duration,
}

impl WebhookCall<'_> {
    /// Returns the URL of the call, as the real server builds it.
    #[must_use]
    pub fn url(&self) -> String {
        let (host, path) = match &self.target {
            WebhookTarget::Url(url) => {
                let after_scheme = url.find("://").map_or(0, |at| at + 3);
                let start =
                    url[after_scheme..].find(['/', '?', '#']).map_or(url.len(), |at| after_scheme + at);
                let path = url[start..].split(['?', '#']).next().unwrap_or_default();
                (url[..start].to_owned(), percent_decode_str(path).decode_utf8_lossy())
            }
            WebhookTarget::Service { service: ServiceTarget { namespace, name, port, .. }, path } => {
                (format!("https://{name}.{namespace}.svc:{port}"), Cow::Borrowed(*path))
            }
        };
        let path = clean_path(&path);
        format!("{host}{}?timeout={}s", utf8_percent_encode(&path, PATH), self.timeout.as_secs())
    }
}

/// The characters that Go escapes in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Cleans a path like Go's `path.Join("/", path)`: no empty, `.` or `..` segments, no trailing slash.
fn clean_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

/// Calls webhooks over the network.
pub trait WebhookClient: Send + Sync + fmt::Debug {
    /// Calls a webhook and returns the body of a 200 response.
    ///
    /// # Errors
    /// If the call fails. The message follows `failed to call webhook: `.
    fn call<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Bytes, String>>;

    /// Returns why a webhook is skipped, which the client receives as a warning. Default: none is skipped.
    fn skips(&self, _target: WebhookTarget<'_>) -> Option<String> {
        None
    }
}

/// Calls webhooks by their configuration, with a timeout.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Resolves the services of webhooks.
    pub(crate) store: Store,
    pub(crate) client: Option<Arc<dyn WebhookClient>>,
}

impl Caller {
    /// Returns the stored service of a webhook.
    fn service(&self, webhook: &Client) -> Option<Value> {
        if webhook.url.is_some() {
            return None;
        }
        cluster_service::stored(&self.store, &webhook.namespace, &webhook.name)
    }

    fn target<'a>(&'a self, webhook: &'a Client, service: Option<&'a Value>) -> WebhookTarget<'a> {
        match &webhook.url {
            Some(url) => WebhookTarget::Url(url),
            None => WebhookTarget::Service {
                service: ServiceTarget {
                    namespace: &webhook.namespace,
                    name: &webhook.name,
                    port: webhook.port,
                    object: service,
                    endpoints: Endpoints {
                        store: &self.store,
                        namespace: &webhook.namespace,
                        service: &webhook.name,
                    },
                },
                path: &webhook.path,
            },
        }
    }

    /// Returns why a webhook is skipped, if it is.
    pub(crate) fn skips(&self, webhook: &Client) -> Option<String> {
        let service = self.service(webhook);
        self.client.as_ref()?.skips(self.target(webhook, service.as_ref()))
    }

    /// Calls a webhook and returns the response body.
    ///
    /// # Errors
    /// If the call fails. The message follows the name of the webhook.
    pub(crate) async fn call(
        &self,
        webhook: &Client,
        body: &Bytes,
        timeout: Duration,
    ) -> Result<Bytes, String> {
        let service = self.service(webhook);
        let target = self.target(webhook, service.as_ref());
        let call = WebhookCall { target, ca_bundle: &webhook.ca_bundle, body, timeout };
        let Some(client) = &self.client else {
            return Err(format!("Post \"{}\": no webhook client configured", call.url()));
        };
        match tokio::time::timeout(timeout, client.call(call)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("Post \"{}\": context deadline exceeded", call.url())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_go_joins_them() {
        let body = Bytes::new();
        let url = |target| {
            WebhookCall { target, ca_bundle: &[], body: &body, timeout: Duration::from_secs(10) }.url()
        };
        for (given, asked) in [
            ("https://127.0.0.1:9443//mutate", "https://127.0.0.1:9443/mutate?timeout=10s"),
            ("https://127.0.0.1:9443", "https://127.0.0.1:9443/?timeout=10s"),
            ("https://host/a/./b/../c//", "https://host/a/c?timeout=10s"),
            ("https://host/../%2e%2e/a%20b%2Fc", "https://host/a%20b/c?timeout=10s"),
        ] {
            assert_eq!(url(WebhookTarget::Url(given)), asked);
        }
        let store = Store::new(steersman_api::store::History::default(), None);
        let endpoints = Endpoints { store: &store, namespace: "system", service: "hooks" };
        let service =
            ServiceTarget { namespace: "system", name: "hooks", port: 443, object: None, endpoints };
        let service = |path| WebhookTarget::Service { service, path };
        assert_eq!(url(service("")), "https://hooks.system.svc:443/?timeout=10s");
        assert_eq!(url(service("//validate/")), "https://hooks.system.svc:443/validate?timeout=10s");
    }
}
