//! The requests of controllers.
//!
//! A slow request, for instance one that calls a slow webhook, is awaited outside the control loop, so that it delays only
//! its object.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Method, Request, Response, Uri};
use kube::client::Body as RequestBody;
use steersman_api::{http::Body, user::User};
use steersman_apiserver::Unrestricted;
use tower_service::Service;

/// How long the control loop waits for a request. The more requests are late, the less, so that their number does not
/// matter.
const LATE_AFTER: Duration = Duration::from_millis(100);

/// A response of the server.
type Answer = Result<Response<Body>, Infallible>;

/// Method and URI of a request.
type RequestLine = (Method, Uri);

/// A request without a response in time.
pub(super) struct LateRequest {
    request_line: RequestLine,
    answer: BoxFuture<'static, Answer>,
}

impl LateRequest {
    /// Waits for the response, and returns it if it is an error or the result of a read.
    ///
    /// A successful write is not repeated: the next reconcile sees its result.
    pub(super) async fn answer(self) -> Option<LateAnswer> {
        let Ok(answer) = self.answer.await;
        let refused = answer.status().is_client_error() || answer.status().is_server_error();
        let is_read = self.request_line.0 == Method::GET;
        (refused || is_read).then_some(LateAnswer { request_line: self.request_line, answer })
    }
}

/// A late response. The next reconcile of its object, which repeats the request, gets it.
pub(super) struct LateAnswer {
    request_line: RequestLine,
    answer: Response<Body>,
}

#[derive(Default)]
struct State {
    /// The user of the requests.
    user: User,
    /// Number of late requests.
    waiting: u32,
    late: Option<LateRequest>,
    late_answer: Option<LateAnswer>,
}

/// The controllers' connection to the server, for a `kube::Client`.
#[derive(Clone)]
pub(crate) struct Requests {
    server: steersman_apiserver::Service,
    state: Arc<Mutex<State>>,
}

impl Requests {
    pub(crate) fn new(server: steersman_apiserver::Service) -> Self {
        Self { server, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a reconcile. `waiting`: the number of requests that are late, of other objects.
    pub(super) fn begin(&self, waiting: usize, late_answer: Option<LateAnswer>) {
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX - 1);
        let mut state = self.state();
        *state = State { user: std::mem::take(&mut state.user), waiting, late: None, late_answer };
    }

    /// Makes requests as another user from now on, without authorization: the control plane shares the server's process.
    pub(super) fn act_as(&self, user: User) {
        self.state().user = user;
    }

    /// Takes the late request of this reconcile, if there is one: the reconcile can't proceed then.
    pub(super) fn take_late(&self) -> Option<LateRequest> {
        self.state().late.take()
    }
}

impl Service<Request<RequestBody>> for Requests {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<RequestBody>) -> Self::Future {
        let request_line = (request.method().clone(), request.uri().clone());
        let user = self.state().user.clone();
        request.extensions_mut().insert(user);
        request.extensions_mut().insert(Unrestricted);
        let requests = self.clone();
        let mut answer = self.server.call(request);
        Box::pin(async move {
            let (late_after, known) = {
                let mut state = requests.state();
                let known = state.late_answer.take_if(|known| known.request_line == request_line);
                (LATE_AFTER / state.waiting.saturating_add(1), known)
            };
            if let Some(known) = known {
                return Ok(known.answer);
            }
            if let Ok(answer) = tokio::time::timeout(late_after, &mut answer).await {
                return answer;
            }
            requests.state().late = Some(LateRequest { request_line, answer });
            // Never completes: the control loop drops the reconcile.
            std::future::pending().await
        })
    }
}
