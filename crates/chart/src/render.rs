//! Rendering from start to end: dependencies, values, schema, templates, manifests.

use crate::capabilities::Capabilities;
use crate::chart::{Chart, Crd};
use crate::dependencies::ROOT;
use crate::engine;
use crate::environment::Environment;
use crate::error::Error;
use crate::manifest::{self, Hook, Manifest};
use crate::metadata::Metadata;
use crate::options::RenderOptions;
use crate::prepare::Prepared;
use crate::rendered_files::RenderedFiles;
use crate::values::coalesce::{self, ChartValues, Nulls};
use crate::values::{Data, MAX_DEPTH, Table, Values, from_map, to_map};
use crate::version;

/// The result of rendering a chart.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// Manifests in install order.
    pub manifests: Vec<Manifest>,
    /// Hooks, sorted by kind in install order.
    pub hooks: Vec<Hook>,
    /// Output of NOTES.txt; empty if there is none.
    pub notes: String,
    /// CRDs in `crds/` of the chart and its enabled subcharts.
    pub crds: Vec<Crd>,
    /// Warnings that Helm would log.
    pub warnings: Vec<String>,
}

impl Chart {
    /// Renders the chart with these values, from dependencies to sorted manifests.
    ///
    /// The chart can be rendered any number of times, concurrently too; templates are parsed only once.
    pub fn render(
        &self,
        values: &Values,
        options: &RenderOptions,
        environment: impl Environment + 'static,
    ) -> Result<Rendered, Error> {
        let mut rendered = Rendered::default();
        let prepared = self.cache().prepare(self.content(), values)?;
        let files = self.render_prepared(&prepared, values, options, Box::new(environment), &mut rendered)?;
        let (files, notes) = manifest::take_notes(files, self.name(), options.sub_notes);
        rendered.notes = notes;
        let memory = options.limits.memory;
        let sorted = manifest::sort(&files, manifest::INSTALL_ORDER, &prepared.heads, memory)
            .map_err(|message| Error::Manifest { message, files })?;
        rendered.manifests = sorted.manifests;
        rendered.hooks = sorted.hooks;
        rendered.warnings.extend(sorted.warnings);
        rendered.crds = crds(&prepared, ROOT);
        Ok(rendered)
    }

    /// Renders only the templates: the output of each by its path, without partials.
    ///
    /// Schemas are not checked, and the output need not be YAML.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use steersman_chart::{Chart, File, RenderOptions, Seeded, Values};
    ///
    /// let chart = Chart::from_files([
    ///     File::new("Chart.yaml", "{apiVersion: v2, name: web, version: 1.0.0}"),
    ///     File::new("templates/name.txt", "{{ .Release.Name }}-{{ .Chart.Name }}"),
    /// ])?;
    /// let environment = Seeded::new(1, SystemTime::UNIX_EPOCH);
    /// let files = chart.render_files(&Values::new(), &RenderOptions::default(), environment)?;
    /// assert!(files["web/templates/name.txt"].to_str_lossy().ends_with("-web"));
    /// # Ok::<(), steersman_chart::Error>(())
    /// ```
    pub fn render_files(
        &self,
        values: &Values,
        options: &RenderOptions,
        environment: impl Environment + 'static,
    ) -> Result<RenderedFiles, Error> {
        let prepared = self.cache().prepare(self.content(), values)?;
        let options = RenderOptions { skip_schema_validation: true, ..options.clone() };
        self.render_prepared(&prepared, values, &options, Box::new(environment), &mut Rendered::default())
    }

    /// As [`Chart::render_files`], but checks the schema and ignores the chart's `kubeVersion`.
    pub(crate) fn render_for_lint(
        &self,
        values: &Values,
        options: &RenderOptions,
        environment: Box<dyn Environment>,
    ) -> Result<RenderedFiles, Error> {
        let prepared = self.cache().prepare(self.content(), values)?;
        self.render_prepared(&prepared, values, options, environment, &mut Rendered::default())
    }

    /// Computes the values that templates see: those given, over those of the chart and its subcharts.
    ///
    /// ```
    /// use steersman_chart::{Chart, File, Values};
    ///
    /// let chart = Chart::from_files([
    ///     File::new("Chart.yaml", "{apiVersion: v2, name: web, version: 1.0.0}"),
    ///     File::new("values.yaml", "{image: nginx, replicas: 1}"),
    /// ])?;
    /// let mut values = Values::new();
    /// values.set("replicas=3")?;
    /// let computed = chart.compute_values(&values)?.to_json();
    /// assert_eq!((&computed["image"], &computed["replicas"]), (&"nginx".into(), &3.into()));
    /// # Ok::<(), steersman_chart::Error>(())
    /// ```
    pub fn compute_values(&self, values: &Values) -> Result<Values, Error> {
        let prepared = self.cache().prepare(self.content(), values)?;
        let computed = to_map(&values.0);
        coalesce::coalesce(prepared.tree.at(ROOT), &computed, Nulls::Delete, &mut Vec::new())?;
        Ok(Values(from_map(&computed, MAX_DEPTH)))
    }

    /// Returns the chart's metadata and values as Helm records them in a release.
    ///
    /// Dependencies have been enabled and disabled, and values imported from them.
    pub fn processed(&self, values: &Values) -> Result<(Metadata, Values), Error> {
        let prepared = self.cache().prepare(self.content(), values)?;
        let own = prepared.tree.at(ROOT).values().clone();
        Ok((prepared.tree.metadata(ROOT), Values(own)))
    }

    /// Returns the CRDs in `crds/` of the chart and of the subcharts that these values enable.
    pub fn crds(&self, values: &Values) -> Result<Vec<Crd>, Error> {
        let prepared = self.cache().prepare(self.content(), values)?;
        Ok(crds(&prepared, ROOT))
    }

    fn render_prepared(
        &self,
        prepared: &Prepared,
        values: &Values,
        options: &RenderOptions,
        environment: Box<dyn Environment>,
        rendered: &mut Rendered,
    ) -> Result<RenderedFiles, Error> {
        let mut warnings = prepared.warnings.clone();
        let values = to_map(&values.0);
        coalesce::coalesce(prepared.tree.at(ROOT), &values, Nulls::Delete, &mut warnings)?;
        if !options.skip_schema_validation && prepared.has_schemas() {
            let computed: Table = from_map(&values, MAX_DEPTH);
            prepared.validate(&computed, options.fetch_schema.as_ref(), &mut warnings)?;
        }
        if !options.lint {
            self.check_kube_version(&options.capabilities)?;
        }
        let files = engine::render(prepared, &values, options, environment, &mut warnings);
        deduplicate(&mut warnings);
        rendered.warnings = warnings;
        files
    }

    fn check_kube_version(&self, capabilities: &Capabilities) -> Result<(), Error> {
        let wanted = &self.metadata().kube_version;
        let actual = &capabilities.kube_version.version;
        if wanted.is_empty() || version::is_compatible(wanted, actual) {
            return Ok(());
        }
        Err(Error::Incompatible(format!(
            "chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {actual}"
        )))
    }
}

/// Returns the CRDs of a chart, then those of its subcharts.
fn crds(prepared: &Prepared, id: usize) -> Vec<Crd> {
    let node = prepared.tree.node(id);
    let path = prepared.tree.full_path(id);
    let own = node.content.files.iter().filter(|file| is_crd(&file.name));
    let mut crds: Vec<Crd> =
        own.map(|file| Crd { path: format!("{path}/{}", file.name), data: file.data.clone() }).collect();
    for child in &node.children {
        crds.extend(self::crds(prepared, *child));
    }
    crds
}

fn is_crd(name: &str) -> bool {
    let extension = crate::load::extension(name);
    name.starts_with("crds/")
        && [".yaml", ".yml", ".json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Removes repeated warnings: Helm coalesces several times and logs the same ones each time.
fn deduplicate(warnings: &mut Vec<String>) {
    let mut seen = std::collections::HashSet::new();
    warnings.retain(|warning| seen.insert(warning.clone()));
}

impl From<Data> for Values {
    /// Converts a table; any other value becomes an empty one.
    fn from(data: Data) -> Self {
        match data {
            Data::Table(table) => Self(table),
            _ => Self::default(),
        }
    }
}
