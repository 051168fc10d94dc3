//! Replacement of `remote` without the feature `registry`: charts are not fetched.

use steersman_chart::Chart;

use crate::error::{Error, Result};
use crate::watches::WatchConfig;

pub(crate) async fn fetch(watch: &WatchConfig) -> Result<Chart> {
    Err(Error::NoRegistry(watch.chart.to_string_lossy().into_owned()))
}
