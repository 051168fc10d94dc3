//! Processes, and their resource usage.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that is stopped on drop.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        let file = std::fs::File::create(log).map_err(|error| error.to_string())?;
        let copy = file.try_clone().map_err(|error| error.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(copy).spawn();
        child.map(Self).map_err(|error| format!("{command:?}: {error}"))
    }

    /// Returns the processor time used, in seconds.
    pub(crate) fn cpu(&self) -> Result<f64, String> {
        steersman_bench::processor_time(self.0.id())
    }

    /// Returns the peak memory, in MiB.
    pub(crate) fn peak(&self) -> Result<f64, String> {
        steersman_bench::peak_memory(self.0.id())
    }

    /// Returns the current memory, in MiB.
    pub(crate) fn held(&self) -> Result<f64, String> {
        steersman_bench::held_memory(self.0.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        for _ in 0..100 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
