//! The in-process way to the server, as somebody.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use http::Request;
use steersman_apiserver::{Service, User};
use tower_service::Service as Tower;

/// The server, asked by one user.
#[derive(Clone)]
pub(crate) struct As {
    inner: Service,
    user: User,
    /// What lives as long as the client.
    _alive: Option<Arc<dyn Send + Sync>>,
}

impl As {
    pub(crate) fn new(inner: Service, user: User, alive: Option<Arc<dyn Send + Sync>>) -> Self {
        Self { inner, user, _alive: alive }
    }
}

impl fmt::Debug for As {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("As").field("user", &self.user).finish_non_exhaustive()
    }
}

impl<B> Tower<Request<B>> for As
where
    Service: Tower<Request<B>>,
{
    type Response = <Service as Tower<Request<B>>>::Response;
    type Error = <Service as Tower<Request<B>>>::Error;
    type Future = <Service as Tower<Request<B>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.user.clone());
        self.inner.call(request)
    }
}
