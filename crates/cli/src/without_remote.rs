//! Replacement for fetching in a build without the feature `registry`: only local files are supported.

use std::path::Path;

use steersman_chart::FetchSchema;

use crate::args::{ChartArgs, GlobalArgs};
use crate::failure::{Failure, Result};

pub(crate) fn chart(name: &str, _: &ChartArgs, _: &GlobalArgs) -> Result<Vec<u8>> {
    Err(left_out(&format!("cannot fetch the chart {name}")))
}

pub(crate) fn update_dependencies(path: &Path, _: &ChartArgs, _: &GlobalArgs) -> Result {
    Err(left_out(&format!("cannot fetch the dependencies of {}", path.display())))
}

pub(crate) fn file(url: &str, _: &GlobalArgs) -> Result<Vec<u8>> {
    Err(left_out(&format!("cannot fetch {url}")))
}

pub(crate) fn schemas(_: &GlobalArgs) -> FetchSchema {
    FetchSchema::new(|url| Err(left_out(&format!("cannot fetch {url}")).message().to_owned()))
}

fn left_out(what: &str) -> Failure {
    Failure::of_feature(what, "registry")
}
