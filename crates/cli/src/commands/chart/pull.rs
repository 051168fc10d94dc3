//! `steer chart pull`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use steersman_chart::Chart;
use steersman_registry::{Fetched, Fetcher, write_atomically};

use crate::args::{ChartArgs, GlobalArgs};
use crate::failure::{self, Failure, Result};
use crate::remote;

const EXAMPLES: &str = "\
Charts are verified against their digest in the index or registry, if there is one.

Examples:
  steer chart pull oci://registry.example.com/charts/shop --version '~1.2'
  steer chart pull shop --repo https://charts.example.com --untar
  steer chart pull main/shop -d /tmp         a repository added by `helm repo add`
  steer chart pull oci://registry.example.com/charts/shop@sha256:…";

/// Download charts, and optionally unpack them
#[derive(Args, Debug)]
#[command(visible_alias = "fetch", after_help = EXAMPLES)]
pub(super) struct Pull {
    /// Charts: oci://…, URLs, repository/chart, or names with --repo
    #[arg(required = true, value_name = "CHART")]
    charts: Vec<String>,

    /// Unpack the chart after downloading it
    #[arg(long)]
    untar: bool,

    /// Directory to unpack into, relative to --destination
    #[arg(long, value_name = "DIR", default_value = ".")]
    untardir: PathBuf,

    /// Directory to write the chart to
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    destination: PathBuf,

    /// Download the provenance file, too, but do not verify it
    #[arg(long)]
    prov: bool,

    #[command(flatten)]
    source: ChartArgs,
}

impl Pull {
    pub(super) fn run(self, globals: &GlobalArgs) -> Result {
        let access = self.source.access()?;
        let fetcher = Fetcher::new(globals.paths());
        for chart in &self.charts {
            let mut request = self.source.request(chart);
            request.provenance = self.prov;
            let fetched = remote::block_on(fetcher.fetch(&request, &access))?;
            if let Some(digest) = &fetched.manifest_digest {
                failure::note(&format!(
                    "Pulled: {}\nDigest: {digest}",
                    fetched.url.trim_start_matches("oci://")
                ));
            }
            if self.prov && fetched.provenance.is_none() {
                failure::warn(&format!("Verification not found for {chart}"));
            }
            match self.untar {
                true => self.unpack(&fetched)?,
                false => drop(fetched.save(&self.destination)?),
            }
        }
        Ok(())
    }

    fn unpack(&self, fetched: &Fetched) -> Result {
        let name = Chart::from_archive(&fetched.data)?.name().to_owned();
        let directory = match self.untardir.is_absolute() {
            true => self.untardir.clone(),
            false => self.destination.join(&self.untardir),
        };
        let target = directory.join(&name);
        if fs::symlink_metadata(&target).is_ok() {
            let shown = target.strip_prefix(".").unwrap_or(&target).display();
            return Err(Failure::new(format!(
                "failed to untar: a file or directory with the name {shown} already exists"
            )));
        }
        expand(&fetched.data, &target)
    }
}

/// Writes the files of a checked archive into a directory that does not exist yet.
fn expand(archive: &[u8], target: &Path) -> Result {
    for file in steersman_chart::archive_files(archive)? {
        // The loader rejects such names already; check again, since a path is joined here.
        let inside =
            Path::new(&file.name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !inside {
            return Err(Failure::new(format!("the archive has a file named {:?}", file.name)));
        }
        write_atomically(&target.join(&file.name), &file.data)?;
    }
    Ok(())
}
