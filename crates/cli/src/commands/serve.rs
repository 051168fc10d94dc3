//! `steer serve`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use steersman_gateway::{Gateway, OidcProvider, Webhook};
use tokio::net::TcpListener;

use super::cluster::interrupted;
use crate::args::GlobalArgs;
use crate::cluster;
use crate::failure::{Failure, Result};

const ABOUT: &str = "\
Serve a REST API for the cluster's kinds, and the portal

Every kind of the cluster is served under /v1/kinds, with live updates, diffs before a change, actions, history and audit; \
/openapi.json describes the API. Requests are made with the caller's own credentials, so the cluster's authorization applies: a bearer token \
of the cluster, or a browser session, signed in by such a token or by an OpenID provider whose tokens the cluster accepts. On a loopback address, a link is printed that signs in once with the kubeconfig's credentials.";

const EXAMPLES: &str = "\
Examples:
  steer serve
  steer serve --listen 127.0.0.1:9000 --audit-log audit.jsonl
  steer serve --listen 0.0.0.0:8443 --tls-cert-file tls.crt --tls-private-key-file tls.key
  steer serve --operator-metrics shops=http://127.0.0.1:8080/metrics
  steer serve --webhook https://hooks.example.com/steer --webhook-secret-file secret
  steer serve --oidc-issuer-url https://login.example.com --oidc-client-id steer --oidc-client-secret-file secret
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8443/v1/kinds";

/// The preferred port.
pub(super) const PORT: u16 = 8443;

/// Serve a REST API for the cluster's kinds, and the portal
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Address to listen on; non-loopback addresses require a TLS certificate
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8443")]
    listen: SocketAddr,

    /// File with the TLS certificate chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// File with the private key of the TLS certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// Allowed origin for CORS, such as https://portal.example.com; may be repeated
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    origins: Vec<String>,

    /// File to append the audit log to, as JSON lines; - for standard output
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,

    /// Operator metrics URL for its portal page, such as http://127.0.0.1:8080/metrics; may be repeated
    #[arg(long = "operator-metrics", value_name = "[NAME=]URL")]
    operators: Vec<String>,

    /// URL to send a signed request to for each change of a condition; may be repeated
    #[arg(long = "webhook", value_name = "URL", requires = "webhook_secret_file")]
    webhooks: Vec<String>,

    /// File with the secret that signs webhooks: whsec_ and base64, or any text of at least 24 bytes
    #[arg(long, value_name = "FILE", requires = "webhooks")]
    webhook_secret_file: Option<PathBuf>,

    /// Kind to send webhooks for, as plural.group [default: all custom kinds]; may be repeated
    #[arg(long = "webhook-kind", value_name = "KIND", requires = "webhooks")]
    webhook_kinds: Vec<String>,

    /// URL of the OpenID issuer for sign-in; the cluster must accept its ID tokens
    #[arg(long, value_name = "URL", requires = "oidc_client_id")]
    oidc_issuer_url: Option<String>,

    /// Client ID of this server at the OpenID provider
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url")]
    oidc_client_id: Option<String>,

    /// File with the OpenID client secret [default: none, a public client]
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url")]
    oidc_client_secret_file: Option<PathBuf>,

    /// OpenID scope to request besides openid, such as email or groups; may be repeated
    #[arg(long = "oidc-scope", value_name = "SCOPE", requires = "oidc_issuer_url")]
    oidc_scopes: Vec<String>,

    /// File with the CA bundle for the OpenID provider, in PEM [default: the system's]
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url")]
    oidc_ca_file: Option<PathBuf>,

    /// External URL of this server, for OpenID redirects [default: the origin of the browser's request]
    #[arg(long, value_name = "URL", requires = "oidc_issuer_url")]
    external_url: Option<String>,

    /// Namespace for the history of cluster-scoped objects
    #[arg(long, value_name = "NAME", default_value = "default")]
    history_namespace: String,
}

/// A gateway ready to serve.
pub(super) struct Serving {
    gateway: Gateway,
    socket: TcpListener,
    /// Its URL, with a one-time sign-in token if possible.
    pub(super) link: String,
}

impl Serving {
    pub(super) async fn new(gateway: Gateway, socket: TcpListener, scheme: &str) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("cannot serve: {error}"));
        let address = socket.local_addr().map_err(|error| failed(&error))?;
        // The sign-in link grants the server's own permissions, so it is only for loopback addresses.
        let path = if address.ip().is_loopback() {
            gateway.sign_in_path().map_err(|error| failed(&error))?
        } else {
            String::from("/")
        };
        Ok(Self { gateway, socket, link: format!("{scheme}://{address}{path}") })
    }

    /// Serves until dropped.
    pub(super) async fn serve(self) {
        self.gateway.serve(self.socket).await;
    }
}

/// Splits `NAME=URL`; the name of a URL alone is its host and port.
fn named_url(text: &str) -> (&str, &str) {
    match text.split_once('=') {
        Some((name, url)) if !name.contains([':', '/']) => (name, url),
        _ => (text.split('/').find(|part| !part.is_empty() && !part.ends_with(':')).unwrap_or(text), text),
    }
}

impl Serve {
    pub(crate) fn run(self, globals: &GlobalArgs) -> Result {
        crate::runtime::multi_thread()?.block_on(self.serve(globals))
    }

    async fn serve(self, globals: &GlobalArgs) -> Result {
        if self.tls_cert_file.is_none() && !self.listen.ip().is_loopback() {
            let message = format!("--listen {}: tokens would be sent unencrypted", self.listen);
            return Err(Failure::new(message)
                .help("set a certificate with --tls-cert-file and --tls-private-key-file"));
        }
        let failed = |error: steersman_gateway::Error| Failure::new(error.to_string());
        let mut builder =
            Gateway::builder(cluster::config(globals).await?).history_namespace(self.history_namespace);
        if let Some(context) = globals.context() {
            builder = builder.cluster_name(context);
        }
        for origin in self.origins {
            builder = builder.allow_origin(origin);
        }
        if let Some(file) = self.audit_log {
            builder = builder.audit_log(file);
        }
        for operator in &self.operators {
            let (name, url) = named_url(operator);
            builder = builder.operator(name, url);
        }
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
        };
        if let Some(file) = &self.webhook_secret_file {
            let secret = String::from_utf8_lossy(&read(file)?).into_owned();
            for url in &self.webhooks {
                let webhook = Webhook::new(url, &secret).map_err(failed)?;
                builder = builder.webhook(webhook.kinds(self.webhook_kinds.iter().cloned()));
            }
        }
        if let (Some(issuer), Some(client)) = (self.oidc_issuer_url, self.oidc_client_id) {
            let mut provider = OidcProvider::new(issuer, client).map_err(failed)?;
            if let Some(file) = &self.oidc_client_secret_file {
                let secret = String::from_utf8(read(file)?).map_err(|_| {
                    Failure::new(format!("{}: the secret is not valid UTF-8", file.display()))
                })?;
                provider = provider.client_secret(secret.trim());
            }
            if let Some(file) = &self.oidc_ca_file {
                provider = provider.certificate_authority(&read(file)?).map_err(failed)?;
            }
            if let Some(url) = &self.external_url {
                provider = provider.external_url(url).map_err(failed)?;
            }
            builder = builder.oidc(self.oidc_scopes.into_iter().fold(provider, OidcProvider::scope));
        }
        let mut scheme = "http";
        if let (Some(certificate), Some(key)) = (&self.tls_cert_file, &self.tls_private_key_file) {
            builder = builder.tls(&read(certificate)?, &read(key)?).map_err(failed)?;
            scheme = "https";
        }
        let gateway = builder.build().map_err(failed)?;
        let socket = TcpListener::bind(self.listen).await.map_err(|error| {
            Failure::new(format!("cannot listen on {}: {error}", self.listen))
                .help("--listen names another address")
        })?;
        let serving = Serving::new(gateway, socket, scheme).await?;
        let _ = writeln!(anstream::stdout(), "serving on {}", serving.link);
        tokio::select! {
            () = serving.serve() => Ok(()),
            signal = interrupted() => signal.map_err(|error| Failure::new(format!("cannot wait for signals: {error}"))),
        }
    }
}
