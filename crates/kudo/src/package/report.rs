//! `package verify`: errors and warnings about a package.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{OPERATOR_FILE, PARAMS_FILE, Package, PackageParameter, TEMPLATES};
use crate::error::{Error, Problem};

/// The result of verifying a package, in KUDO's words.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The errors, which make it invalid.
    pub errors: Vec<String>,
    /// The warnings.
    pub warnings: Vec<String>,
    /// Whether there are no errors.
    pub valid: bool,
    /// The errors, with file and line.
    #[serde(skip)]
    pub problems: Vec<Problem>,
    /// Unknown keys.
    #[serde(skip)]
    pub unknown: Vec<Problem>,
}

/// An optional check of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParameterCheck {
    /// Each has a display name that begins with a capital and does not end with a colon.
    Display,
    /// Each has a hint that ends with a full stop.
    Hint,
    /// Each has a description that begins with a capital and ends as a sentence does.
    Description,
    /// Each says its type.
    Type,
    /// Each is in a group.
    HasGroup,
    /// Each group has a display name and a description.
    Groups,
}

/// Verifies the files of a package.
///
/// # Errors
/// Fails if operator.yaml or params.yaml cannot be read.
pub fn report(files: &BTreeMap<String, String>, checks: &[ParameterCheck]) -> Result<Report, Error> {
    let (package, mut problems) = Package::parse(files)?;
    let operator = &package.operator;
    let mut add = |file: &str, message: String| {
        problems.push(Problem { file: file.to_owned(), line: None, message });
    };
    let versions = [
        ("operatorVersion", &operator.operator_version, false),
        ("appVersion", &operator.app_version, false),
        ("kubernetesVersion", &operator.kubernetes_version, true),
        ("kudoVersion", &operator.kudo_version, false),
    ];
    for (key, version, is_required) in versions {
        let version = version.trim();
        if version.is_empty() && is_required {
            add(OPERATOR_FILE, format!("{key:?} is required and must be semver"));
        } else if !version.is_empty() && !is_version(version) {
            add(OPERATOR_FILE, format!("unable to parse {key:?}: Invalid Semantic Version"));
        }
    }
    let used = used_parameters(&package);
    let names: BTreeSet<&str> = package.params.parameters.iter().map(|one| one.name.as_str()).collect();
    for (file, of_file) in &used {
        for name in of_file.iter().filter(|name| !names.contains(name.as_str())) {
            add(
                &format!("{TEMPLATES}{file}"),
                format!("parameter {name:?} in template {file} is not defined"),
            );
        }
    }
    for parameter in &package.params.parameters {
        check_metadata(parameter, &package, &mut |message| {
            add(PARAMS_FILE, format!("parameter {:?} {message}", parameter.name));
        });
    }
    let warnings = warnings(&package, &used, checks);
    let is_key = |problem: &&Problem| problem.message.starts_with("unknown ");
    let unknown = package.warnings.iter().filter(is_key).cloned().collect();
    let errors: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
    Ok(Report { valid: errors.is_empty(), errors, warnings, problems, unknown })
}

fn check_metadata(parameter: &PackageParameter, package: &Package, wrong: &mut impl FnMut(&str)) {
    let definition = parameter.definition();
    let has_default = !parameter.default.is_null();
    if definition.is_immutable() && !has_default && !definition.is_required() {
        wrong("is immutable but is not marked as required or has a default value");
    }
    if parameter.group.contains('/') {
        wrong("has a group with invalid character '/'");
    }
    if parameter.advanced && !has_default && definition.is_required() {
        wrong(
            "is marked as advanced, but also as required and has no default. An advanced parameter must either be optional or have a default value",
        );
    }
    let group = &parameter.group;
    if !group.is_empty() && !package.params.groups.iter().any(|one| one.name == *group) {
        wrong(&format!("has a group {group:?} that is not defined in the group section"));
    }
}

fn warnings(
    package: &Package,
    used: &BTreeMap<&str, BTreeSet<String>>,
    checks: &[ParameterCheck],
) -> Vec<String> {
    let operator = &package.operator;
    let suspicious = package.warnings.iter().filter(|warning| !warning.message.starts_with("unknown "));
    let mut found: Vec<String> = suspicious.map(|warning| warning.message.clone()).collect();
    let toggles = operator.tasks.iter().filter(|task| task.kind == "Toggle");
    let toggles: BTreeSet<&str> = toggles.map(|task| task.spec.parameter.as_str()).collect();
    for PackageParameter { name, trigger, .. } in &package.params.parameters {
        let is_used = used.values().any(|names| names.contains(name)) || toggles.contains(name.as_str());
        // A parameter may exist only to trigger its plan.
        if !is_used && trigger.is_empty() {
            found.push(format!("parameter {name:?} defined but not used."));
        }
    }
    let specs = || operator.tasks.iter().map(|task| &task.spec);
    let referenced: BTreeSet<&String> = specs()
        .flat_map(|spec| spec.resources.iter().chain([&spec.pod, &spec.parameter_file, &spec.values_file]))
        .chain([&operator.namespace_manifest])
        .collect();
    for file in package.templates.keys().filter(|file| !referenced.contains(file)) {
        found.push(format!("template {file:?} is not referenced from any task"));
    }
    for check in checks {
        for parameter in &package.params.parameters {
            if let Some(why) = check.of(parameter) {
                found.push(format!("parameter {:?} {why}", parameter.name));
            }
        }
        for group in package.params.groups.iter().filter(|_| *check == ParameterCheck::Groups) {
            let whys = [display_name(&group.display_name), description(&group.description)];
            found.extend(whys.iter().flatten().map(|why| format!("parameter group {:?} {why}", group.name)));
        }
    }
    found
}

impl ParameterCheck {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 6] =
        [Self::Description, Self::Hint, Self::Display, Self::HasGroup, Self::Type, Self::Groups];

    /// Returns the violation of a parameter, if any.
    fn of(self, parameter: &PackageParameter) -> Option<&'static str> {
        match self {
            Self::Display => display_name(&parameter.display_name),
            Self::Hint if parameter.hint.is_empty() => Some("has no hint"),
            Self::Hint if !parameter.hint.ends_with('.') => Some("has a hint not ending with a '.'"),
            Self::Description => description(&parameter.description),
            Self::Type if parameter.ty.is_empty() => Some("has no explicit type assigned"),
            Self::HasGroup if parameter.group.is_empty() => Some("has no group"),
            Self::Hint | Self::Type | Self::HasGroup | Self::Groups => None,
        }
    }
}

fn begins_small(text: &str) -> bool {
    text.chars().next().is_some_and(|first| first.is_alphabetic() && !first.is_uppercase())
}

fn display_name(text: &str) -> Option<&'static str> {
    match text {
        "" => Some("has no displayName"),
        text if text.ends_with(':') => Some("has a displayName ending with ':'"),
        text if begins_small(text) => Some("has a displayName that does not start with a capital letter"),
        _ => None,
    }
}

fn description(text: &str) -> Option<&'static str> {
    match text {
        "" => Some("has no description"),
        text if !text.ends_with(['.', '!', '?', ')']) => {
            Some("has a description not ending with one of '.!?)'")
        }
        text if begins_small(text) => Some("has a description that does not start with a capital letter"),
        _ => None,
    }
}

/// Whether a string is a version to a lenient parser: one to three numbers, a pre-release and metadata.
fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, metadata) = text.split_once('+').unwrap_or((text, "0"));
    let (numbers, pre_release) = text.split_once('-').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    (1..=3).contains(&numbers.split('.').count())
        && numbers.split('.').all(is_number)
        && pre_release.split('.').all(is_word)
        && metadata.split('.').all(is_word)
}

/// Collects the names after `.Params.` in the actions of each template.
fn used_parameters(package: &Package) -> BTreeMap<&str, BTreeSet<String>> {
    let of = |text: &str| {
        let actions = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
        let code = actions.filter(|action| !action.trim_start_matches(['-', ' ']).starts_with("/*"));
        let mut names = BTreeSet::new();
        for action in code {
            for rest in action.split(".Params.").skip(1) {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                names.insert(rest[..end].to_owned());
            }
            // `index .Params "name"`
            for rest in action.split(".Params \"").skip(1) {
                names.extend(rest.split('"').next().map(str::to_owned));
            }
        }
        names.remove("");
        names
    };
    package.templates.iter().map(|(file, text)| (file.as_str(), of(text))).collect()
}
