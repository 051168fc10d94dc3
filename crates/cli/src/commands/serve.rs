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
Serve the cluster's kinds by REST, and the portal

Every kind of the cluster has an address under /v1/kinds, with live updates, differences before a change, actions, history and audit; \
/openapi.json describes it. Calls are made with the caller's own credentials, so that the cluster's access control decides: a bearer token \
of the cluster, or a session in the browser, by such a token or by an OpenID provider whose tokens the cluster accepts. On this machine alone, a link is printed that signs in once with the kubeconfig's credentials.";

const EXAMPLES: &str = "\
Examples:
  steer serve
  steer serve --listen 127.0.0.1:9000 --audit-log audit.jsonl
  steer serve --listen 0.0.0.0:8443 --tls-cert-file tls.crt --tls-private-key-file tls.key
  steer serve --operator-metrics shops=http://127.0.0.1:8080/metrics
  steer serve --webhook https://hooks.example.com/steer --webhook-secret-file secret
  steer serve --oidc-issuer-url https://login.example.com --oidc-client-id steer --oidc-client-secret-file secret
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8443/v1/kinds";

/// Port that is tried first.
pub(super) const PORT: u16 = 8443;

/// Serve the cluster's kinds by REST, and the portal
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Address to listen on; others than this machine's own need a certificate
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8443")]
    listen: SocketAddr,

    /// File with the certificate chain for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// File with the certificate's key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// Origin whose pages may call, such as https://portal.example.com; may be repeated
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    origins: Vec<String>,

    /// File to which the audit is added as JSON lines; - for standard output
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,

    /// Metrics of an operator for the portal's page about it, such as http://127.0.0.1:8080/metrics; may be repeated
    #[arg(long = "operator-metrics", value_name = "[NAME=]URL")]
    operators: Vec<String>,

    /// Address that gets a signed request for each condition that changes; may be repeated
    #[arg(long = "webhook", value_name = "URL", requires = "webhook_secret_file")]
    webhooks: Vec<String>,

    /// File with the secret that signs webhooks: whsec_ with base64 after it, or any text of 24 bytes and more
    #[arg(long, value_name = "FILE", requires = "webhooks")]
    webhook_secret_file: Option<PathBuf>,

    /// Kind whose conditions webhooks are about, as plural.group [default: all custom kinds]; may be repeated
    #[arg(long = "webhook-kind", value_name = "KIND", requires = "webhooks")]
    webhook_kinds: Vec<String>,

    /// Issuer of the OpenID provider by which users sign in; the cluster has to accept its ID tokens
    #[arg(long, value_name = "URL", requires = "oidc_client_id")]
    oidc_issuer_url: Option<String>,

    /// Id that the OpenID provider knows this server by
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url")]
    oidc_client_id: Option<String>,

    /// File with the client's secret at the OpenID provider [default: none, a public client]
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url")]
    oidc_client_secret_file: Option<PathBuf>,

    /// Scope to ask for beside openid, such as email or groups; may be repeated
    #[arg(long = "oidc-scope", value_name = "SCOPE", requires = "oidc_issuer_url")]
    oidc_scopes: Vec<String>,

    /// File with the certificate authority of the OpenID provider, in PEM [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url")]
    oidc_ca_file: Option<PathBuf>,

    /// Address under which browsers reach this server, to which the OpenID provider sends them back [default: what they asked for]
    #[arg(long, value_name = "URL", requires = "oidc_issuer_url")]
    external_url: Option<String>,

    /// Namespace for the history of cluster-scoped objects
    #[arg(long, value_name = "NAME", default_value = "default")]
    history_namespace: String,
}

/// A gateway that is about to serve.
pub(super) struct Serving {
    gateway: Gateway,
    socket: TcpListener,
    /// Where it is, with what signs in once if that is possible.
    pub(super) link: String,
}

impl Serving {
    pub(super) async fn new(gateway: Gateway, socket: TcpListener, scheme: &str) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("cannot serve: {error}"));
        let address = socket.local_addr().map_err(|error| failed(&error))?;
        // A link is for those who sit at this machine: elsewhere it would hand out the server's own rights.
        let path = if address.ip().is_loopback() {
            gateway.sign_in_path().map_err(|error| failed(&error))?
        } else {
            String::from("/")
        };
        Ok(Self { gateway, socket, link: format!("{scheme}://{address}{path}") })
    }

    /// Serves until it is dropped.
    pub(super) async fn serve(self) {
        self.gateway.serve(self.socket).await;
    }
}

/// Takes `NAME=URL` apart; the name of an address alone is its host and port.
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
            let message = format!("--listen {}: tokens would cross the network in the clear", self.listen);
            return Err(
                Failure::new(message).help("--tls-cert-file and --tls-private-key-file give a certificate")
            );
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
                let secret = String::from_utf8(read(file)?)
                    .map_err(|_| Failure::new(format!("{}: the secret is no text", file.display())))?;
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
