//! A server under test, accessed through a `kube::Client`.

use std::io::ErrorKind;
use std::path::Path;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig};
use steersman_apiserver::{BoxFuture, Server, User, WebhookCall, WebhookClient};
use thiserror::Error;
use tokio::net::TcpStream;

/// The reason why a request to a target failed.
#[derive(Debug, Error)]
pub enum TargetError {
    /// The kubeconfig cannot be read or used.
    #[error("kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// No client can be built from it.
    #[error("client: {0}")]
    Client(#[source] Box<kube::Error>),
    /// A request received no response.
    #[error("no answer: {0}")]
    Unanswered(String),
}

impl From<kube::Error> for TargetError {
    fn from(error: kube::Error) -> Self {
        Self::Client(Box::new(error))
    }
}

/// The embedded server's transport to webhooks. No hand-written case has a reachable webhook: the cases compare when webhooks are
/// called, and how the failure is handled.
#[derive(Debug)]
struct Outside;

impl WebhookClient for Outside {
    fn call<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async move {
            let url = call.url();
            let parsed: Option<Uri> = url.parse().ok();
            let address =
                parsed.as_ref().and_then(Uri::authority).map(ToString::to_string).unwrap_or_default();
            let why = match TcpStream::connect(&address).await {
                Ok(_) => format!("{address} is not trusted"),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    format!("dial tcp {address}: connect: connection refused")
                }
                Err(error) => format!("dial tcp {address}: {error}"),
            };
            Err(format!("Post \"{url}\": {why}"))
        })
    }
}

/// A server with two clients: for the administrator, and without credentials.
#[derive(Clone)]
pub struct Target {
    admin: Client,
    anonymous: Client,
    /// The administrator's token, if the client does not send it on its own.
    token: Option<&'static str>,
}

impl Target {
    /// Connects to the server of a kubeconfig's current context.
    ///
    /// # Errors
    /// If the file cannot be read or its certificates cannot be used.
    pub async fn from_kubeconfig(path: &Path) -> Result<Self, TargetError> {
        let kubeconfig = Kubeconfig::read_from(path)?;
        let admin = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let mut anonymous = admin.clone();
        anonymous.auth_info = AuthInfo::default();
        Ok(Self { admin: Client::try_from(admin)?, anonymous: Client::try_from(anonymous)?, token: None })
    }

    /// Starts a fresh embedded server in this process.
    #[must_use]
    pub fn in_process() -> Self {
        let token = "administrator";
        let server = Server::builder()
            .token(token, User::named("kubernetes-admin", ["system:masters"]))
            .without_credentials(User::anonymous())
            .webhook_client(Outside)
            .build();
        let client = Client::new(server.service(), "default");
        Self { admin: client.clone(), anonymous: client, token: Some(token) }
    }

    /// Sends a request and returns the response with its body still streaming.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn send(
        &self,
        mut request: Request<Vec<u8>>,
        as_admin: bool,
    ) -> Result<Response<Body>, TargetError> {
        let client = if as_admin { &self.admin } else { &self.anonymous };
        if let Some(token) = self.token.filter(|_| as_admin) {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            request
                .headers_mut()
                .insert(AUTHORIZATION, value.map_err(|e| TargetError::Unanswered(e.to_string()))?);
        }
        let request = request.map(Body::from);
        client.send(request).await.map_err(|error| TargetError::Unanswered(format!("{error:?}")))
    }

    /// Reads a body to its end.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn collect(body: Body) -> Result<Vec<u8>, TargetError> {
        let collected = body.collect().await.map_err(|error| TargetError::Unanswered(error.to_string()))?;
        Ok(collected.to_bytes().to_vec())
    }
}
