//! A running operator, and its resource usage as reported by the kernel.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::Result;

/// A running operator, stopped on drop.
pub(crate) struct Operator {
    child: Child,
}

impl Operator {
    /// Starts an operator for one namespace, without listening ports.
    pub(crate) fn start(program: &Path, namespace: &str) -> Result<Self> {
        let mut command = Command::new(program);
        command.env("WATCH_NAMESPACE", namespace).stdout(Stdio::null()).stderr(Stdio::null());
        if program.file_name().is_some_and(|name| name == "myownshell-operator") {
            command.args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
        }
        Ok(Self { child: command.spawn()? })
    }

    /// Fails if it has exited.
    pub(crate) fn alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => Err(format!("the operator ended with {status}").into()),
            None => Ok(()),
        }
    }

    /// Returns the processor time used, in seconds.
    pub(crate) fn processor_time(&self) -> Result<f64> {
        Ok(steersman_bench::processor_time(self.child.id())?)
    }

    /// Returns the peak memory, in MiB.
    pub(crate) fn peak_memory(&self) -> Result<f64> {
        Ok(steersman_bench::peak_memory(self.child.id())?)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
