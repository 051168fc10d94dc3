//! Packing a chart into an archive.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use steersman_chart::Chart;

/// Packs a chart's files verbatim in a directory of its name. Chart.yaml keeps its comments, and the archive is
/// reproducible.
pub(crate) fn pack(chart: &Chart) -> io::Result<Vec<u8>> {
    // `helm package` marks its archives with this comment.
    let gzip = GzBuilder::new().comment("Helm").write(Vec::new(), Compression::default());
    let mut archive = tar::Builder::new(gzip);
    for file in chart.all_files() {
        let mut header = tar::Header::new_gnu();
        header.set_size(file.data.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        archive.append_data(&mut header, format!("{}/{}", chart.name(), file.name), &file.data[..])?;
    }
    let mut gzip = archive.into_inner()?;
    gzip.flush()?;
    gzip.finish()
}
