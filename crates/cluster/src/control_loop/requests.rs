//! The requests of controllers. One that takes long, as it asks a slow webhook, is waited for beside the control loop, so
//! that it holds up the object that it is about and nothing else.

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

/// How long the control loop waits for a request. Less while others are late, so that their number does not matter.
const LATE_AFTER: Duration = Duration::from_millis(100);

/// An answer of the server.
type Answer = Result<Response<Body>, Infallible>;

/// What a request asked for.
type RequestLine = (Method, Uri);

/// A request that was not answered in time.
pub(super) struct LateRequest {
    request_line: RequestLine,
    answer: BoxFuture<'static, Answer>,
}

impl LateRequest {
    /// Waits for the answer, and gives it if it is a refusal or what was asked for. A write that was made is not made again: the
    /// next reconcile sees it.
    pub(super) async fn answer(self) -> Option<LateAnswer> {
        let Ok(answer) = self.answer.await;
        let refused = answer.status().is_client_error() || answer.status().is_server_error();
        let is_read = self.request_line.0 == Method::GET;
        (refused || is_read).then_some(LateAnswer { request_line: self.request_line, answer })
    }
}

/// An answer that came late. The next reconcile of its object, which asks the same again, gets it.
pub(super) struct LateAnswer {
    request_line: RequestLine,
    answer: Response<Body>,
}

#[derive(Default)]
struct State {
    /// Who asks.
    user: User,
    /// How many requests are late.
    waiting: u32,
    late: Option<LateRequest>,
    late_answer: Option<LateAnswer>,
}

/// The way of the controllers to the server, for a `kube::Client`.
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

    /// A reconcile begins, of an object of which so many are held up by late requests.
    pub(super) fn begin(&self, waiting: usize, late_answer: Option<LateAnswer>) {
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX - 1);
        let mut state = self.state();
        *state = State { user: std::mem::take(&mut state.user), waiting, late: None, late_answer };
    }

    /// Asks as another user from now on, who may do everything: the control plane shares the server's process.
    pub(super) fn act_as(&self, user: User) {
        self.state().user = user;
    }

    /// The request of this reconcile that is late, if there is one: it goes no further then.
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
            // Ends with the reconcile, which the control loop gives up.
            std::future::pending().await
        })
    }
}
