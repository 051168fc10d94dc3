//! State of running pods.

use std::collections::HashMap;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::control_loop::ClockChange;

/// State of running pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kubelet {
    /// Pods by uid.
    pub(super) pods: HashMap<String, Run>,
    /// The next pod IP, zero if none has been assigned yet.
    pub(super) addresses: u32,
}

impl Kubelet {
    /// Returns the same pods, with times on another clock.
    pub(crate) fn on_clock(&self, clock: ClockChange) -> Self {
        let pods = self.pods.iter().map(|(uid, run)| {
            let stopping = run.stopping.map(|at| clock.carry(at));
            (uid.clone(), Run { started: clock.carry(run.started), at: run.at, stopping })
        });
        Self { pods: pods.collect(), addresses: self.addresses }
    }

    /// Forgets a deleted pod.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.pods.remove(uid);
    }
}

#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) started: Instant,
    pub(super) at: Timestamp,
    pub(super) stopping: Option<Instant>,
}
