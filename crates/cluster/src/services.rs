//! The real servers behind services of the cluster, whose pods are simulated.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
};

use bytes::Bytes;
use http::{Request, Response};
use steersman_api::BoxFuture;
use steersman_apiserver::ServiceTarget;
use tokio::net::TcpStream;

use crate::{annotations::ADDRESS, tls_client::dial};

type Handler = dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> + Send + Sync;

/// The server behind a service.
#[derive(Clone)]
pub(crate) enum Endpoint {
    Address(SocketAddr),
    /// Host and port of an `ExternalName` service.
    External(String, u16),
    Handler(Arc<Handler>),
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => f.debug_tuple("Address").field(address).finish(),
            Self::External(host, port) => f.debug_tuple("External").field(host).field(port).finish(),
            Self::Handler(_) => f.debug_struct("Handler").finish_non_exhaustive(),
        }
    }
}

/// An open route to a server.
pub(crate) enum Route {
    Connection(TcpStream),
    Handler(Arc<Handler>),
}

impl Endpoint {
    /// Connects to the server.
    ///
    /// # Errors
    /// Fails with the reason why it can't be reached.
    pub(crate) async fn open(self) -> Result<Route, String> {
        Ok(match self {
            Self::Address(address) => Route::Connection(dial(address, &address.to_string()).await?),
            Self::External(host, port) => {
                Route::Connection(dial((host.as_str(), port), &format!("{host}:{port}")).await?)
            }
            Self::Handler(handler) => Route::Handler(handler),
        })
    }
}

/// The registered servers behind services.
#[derive(Debug, Clone, Default)]
pub(crate) struct Services {
    known: Arc<RwLock<BTreeMap<(String, String), Endpoint>>>,
}

impl Services {
    /// Returns a copy for another cluster, with registrations of its own from then on.
    pub(crate) fn fork(&self) -> Self {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        Self { known: Arc::new(RwLock::new(known)) }
    }

    fn put(&self, namespace: &str, name: &str, endpoint: Endpoint) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert((namespace.to_owned(), name.to_owned()), endpoint);
    }

    pub(crate) fn at(&self, namespace: &str, name: &str, address: SocketAddr) {
        self.put(namespace, name, Endpoint::Address(address));
    }

    pub(crate) fn by<F, A>(&self, namespace: &str, name: &str, handler: F)
    where
        F: Fn(Request<Bytes>) -> A + Send + Sync + 'static,
        A: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let handler: Arc<Handler> = Arc::new(move |request| Box::pin(handler(request)));
        self.put(namespace, name, Endpoint::Handler(handler));
    }

    /// Returns the server behind a service, if its address or handler is known.
    pub(crate) fn known(&self, target: ServiceTarget<'_>) -> Option<Endpoint> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = known.get(&(target.namespace.to_owned(), target.name.to_owned())) {
            return Some(endpoint.clone());
        }
        let service = target.object?;
        let address = service["metadata"]["annotations"][ADDRESS].as_str().and_then(|text| text.parse().ok());
        let external = service["spec"]["externalName"].as_str().filter(|name| !name.is_empty());
        address
            .map(Endpoint::Address)
            .or_else(|| external.map(|host| Endpoint::External(host.to_owned(), target.port)))
    }

    /// Returns the server behind a service.
    ///
    /// # Errors
    /// Fails with the reason why the server is unknown. `advice` completes the message: what to put into the annotation, or
    /// to do instead.
    pub(crate) fn find(&self, target: ServiceTarget<'_>, advice: &str) -> Result<Endpoint, String> {
        if let Some(endpoint) = self.known(target) {
            return Ok(endpoint);
        }
        let name = target.name;
        if target.object.is_none() {
            return Err(format!("service \"{name}\" not found"));
        }
        if target.endpoints.any_ready() {
            return Err(format!(
                "the pods behind service \"{name}\" are simulated: set the service's annotation {ADDRESS} to \
                 {advice}"
            ));
        }
        Err(format!("no endpoints available for service \"{name}\""))
    }
}
