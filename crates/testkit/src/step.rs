//! Loads the steps of a test case: the files with the same number.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::actions::{ActionStep, Lists};
use crate::error::LoadError;
use crate::expression::Expressions;
use crate::load::{self, Document, Typed};
use crate::name::{FileName, Role};
use crate::pattern;
use crate::shell;
use crate::subset::ListMatch;
use crate::template::{self, Variables};
use crate::types::{TestAssert, TestStep};

/// A step: the files of a test case with the same number.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) index: i64,
    pub(crate) name: String,
    pub(crate) applies: Vec<Document>,
    pub(crate) asserts: Vec<Document>,
    pub(crate) errors: Vec<Document>,
    pub(crate) step: Option<TestStep>,
    pub(crate) assert: Option<TestAssert>,
    pub(crate) expressions: Expressions,
    /// Actions of steps beyond kuttl's format, in the order of the files.
    pub(crate) actions: Vec<ActionStep>,
    /// The kubeconfig of the step's cluster, if it is not the run's.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Whether the kubeconfig is read when the step begins instead of before the first step.
    pub(crate) is_lazy: bool,
}

/// The settings of the run that loading depends on.
pub(crate) struct LoadContext<'a> {
    pub(crate) run_labels: &'a BTreeMap<String, String>,
    pub(crate) variables: &'a Variables,
    pub(crate) ignore_files: &'a [String],
    pub(crate) log: &'a (dyn Fn(&str) + Sync),
}

/// Loads the steps of a test case, sorted by number.
pub(crate) fn load_all(directory: &Path, context: &LoadContext<'_>) -> Result<Vec<Step>, LoadError> {
    let mut files: BTreeMap<i64, Vec<PathBuf>> = BTreeMap::new();
    for path in load::entries(directory)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if context.ignore_files.iter().any(|pattern| pattern::matches(pattern, &name) == Some(true)) {
            continue;
        }
        let index = match FileName::parse(&name) {
            Some(FileName { index: Some(index), .. }) => index,
            Some(_) => {
                (context.log)(&format!(
                    "Ignoring {name:?}: does not begin with a number followed by a dash."
                ));
                continue;
            }
            None => {
                (context.log)(&format!(
                    "Ignoring {name:?}: not of the pattern <number>-<name>(.gotmpl).yaml."
                ));
                continue;
            }
        };
        let of_step = files.entry(index).or_default();
        // A symbolic link to a directory is treated as a file, which then fails to load.
        if std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            of_step.extend(load::entries(&path)?);
        } else {
            of_step.push(path);
        }
    }
    let mut steps = Vec::new();
    for (index, files) in files {
        let mut step = Step { index, ..Step::default() };
        for file in files {
            step.load_file(directory, &file, context)?;
        }
        steps.push(step);
    }
    Ok(steps)
}

impl Step {
    /// The step's number and name, as kuttl writes them.
    pub(crate) fn title(&self) -> String {
        format!("{}-{}", self.index, self.name)
    }

    /// How lists are compared in the step's assertions.
    pub(crate) fn lists(&self) -> ListMatch {
        let is_partial = self.actions.iter().any(|actions| actions.lists == Lists::Partial);
        if is_partial { ListMatch::Partial } else { ListMatch::Exact }
    }

    /// Timeout of the step, in seconds.
    pub(crate) fn timeout(&self, of_suite: i64) -> i64 {
        self.assert.as_ref().map(|assert| assert.timeout).filter(|timeout| *timeout != 0).unwrap_or(of_suite)
    }

    fn load_file(
        &mut self,
        directory: &Path,
        path: &Path,
        context: &LoadContext<'_>,
    ) -> Result<(), LoadError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parsed = FileName::parse(&name);
        let documents = if parsed.as_ref().is_some_and(|file| file.is_template) {
            load::from_bytes(path, &template::render(path, context.variables)?)?
        } else {
            load::from_file(path)?
        };
        let Some(documents) = taking_part(path, documents, context)? else { return Ok(()) };
        let failed = |message: &str| LoadError::new(path, &message);
        let file = parsed.ok_or_else(|| failed("unrecognized file: name it <name>.yaml"))?;
        match file.role {
            Role::Assert => self.asserts.extend(documents),
            Role::Errors => self.errors.extend(documents),
            Role::Apply => {
                self.applies.extend(documents);
                if self.name.is_empty() {
                    self.name = file.step_name;
                }
            }
        }
        // Files accumulate: the TestStep of an earlier file is seen again with each further file.
        let mut asserts = Vec::new();
        for document in std::mem::take(&mut self.asserts) {
            match document.typed {
                Typed::Assert(assert) => {
                    self.expressions = Expressions::compile(&assert).map_err(|error| failed(&error))?;
                    self.assert = Some(*assert);
                }
                _ if document.kind() == "TestAssert" => {
                    return Err(failed("a TestAssert must be of apiVersion kuttl.dev/v1beta1"));
                }
                _ => asserts.push(document),
            }
        }
        self.asserts = asserts;
        let mut applies = Vec::new();
        for document in std::mem::take(&mut self.applies) {
            match document.typed {
                Typed::Step(step) => self.take_step(directory, *step).map_err(|error| failed(&error))?,
                Typed::Actions(actions) => {
                    if !actions.metadata.name.is_empty() {
                        self.name.clone_from(&actions.metadata.name);
                    }
                    self.actions.push(*actions);
                }
                _ if document.kind() == "TestStep" => {
                    return Err(failed("a TestStep must be of apiVersion kuttl.dev/v1beta1"));
                }
                _ => applies.push(document),
            }
        }
        self.applies = applies;
        self.load_paths(directory)
    }

    fn take_step(&mut self, directory: &Path, step: TestStep) -> Result<(), String> {
        if self.step.is_some() {
            return Err(format!("more than 1 TestStep not allowed in step {:?}", self.name));
        }
        if !step.metadata.name.is_empty() {
            self.name.clone_from(&step.metadata.name);
        }
        if !step.kubeconfig.is_empty() {
            self.kubeconfig = Some(directory.join(expand(&step.kubeconfig)));
        }
        self.is_lazy = match step.kubeconfig_loading.as_str() {
            "" | "Eager" => false,
            "Lazy" => true,
            other => return Err(format!("attribute 'kubeconfigLoading' has invalid value {other:?}")),
        };
        self.step = Some(step);
        Ok(())
    }

    /// Adds the objects of the paths listed in the TestStep.
    fn load_paths(&mut self, directory: &Path) -> Result<(), LoadError> {
        let Some(step) = &self.step else { return Ok(()) };
        let load = |paths: &[String]| -> Result<Vec<Document>, LoadError> {
            let mut documents = Vec::new();
            for path in paths {
                let path = expand(path);
                if path.contains("://") {
                    let why = "fetching objects from URLs is not supported: keep a copy beside the test";
                    return Err(LoadError::new(Path::new(&path), &why));
                }
                documents.extend(load::from_path(&directory.join(path))?);
            }
            Ok(documents)
        };
        self.applies.extend(load(&step.apply)?);
        self.asserts.extend(load(&step.assert)?);
        self.errors.extend(load(&step.error)?);
        Ok(())
    }
}

fn expand(text: &str) -> String {
    shell::expand(text, &|name| std::env::var(name).ok())
}

/// Removes the `TestFile` from the documents; `None` if its selector excludes the file from this run.
fn taking_part(
    path: &Path,
    documents: Vec<Document>,
    context: &LoadContext<'_>,
) -> Result<Option<Vec<Document>>, LoadError> {
    let mut objects = Vec::new();
    let mut is_chosen = true;
    let mut seen = false;
    for document in documents {
        let Typed::File(file) = &document.typed else {
            objects.push(document);
            continue;
        };
        if seen {
            return Err(LoadError::new(path, &"more than one TestFile object in the file"));
        }
        seen = true;
        // A missing selector selects nothing.
        is_chosen = match &file.test_run_selector {
            None => false,
            Some(selector) => selector
                .matches(context.run_labels)
                .map_err(|error| LoadError::new(path, &format_args!("testRunSelector: {error}")))?,
        };
    }
    if !is_chosen {
        (context.log)(&format!(
            "Skipping file {:?}, label selector does not match test run labels.",
            path.display().to_string()
        ));
    }
    Ok(is_chosen.then_some(objects))
}
