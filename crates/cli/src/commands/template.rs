//! `steer template`.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use steersman_chart::{
    Capabilities, Chart, Environment, Error as ChartError, KubeVersion, OutputOptions, Release,
    RenderOptions, Rendered, Seeded, System, Values,
};

use crate::args::{ChartArgs, GlobalArgs, RenderArgs, ValuesArgs};
use crate::charts::{self, Located};
use crate::failure::{self, Failure, Result};
use crate::output::Output;
use crate::postrender::PostRenderer;
use crate::remote;
use crate::{flags, namespace};

const EXAMPLES: &str = "\
No cluster is contacted: lookups of objects return nothing, and manifests are not validated against
the API.

Examples:
  steer template shop ./chart -f prod.yaml --set image.tag=1.5
  steer template shop ./chart -s templates/deployment.yaml
  steer template shop oci://registry.example.com/charts/shop --version '^1.2'
  steer template shop shop --repo https://charts.example.com --output-dir out
  steer template shop ./chart --seed 7       the same bytes every time, secrets included";

/// Maximum length of a release name.
const MAX_RELEASE_NAME: usize = 53;
/// The time of a seeded render: 2024-01-01T00:00:00Z.
const SEEDED_TIME: Duration = Duration::from_secs(1_704_067_200);

/// Render a chart's templates and print the manifests
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Template {
    /// [NAME] of the release, and CHART: a directory, archive, URL, oci:// reference, or repository/chart
    #[arg(value_name = "[NAME] CHART", required = true)]
    words: Vec<String>,

    #[command(flatten)]
    release: ReleaseArgs,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    values: ValuesArgs,

    #[command(flatten)]
    chart: ChartArgs,

    #[command(flatten)]
    render: RenderArgs,

    #[command(flatten)]
    ignored: IgnoredArgs,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Release")]
struct ReleaseArgs {
    /// Kubernetes version for .Capabilities.KubeVersion
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,

    /// API versions to add to .Capabilities.APIVersions, separated by commas; may be repeated
    #[arg(short, long, value_name = "VERSIONS")]
    api_versions: Vec<String>,

    /// Set .Release.IsUpgrade instead of .Release.IsInstall
    #[arg(long)]
    is_upgrade: bool,

    /// Template for the release name
    #[arg(long, value_name = "TEMPLATE")]
    name_template: Option<String>,

    /// Accepted for compatibility with Helm; a release without a name is called release-name
    #[arg(short, long)]
    generate_name: bool,

    /// Do not check values against values.schema.json
    #[arg(long)]
    skip_schema_validation: bool,

    /// Enable DNS lookups when rendering templates (getHostByName)
    #[arg(long)]
    enable_dns: bool,

    /// Seed for random values, keys, certificates and the time, for reproducible output
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Fetch dependencies that are missing from charts/ first
    #[arg(long)]
    dependency_update: bool,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Print only the manifests of this template; may be repeated, * matches within a directory
    #[arg(short, long, value_name = "TEMPLATE")]
    show_only: Vec<String>,

    /// Include the CRDs in crds/
    #[arg(long)]
    include_crds: bool,

    /// Do not print CRDs
    #[arg(long)]
    skip_crds: bool,

    /// Do not print tests
    #[arg(long)]
    skip_tests: bool,

    /// Do not print hooks
    #[arg(long)]
    no_hooks: bool,

    /// Write files into this directory instead of printing
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,

    /// Include the release name in paths under --output-dir
    #[arg(long)]
    release_name: bool,

    /// Executable for post-rendering: reads manifests on stdin, writes the result to stdout
    #[arg(long, value_name = "PROGRAM")]
    post_renderer: Option<String>,

    /// Argument for the post-renderer; may be repeated
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    post_renderer_args: Vec<String>,

    /// Not supported: validation requires a cluster
    #[arg(long, hide = true)]
    validate: bool,
}

/// Flags that `helm template` shares with `helm install` and that change nothing about what is rendered: scripts that
/// give them go on working.
#[derive(Args, Debug)]
struct IgnoredArgs {
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    dry_run: Option<String>,
    #[arg(long, hide = true)]
    create_namespace: bool,
    #[arg(long, hide = true)]
    force: bool,
    #[arg(long, hide = true)]
    replace: bool,
    #[arg(long, hide = true)]
    timeout: Option<String>,
    #[arg(long, hide = true)]
    wait: bool,
    #[arg(long, hide = true)]
    wait_for_jobs: bool,
    #[arg(long, hide = true)]
    description: Option<String>,
    #[arg(long, hide = true)]
    disable_openapi_validation: bool,
    #[arg(long, hide = true)]
    atomic: bool,
    #[arg(long, hide = true)]
    render_subchart_notes: bool,
    #[arg(short, long, hide = true)]
    labels: Vec<String>,
    #[arg(long, hide = true)]
    hide_notes: bool,
    #[arg(long, hide = true)]
    take_ownership: bool,
}

impl Template {
    pub(crate) fn run(self, globals: &GlobalArgs, output: &mut Output) -> Result {
        let kube_version = self.release.kube_version.as_deref().map(kube_version).transpose()?;
        self.refuse_cluster()?;
        let post_renderer = match self.output.post_renderer.as_deref().filter(|program| !program.is_empty()) {
            Some(program) => Some(PostRenderer::find(program, &self.output.post_renderer_args)?),
            None => None,
        };
        let (name, place) = self.name_and_chart()?;

        let located = Located::find(place, &self.chart, globals)?;
        if globals.debug()
            && let Located::Local(path) = &located
        {
            failure::note(&format!("debug: chart path {}", path.display()));
        }
        let values = charts::values(&self.values, globals)?;
        let chart = located.load_installable(self.release.dependency_update, &self.chart, globals)?;
        // The process is about to exit: dropping a large chart would take a tenth of its time.
        let chart = ManuallyDrop::new(chart);
        chart.warnings().iter().for_each(|warning| failure::warn(warning));
        check_release_name(&name)?;

        let mut capabilities = Capabilities::default();
        if let Some(version) = kube_version {
            capabilities.kube_version = version;
        }
        capabilities.api_versions.extend(flags::split_list(&self.release.api_versions));
        let options = RenderOptions {
            release: Release {
                name,
                namespace: namespace::resolve(globals),
                is_upgrade: self.release.is_upgrade,
                ..Release::default()
            },
            capabilities,
            skip_schema_validation: self.release.skip_schema_validation,
            fetch_schema: Some(remote::schemas(globals)),
            limits: self.render.limits().limits,
            ..RenderOptions::default()
        };
        let rendered = match self.render(&chart, &values, &options) {
            Err(ChartError::Manifest { message, files }) if globals.debug() => {
                output.push(&steersman_chart::debug_output(&files));
                return Err(Failure::new(message));
            }
            other => ManuallyDrop::new(other?),
        };
        rendered.warnings.iter().for_each(|warning| failure::warn(warning));
        match &self.output.output_dir {
            Some(directory) => {
                self.write(directory, &options.release.name, &rendered, post_renderer.as_ref(), output)
            }
            None => self.print(&rendered, post_renderer.as_ref(), output),
        }
    }

    fn refuse_cluster(&self) -> Result {
        let refused = |flag: &str| {
            Failure::new(format!("{flag} is not supported: steer template does not connect to a cluster"))
        };
        if self.output.validate {
            return Err(refused("--validate"));
        }
        match self.ignored.dry_run.as_deref() {
            None | Some("" | "true" | "client") => Ok(()),
            Some(mode @ ("false" | "none" | "server")) => Err(refused(&format!("--dry-run={mode}"))),
            Some(_) => Err(Failure::new(
                "Invalid dry-run flag. Flag must one of the following: false, true, none, client, server",
            )),
        }
    }

    fn name_and_chart(&self) -> Result<(String, &str)> {
        let name_template = self.release.name_template.as_deref().filter(|template| !template.is_empty());
        match self.words.as_slice() {
            [_, _] if self.release.generate_name => {
                Err(Failure::new("cannot set --generate-name and also specify a name"))
            }
            [_, _] if name_template.is_some() => {
                Err(Failure::new("cannot set --name-template and also specify a name"))
            }
            [name, chart] => Ok((name.clone(), chart)),
            [chart] => Ok(match name_template {
                Some(template) => (steersman_chart::template_name(template, self.environment())?, chart),
                None => ("release-name".into(), chart),
            }),
            [_, _, rest @ ..] => Err(Failure::new(format!(
                "expected at most two arguments, unexpected arguments: {}",
                rest.join(", ")
            ))),
            [] => Err(Failure::new("steer template requires at least 1 argument")),
        }
    }

    fn environment(&self) -> Box<dyn Environment> {
        match self.release.seed {
            Some(seed) => Box::new(Seeded::new(seed, SystemTime::UNIX_EPOCH + SEEDED_TIME)),
            None => Box::new(System { enable_dns: self.release.enable_dns }),
        }
    }

    fn render(
        &self,
        chart: &Chart,
        values: &Values,
        options: &RenderOptions,
    ) -> std::result::Result<Rendered, ChartError> {
        charts::within(self.render.limits().timeout, &options.interrupt, || {
            chart.render(values, options, self.environment())
        })
    }

    fn output_options(&self) -> OutputOptions {
        OutputOptions {
            include_crds: self.output.include_crds,
            no_hooks: self.output.no_hooks,
            skip_tests: self.output.skip_tests,
            show_only: self.output.show_only.clone(),
        }
    }

    fn print(
        &self,
        rendered: &Rendered,
        post_renderer: Option<&PostRenderer>,
        output: &mut Output,
    ) -> Result {
        let text = match post_renderer {
            Some(program) => {
                let mut run = |manifests: &str| program.run(manifests);
                rendered.output(&self.output_options(), Some(&mut run))?
            }
            None => rendered.output(&self.output_options(), None)?,
        };
        output.push(&text);
        Ok(())
    }

    /// Writes manifests into files; several manifests of one template are appended to the same file.
    fn write(
        &self,
        directory: &Path,
        release: &str,
        rendered: &Rendered,
        post_renderer: Option<&PostRenderer>,
        output: &mut Output,
    ) -> Result {
        let mut written = BTreeSet::new();
        for file in rendered.output_files(&self.output_options()) {
            let mut path = directory.to_owned();
            if self.output.release_name && !file.is_crd {
                path.push(release);
            }
            path.push(&file.path);
            let again = !written.insert(path.clone());
            append(&path, &file.content, again).map_err(|error| {
                Failure::new(format!("open {}: {}", path.display(), charts::go_words(&error)))
            })?;
            output.line(format_args!("wrote {}", path.display()));
        }
        if let Some(program) = post_renderer {
            let failed = |error| Failure::new(format!("error while running post render on files: {error}"));
            output.push(program.run("").map_err(failed)?.trim());
        }
        output.line("");
        match self.output.show_only.first() {
            Some(template) => Err(Failure::new(format!("could not find template {template} in chart"))
                .help("--show-only selects among printed templates; with --output-dir none are printed")),
            None => Ok(()),
        }
    }
}

fn append(path: &Path, text: &str, again: bool) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = OpenOptions::new().create(true).write(true).append(again).truncate(!again).open(path)?;
    file.write_all(text.as_bytes())
}

/// Parses `--kube-version`.
pub(super) fn kube_version(text: &str) -> Result<KubeVersion> {
    KubeVersion::parse(text).map_err(|error| Failure::new(format!("invalid kube version '{text}': {error}")))
}

/// Checks that a release name consists of DNS labels separated by dots.
fn check_release_name(name: &str) -> Result {
    if name.is_empty() {
        return Err(Failure::new("release name \"\": no name provided"));
    }
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        part.bytes().next().is_some_and(word)
            && part.bytes().last().is_some_and(word)
            && part.bytes().all(|byte| word(byte) || byte == b'-')
    };
    if name.len() <= MAX_RELEASE_NAME && name.split('.').all(is_part) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "release name {name:?}: invalid release name, must match regex \
         ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than 53"
    )))
}
