//! A packed chart: whatever the archive says of itself, nothing is written, and memory stays bounded.
//!
//! The first byte chooses: the rest is a .tgz, a tar to be packed, or pairs of lines that are names and contents.

#![no_main]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use steersman_chart::Chart;

fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let archive = match choice % 3 {
        0 => Some(rest.to_vec()),
        1 => pack(rest),
        _ => files(rest).and_then(|tar| pack(&tar)),
    };
    if let Some(Ok(chart)) = archive.map(|archive| Chart::from_archive(&archive)) {
        let _ = (chart.check_installable(), chart.check_dependencies(), chart.values());
    }
});

fn pack(tar: &[u8]) -> Option<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(tar).ok()?;
    gzip.finish().ok()
}

fn files(text: &[u8]) -> Option<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut lines = text.split(|byte| *byte == b'\n');
    while let (Some(name), Some(content)) = (lines.next(), lines.next()) {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // Names are put in as they are: the tar crate would refuse those that a hostile archive has.
        let field = &mut header.as_old_mut().name;
        let length = name.len().min(field.len());
        field[..length].copy_from_slice(&name[..length]);
        header.set_cksum();
        tar.append(&header, content).ok()?;
    }
    tar.into_inner().ok()
}
