//! Rejects Ansible plays in a build without the feature `ansible`, or on a system other than Unix.

use std::path::Path;

use kube::Client;
use steersman::Operator;

use crate::commands::dev::project::Tell;
use crate::failure::{Failure, Result};

/// An uninhabited type: plays are not supported.
pub(crate) enum Plays {}

impl Plays {
    pub(in crate::commands::dev) fn load(path: &Path) -> Result<Self> {
        let what = format!("{}: roles and playbooks", path.display());
        match cfg!(unix) {
            true => Err(Failure::of_feature(&what, "ansible")),
            false => Err(Failure::new(format!("{what} are only supported on Unix"))),
        }
    }

    pub(in crate::commands::dev) fn kinds(&self) -> Vec<(String, String)> {
        match *self {}
    }

    pub(in crate::commands::dev) async fn add_to(
        &self,
        _: Operator,
        _: &Client,
        _: Tell,
    ) -> Result<Operator> {
        match *self {}
    }
}
