//! Unknown keys in a package's files, which are mostly typos.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{OPERATOR_FILE, PARAMS_FILE, line_of};
use crate::error::Problem;

const OPERATOR: &[&str] = &[
    "apiVersion",
    "name",
    "description",
    "operatorVersion",
    "appVersion",
    "kubernetesVersion",
    "kudoVersion",
    "maintainers",
    "url",
    "tasks",
    "plans",
    "namespaceManifest",
];
const MAINTAINER: &[&str] = &["name", "email"];
const TASK: &[&str] = &["name", "kind", "spec"];
const TASK_SPEC: &[&str] = &[
    "resources",
    "parameter",
    "pod",
    "pipe",
    "wantErr",
    "fatal",
    "done",
    "package",
    "instanceName",
    "appVersion",
    "operatorVersion",
    "parameterFile",
    "health",
    "chart",
    "releaseName",
    "valuesFile",
];
const HEALTH: &[&str] = &["kind", "name", "ready", "failed"];
const PIPE: &[&str] = &["file", "envFile", "kind", "key"];
const PLAN: &[&str] = &["strategy", "timeout", "phases"];
const PHASE: &[&str] = &["name", "strategy", "steps"];
const STEP: &[&str] = &["name", "timeout", "tasks"];
const PARAMS: &[&str] = &["apiVersion", "groups", "parameters"];
const GROUP: &[&str] = &["name", "displayName", "description", "prio"];
const PARAMETER: &[&str] = &[
    "name",
    "displayName",
    "description",
    "default",
    "required",
    "trigger",
    "type",
    "immutable",
    "enum",
    "group",
    "advanced",
    "hint",
];

/// Unknown keys, each with the keys known in its place.
type Unknown = Vec<(String, &'static [&'static str])>;

/// Warns about every unknown key, and suggests the nearest known one.
pub(super) fn unknown(files: &BTreeMap<String, String>) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut read = |name: &str, walk: fn(&Value, &mut Unknown)| {
        let Some(text) = files.get(name) else { return };
        let Ok(value) = steersman_yaml::from_str(text) else { return };
        let mut unknown = Vec::new();
        walk(&value, &mut unknown);
        for (key, known) in unknown {
            let hint = nearest(&key, known).map_or(String::new(), |key| format!(", did you mean {key}?"));
            found.push(Problem {
                file: name.to_owned(),
                line: line_of(text, &key),
                message: format!("unknown key {key}{hint}"),
            });
        }
    };
    read(OPERATOR_FILE, operator);
    read(PARAMS_FILE, params);
    found
}

type Found = Vec<(String, &'static [&'static str])>;

fn check(value: &Value, known: &'static [&'static str], found: &mut Found) {
    let keys = value.as_object().into_iter().flat_map(serde_json::Map::keys);
    // Keys are case-insensitive, as in Go.
    let unknown = keys.filter(|key| !known.iter().any(|one| one.eq_ignore_ascii_case(key)));
    found.extend(unknown.map(|key| (key.clone(), known)));
}

fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn operator(file: &Value, found: &mut Found) {
    check(file, OPERATOR, found);
    items(file, "maintainers").for_each(|one| check(one, MAINTAINER, found));
    for task in items(file, "tasks") {
        check(task, TASK, found);
        check(&task["spec"], TASK_SPEC, found);
        items(&task["spec"], "pipe").for_each(|one| check(one, PIPE, found));
        items(&task["spec"], "health").for_each(|one| check(one, HEALTH, found));
    }
    for plan in file["plans"].as_object().into_iter().flat_map(serde_json::Map::values) {
        check(plan, PLAN, found);
        for phase in items(plan, "phases") {
            check(phase, PHASE, found);
            items(phase, "steps").for_each(|step| check(step, STEP, found));
        }
    }
}

fn params(file: &Value, found: &mut Found) {
    check(file, PARAMS, found);
    items(file, "groups").for_each(|one| check(one, GROUP, found));
    items(file, "parameters").for_each(|one| check(one, PARAMETER, found));
}

/// Returns the most similar of the known words, if any is close enough.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let (distance, nearest) = known.iter().map(|one| (distance(word, one), *one)).min()?;
    (distance <= 2 && distance < word.len()).then_some(nearest)
}

/// Computes the edit distance: letters to change, add or remove.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.to_lowercase().chars().enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = before + usize::from(a != *b);
            before = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(before + 1);
        }
    }
    row[other.len()]
}
