//! The API server as an in-process service, authenticated as one user.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use http::Request;
use steersman_api::user::User;
use steersman_apiserver::{Service, Unrestricted};
use tower_service::Service as Tower;

/// The API server, called as one user, or as the user that the requests' credentials name.
#[derive(Clone)]
pub(crate) struct UserService {
    inner: Service,
    user: Option<User>,
    unrestricted: bool,
    /// What lives as long as the client.
    _alive: Option<Arc<dyn Send + Sync>>,
}

impl UserService {
    pub(crate) fn new(inner: Service, user: User, alive: Option<Arc<dyn Send + Sync>>) -> Self {
        Self { inner, user: Some(user), unrestricted: false, _alive: alive }
    }

    /// Asked by a user if one is known already.
    pub(crate) fn maybe(inner: Service, user: Option<User>) -> Self {
        Self { inner, user, unrestricted: false, _alive: None }
    }

    /// Asked by a part of the control plane, which may do everything.
    pub(crate) fn unrestricted(inner: Service, user: User) -> Self {
        Self { inner, user: Some(user), unrestricted: true, _alive: None }
    }

    /// The API server, called as the user that the requests' credentials name.
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
