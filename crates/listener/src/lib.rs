//! HTTP servers on a port, with or without TLS, that withstand slow and numerous clients.
//!
//! ```no_run
//! use http::Response;
//! use steersman_listener::{Limits, Listener};
//!
//! # async fn doc() -> std::io::Result<()> {
//! let socket = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! let listener = Listener::new(socket).limits(Limits { connections: 64, ..Limits::default() });
//! listener.serve(|_certificate| |_request| async { Response::new(String::from("hello")) }).await;
//! # Ok(())
//! # }
//! ```
//!
//! The feature `http2`, off by default, adds HTTP/2; without it a listener speaks HTTP/1.1.

mod body;
mod connections;
mod limits;
mod protocol;
mod tunnel;
mod websocket;

use std::{
    convert::Infallible,
    error::Error,
    future::{Future, pending},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::service::service_fn;
use rustls::{ServerConfig, pki_types::CertificateDer};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

pub use body::{BodyError, RequestBody};
pub use limits::Limits;
pub use tunnel::Tunnel;
pub use websocket::Handshake;

use body::ResponseBody;
use connections::{Connections, Requests};
use tunnel::Connection;

/// The body of a response.
type AnswerBody = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// Handles the requests of a connection.
type Handler = Box<dyn Fn(Request<RequestBody>) -> BoxFuture<'static, Response<AnswerBody>> + Send>;

/// Makes the handler of a connection, given the certificate that the client presented.
type Handlers = Box<dyn Fn(Option<&CertificateDer<'_>>) -> Handler + Send + Sync>;

/// The address of a request's client, a request extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// An open port that does not accept connections yet.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    limits: Limits,
}

impl Listener {
    /// Creates a server on an open port.
    #[must_use]
    pub fn new(socket: TcpListener) -> Self {
        Self { socket, tls: None, limits: Limits::default() }
    }

    /// Speaks TLS. Default: plain HTTP.
    #[must_use]
    pub fn tls(mut self, config: Arc<ServerConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Sets the limits on clients. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Serves until the future is dropped, which closes all connections.
    ///
    /// `handlers` makes the handler of a connection's requests, given the certificate that the client presented. The body
    /// of a response made by [`Handshake::accept`] is sent over a WebSocket. A response that switches protocols with a
    /// [`Tunnel`] among its extensions connects the client to that tunnel. Requests carry their [`Peer`].
    pub async fn serve<M, H, F, B>(self, handlers: M)
    where
        M: Fn(Option<&CertificateDer<'_>>) -> H + Send + Sync + 'static,
        H: Fn(Request<RequestBody>) -> F + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.accept(Box::new(move |certificate| {
            let handler = handlers(certificate);
            Box::new(move |request| {
                let answer = handler(request);
                Box::pin(async move { answer.await.map(|body| body.map_err(Into::into).boxed_unsync()) })
            })
        }))
        .await;
    }

    /// Accepts connections. Boxed, as is everything that depends on the caller, so that the HTTP server is compiled once,
    /// in this crate.
    fn accept(self, handlers: Handlers) -> BoxFuture<'static, ()> {
        let Self { socket, tls, limits } = self;
        let tls = tls.map(TlsAcceptor::from);
        let handlers = Arc::new(handlers);
        Box::pin(async move {
            let mut connections = Connections::new(limits.connections);
            loop {
                let stream = tokio::select! {
                    accepted = socket.accept() => accepted,
                    () = connections.ended() => continue,
                };
                let stream = match stream {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of file descriptors, or the client has already left: the next attempt may succeed.
                        tracing::debug!(%error, "a connection could not be accepted");
                        connections.close_idle();
                        tokio::time::sleep(limits.accept_retry).await;
                        continue;
                    }
                };
                connections.make_room().await;
                let (tls, handlers) = (tls.clone(), Arc::clone(&handlers));
                connections.spawn(|requests| connection(stream, tls, limits, handlers, requests));
            }
        })
    }
}

/// Serves one connection, from its handshake to its end.
async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    handlers: Arc<Handlers>,
    requests: Arc<Requests>,
) {
    let _ = stream.set_nodelay(true);
    let peer = stream.peer_addr().ok().map(Peer);
    let (stream, handler): (Box<dyn Connection>, _) = match tls {
        None => (Box::new(stream), handlers(None)),
        Some(tls) => {
            let Ok(Ok(stream)) = timeout(limits.handshake, tls.accept(stream)).await else { return };
            let chain = stream.get_ref().1.peer_certificates();
            let handler = handlers(chain.and_then(|chain| chain.first()));
            (Box::new(stream), handler)
        }
    };
    answer(stream, peer, limits, handler, requests).await;
}

/// Serves the requests of a connection.
async fn answer(
    stream: Box<dyn Connection>,
    peer: Option<Peer>,
    limits: Limits,
    handler: Handler,
    requests: Arc<Requests>,
) {
    let counted = Arc::clone(&requests);
    // The protocol to switch to: at most one response per connection switches.
    let switched = Arc::new(Mutex::new(None));
    let switches = Arc::clone(&switched);
    let service = service_fn(move |mut request: Request<_>| {
        let pending = Requests::begin(&counted);
        let upgrade = hyper::upgrade::on(&mut request);
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        let answer = handler(request.map(|body| RequestBody::new(body, limits.body)));
        let (switches, counted) = (Arc::clone(&switches), Arc::clone(&counted));
        async move {
            let answer = answer.await;
            if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Ok::<_, Infallible>(answer.map(|body| ResponseBody::new(Some(body), pending)));
            }
            let (mut head, body) = answer.into_parts();
            let lasting = Requests::begin(&counted);
            let next = match head.extensions.remove::<Tunnel>() {
                Some(tunnel) => Switched::Tunnel(tunnel),
                None => Switched::WebSocket(body),
            };
            *switches.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, next, lasting));
            Ok(Response::from_parts(head, ResponseBody::new(None, pending)))
        }
    });
    let serving = protocol::serve(stream, service, &limits);
    // With the feature `http2`, hyper reads the first bytes, which tell the protocol, without a time limit.
    let unused = async {
        tokio::time::sleep(limits.header).await;
        if !requests.is_unused() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        // A failed connection concerns only its client.
        ended = serving => if let Err(error) = ended {
            tracing::debug!(error, "a connection ended early");
        },
        () = unused => return,
    }
    let switched = switched.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((upgrade, next, _lasting)) = switched {
        match next {
            Switched::WebSocket(body) => websocket::send(upgrade, body).await,
            Switched::Tunnel(tunnel) => tunnel.join(upgrade).await,
        }
    }
}

/// The protocol that follows HTTP on a connection.
enum Switched {
    /// The frames of a body, as messages.
    WebSocket(AnswerBody),
    /// The bytes of another connection, copied both ways.
    Tunnel(Tunnel),
}
