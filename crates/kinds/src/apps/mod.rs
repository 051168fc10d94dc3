//! `apps`.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] =
    &[controller_revision::KIND, daemon_set::KIND, deployment::KIND, replica_set::KIND, stateful_set::KIND];
