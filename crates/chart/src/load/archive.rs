//! Charts in .tgz archives, which are unpacked only in memory.

use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::{Budget, MAX_CHART_SIZE, MAX_FILE_SIZE, io_error, without_bom};
use crate::chart::File;
use crate::error::Error;
use crate::gofmt;

const GZIP_MAGIC: &[u8] = b"\x1F\x8B\x08";
/// Maximum size of an archive: a larger one cannot unpack to an allowed size.
const MAX_ARCHIVE_SIZE: u64 = 2 * MAX_CHART_SIZE;
/// Allowance for headers and padding in an archive, besides the files themselves.
const OVERHEAD: u64 = 32 * 1024 * 1024;

/// Reads an archive file; the error says why it is not one.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let file = std::fs::File::open(path).map_err(|error| io_error("open", path, error))?;
    let mut content = Vec::new();
    file.take(MAX_ARCHIVE_SIZE).read_to_end(&mut content).map_err(|source| {
        let message = format!("file '{}' cannot be read: {source}", path.display());
        Error::Io { message, source }
    })?;
    if content.starts_with(GZIP_MAGIC) {
        return Ok(content);
    }
    let name = path.display();
    let is_yaml = path.extension().is_some_and(|extension| extension == "yml" || extension == "yaml");
    Err(Error::Load(if is_yaml {
        format!("file '{name}' seems to be a YAML file, but expected a gzipped archive")
    } else {
        let found = content_type(&content);
        format!("file '{name}' does not appear to be a gzipped archive; got '{found}'")
    }))
}

/// Go's content sniffing of the first 512 bytes, for the files that are likely mistaken for charts.
fn content_type(content: &[u8]) -> &'static str {
    let head = content.get(..512).unwrap_or(content);
    if head.starts_with(b"PK\x03\x04") {
        return "application/zip";
    }
    if head.starts_with(b"%PDF-") {
        return "application/pdf";
    }
    if head.trim_ascii_start().starts_with(b"<?xml") {
        return "text/xml; charset=utf-8";
    }
    let binary = |byte: &u8| matches!(byte, 0..=0x08 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F);
    // Helm pads the sniffed bytes with zeros, which are not text.
    if head.len() < 512 || head.iter().any(binary) {
        return "application/octet-stream";
    }
    "text/plain; charset=utf-8"
}

/// Returns the files of an archive, with names relative to its root directory.
pub(super) fn files(content: &[u8], budget: &mut Budget) -> Result<Vec<File>, Error> {
    if !content.starts_with(GZIP_MAGIC) {
        return Err(if content.is_empty() { Error::Load("EOF".into()) } else { Error::NotGzip });
    }
    let unzipped = MultiGzDecoder::new(content).take(MAX_CHART_SIZE + OVERHEAD);
    let mut archive = tar::Archive::new(unzipped);
    let entries = archive.entries().map_err(unreadable)?;
    let mut files = Vec::new();
    let mut remaining = MAX_CHART_SIZE;
    for entry in entries {
        let mut entry = entry.map_err(unreadable)?;
        let kind = entry.header().entry_type();
        let full_name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if kind.is_dir() || full_name.ends_with('/') || kind.is_pax_global_extensions() {
            continue;
        }
        let name = entry_name(&full_name)?;
        let size = entry.size();
        if size > remaining {
            return Err(chart_too_large());
        }
        if size > MAX_FILE_SIZE {
            return Err(Error::Load(format!(
                "decompressed chart file {} is larger than the maximum file size {MAX_FILE_SIZE}",
                gofmt::quote(&full_name.as_str().into())
            )));
        }
        budget.take(size)?;
        let mut data = Vec::new();
        let written = entry.by_ref().take(remaining).read_to_end(&mut data).map_err(unreadable)?;
        remaining = remaining.saturating_sub(written as u64);
        if (written as u64) < size || remaining == 0 {
            return Err(chart_too_large());
        }
        files.push(File { name, data: without_bom(data) });
    }
    if files.is_empty() {
        return Err(Error::Load("no files in chart archive".into()));
    }
    Ok(files)
}

/// Returns the name of an entry relative to the archive's root directory, which it must not leave.
fn entry_name(full_name: &str) -> Result<String, Error> {
    let refuse = |why: &str| Err(Error::Load(why.to_owned()));
    // An archive made on Windows may use backslashes, which then are the only separators.
    let delimiter = if full_name.contains('\\') { '\\' } else { '/' };
    let (first, rest) = full_name.split_once(delimiter).unwrap_or((full_name, ""));
    let name = rest.replace(delimiter, "/");
    if name.starts_with('/') {
        return refuse("chart illegally contains absolute paths");
    }
    let name = clean(&name);
    if name == "." {
        return Err(Error::Load(format!(
            "chart illegally contains content outside the base directory: {}",
            gofmt::quote(&full_name.into())
        )));
    }
    if name.starts_with("..") {
        return refuse("chart illegally references parent directory");
    }
    let mut bytes = name.bytes();
    if bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.next() == Some(b':')
        && bytes.next() == Some(b'/')
    {
        return refuse("chart contains illegally named files");
    }
    if first == "Chart.yaml" {
        return refuse("chart yaml not in base directory");
    }
    Ok(name)
}

/// Go's `path.Clean`, for a relative path.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() { ".".into() } else { parts.join("/") }
}

fn chart_too_large() -> Error {
    Error::Load(format!("decompressed chart is larger than the maximum file size {MAX_CHART_SIZE}"))
}

fn unreadable(source: std::io::Error) -> Error {
    let message = match source.kind() {
        std::io::ErrorKind::UnexpectedEof => "unexpected EOF".into(),
        _ => source.to_string(),
    };
    Error::Io { message, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_inside_the_chart() {
        let name = |full: &str| entry_name(full).map_err(|error| error.to_string());
        for (full, expected) in [
            ("c/Chart.yaml", "Chart.yaml"),
            ("c/templates/a.yaml", "templates/a.yaml"),
            ("c/a/./b//c/../d", "a/b/d"),
            ("c\\templates\\a/b.yaml", "templates/a/b.yaml"),
            ("c/C/x", "C/x"),
            ("c/C:", "C:"),
            ("c/CC:/x", "CC:/x"),
            ("c/9:/x", "9:/x"),
            ("c/C:x", "C:x"),
            ("./c/x", "c/x"),
        ] {
            assert_eq!(name(full).as_deref(), Ok(expected), "{full}");
        }
        for (full, expected) in [
            ("c//a", "chart illegally contains absolute paths"),
            ("c/../a", "chart illegally references parent directory"),
            ("c/a/../../b", "chart illegally references parent directory"),
            ("c/..", "chart illegally references parent directory"),
            ("c/C:/x", "chart contains illegally named files"),
            ("c\\C:\\x", "chart contains illegally named files"),
            ("Chart.yaml/x", "chart yaml not in base directory"),
            ("c", "chart illegally contains content outside the base directory: \"c\""),
            ("c/.", "chart illegally contains content outside the base directory: \"c/.\""),
            ("c/a/..", "chart illegally contains content outside the base directory: \"c/a/..\""),
        ] {
            assert_eq!(name(full), Err(expected.into()), "{full}");
        }
    }

    #[test]
    fn contents_are_told_by_how_they_begin() {
        let text = "a".repeat(600);
        assert_eq!(content_type(text.as_bytes()), "text/plain; charset=utf-8");
        assert_eq!(content_type(&text.as_bytes()[..512]), "text/plain; charset=utf-8");
        assert_eq!(content_type(&text.as_bytes()[..511]), "application/octet-stream");
        assert_eq!(content_type(b""), "application/octet-stream");
        assert_eq!(content_type(b"PK\x03\x04"), "application/zip");
        assert_eq!(content_type(b"%PDF-1.7"), "application/pdf");
        assert_eq!(content_type(b" \n<?xml version"), "text/xml; charset=utf-8");
        for (byte, expected) in
            [(0x08, true), (0x09, false), (0x0B, true), (0x0C, false), (0x1B, false), (0x1F, true)]
        {
            let mut content = text.clone().into_bytes();
            content[511] = byte;
            assert_eq!(content_type(&content) == "application/octet-stream", expected, "{byte:#x}");
            content.rotate_right(1);
            assert_eq!(content_type(&content), "text/plain; charset=utf-8", "beyond what is looked at");
        }
    }
}
