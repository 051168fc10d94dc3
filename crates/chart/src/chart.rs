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
    /// Its path, relative to the chart's root and with `/` between parts.
    pub name: String,
    /// Its content, without a byte order mark.
    pub data: Str,
}

impl File {
    /// A file of this name and content.
    pub fn new(name: impl Into<String>, data: impl Into<Str>) -> Self {
        Self { name: name.into(), data: data.into() }
    }
}

/// A custom resource definition in a chart's `crds/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crd {
    /// Its path, with the charts it stands in before it.
    pub path: String,
    /// Its content, which is not a template.
    pub data: Str,
}

/// A loaded chart with its subcharts. Immutable, cheap to clone and shared between threads; what was parsed for one
/// render serves the next ones.
#[derive(Clone, Debug)]
pub struct Chart(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    // Apart from the cache, which holds on to it.
    content: Arc<Content>,
    cache: Cache,
}

/// What a chart is made of.
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

    /// What Chart.yaml says, and requirements.yaml where there is one.
    pub fn metadata(&self) -> &Metadata {
        &self.0.content.metadata
    }

    /// The chart's name.
    pub fn name(&self) -> &str {
        &self.0.content.metadata.name
    }

    /// Chart.lock or requirements.lock.
    pub fn lock(&self) -> Option<&Lock> {
        self.0.content.lock.as_ref()
    }

    /// The chart's own values, without those of its subcharts.
    pub fn values(&self) -> Data {
        Data::Table(self.0.content.values.clone())
    }

    /// The same chart with other values of its own, as `helm upgrade --reuse-values` renders it.
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

    /// values.schema.json, as written.
    pub fn schema(&self) -> Option<&[u8]> {
        self.0.content.schema.as_deref()
    }

    /// The files in `templates/`.
    pub fn templates(&self) -> &[File] {
        &self.0.content.templates
    }

    /// The files beside templates, values, metadata and subcharts: what `.Files` gives.
    pub fn files(&self) -> &[File] {
        &self.0.content.files
    }

    /// All files, as loaded, those of subcharts included.
    pub fn all_files(&self) -> &[File] {
        &self.0.content.raw
    }

    /// The content of the file of that name.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.0.content.raw.iter().find(|file| file.name == name).map(|file| &*file.data)
    }

    /// The charts in `charts/`, by the names of their directories and archives.
    pub fn subcharts(&self) -> &[Chart] {
        &self.0.content.dependencies
    }

    /// What Helm would log while loading.
    pub fn warnings(&self) -> &[String] {
        &self.0.content.warnings
    }

    /// Fails if the chart is a library, which cannot be installed by itself.
    pub fn check_installable(&self) -> Result<(), Error> {
        match self.0.content.metadata.chart_type.as_str() {
            "" | "application" => Ok(()),
            other => Err(Error::Dependencies(format!("{other} charts are not installable"))),
        }
    }

    /// Fails if Chart.yaml names dependencies that are not in `charts/`.
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
