//! Faults and plans of them, with a text form that a person can copy into a command.

use std::{fmt, str::FromStr};

/// One thing that goes wrong in a run.
///
/// The number is that of the operator's write, or read, from 1 on; leases, events and access reviews are not counted. Faults
/// at rest carry the number of a step of the scenario instead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The operator dies before a write reaches the API server, and is restarted.
    CrashBefore(u32),
    /// The operator dies after a write is committed and before it sees the answer, and is restarted.
    CrashAfter(u32),
    /// The operator dies after a write, and is restarted only after the user's next step.
    DeadAfter(u32),
    /// A write is refused with a status code: 409, 429, 500 or 503.
    Refused(u32, u16),
    /// A write is committed, and the connection breaks before the answer arrives.
    Lost(u32),
    /// A write is committed, and the answer is 504.
    TimedOut(u32),
    /// A write reaches the API server ten seconds late.
    Delayed(u32),
    /// After a write, no watch event arrives for ten seconds.
    WatchHeld(u32),
    /// After a write, every watch ends and is begun again.
    WatchBroken(u32),
    /// After a write, every watch ends and what it missed is too old (410), so that the operator lists again.
    WatchExpired(u32),
    /// The operator dies after a write, and the API server that it is restarted onto does not have that write for five seconds.
    StaleRestart(u32),
    /// A read is answered with 500.
    ReadFailed(u32),
    /// The replica that sends a write is cut off for 30 seconds, longer than its lease lasts.
    LeaseLost(u32),
    /// The operator is restarted while nothing happens.
    Restart(u32),
    /// The operator is down during a step and the one after it.
    Down(u32),
    /// The operator's watches are silent during a step and the one after it, and then have to list again.
    Blind(u32),
    /// While nothing happens, an object that the operator made is deleted by someone else: `resource.group/namespace/name`.
    DeletedOutside(u32, String),
}

impl Fault {
    /// The name of the fault's kind, as in the text form.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CrashBefore(_) => "crash-before",
            Self::CrashAfter(_) => "crash-after",
            Self::DeadAfter(_) => "dead-after",
            Self::Refused(..) => "refused",
            Self::Lost(_) => "lost",
            Self::TimedOut(_) => "timed-out",
            Self::Delayed(_) => "delayed",
            Self::WatchHeld(_) => "watch-held",
            Self::WatchBroken(_) => "watch-broken",
            Self::WatchExpired(_) => "watch-expired",
            Self::StaleRestart(_) => "stale-restart",
            Self::ReadFailed(_) => "read-failed",
            Self::LeaseLost(_) => "lease-lost",
            Self::Restart(_) => "restart",
            Self::Down(_) => "down",
            Self::Blind(_) => "blind",
            Self::DeletedOutside(..) => "deleted-outside",
        }
    }

    /// The write at which it happens.
    pub(crate) fn at_write(&self) -> Option<u32> {
        match self {
            Self::CrashBefore(at)
            | Self::CrashAfter(at)
            | Self::DeadAfter(at)
            | Self::Refused(at, _)
            | Self::Lost(at)
            | Self::TimedOut(at)
            | Self::Delayed(at)
            | Self::WatchHeld(at)
            | Self::WatchBroken(at)
            | Self::WatchExpired(at)
            | Self::StaleRestart(at)
            | Self::LeaseLost(at) => Some(*at),
            Self::ReadFailed(_)
            | Self::Restart(_)
            | Self::Down(_)
            | Self::Blind(_)
            | Self::DeletedOutside(..) => None,
        }
    }

    /// Whether the operator dies after its write is committed, or before; nothing if it lives.
    pub(crate) fn kills(&self) -> Option<bool> {
        match self {
            Self::CrashBefore(_) => Some(false),
            Self::CrashAfter(_) | Self::DeadAfter(_) | Self::StaleRestart(_) => Some(true),
            _ => None,
        }
    }

    /// Whether a step may be skipped over or undone, so that objects are rightly made and deleted another number of times.
    pub(crate) fn changes_counts(&self) -> bool {
        matches!(self, Self::DeadAfter(_) | Self::Down(_) | Self::Blind(_) | Self::DeletedOutside(..))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Self::Refused(at, code) => write!(f, "{kind}-{code}@{at}"),
            Self::DeletedOutside(at, object) => write!(f, "{kind}@{at}:{object}"),
            Self::ReadFailed(at) | Self::Restart(at) | Self::Down(at) | Self::Blind(at) => {
                write!(f, "{kind}@{at}")
            }
            other => write!(f, "{kind}@{}", other.at_write().unwrap_or_default()),
        }
    }
}

/// The text is not a fault or a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a plan of faults: {0:?}; it looks like 1/crash-after@3+lost@5, or 1/none")]
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
            ("delayed", None) => Self::Delayed(at),
            ("watch-held", None) => Self::WatchHeld(at),
            ("watch-broken", None) => Self::WatchBroken(at),
            ("watch-expired", None) => Self::WatchExpired(at),
            ("stale-restart", None) => Self::StaleRestart(at),
            ("read-failed", None) => Self::ReadFailed(at),
            ("lease-lost", None) => Self::LeaseLost(at),
            ("restart", None) => Self::Restart(at),
            ("down", None) => Self::Down(at),
            ("blind", None) => Self::Blind(at),
            ("deleted-outside", Some(object)) => Self::DeletedOutside(at, object.to_owned()),
            (refused, None) => {
                let code = refused.strip_prefix("refused-").and_then(|code| code.parse().ok());
                let code = code.filter(|code| matches!(code, 409 | 429 | 500 | 503)).ok_or_else(wrong)?;
                Self::Refused(at, code)
            }
            _ => return Err(wrong()),
        })
    }
}

/// What goes wrong in one run, and the seed of everything random in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan {
    /// The seed of uids, generated names and the operator's randomness.
    pub seed: u64,
    /// What goes wrong. Empty in a fault-free run.
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
        let text = "7/crash-before@1+refused-409@2+lost@3+read-failed@4+restart@5+deleted-outside@6:deployments.apps/a/b";
        let plan: Plan = text.parse().unwrap();
        assert_eq!(plan.faults.len(), 6);
        assert_eq!(plan.to_string(), text);
        assert_eq!("1/none".parse::<Plan>().unwrap().to_string(), "1/none");
    }

    #[test]
    fn other_text_is_refused_with_an_example() {
        for text in ["", "1", "x/none", "1/", "1/crash@1", "1/refused-418@1", "1/lost@x", "1/lost@1:a"] {
            let error = text.parse::<Plan>().unwrap_err();
            assert!(error.to_string().contains("1/crash-after@3+lost@5"), "{error}");
        }
    }
}
