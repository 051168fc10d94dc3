//! Rejects KUDO packages in a build without the feature `kudo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::commands::dev::operators::{InProcess, OperatorEnvironment};
use crate::failure::{Failure, Result};

/// An uninhabited type: packages are not supported.
pub(crate) enum Package {}

impl Package {
    pub(in crate::commands::dev) fn load(path: PathBuf) -> Result<Self> {
        Err(Failure::of_feature(&format!("{}: a KUDO package", path.display()), "kudo"))
    }

    pub(in crate::commands::dev) async fn start(
        &self,
        _: &OperatorEnvironment,
        _: SocketAddr,
    ) -> Result<InProcess> {
        match *self {}
    }

    pub(in crate::commands::dev) async fn reload(
        &self,
        _: &OperatorEnvironment,
        _: &mut Option<InProcess>,
        _: SocketAddr,
    ) -> Result {
        match *self {}
    }
}
