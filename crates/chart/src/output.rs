//! Output of `helm template`: what it prints, and the files it writes.

use std::fmt::Write;

use crate::error::Error;
use crate::gofmt;
use crate::load::path_match::path_match;
use crate::manifest::split;
use crate::render::Rendered;
use crate::rendered_files::RenderedFiles;

/// Options for the output of `helm template`.
#[derive(Clone, Debug, Default)]
pub struct OutputOptions {
    /// Whether to print the CRDs of `crds/` first. False by default.
    pub include_crds: bool,
    /// Whether to omit hooks. False by default.
    pub no_hooks: bool,
    /// Whether to omit tests. False by default.
    pub skip_tests: bool,
    /// Templates to show: paths in the chart, which may contain `*`, `?` and `[...]`. All by default.
    pub show_only: Vec<String>,
}

/// A `--post-renderer`: a program that modifies the manifests before they are used.
pub type PostRenderer<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// A file of `--output-dir`. Files with the same path are appended in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile {
    /// Path in the directory.
    pub path: String,
    /// The document.
    pub content: String,
    /// Whether it is a CRD. Helm does not move CRDs into the directory of `--release-name`.
    pub is_crd: bool,
}

impl Rendered {
    /// Joins the manifests, without hooks, into the string that Helm stores in a release.
    pub fn manifest(&self, include_crds: bool) -> String {
        let mut text = String::new();
        if include_crds {
            for crd in &self.crds {
                push_document(&mut text, &crd.path, &crd.data.to_str_lossy());
            }
        }
        for manifest in &self.manifests {
            push_document(&mut text, &manifest.path, &manifest.content);
        }
        text
    }

    /// Returns what `helm template` prints.
    pub fn output(
        &self,
        options: &OutputOptions,
        post_renderer: Option<&mut PostRenderer<'_>>,
    ) -> Result<String, Error> {
        let mut manifest = self.manifest(options.include_crds);
        if let Some(post_renderer) = post_renderer {
            manifest = post_renderer(&manifest).map_err(|error| {
                Error::Output(format!("error while running post render on files: {error}"))
            })?;
        }
        let mut text = format!("{}\n", gofmt::trim_space(&manifest));
        for hook in self.shown_hooks(options) {
            push_document(&mut text, &hook.manifest.path, &hook.manifest.content);
        }
        if options.show_only.is_empty() { Ok(text) } else { show_only(&text, &options.show_only) }
    }

    /// Returns the files that `helm template --output-dir` writes, in order.
    pub fn output_files(&self, options: &OutputOptions) -> Vec<OutputFile> {
        let document = |path: &str, content: &str, is_crd: bool| {
            let mut text = String::new();
            push_document(&mut text, path, content);
            OutputFile { path: path.to_owned(), content: text, is_crd }
        };
        let crds = self.crds.iter().filter(|_| options.include_crds);
        let crds = crds.map(|crd| document(&crd.path, &crd.data.to_str_lossy(), true));
        let manifests =
            self.manifests.iter().map(|manifest| document(&manifest.path, &manifest.content, false));
        let hooks = self
            .shown_hooks(options)
            .map(|hook| document(&hook.manifest.path, &hook.manifest.content, false));
        crds.chain(manifests).chain(hooks).collect()
    }

    fn shown_hooks(&self, options: &OutputOptions) -> impl Iterator<Item = &crate::manifest::Hook> {
        let OutputOptions { no_hooks, skip_tests, .. } = *options;
        self.hooks.iter().filter(move |hook| !(no_hooks || skip_tests && hook.is_test()))
    }
}

/// Returns what `helm template --debug` prints if the output is not YAML: every file that is not blank.
pub fn debug_output(files: &RenderedFiles) -> String {
    let mut text = String::new();
    for (path, content) in files {
        let content = content.to_str_lossy();
        if !gofmt::trim_space(&content).is_empty() {
            push_document(&mut text, path, &content);
        }
    }
    text
}

fn push_document(text: &mut String, path: &str, content: &str) {
    // Writing to a string cannot fail.
    let _ = write!(text, "---\n# Source: {path}\n{content}\n");
}

fn show_only(text: &str, patterns: &[String]) -> Result<String, Error> {
    let documents = split(text);
    let mut shown = String::new();
    for pattern in patterns {
        let mut found = false;
        for document in &documents {
            let Some(path) = source_path(document) else { continue };
            if path_match(pattern, path).unwrap_or(false) {
                let _ = write!(shown, "---\n{document}\n");
                found = true;
            }
        }
        if !found {
            return Err(Error::Output(format!("could not find template {pattern} in chart")));
        }
    }
    Ok(shown)
}

/// Returns the path that the first `# Source:` line names.
fn source_path(document: &str) -> Option<&str> {
    let mut rest = document;
    while let Some((_, after)) = rest.split_once("# Source: ") {
        let line = after.split('\n').next().unwrap_or(after);
        match line.split_once('/') {
            Some((chart, path)) if !chart.is_empty() && !path.is_empty() => return Some(path),
            _ => rest = after,
        }
    }
    None
}
