//! Replaces `disk` without the feature `data-dir`: a cluster with a data directory does not start.

use std::path::Path;

use steersman_apiserver::Builder;

use crate::{error::Error, pki::Authority};

pub(crate) async fn restore(directory: &Path, _: Builder) -> Result<(Builder, Authority, String), Error> {
    let reason = "this program was built without the feature `data-dir` of steersman-cluster";
    Err(Error::DataDirectory(directory.to_owned(), reason.into()))
}
