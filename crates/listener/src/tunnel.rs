//! Client connections joined to upstream ones.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};

/// A bidirectional byte stream of any type.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// The upstream connection of a response that switches protocols.
///
/// Bytes are copied both ways until either end closes. It is passed as an extension of a response with status 101.
#[derive(Clone)]
pub struct Tunnel(Arc<Mutex<Option<Box<dyn Connection>>>>);

impl Tunnel {
    /// Creates a tunnel to an open connection.
    pub fn new(upstream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(upstream)))))
    }

    /// Copies bytes between the client's connection and the upstream one.
    pub(crate) async fn join(self, upgrade: OnUpgrade) {
        let upstream = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(mut upstream), Ok(client)) = (upstream, upgrade.await) else { return };
        // A failure concerns only the two ends, which see it themselves.
        let _ = copy_bidirectional(&mut TokioIo::new(client), &mut upstream).await;
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}
