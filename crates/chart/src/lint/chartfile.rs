//! Rules about Chart.yaml.

use super::contacts::{is_email, is_request_url, is_url};
use super::{Linter, Severity};
use crate::functions::constraint::Constraint;
use crate::functions::semver::Version;
use crate::gofmt;
use crate::metadata::{Metadata, base_name};
use crate::values::Table;
use crate::yaml;

const FILE: &str = "Chart.yaml";

pub(super) fn lint(linter: &mut Linter) {
    let is_file = if linter.source.is_directory(FILE) {
        Err("should be a file, not a directory".to_owned())
    } else {
        Ok(())
    };
    linter.rule(Severity::Error, FILE, is_file);
    let text = linter.source.read(FILE);
    let mut metadata = Metadata::default();
    let parsed = text.as_ref().map_err(Clone::clone).and_then(|text| metadata.read(text));
    let parsed = parsed.map_err(|error| format!("unable to parse YAML\n\t{error}"));
    if !linter.rule(Severity::Error, FILE, parsed) {
        return;
    }
    let untyped = text.ok().and_then(|text| yaml::values(&text).ok()).unwrap_or_default();
    let rules: [(Severity, Result<(), String>); 11] = [
        (Severity::Error, name(&metadata)),
        (Severity::Error, api_version(&metadata)),
        (Severity::Error, is_string(&untyped, "version")),
        (Severity::Error, version(&metadata)),
        (Severity::Error, is_string(&untyped, "appVersion")),
        (Severity::Error, maintainers(&metadata)),
        (Severity::Error, sources(&metadata)),
        (Severity::Info, icon_presence(&metadata)),
        (Severity::Error, icon_url(&metadata)),
        (Severity::Error, chart_type(&metadata)),
        (Severity::Error, dependencies(&metadata)),
    ];
    for (severity, outcome) in rules {
        linter.rule(severity, FILE, outcome);
    }
}

fn name(metadata: &Metadata) -> Result<(), String> {
    let name = &metadata.name;
    if name.is_empty() {
        return Err("name is required".into());
    }
    if base_name(name) != name {
        return Err(format!("chart name {} is invalid", gofmt::quote(&name.as_str().into())));
    }
    Ok(())
}

fn api_version(metadata: &Metadata) -> Result<(), String> {
    match metadata.api_version.as_str() {
        "v1" | "v2" => Ok(()),
        "" => Err("apiVersion is required. The value must be either \"v1\" or \"v2\"".into()),
        other => Err(format!("apiVersion '{other}' is not valid. The value must be either \"v1\" or \"v2\"")),
    }
}

fn is_string(untyped: &Table, key: &str) -> Result<(), String> {
    match untyped.get(key.as_bytes()).map(|data| data.to_value().type_name()) {
        Some(found) if found != "string" => {
            Err(format!("{key} should be of type string but it's of type {found}"))
        }
        _ => Ok(()),
    }
}

fn version(metadata: &Metadata) -> Result<(), String> {
    if metadata.version.is_empty() {
        return Err("version is required".into());
    }
    let version = Version::parse(&metadata.version)
        .map_err(|_| format!("version '{}' is not a valid SemVer", metadata.version))?;
    let positive = Constraint::parse(">0.0.0-0").map_err(|error| error.to_string())?;
    positive.validate(&version).map_err(|problems| {
        let first = problems.first().map(String::as_str).unwrap_or_default();
        format!("version {first}")
    })
}

fn maintainers(metadata: &Metadata) -> Result<(), String> {
    if metadata.nulls.maintainer {
        return Err("a maintainer entry is empty".into());
    }
    for maintainer in &metadata.maintainers {
        let (name, email, url) = (&maintainer.name, &maintainer.email, &maintainer.url);
        if name.is_empty() {
            return Err("each maintainer requires a name".into());
        }
        if !email.is_empty() && !is_email(email) {
            return Err(format!("invalid email '{email}' for maintainer '{name}'"));
        }
        if !url.is_empty() && !is_url(url) {
            return Err(format!("invalid url '{url}' for maintainer '{name}'"));
        }
    }
    Ok(())
}

fn sources(metadata: &Metadata) -> Result<(), String> {
    match metadata.sources.iter().find(|source| !is_request_url(source)) {
        Some(source) => Err(format!("invalid source URL '{source}'")),
        None => Ok(()),
    }
}

fn icon_presence(metadata: &Metadata) -> Result<(), String> {
    if metadata.icon.is_empty() { Err("icon is recommended".into()) } else { Ok(()) }
}

fn icon_url(metadata: &Metadata) -> Result<(), String> {
    let icon = &metadata.icon;
    if icon.is_empty() || is_request_url(icon) { Ok(()) } else { Err(format!("invalid icon URL '{icon}'")) }
}

fn chart_type(metadata: &Metadata) -> Result<(), String> {
    let api_version = &metadata.api_version;
    if metadata.chart_type.is_empty() || api_version == "v2" {
        return Ok(());
    }
    Err(format!("chart type is not valid in apiVersion '{api_version}'. It is valid in apiVersion 'v2'"))
}

fn dependencies(metadata: &Metadata) -> Result<(), String> {
    let api_version = &metadata.api_version;
    if metadata.dependencies.as_ref().is_none_or(Vec::is_empty) || api_version == "v2" {
        return Ok(());
    }
    Err(format!(
        "dependencies are not valid in the Chart file with apiVersion '{api_version}'. They are valid in apiVersion \
         'v2'"
    ))
}
