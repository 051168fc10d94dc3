//! Additional ports of a running cluster.

use std::net::SocketAddr;

use futures::future::BoxFuture;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use steersman_apiserver::{ClientAuthentication, RequestHeaderAuthentication};
use tokio::task::JoinHandle;

use crate::{cluster::Cluster, error::Error, listener::Listener, pki::Authority};

/// An additional port of a cluster with its own certificates, like another API server on the same data.
#[derive(Debug, Clone)]
pub struct Serving {
    /// Address to listen on; port 0 takes any free port.
    pub address: SocketAddr,
    /// The serving certificate and its chain, in PEM.
    pub certificates: String,
    /// The key of the server's certificate, in PEM.
    pub key: String,
    /// The authorities of client certificates, in PEM. Empty: client certificates identify no users.
    pub client_authorities: String,
    /// Whether requests without credentials are served, as `system:anonymous`.
    pub anonymous: bool,
    /// The headers in which front proxies pass the user of a request. `None`: there are no front proxies.
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

/// Parses the certificates in a PEM string.
pub(crate) fn certificates(what: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| malformed(what, &error))
}

fn malformed(what: &str, error: &dyn std::fmt::Display) -> Error {
    rustls::Error::General(format!("{what}: {error}")).into()
}

/// An open additional port, which is closed when this is dropped.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Served {
    /// Returns the address of the port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Served {
    /// Closes the port, which is free once this returns.
    pub async fn close(mut self) {
        self.task.abort();
        // The result is a cancellation error, as expected.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Cluster {
    /// Opens an additional port, which is closed when the result is dropped.
    ///
    /// Its client authorities and front proxy settings are then published in
    /// `kube-system/extension-apiserver-authentication`.
    ///
    /// # Errors
    /// Fails if the port can't be opened, or if the certificates and the key are not valid PEM or don't match.
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

/// Returns a serving certificate chain, signed by a new authority, and its key, both in PEM.
///
/// The certificate is valid for the given names and IP addresses.
///
/// # Errors
/// Fails if the certificate can't be made.
pub fn self_signed(names: &[String]) -> Result<(String, String), Error> {
    Authority::generate()?.server_pem(names)
}
