//! `batch`.

mod cron_job;
mod job;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[cron_job::KIND, job::KIND];
