//! Connections that are joined to others.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};

/// A connection of any kind.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// The upstream connection of an answer that switches protocols: bytes are copied both ways until either end closes.
///
/// It is handed over among the extensions of an answer with status 101.
#[derive(Clone)]
pub struct Tunnel(Arc<Mutex<Option<Box<dyn Connection>>>>);

impl Tunnel {
    /// A tunnel to an open connection.
    pub fn new(upstream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(upstream)))))
    }

    /// Copies between the client's connection and the upstream one.
    pub(crate) async fn join(self, upgrade: OnUpgrade) {
        let upstream = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(mut upstream), Ok(client)) = (upstream, upgrade.await) else { return };
        // How it ends concerns the two ends alone.
        let _ = copy_bidirectional(&mut TokioIo::new(client), &mut upstream).await;
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}
