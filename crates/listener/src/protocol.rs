//! The versions of HTTP that a connection may speak.

use std::{convert::Infallible, error::Error};

use http::{Request, Response};
use hyper::{body::Incoming, service::Service};
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::{Limits, body::ResponseBody, tunnel::Connection};

/// Answers the requests of a connection until it ends, by HTTP/1.1 or HTTP/2, which its first bytes tell apart.
#[cfg(feature = "http2")]
pub(crate) async fn serve<S>(
    stream: Box<dyn Connection>,
    service: S,
    limits: &Limits,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    S: Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible>,
    S::Future: Send + 'static,
{
    use hyper_util::{rt::TokioExecutor, server::conn::auto};

    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(limits.header);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .keep_alive_interval(limits.ping)
        .keep_alive_timeout(limits.header);
    server.serve_connection_with_upgrades(TokioIo::new(stream), service).await
}

/// Answers the requests of a connection until it ends, by HTTP/1.1.
#[cfg(not(feature = "http2"))]
pub(crate) async fn serve<S>(
    stream: Box<dyn Connection>,
    service: S,
    limits: &Limits,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    S: Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible>,
    S::Future: Send + 'static,
{
    use hyper::server::conn::http1;

    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(limits.header);
    Ok(server.serve_connection(TokioIo::new(stream), service).with_upgrades().await?)
}
