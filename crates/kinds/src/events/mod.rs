//! `events.k8s.io`.

mod event;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[event::KIND];
