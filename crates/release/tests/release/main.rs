//! Releases on the embedded cluster.

mod crash;
mod embedded;
mod hostile;
mod render_limits;
