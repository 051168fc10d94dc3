//! Async runtimes for commands.

use std::pin::Pin;

use tokio::runtime::{self, Builder};

use crate::failure::{Failure, Result};

/// A runtime that commands block on.
pub(crate) struct Runtime(runtime::Runtime);

impl Runtime {
    /// Runs a future to completion.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut output = None;
        self.run(Box::pin(async { output = Some(future.await) }));
        output.unwrap_or_else(|| unreachable!("the future has ended"))
    }

    /// Runs every future as one type, since tokio's loops are compiled for each type of future.
    fn run(&self, future: Pin<Box<dyn Future<Output = ()> + '_>>) {
        self.0.block_on(future);
    }

    /// Spawns a future, which runs until the runtime is dropped.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future);
    }

    /// Shuts down without waiting for running tasks.
    pub(crate) fn shutdown_background(self) {
        self.0.shutdown_background();
    }
}

/// Returns a runtime with a thread per core, for long-running commands and servers.
pub(crate) fn multi_thread() -> Result<Runtime> {
    build(&mut Builder::new_multi_thread())
}

/// Returns a runtime on this thread, for commands that only make requests. Most never need one.
pub(crate) fn current_thread() -> Result<Runtime> {
    build(&mut Builder::new_current_thread())
}

fn build(builder: &mut Builder) -> Result<Runtime> {
    let runtime = builder.enable_all().build();
    runtime.map(Runtime).map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))
}
