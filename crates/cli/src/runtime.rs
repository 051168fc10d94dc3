//! The async runtime of commands that serve or run for long.

use tokio::runtime::{Builder, Runtime};

use crate::failure::{Failure, Result};

/// A runtime with a thread for each core.
pub(crate) fn multi_thread() -> Result<Runtime> {
    Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))
}
