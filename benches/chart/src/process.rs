//! Runs a program and measures its resource usage.

use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use wait4::Wait4;

/// The cost of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Wall time.
    pub(crate) time: Duration,
    /// Peak memory.
    pub(crate) mebibytes: f64,
}

/// Runs a command to completion.
pub(crate) fn run(command: &mut Command) -> io::Result<Cost> {
    let start = Instant::now();
    let ended = command.spawn()?.wait4()?;
    let time = start.elapsed();
    if !ended.status.success() {
        return Err(io::Error::other(ended.status.to_string()));
    }
    #[expect(clippy::cast_precision_loss, reason = "memory is far from 2^53 bytes")]
    let mebibytes = ended.rusage.maxrss as f64 / f64::from(1 << 20);
    Ok(Cost { time, mebibytes })
}
