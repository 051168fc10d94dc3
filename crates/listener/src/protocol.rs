//! The HTTP versions of a connection.

use std::{convert::Infallible, error::Error};

use http::{Request, Response};
use hyper::{body::Incoming, service::Service};
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::{Limits, body::ResponseBody, tunnel::Connection};

/// Serves HTTP/1.1 on a connection until it ends, or HTTP/2 if its first bytes say so (feature `http2`).
pub(crate) async fn serve<S>(
    stream: Box<dyn Connection>,
    service: S,
    limits: &Limits,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    S: Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible>,
    S::Future: Send + 'static,
{
    let stream = TokioIo::new(stream);
    #[cfg(feature = "http2")]
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
        server.serve_connection_with_upgrades(stream, service).await
    }
    #[cfg(not(feature = "http2"))]
    {
        let mut server = hyper::server::conn::http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(limits.header);
        Ok(server.serve_connection(stream, service).with_upgrades().await?)
    }
}
