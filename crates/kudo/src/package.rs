//! Packages: operator.yaml, params.yaml and templates, read and verified as a whole.

mod dependencies;
pub mod edit;
pub mod index;
mod keys;
mod read;
mod report;
mod verify;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::{
    Instance, Maintainer, Operator, OperatorSpec, OperatorVersion, OperatorVersionSpec, Parameter,
    ParameterType, Plan, Task, label, operator_version_name,
};
use crate::error::{Error, Problem};
use crate::parameters;

pub use dependencies::{for_upgrade, with_dependencies};
pub use read::{archive_files, files_of, is_package};
pub use report::{ParameterCheck, Report, report};

/// The name of the file with the tasks and plans.
pub const OPERATOR_FILE: &str = "operator.yaml";
/// The name of the file with the parameters.
pub const PARAMS_FILE: &str = "params.yaml";
/// The directory with the charts of Helm tasks, one directory each.
pub const CHARTS: &str = "charts/";
/// The directory with the templates.
pub const TEMPLATES: &str = "templates/";

/// A valid package.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// operator.yaml.
    pub operator: OperatorFile,
    /// params.yaml.
    pub params: ParamsFile,
    /// The templates, by their path below `templates/`.
    pub templates: BTreeMap<String, String>,
    /// The charts' files, by the chart's directory below `charts/` and their path within it.
    pub charts: BTreeMap<String, BTreeMap<String, String>>,
    /// Likely mistakes that do not make the package invalid.
    pub warnings: Vec<Problem>,
}

/// The content of operator.yaml.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the file")]
pub struct OperatorFile {
    pub api_version: String,
    pub name: String,
    pub description: String,
    pub operator_version: String,
    pub app_version: String,
    pub kubernetes_version: String,
    pub kudo_version: String,
    pub maintainers: Vec<Maintainer>,
    pub url: String,
    pub tasks: Vec<Task>,
    pub plans: BTreeMap<String, Plan>,
    pub namespace_manifest: String,
}

/// The content of params.yaml.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the file")]
pub struct ParamsFile {
    pub api_version: String,
    pub groups: Vec<Group>,
    pub parameters: Vec<PackageParameter>,
}

/// Parameters that user interfaces show together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the file")]
pub struct Group {
    pub name: String,
    pub display_name: String,
    pub description: String,
    pub prio: i64,
}

/// A parameter in params.yaml.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the file")]
pub struct PackageParameter {
    pub name: String,
    pub display_name: String,
    pub description: String,
    pub default: Value,
    pub required: Option<bool>,
    pub trigger: String,
    #[serde(rename = "type")]
    pub ty: String,
    pub immutable: Option<bool>,
    #[serde(rename = "enum")]
    pub values: Option<Vec<Value>>,
    pub group: String,
    pub advanced: bool,
    pub hint: String,
}

impl PackageParameter {
    /// Returns the parameter as an operator version defines it, with the default as a string.
    #[must_use]
    pub fn definition(&self) -> Parameter {
        let ty = ParameterType::parse(&self.ty);
        // Lists and maps always have a default, if only an empty one.
        let default = match ty {
            Some(ParameterType::Array | ParameterType::Map) => steersman_yaml::to_string(&self.default).ok(),
            _ => parameters::to_text(&self.default),
        };
        Parameter {
            name: self.name.clone(),
            display_name: self.display_name.clone(),
            description: self.description.clone(),
            default,
            required: Some(self.required.unwrap_or(true)),
            trigger: self.trigger.clone(),
            value_type: ty,
            immutable: Some(self.immutable.unwrap_or_default()),
            values: self.values.as_ref().map(|all| all.iter().filter_map(parameters::to_text).collect()),
        }
    }
}

impl Package {
    /// Reads a package from its files, by their paths within it.
    ///
    /// # Errors
    /// Fails with all problems at once, each with its file and line.
    pub fn from_files<P: Into<String>, T: Into<String>>(
        files: impl IntoIterator<Item = (P, T)>,
    ) -> Result<Self, Error> {
        let files = files.into_iter().map(|(path, text)| (path.into(), text.into())).collect();
        Self::load(&files, true)
    }

    /// Reads a package, which may lack a `deploy` plan if instances are only upgraded to it.
    fn load(files: &BTreeMap<String, String>, needs_deploy: bool) -> Result<Self, Error> {
        let (package, problems) = Self::parse(files)?;
        let problems = problems.into_iter().filter(|problem| needs_deploy || !verify::lacks_deploy(problem));
        let problems: Vec<Problem> = problems.collect();
        if problems.is_empty() { Ok(package) } else { Err(Error::Invalid(problems)) }
    }

    /// Parses a package and returns it with all of its problems.
    fn parse(files: &BTreeMap<String, String>) -> Result<(Self, Vec<Problem>), Error> {
        let mut problems = Vec::new();
        let operator: Option<OperatorFile> = file(files, OPERATOR_FILE, &mut problems);
        let params: Option<ParamsFile> = file(files, PARAMS_FILE, &mut problems);
        let templates: BTreeMap<String, String> = files
            .iter()
            .filter_map(|(path, text)| Some((path.strip_prefix(TEMPLATES)?.to_owned(), text.clone())))
            .collect();
        let (Some(operator), Some(params)) = (operator, params) else {
            return Err(Error::Invalid(problems));
        };
        let mut charts: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (path, text) in files {
            let chart = path.strip_prefix(CHARTS).and_then(|path| path.split_once('/'));
            // A chart that no task uses is not part of the package, like any other unused file.
            let is_used = |name: &str| operator.tasks.iter().any(|task| task.spec.chart == name);
            if let Some((chart, file)) = chart.filter(|(name, _)| is_used(name)) {
                charts.entry(chart.to_owned()).or_default().insert(file.to_owned(), text.clone());
            }
        }
        let mut package = Self { operator, params, templates, charts, warnings: Vec::new() };
        package.warnings = keys::unknown(files);
        problems.extend(verify::faults(&package, files));
        package.warnings.extend(verify::warnings(&package, files));
        Ok((package, problems))
    }

    /// Returns the name of its OperatorVersion object.
    #[must_use]
    pub fn version_name(&self) -> String {
        let OperatorFile { name, app_version, operator_version, .. } = &self.operator;
        operator_version_name(name, app_version, operator_version)
    }

    /// Returns the name of its archive.
    #[must_use]
    pub fn archive_name(&self) -> String {
        let OperatorFile { name, app_version, operator_version, .. } = &self.operator;
        if app_version.is_empty() {
            format!("{name}-{operator_version}.tgz")
        } else {
            format!("{name}-{app_version}_{operator_version}.tgz")
        }
    }

    /// Returns its Operator object.
    #[must_use]
    pub fn operator(&self, namespace: &str) -> Operator {
        let file = &self.operator;
        let mut operator = Operator::new(namespace, &file.name);
        operator.spec = OperatorSpec {
            description: file.description.clone(),
            kudo_version: file.kudo_version.clone(),
            kubernetes_version: file.kubernetes_version.clone(),
            maintainers: file.maintainers.clone(),
            url: file.url.clone(),
            namespace_manifest: file.namespace_manifest.clone(),
        };
        operator
    }

    /// Returns its OperatorVersion object.
    ///
    /// # Errors
    /// Fails if a default does not match its type.
    pub fn operator_version(&self, namespace: &str) -> Result<OperatorVersion, Error> {
        let file = &self.operator;
        let mut version = OperatorVersion::new(namespace, &self.version_name());
        version.spec = OperatorVersionSpec {
            version: file.operator_version.clone(),
            app_version: file.app_version.clone(),
            templates: self.templates.clone(),
            charts: self.charts.clone(),
            tasks: file.tasks.clone(),
            parameters: self.params.parameters.iter().map(PackageParameter::definition).collect(),
            plans: file.plans.clone(),
            ..OperatorVersionSpec::default()
        };
        version.spec.operator.kind = "Operator".into();
        version.spec.operator.name.clone_from(&file.name);
        Ok(version)
    }

    /// Returns an Instance of it. Default name: the operator's followed by `-instance`.
    #[must_use]
    pub fn instance(
        &self,
        namespace: &str,
        name: Option<&str>,
        values: BTreeMap<String, String>,
    ) -> Instance {
        let default = format!("{}-instance", self.operator.name);
        let mut instance = Instance::new(namespace, name.unwrap_or(&default));
        let labels = instance.metadata.labels.get_or_insert_default();
        labels.insert(label::OPERATOR.into(), self.operator.name.clone());
        instance.spec.operator_version.name = self.version_name();
        instance.spec.parameters = values;
        instance
    }
}

fn file<T: for<'de> Deserialize<'de>>(
    files: &BTreeMap<String, String>,
    name: &str,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let problem = |line, message| Problem { file: name.to_owned(), line, message };
    let Some(text) = files.get(name) else {
        problems.push(problem(None, "file not found in the package".into()));
        return None;
    };
    match steersman_yaml::from_slice_as(text.as_bytes()) {
        Ok(file) => Some(file),
        Err(error) => {
            let line = error.position().map(|position| position.line);
            problems.push(problem(line, error.to_string()));
            None
        }
    }
}

/// Finds the first line with a whole word: as a key, a value or an item.
fn line_of(text: &str, word: &str) -> Option<usize> {
    let is_edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || "-_./".contains(c));
    let stands = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            is_edge(line[..at].chars().next_back()) && is_edge(line[at + word.len()..].chars().next())
        })
    };
    text.lines().position(stands).map(|index| index + 1)
}
