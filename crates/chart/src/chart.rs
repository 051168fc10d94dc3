//! A loaded chart.

use std::sync::Arc;

use steersman_gotemplate::Str;

use crate::error::Error;
use crate::metadata::{Lock, Metadata};
use crate::prepare::Cache;
use crate::values::{Data, Table, Values};

/// A file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path relative to the chart's root, with `/` as the separator.
    pub name: String,
    /// Content, without a byte order mark.
    pub data: Str,
}

impl File {
    /// Creates a file.
    pub fn new(name: impl Into<String>, data: impl Into<Str>) -> Self {
        Self { name: name.into(), data: data.into() }
    }
}

/// A custom resource definition from a chart's `crds/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crd {
    /// Path, including the charts that contain it.
    pub path: String,
    /// Content, which is not a template.
    pub data: Str,
}

/// A loaded chart with its subcharts. Immutable, cheap to clone and shareable between threads.
///
/// Templates parsed for one render are cached for the next ones.
#[derive(Clone, Debug)]
pub struct Chart(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    // Separate from the cache, which refers to it.
    content: Arc<Content>,
    cache: Cache,
}

/// The parts of a chart.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) metadata: Metadata,
    pub(crate) lock: Option<Lock>,
    pub(crate) values: Table,
    pub(crate) schema: Option<Str>,
    pub(crate) templates: Vec<File>,
    pub(crate) files: Vec<File>,
    pub(crate) raw: Vec<File>,
    pub(crate) dependencies: Vec<Chart>,
    pub(crate) warnings: Vec<String>,
}

impl Chart {
    pub(crate) fn new(content: Content) -> Self {
        Self(Arc::new(Loaded { content: Arc::new(content), cache: Cache::default() }))
    }

    pub(crate) fn content(&self) -> &Arc<Content> {
        &self.0.content
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.0.cache
    }

    /// Returns the contents of Chart.yaml, merged with requirements.yaml if there is one.
    pub fn metadata(&self) -> &Metadata {
        &self.0.content.metadata
    }

    /// Returns the chart's name.
    pub fn name(&self) -> &str {
        &self.0.content.metadata.name
    }

    /// Returns the contents of Chart.lock or requirements.lock.
    pub fn lock(&self) -> Option<&Lock> {
        self.0.content.lock.as_ref()
    }

    /// Returns the chart's own values, without those of its subcharts.
    pub fn values(&self) -> Data {
        Data::Table(self.0.content.values.clone())
    }

    /// Returns the chart with other values of its own, as `helm upgrade --reuse-values` renders it.
    pub fn with_values(&self, values: Values) -> Self {
        let Content { metadata, lock, values: _, schema, templates, files, raw, dependencies, warnings } =
            &*self.0.content;
        Self::new(Content {
            metadata: metadata.clone(),
            lock: lock.clone(),
            values: values.0,
            schema: schema.clone(),
            templates: templates.clone(),
            files: files.clone(),
            raw: raw.clone(),
            dependencies: dependencies.clone(),
            warnings: warnings.clone(),
        })
    }

    /// Returns values.schema.json, verbatim.
    pub fn schema(&self) -> Option<&[u8]> {
        self.0.content.schema.as_deref()
    }

    /// Returns the files in `templates/`.
    pub fn templates(&self) -> &[File] {
        &self.0.content.templates
    }

    /// Returns the contents of `.Files`: files other than templates, values, metadata and subcharts.
    pub fn files(&self) -> &[File] {
        &self.0.content.files
    }

    /// Returns all files as loaded, including those of subcharts.
    pub fn all_files(&self) -> &[File] {
        &self.0.content.raw
    }

    /// Returns the content of a file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.0.content.raw.iter().find(|file| file.name == name).map(|file| &*file.data)
    }

    /// Returns the charts in `charts/`, sorted by the names of their directories and archives.
    pub fn subcharts(&self) -> &[Chart] {
        &self.0.content.dependencies
    }

    /// Returns the warnings that Helm would log while loading.
    pub fn warnings(&self) -> &[String] {
        &self.0.content.warnings
    }

    /// Fails if the chart is a library, which cannot be installed on its own.
    pub fn check_installable(&self) -> Result<(), Error> {
        match self.0.content.metadata.chart_type.as_str() {
            "" | "application" => Ok(()),
            other => Err(Error::Dependencies(format!("{other} charts are not installable"))),
        }
    }

    /// Fails if dependencies of Chart.yaml are missing in `charts/`.
    pub fn check_dependencies(&self) -> Result<(), Error> {
        let present = |name: &str| self.0.content.dependencies.iter().any(|chart| chart.name() == name);
        let wanted =
            self.0.content.metadata.dependencies.iter().flatten().map(|dependency| dependency.name.as_str());
        let missing: Vec<&str> = wanted.filter(|name| !present(name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::Dependencies(format!(
            "An error occurred while checking for chart dependencies. You may need to run `helm dependency build` to \
             fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
            missing.join(", ")
        )))
    }
}
