//! The async runtimes of commands.

use std::pin::Pin;

use tokio::runtime::{self, Builder};

use crate::failure::{Failure, Result};

/// A runtime on which commands wait for what they do.
pub(crate) struct Runtime(runtime::Runtime);

impl Runtime {
    /// Runs a future to its end.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut output = None;
        self.run(Box::pin(async { output = Some(future.await) }));
        output.unwrap_or_else(|| unreachable!("the future has ended"))
    }

    /// The loops of a runtime are compiled for each type of future that they are given: this is the only one.
    fn run(&self, future: Pin<Box<dyn Future<Output = ()> + '_>>) {
        self.0.block_on(future);
    }

    /// Runs a future beside others, for as long as the runtime is there.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future);
    }

    /// Ends without a wait for what still runs.
    pub(crate) fn shutdown_background(self) {
        self.0.shutdown_background();
    }
}

/// A runtime with a thread for each core, of commands that serve or run for long.
pub(crate) fn multi_thread() -> Result<Runtime> {
    build(&mut Builder::new_multi_thread())
}

/// A runtime on this thread, of commands that ask something over the network. Most never need one.
pub(crate) fn current_thread() -> Result<Runtime> {
    build(&mut Builder::new_current_thread())
}

fn build(builder: &mut Builder) -> Result<Runtime> {
    let runtime = builder.enable_all().build();
    runtime.map(Runtime).map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))
}
