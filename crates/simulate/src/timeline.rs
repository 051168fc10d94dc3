//! Timelines of runs.

use std::{fmt, time::Duration};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Actor {
    /// The scenario's user.
    User,
    /// A process of the operator, numbered by its start.
    Operator(u32),
    /// The cluster's built-in controllers.
    Cluster,
    /// The simulation, which injected a fault.
    Fault,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.pad("user"),
            Self::Operator(start) => f.pad(&format!("operator #{start}")),
            Self::Cluster => f.pad("cluster"),
            Self::Fault => f.pad("fault"),
        }
    }
}

/// An entry of a timeline.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Virtual time since the beginning of the run.
    #[serde(rename = "atMilliseconds", serialize_with = "milliseconds")]
    pub at: Duration,
    /// The revision of the cluster's store at this entry.
    pub revision: u64,
    /// The actor.
    pub actor: Actor,
    /// What happened.
    pub text: String,
    /// Whether it is an injected fault.
    pub is_fault: bool,
}

fn milliseconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_fault { "✗" } else { " " };
        write!(f, "{:>9.3}s {mark} {:<12} {}", self.at.as_secs_f64(), self.actor, self.text)
    }
}

/// The SHA-256 of a timeline, in hexadecimal.
pub(crate) fn hash(entries: &[Entry]) -> String {
    let mut hash = Sha256::new();
    for entry in entries {
        hash.update(format!("{entry}@{}\n", entry.revision));
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
