//! Ansible's roles and playbooks in a build without the feature `ansible`, or for another system than Unix: they are refused.

use std::path::Path;

use kube::Client;
use steersman::Operator;

use crate::commands::dev::project::Tell;
use crate::failure::{Failure, Result};

/// There are none.
pub(crate) enum Plays {}

impl Plays {
    pub(in crate::commands::dev) fn load(path: &Path) -> Result<Self> {
        let what = format!("{}: roles and playbooks", path.display());
        match cfg!(unix) {
            true => Err(Failure::of_feature(&what, "ansible")),
            false => Err(Failure::new(format!("{what} can be run on Unix only"))),
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
