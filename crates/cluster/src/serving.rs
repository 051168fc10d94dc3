//! Further ports of a running cluster.

use std::net::SocketAddr;

use futures::future::BoxFuture;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use steersman_apiserver::{ClientAuthentication, RequestHeaderAuthentication};
use tokio::task::JoinHandle;

use crate::{cluster::Cluster, error::Error, listener::Listener, pki::Authority};

/// A further port of a cluster, with certificates of its own: an API server beside others on the same data.
#[derive(Debug, Clone)]
pub struct Serving {
    /// Address to listen on, any free port if that is zero.
    pub address: SocketAddr,
    /// The server's certificate and those that lead to its authority, in PEM.
    pub certificates: String,
    /// The key of the server's certificate, in PEM.
    pub key: String,
    /// The authorities, in PEM, whose certificates name users. Empty: users have no certificates.
    pub client_authorities: String,
    /// Whether requests without credentials are answered, as those of `system:anonymous`.
    pub anonymous: bool,
    /// How front proxies name the users for whom they ask. None: there are no front proxies.
    pub request_headers: Option<RequestHeaderAuthentication>,
}

impl Serving {
    pub(crate) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        certificates("the server's certificate", &self.certificates)
    }

    pub(crate) fn private_key(&self) -> Result<PrivateKeyDer<'static>, Error> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|error| malformed("the server's key", &error))
    }

    pub(crate) fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        certificates("the client authorities", &self.client_authorities)
    }
}

/// The certificates in a text.
pub(crate) fn certificates(what: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| malformed(what, &error))
}

fn malformed(what: &str, error: &dyn std::fmt::Display) -> Error {
    rustls::Error::General(format!("{what}: {error}")).into()
}

/// A further port that is open until this is dropped.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Served {
    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Served {
    /// Closes the port, which is free when this returns.
    pub async fn close(mut self) {
        self.task.abort();
        // It ends by being cancelled.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Cluster {
    /// Opens a further port, which is closed when the result is dropped. How it authenticates clients is what
    /// `kube-system/extension-apiserver-authentication` says from then on.
    ///
    /// # Errors
    /// Fails if the port can't be opened, or certificates and key are not PEM or do not fit together.
    pub fn serve<'a>(&'a self, serving: &'a Serving) -> BoxFuture<'a, Result<Served, Error>> {
        Box::pin(async move {
            let listener = Listener::bind_with(serving).await?;
            self.server().publish_authentication(&ClientAuthentication {
                client_authorities: serving.client_authorities.clone(),
                request_headers: serving.request_headers.clone(),
            });
            let address = listener.address;
            let task = tokio::spawn(listener.serve(self.server().service(), self.activity()));
            Ok(Served { address, task })
        })
    }
}

/// A certificate that a new authority has signed for a server with these names and addresses, and its key, both in PEM.
///
/// # Errors
/// Fails if the certificate can't be made.
pub fn self_signed(names: &[String]) -> Result<(String, String), Error> {
    Authority::generate()?.server_pem(names)
}
