//! Faults and fault plans, with a text format that can be copied into a command line.

use std::{fmt, str::FromStr};

/// A fault injected into a run.
///
/// The number is that of the operator's write or read, starting at 1; leases, events and access reviews are not counted.
/// Faults at rest, which happen between steps while the cluster is idle, have the number of the scenario's step instead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The operator crashes before a write reaches the API server, and is restarted.
    CrashBefore(u32),
    /// The operator crashes after a write is committed, before it receives the response, and is restarted.
    CrashAfter(u32),
    /// The operator crashes after a write, and is restarted only after the user's next step.
    DeadAfter(u32),
    /// A write is rejected with a status code: 409, 429, 500 or 503.
    Refused(u32, u16),
    /// A write is committed, and the connection breaks before the response arrives.
    Lost(u32),
    /// A write is committed, and the response is 504.
    TimedOut(u32),
    /// A create is rejected by a resource quota (403), as are others of its kind for ten seconds.
    Quota(u32),
    /// A write is denied by an admission webhook (403), as are others of its kind for ten seconds.
    Denied(u32),
    /// A write reaches the API server ten seconds late.
    Delayed(u32),
    /// After a write, no watch event arrives for ten seconds.
    WatchHeld(u32),
    /// After a write, no watch event of one resource (`resource.group`) arrives for ten seconds.
    KindHeld(u32, String),
    /// After a write, every watch ends and has to be restarted.
    WatchBroken(u32),
    /// After a write, every watch ends and its resourceVersion is expired (410), which requires a relist.
    WatchExpired(u32),
    /// The operator crashes after a write, which its next start does not see for five seconds.
    ///
    /// The API server that it is restarted onto serves stale state, as one that lags behind.
    StaleRestart(u32),
    /// A read fails with 500.
    ReadFailed(u32),
    /// The replica that sends a write is partitioned for 30 seconds, longer than its lease duration.
    LeaseLost(u32),
    /// At rest, the operator is restarted.
    Restart(u32),
    /// The operator is down during a step and the next one.
    Down(u32),
    /// The operator's watches deliver no events during a step and the next one, and then have to relist.
    Blind(u32),
    /// At rest, another client deletes an object of the operator: `resource.group/namespace/name`.
    DeletedOutside(u32, String),
    /// At rest, another client changes a field that the operator has set.
    ///
    /// The field is one of an object that the operator created: `resource.group/namespace/name`.
    EditedOutside(u32, String),
    /// At rest, the containers of all running pods crash for ten seconds.
    PodFailed(u32),
    /// At rest, a node is lost until its pods are evicted, and then returns.
    NodeLost(u32),
    /// At rest, the clock jumps forward by an hour.
    ClockJump(u32),
    /// At rest, definitions with existing objects get another version, which becomes the storage version.
    VersionChanged(u32),
}

impl Fault {
    /// Names of all fault kinds.
    ///
    /// For [`Simulation::only`](crate::Simulation::only) and [`Simulation::without`](crate::Simulation::without).
    pub const KINDS: &[&str] = &[
        "crash-before",
        "crash-after",
        "dead-after",
        "stale-restart",
        "refused",
        "lost",
        "timed-out",
        "quota",
        "denied",
        "delayed",
        "watch-held",
        "kind-held",
        "watch-broken",
        "watch-expired",
        "read-failed",
        "lease-lost",
        "restart",
        "down",
        "blind",
        "deleted-outside",
        "edited-outside",
        "pod-failed",
        "node-lost",
        "clock-jump",
        "version-changed",
    ];

    /// Returns the name of the fault's kind, as in the text format.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CrashBefore(_) => "crash-before",
            Self::CrashAfter(_) => "crash-after",
            Self::DeadAfter(_) => "dead-after",
            Self::Refused(..) => "refused",
            Self::Lost(_) => "lost",
            Self::TimedOut(_) => "timed-out",
            Self::Quota(_) => "quota",
            Self::Denied(_) => "denied",
            Self::Delayed(_) => "delayed",
            Self::WatchHeld(_) => "watch-held",
            Self::KindHeld(..) => "kind-held",
            Self::WatchBroken(_) => "watch-broken",
            Self::WatchExpired(_) => "watch-expired",
            Self::StaleRestart(_) => "stale-restart",
            Self::ReadFailed(_) => "read-failed",
            Self::LeaseLost(_) => "lease-lost",
            Self::Restart(_) => "restart",
            Self::Down(_) => "down",
            Self::Blind(_) => "blind",
            Self::DeletedOutside(..) => "deleted-outside",
            Self::EditedOutside(..) => "edited-outside",
            Self::PodFailed(_) => "pod-failed",
            Self::NodeLost(_) => "node-lost",
            Self::ClockJump(_) => "clock-jump",
            Self::VersionChanged(_) => "version-changed",
        }
    }

    /// Returns the number of the write at which it happens.
    pub(crate) fn at_write(&self) -> Option<u32> {
        match self {
            Self::CrashBefore(at)
            | Self::CrashAfter(at)
            | Self::DeadAfter(at)
            | Self::Refused(at, _)
            | Self::Lost(at)
            | Self::TimedOut(at)
            | Self::Quota(at)
            | Self::Denied(at)
            | Self::Delayed(at)
            | Self::WatchHeld(at)
            | Self::KindHeld(at, _)
            | Self::WatchBroken(at)
            | Self::WatchExpired(at)
            | Self::StaleRestart(at)
            | Self::LeaseLost(at) => Some(*at),
            _ => None,
        }
    }

    /// Returns the step after which it happens, for faults at rest.
    pub(crate) fn at_rest(&self) -> Option<u32> {
        match self {
            Self::Restart(at)
            | Self::DeletedOutside(at, _)
            | Self::EditedOutside(at, _)
            | Self::PodFailed(at)
            | Self::NodeLost(at)
            | Self::ClockJump(at)
            | Self::VersionChanged(at) => Some(*at),
            _ => None,
        }
    }

    /// Returns the number of its write, read or step.
    fn number(&self) -> u32 {
        match self {
            Self::ReadFailed(at) | Self::Down(at) | Self::Blind(at) => *at,
            other => other.at_write().or_else(|| other.at_rest()).unwrap_or_default(),
        }
    }

    /// Whether the operator crashes after its write is committed (or before); `None` if it survives.
    pub(crate) fn kills(&self) -> Option<bool> {
        match self {
            Self::CrashBefore(_) => Some(false),
            Self::CrashAfter(_) | Self::DeadAfter(_) | Self::StaleRestart(_) => Some(true),
            _ => None,
        }
    }

    /// Whether a write fails, or appears to.
    pub(crate) fn fails_write(&self) -> bool {
        matches!(
            self,
            Self::Refused(..) | Self::Lost(_) | Self::TimedOut(_) | Self::Quota(_) | Self::Denied(_)
        )
    }

    /// Returns the object that another client deletes or edits.
    pub(crate) fn outside(&self) -> Option<&str> {
        match self {
            Self::DeletedOutside(_, key) | Self::EditedOutside(_, key) => Some(key),
            _ => None,
        }
    }

    /// Whether it may change how often objects are created and deleted, as a step is skipped or undone.
    pub(crate) fn changes_counts(&self) -> bool {
        matches!(
            self,
            Self::DeadAfter(_)
                | Self::Down(_)
                | Self::Blind(_)
                | Self::DeletedOutside(..)
                | Self::EditedOutside(..)
                | Self::PodFailed(_)
                | Self::NodeLost(_)
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, at) = (self.kind(), self.number());
        match self {
            Self::Refused(_, code) => write!(f, "{kind}-{code}@{at}"),
            Self::DeletedOutside(_, what) | Self::EditedOutside(_, what) | Self::KindHeld(_, what) => {
                write!(f, "{kind}@{at}:{what}")
            }
            _ => write!(f, "{kind}@{at}"),
        }
    }
}

/// The error of parsing a fault or a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid fault plan {0:?}: expected a plan such as 1/crash-after@3+lost@5 or 1/none")]
pub struct ParsePlanError(String);

impl FromStr for Fault {
    type Err = ParsePlanError;

    fn from_str(text: &str) -> Result<Self, ParsePlanError> {
        let wrong = || ParsePlanError(text.to_owned());
        let (kind, place) = text.split_once('@').ok_or_else(wrong)?;
        let (number, object) = match place.split_once(':') {
            Some((number, object)) => (number, Some(object)),
            None => (place, None),
        };
        let at: u32 = number.parse().map_err(|_| wrong())?;
        Ok(match (kind, object) {
            ("crash-before", None) => Self::CrashBefore(at),
            ("crash-after", None) => Self::CrashAfter(at),
            ("dead-after", None) => Self::DeadAfter(at),
            ("lost", None) => Self::Lost(at),
            ("timed-out", None) => Self::TimedOut(at),
            ("quota", None) => Self::Quota(at),
            ("denied", None) => Self::Denied(at),
            ("delayed", None) => Self::Delayed(at),
            ("watch-held", None) => Self::WatchHeld(at),
            ("kind-held", Some(resource)) => Self::KindHeld(at, resource.to_owned()),
            ("watch-broken", None) => Self::WatchBroken(at),
            ("watch-expired", None) => Self::WatchExpired(at),
            ("stale-restart", None) => Self::StaleRestart(at),
            ("read-failed", None) => Self::ReadFailed(at),
            ("lease-lost", None) => Self::LeaseLost(at),
            ("restart", None) => Self::Restart(at),
            ("down", None) => Self::Down(at),
            ("blind", None) => Self::Blind(at),
            ("deleted-outside", Some(object)) => Self::DeletedOutside(at, object.to_owned()),
            ("edited-outside", Some(object)) => Self::EditedOutside(at, object.to_owned()),
            ("pod-failed", None) => Self::PodFailed(at),
            ("node-lost", None) => Self::NodeLost(at),
            ("clock-jump", None) => Self::ClockJump(at),
            ("version-changed", None) => Self::VersionChanged(at),
            (refused, None) => {
                let code = refused.strip_prefix("refused-").and_then(|code| code.parse().ok());
                let code = code.filter(|code| matches!(code, 409 | 429 | 500 | 503)).ok_or_else(wrong)?;
                Self::Refused(at, code)
            }
            _ => return Err(wrong()),
        })
    }
}

/// A fault plan: the faults of a run, and the seed of its randomness.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan {
    /// The seed of uids, generated names and the operator's randomness.
    pub seed: u64,
    /// The faults; empty for a fault-free run.
    pub faults: Vec<Fault>,
}

impl Plan {
    pub(crate) fn new(seed: u64, faults: impl IntoIterator<Item = Fault>) -> Self {
        Self { seed, faults: faults.into_iter().collect() }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.seed)?;
        if self.faults.is_empty() {
            return f.write_str("none");
        }
        for (index, fault) in self.faults.iter().enumerate() {
            write!(f, "{}{fault}", if index == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = ParsePlanError;

    fn from_str(text: &str) -> Result<Self, ParsePlanError> {
        let wrong = || ParsePlanError(text.to_owned());
        let (seed, faults) = text.split_once('/').ok_or_else(wrong)?;
        let seed = seed.parse().map_err(|_| wrong())?;
        let faults = match faults {
            "none" => Vec::new(),
            faults => faults.split('+').map(str::parse).collect::<Result<_, _>>()?,
        };
        Ok(Self { seed, faults })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_back_from_its_text() {
        let text = "7/crash-before@1+refused-409@2+lost@3+read-failed@4+restart@5+deleted-outside@6:deployments.apps/a/b\
                    +quota@7+denied@8+kind-held@9:pods+edited-outside@10:secrets/a/b+pod-failed@11+node-lost@12\
                    +clock-jump@13+version-changed@14+down@15";
        let plan: Plan = text.parse().unwrap();
        assert_eq!(plan.faults.len(), 15);
        assert_eq!(plan.to_string(), text);
        assert_eq!("1/none".parse::<Plan>().unwrap().to_string(), "1/none");
    }

    #[test]
    fn every_kind_has_a_text_form() {
        for kind in Fault::KINDS {
            let text = match *kind {
                "refused" => "refused-429@1".to_owned(),
                "deleted-outside" | "edited-outside" | "kind-held" => format!("{kind}@1:pods/a/b"),
                kind => format!("{kind}@1"),
            };
            let fault: Fault = text.parse().unwrap();
            assert_eq!((fault.kind(), fault.to_string()), (*kind, text));
        }
    }

    #[test]
    fn other_text_is_refused_with_an_example() {
        for text in [
            "",
            "1",
            "x/none",
            "1/",
            "1/crash@1",
            "1/refused-418@1",
            "1/lost@x",
            "1/lost@1:a",
            "1/kind-held@1",
        ] {
            let error = text.parse::<Plan>().unwrap_err();
            assert!(error.to_string().contains("1/crash-after@3+lost@5"), "{error}");
        }
    }
}
