//! The API server as an in-process service for one user.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use http::Request;
use steersman_api::user::User;
use steersman_apiserver::{Service, Unrestricted};
use tower_service::Service as Tower;

/// The API server, called as a fixed user or as the user of the requests' credentials.
#[derive(Clone)]
pub(crate) struct UserService {
    inner: Service,
    user: Option<User>,
    unrestricted: bool,
    /// Kept alive for as long as the client.
    _alive: Option<Arc<dyn Send + Sync>>,
}

impl UserService {
    pub(crate) fn new(inner: Service, user: User, alive: Option<Arc<dyn Send + Sync>>) -> Self {
        Self { inner, user: Some(user), unrestricted: false, _alive: alive }
    }

    /// Makes requests as `user`, or without one as the user of their credentials.
    pub(crate) fn maybe(inner: Service, user: Option<User>) -> Self {
        Self { inner, user, unrestricted: false, _alive: None }
    }

    /// Makes requests as a component of the control plane, without authorization.
    pub(crate) fn unrestricted(inner: Service, user: User) -> Self {
        Self { inner, user: Some(user), unrestricted: true, _alive: None }
    }

    /// Returns the API server without a fixed user: requests are made as the user of their credentials.
    pub(crate) fn inner(&self) -> Service {
        self.inner.clone()
    }
}

impl fmt::Debug for UserService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserService").field("user", &self.user).finish_non_exhaustive()
    }
}

impl<B> Tower<Request<B>> for UserService
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
        if let Some(user) = &self.user {
            request.extensions_mut().insert(user.clone());
        }
        if self.unrestricted {
            request.extensions_mut().insert(Unrestricted);
        }
        self.inner.call(request)
    }
}
