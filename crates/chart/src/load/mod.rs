//! Loads a [`Chart`] from a directory, an archive or files in memory.

mod archive;
pub(crate) mod decode;
mod directory;
mod ignore;
pub(crate) mod path_match;

use std::collections::BTreeMap;
use std::path::Path;

use steersman_gotemplate::Str;

pub use directory::Links;

use crate::chart::{Chart, Content, File};
use crate::error::Error;
use crate::metadata::{Lock, Metadata};
use crate::yaml;

impl Chart {
    /// Loads the chart in a directory or .tgz archive, with default options.
    ///
    /// ```no_run
    /// use steersman_chart::Chart;
    ///
    /// let chart = Chart::load("charts/web")?;
    /// println!("{} {}", chart.name(), chart.metadata().version);
    /// # Ok::<(), steersman_chart::Error>(())
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::load_with(path, LoadOptions::default())
    }

    /// Loads the chart in a directory or .tgz archive.
    pub fn load_with(path: impl AsRef<Path>, options: LoadOptions) -> Result<Self, Error> {
        load(path.as_ref(), options)
    }

    /// Loads a chart from the bytes of a .tgz archive.
    pub fn from_archive(content: &[u8]) -> Result<Self, Error> {
        load_archive(content)
    }

    /// Loads a chart from files in memory, with paths relative to its root.
    ///
    /// A .helmignore among them has no effect.
    ///
    /// ```
    /// use steersman_chart::{Chart, File};
    ///
    /// let chart = Chart::from_files([File::new("Chart.yaml", "{apiVersion: v2, name: web, version: 1.0.0}")])?;
    /// assert_eq!((chart.name(), chart.metadata().version.as_str()), ("web", "1.0.0"));
    /// # Ok::<(), steersman_chart::Error>(())
    /// ```
    pub fn from_files(files: impl IntoIterator<Item = File>) -> Result<Self, Error> {
        load_files(files.into_iter().collect())
    }
}

/// Byte order mark that some editors put before UTF-8 text.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Maximum size of a file: 5 MiB.
pub(crate) const MAX_FILE_SIZE: u64 = 5 * 1024 * 1024;
/// Maximum total size of the files in an archive: 100 MiB.
pub(crate) const MAX_CHART_SIZE: u64 = 100 * 1024 * 1024;

/// Maximum nesting of charts. Helm has no limit, so that nested archives can keep it busy.
const MAX_NESTING: usize = 16;
/// Maximum total unpacked size of all archives in a chart.
const MAX_UNPACKED: u64 = 5 * MAX_CHART_SIZE;

/// Remaining limits while loading one chart.
pub(crate) struct Budget {
    nesting: usize,
    unpacked: u64,
}

impl Budget {
    fn new() -> Self {
        Self { nesting: MAX_NESTING, unpacked: MAX_UNPACKED }
    }

    fn take(&mut self, bytes: u64) -> Result<(), Error> {
        self.unpacked = self.unpacked.checked_sub(bytes).ok_or_else(|| {
            Error::Load(format!("unpacked subchart archives exceed the limit of {MAX_UNPACKED} bytes"))
        })?;
        Ok(())
    }
}

/// Options for loading a chart from a directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// How to treat symbolic links. [`Links::Follow`] by default, as in Helm.
    pub links: Links,
}

/// Loads the directory or archive at `path`.
pub(crate) fn load(path: &Path, options: LoadOptions) -> Result<Chart, Error> {
    let info = std::fs::metadata(path).map_err(|error| io_error("stat", path, error))?;
    if info.is_dir() {
        let (files, warnings) = directory::files(path, options.links)?;
        return from_files(files, warnings, &mut Budget::new());
    }
    let content = archive::read(path)?;
    load_archive(&content).map_err(|error| match error {
        Error::NotGzip => Error::Load(format!(
            "file '{}' does not appear to be a valid chart file (details: {error})",
            path.display()
        )),
        error => error,
    })
}

/// Loads an archive's bytes.
pub(crate) fn load_archive(content: &[u8]) -> Result<Chart, Error> {
    load_nested_archive(content, &mut Budget::new())
}

/// Returns the files of a .tgz archive.
///
/// Their names are relative to its root directory and are verified not to leave it.
pub fn archive_files(content: &[u8]) -> Result<Vec<File>, Error> {
    archive::files(content, &mut Budget::new())
}

fn load_nested_archive(content: &[u8], budget: &mut Budget) -> Result<Chart, Error> {
    let files = archive::files(content, budget)?;
    from_files(files, Vec::new(), budget)
}

/// Loads files in memory, with paths relative to the chart's root.
pub(crate) fn load_files(files: Vec<File>) -> Result<Chart, Error> {
    from_files(files, Vec::new(), &mut Budget::new())
}

fn from_files(files: Vec<File>, mut warnings: Vec<String>, budget: &mut Budget) -> Result<Chart, Error> {
    let mut metadata = read_metadata(&files)?;
    let mut parts = Content::default();
    let mut subcharts: BTreeMap<String, Vec<File>> = BTreeMap::new();
    for file in &files {
        match file.name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => {
                parts.lock = Some(Lock::read(&file.data).map_err(cannot_load("Chart.lock"))?);
            }
            "values.yaml" => {
                parts.values = yaml::values(&file.data).map_err(cannot_load("values.yaml"))?;
            }
            "values.schema.json" => parts.schema = Some(file.data.clone()),
            "requirements.yaml" => {
                let metadata = metadata.get_or_insert_default();
                let is_v1 = metadata.api_version == "v1";
                if !is_v1 {
                    warnings.push(
                        "Warning: Dependencies are handled in Chart.yaml since apiVersion \"v2\". We recommend \
                         migrating dependencies to Chart.yaml."
                            .into(),
                    );
                }
                metadata.read(&file.data).map_err(cannot_load("requirements.yaml"))?;
                if metadata.api_version == "v1" {
                    parts.files.push(file.clone());
                }
            }
            "requirements.lock" => {
                parts.lock = Some(Lock::read(&file.data).map_err(cannot_load("requirements.lock"))?);
                if metadata.get_or_insert_default().api_version == "v1" {
                    parts.files.push(file.clone());
                } else {
                    warnings.push(
                        "Warning: Dependency locking is handled in Chart.lock since apiVersion \"v2\". We recommend \
                         migrating to Chart.lock."
                            .into(),
                    );
                }
            }
            name if name.starts_with("templates/") => parts.templates.push(file.clone()),
            name => match name.strip_prefix("charts/") {
                Some(inner) if !name.ends_with(".prov") => {
                    let chart = inner.split('/').next().unwrap_or(inner);
                    let file = File { name: inner.to_owned(), data: file.data.clone() };
                    subcharts.entry(chart.to_owned()).or_default().push(file);
                }
                _ => parts.files.push(file.clone()),
            },
        }
    }
    let mut metadata = metadata.ok_or_else(|| Error::Load("Chart.yaml file is missing".into()))?;
    metadata.validate()?;
    for (name, files) in subcharts {
        if name.starts_with(['_', '.']) {
            continue;
        }
        let subchart = load_subchart(&name, files, &metadata.name, budget).map_err(|error| {
            nested(format!("error unpacking subchart {name} in {}", metadata.name), error)
        })?;
        parts.dependencies.push(subchart);
    }
    Ok(Chart::new(Content { metadata, raw: files, warnings, ..parts }))
}

fn read_metadata(files: &[File]) -> Result<Option<Metadata>, Error> {
    let mut metadata: Option<Metadata> = None;
    for file in files.iter().filter(|file| file.name == "Chart.yaml") {
        let metadata = metadata.get_or_insert_default();
        metadata.read(&file.data).map_err(cannot_load("Chart.yaml"))?;
        if metadata.api_version.is_empty() {
            metadata.api_version = "v1".into();
        }
    }
    Ok(metadata)
}

fn load_subchart(name: &str, files: Vec<File>, parent: &str, budget: &mut Budget) -> Result<Chart, Error> {
    let nesting = budget.nesting;
    budget.nesting = nesting
        .checked_sub(1)
        .ok_or_else(|| Error::Load(format!("charts are nested deeper than {MAX_NESTING} levels")))?;
    let subchart = if extension(name) == ".tgz" {
        let found = files.first().map_or("", |file| &file.name);
        if found != name {
            return Err(Error::Load(format!(
                "error unpacking subchart tar in {parent}: expected {name}, got {found}"
            )));
        }
        load_nested_archive(files.first().map_or(&[], |file| &file.data), budget)
    } else {
        let inside = files.into_iter().filter_map(|file| {
            let (_, name) = file.name.split_once('/')?;
            Some(File { name: name.to_owned(), data: file.data })
        });
        from_files(inside.collect(), Vec::new(), budget)
    };
    budget.nesting = nesting;
    subchart
}

/// Go's `filepath.Ext`: from the last dot of the last part of the path.
pub(crate) fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rfind('.').and_then(|dot| name.get(dot..)).unwrap_or_default()
}

fn cannot_load(name: &'static str) -> impl Fn(String) -> Error {
    move |error| Error::Load(format!("cannot load {name}: {error}"))
}

fn nested(context: String, error: Error) -> Error {
    Error::Nested { context, source: Box::new(error) }
}

/// Builds an I/O error with Go's message.
pub(crate) fn io_error(action: &str, path: &Path, source: std::io::Error) -> Error {
    let reason = match source.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        std::io::ErrorKind::IsADirectory => "is a directory".into(),
        _ => source.to_string(),
    };
    Error::Io { message: format!("{action} {}: {reason}", path.display()), source }
}

/// Returns the file's content without a byte order mark.
fn without_bom(mut content: Vec<u8>) -> Str {
    if content.starts_with(BOM) {
        content.drain(..BOM.len());
    }
    content.into()
}
