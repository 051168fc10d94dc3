//! Answers of the chart crate.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};
use steersman_chart::{
    Capabilities, Chart, Data, Error, File, Hook, KubeVersion, LintOptions, OutputOptions, Release,
    RenderOptions, Seeded, Severity, ValueOptions, Values,
};
use tempfile::TempDir;

use super::{answered, text};
use crate::answer::Answer;
use crate::wire;

/// `render`: the output of every template.
pub(super) fn files(request: &Json) -> Answer {
    let run = || {
        let chart = Chart::from_files(chart_files(&request["files"]))?;
        let values = Values::from_json(request["values"].clone());
        chart.render_files(&values, &options(request)?, environment())
    };
    match run() {
        Ok(files) => {
            Answer::Ok(files.iter().map(|(path, text)| (path.clone(), wire::text(text.as_bytes()))).collect())
        }
        Err(error) => failed(&error),
    }
}

/// `coalesce`: the values that templates see.
pub(super) fn values(request: &Json) -> Answer {
    let run = || {
        Chart::from_files(chart_files(&request["files"]))?
            .compute_values(&Values::from_json(request["values"].clone()))
    };
    match run() {
        Ok(values) => Answer::Ok(json!({ "value": spell(&Data::Table(values.0)) })),
        Err(error) => failed(&error),
    }
}

/// `helm-template`: the command's output, and the resulting release.
pub(super) fn template(request: &Json) -> Answer {
    in_directory(request, |chart| {
        let options = options(request)?;
        let values = given_values(request)?;
        let chart = Chart::load(chart)?;
        chart.check_installable()?;
        chart.check_dependencies()?;
        let rendered = chart.render(&values, &options, environment())?;
        let shown = OutputOptions {
            include_crds: flag(request, "include_crds"),
            no_hooks: flag(request, "no_hooks"),
            skip_tests: flag(request, "skip_tests"),
            show_only: strings(request, "show_only"),
        };
        Ok(json!({
            "out": rendered.output(&shown, None)?,
            "manifest": rendered.manifest(shown.include_crds),
            "notes": rendered.notes,
            "hooks": rendered.hooks.iter().map(hook).collect::<Vec<_>>(),
        }))
    })
}

/// `lint`: the linter's messages.
pub(super) fn lint(request: &Json) -> Answer {
    in_directory(request, |chart| {
        let kube_version = request["kube_version"].as_str().map(parse_kube_version).transpose()?;
        let options = LintOptions { kube_version, ..LintOptions::default() };
        let plain = |text: String| match chart.parent() {
            Some(root) => text.replace(&format!("{}/", root.display()), ""),
            None => text,
        };
        let messages = steersman_chart::lint(chart, &given_values(request)?, &options)?;
        let told: Vec<Json> = messages
            .iter()
            .map(|message| {
                let line = plain(message.to_string());
                let severity = line.split(['[', ']']).nth(1).unwrap_or_default();
                json!({ "severity": severity, "path": plain(message.path.clone()), "text": plain(message.text.clone()), "line": line })
            })
            .collect();
        let errors = messages.iter().filter(|message| message.severity == Severity::Error);
        let errors: Vec<String> = errors.map(|message| plain(message.text.clone())).collect();
        Ok(json!({ "messages": told, "errors": errors }))
    })
}

/// Writes the chart to a directory from which `do_it` loads it, and removes that path from errors.
fn in_directory(request: &Json, do_it: impl FnOnce(&Path) -> Result<Json, Error>) -> Answer {
    let directory = match write_chart(request) {
        Ok(directory) => directory,
        Err(problem) => return Answer::err("request", problem),
    };
    match do_it(&directory.path().join("chart")) {
        Ok(result) => Answer::Ok(result),
        Err(error) => {
            let text = error.helm_text().replace(&format!("{}/", directory.path().display()), "");
            Answer::err("error", text.strip_prefix("Error: ").unwrap_or(&text))
        }
    }
}

fn write_chart(request: &Json) -> io::Result<TempDir> {
    let directory = tempfile::tempdir()?;
    for file in chart_files(&request["files"]) {
        let path = directory.path().join("chart").join(&file.name);
        std::fs::create_dir_all(path.parent().unwrap_or(directory.path()))?;
        std::fs::write(path, file.data.as_bytes())?;
    }
    Ok(directory)
}

/// `strvals`: one of the `--set` family.
pub(super) fn set(request: &Json) -> Answer {
    let mut values = Values::from_json(request["into"].clone());
    let mut read = |name: &str| match request["files"].get(name) {
        Some(content) => Ok(wire::bytes(content)),
        None => Err(format!("open {name}: no such file or directory")),
    };
    for expression in strings(request, "texts") {
        let set = match text(request, "do") {
            "string" => values.set_string(&expression),
            "json" => values.set_json(&expression),
            "file" => values.set_file(&expression, &mut read),
            "literal" => values.set_literal(&expression),
            _ => values.set(&expression),
        };
        if let Err(error) = set {
            return failed(&error);
        }
    }
    Answer::Ok(json!({ "value": spell(&Data::Table(values.0)) }))
}

/// `kube-version`: the values that `--kube-version` accepts.
pub(super) fn kube_version(request: &Json) -> Answer {
    let parsed = KubeVersion::parse(text(request, "version"));
    answered(parsed.map(|v| json!({ "version": v.version, "major": v.major, "minor": v.minor })))
}

fn failed(error: &Error) -> Answer {
    Answer::err("error", error)
}

fn flag(request: &Json, name: &str) -> bool {
    request[name].as_bool().unwrap_or_default()
}

fn strings(request: &Json, name: &str) -> Vec<String> {
    let items = request[name].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Json::as_str).map(str::to_owned).collect()
}

fn chart_files(files: &Json) -> Vec<File> {
    let entries = files.as_object().into_iter().flatten();
    entries.map(|(name, content)| File::new(name.as_str(), wire::bytes(content))).collect()
}

fn environment() -> Seeded {
    Seeded::new(1, SystemTime::UNIX_EPOCH + Duration::from_secs(1_750_000_000))
}

fn options(request: &Json) -> Result<RenderOptions, Error> {
    let or = |field: &str, default: &str| request[field].as_str().unwrap_or(default).to_owned();
    let mut capabilities = Capabilities::default();
    if let Some(version) = request["kube_version"].as_str() {
        capabilities.kube_version = parse_kube_version(version)?;
    }
    capabilities.api_versions.extend(strings(request, "api_versions"));
    let release = Release {
        name: or("name", "rel"),
        namespace: or("namespace", "ns"),
        revision: 1,
        is_upgrade: flag(request, "is_upgrade"),
    };
    Ok(RenderOptions { release, capabilities, ..RenderOptions::default() })
}

fn parse_kube_version(version: &str) -> Result<KubeVersion, Error> {
    KubeVersion::parse(version)
        .map_err(|error| Error::Values(format!("invalid kube version '{version}': {error}")))
}

fn given_values(request: &Json) -> Result<Values, Error> {
    let texts = strings(request, "value_files");
    let options = ValueOptions {
        files: (0..texts.len()).map(|n| format!("values-{n}.yaml")).collect(),
        json: strings(request, "set_json"),
        set: strings(request, "set"),
        set_string: strings(request, "set_string"),
        ..ValueOptions::default()
    };
    options.merge(&mut |name| {
        let number = name
            .strip_prefix("values-")
            .and_then(|n| n.strip_suffix(".yaml"))
            .and_then(|n| n.parse::<usize>().ok());
        let text = number.and_then(|n| texts.get(n));
        text.map(|text| text.clone().into_bytes())
            .ok_or_else(|| format!("open {name}: no such file or directory"))
    })
}

fn hook(hook: &Hook) -> Json {
    json!({
        "name": hook.manifest.name, "kind": hook.manifest.kind, "path": hook.manifest.path, "manifest": hook.manifest.content,
        "weight": hook.weight, "events": hook.events.iter().map(|e| e.as_str()).collect::<Vec<_>>(),
        "delete_policies": hook.delete_policies, "output_log_policies": hook.output_log_policies,
    })
}

/// Encodes plain data like the oracle.
fn spell(data: &Data) -> Json {
    match data {
        Data::Null => Json::Null,
        Data::Bool(b) => Json::Bool(*b),
        Data::Int(n) => wire::tagged("int64", n.to_string()),
        Data::Float(n) => wire::float(*n),
        Data::String(s) => wire::text(s.as_bytes()),
        Data::List(items) => items.iter().map(spell).collect(),
        Data::Table(table) => {
            let inner: Json = table.iter().map(|(k, v)| (k.to_str_lossy().into_owned(), spell(v))).collect();
            let clash = table.contains_key(&b"$t"[..]) || table.contains_key(&b"$b64"[..]);
            if clash { wire::tagged("map", inner) } else { inner }
        }
    }
}
