//! watches.yaml: the watched kinds, and the role or playbook that runs for each of their objects.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use steersman_watches::{LabelSelector, api_version, deserialize_duration};

use crate::error::{Error, Result};

/// One entry of watches.yaml, with operator-sdk's fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct WatchConfig {
    /// API group of the watched kind; empty for the core group.
    pub group: String,
    /// API version of the watched kind.
    pub version: String,
    /// Kind of the objects.
    pub kind: String,
    /// Path of the playbook: absolute, or relative to the working directory or the directory of watches.yaml.
    pub playbook: String,
    /// Role: an absolute path, `namespace.collection.role`, or a name in the roles path.
    pub role: String,
    /// Extra variables, which override all variables from the object. Default: none.
    pub vars: Map<String, Value>,
    /// Maximum number of runs whose artifacts are kept. Accepted for compatibility with operator-sdk; runs
    /// keep no artifacts.
    pub max_runner_artifacts: Option<i64>,
    /// Interval of periodic reconciles for each object. Default, also for zero: `--reconcile-period`.
    #[serde(deserialize_with = "deserialize_duration")]
    #[schemars(with = "Option<String>")]
    pub reconcile_period: Option<Duration>,
    /// Whether the operator writes conditions. Default: true.
    #[serde(default = "yes")]
    pub manage_status: bool,
    /// Whether to watch the objects that a run creates. Default: true.
    #[serde(default = "yes")]
    pub watch_dependent_resources: bool,
    /// Whether to convert keys of the spec to snake case. Default: true.
    #[serde(default = "yes")]
    pub snake_case_parameters: bool,
    /// Whether to also watch the cluster-scoped objects that a run creates. Default: false.
    pub watch_cluster_scoped_resources: bool,
    /// Whether a change of annotations triggers a run. Default: false.
    pub watch_annotations_changes: bool,
    /// Whether to mark strings of the object as unsafe, so they are not evaluated as templates. Default:
    /// false, as in operator-sdk.
    pub mark_unsafe: bool,
    /// Label selector of the objects to watch. Default: all objects.
    pub selector: Option<LabelSelector>,
    /// Kinds that are not watched when a run creates them. Default: none.
    pub blacklist: Vec<GroupVersionKind>,
    /// Finalizer: role or playbook to run before an object is deleted. Default: none.
    pub finalizer: Option<FinalizerConfig>,
}

/// Group, version and kind of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct GroupVersionKind {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind of the objects.
    pub kind: String,
}

/// Role or playbook to run before an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FinalizerConfig {
    /// Name of the finalizer.
    pub name: String,
    /// Path of a playbook, as above. Default: the playbook of the watch.
    pub playbook: String,
    /// Role, as above. Default: the role of the watch.
    pub role: String,
    /// Extra variables of this run, which override all others. Default: none.
    pub vars: Map<String, Value>,
}

/// The role or playbook to run, resolved when watches.yaml is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A playbook's file.
    Playbook(PathBuf),
    /// A role's directory.
    Role(PathBuf),
    /// A role in a collection, by its full name.
    CollectionRole(String),
}

/// A parsed watches.yaml.
#[derive(Clone, Debug)]
pub struct Watches {
    /// The entries, in the order of the file.
    pub entries: Vec<Watch>,
    /// Warnings about the file, one per line.
    pub warnings: Vec<String>,
}

/// An entry of watches.yaml with its role or playbook resolved.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The entry.
    pub config: WatchConfig,
    /// The content that runs for an object.
    pub content: Content,
    /// The content that runs before an object is deleted, if there is a finalizer.
    pub final_content: Option<Content>,
}

fn yes() -> bool {
    true
}

const FIELDS: &[&str] = &[
    "group",
    "version",
    "kind",
    "playbook",
    "role",
    "vars",
    "maxRunnerArtifacts",
    "reconcilePeriod",
    "manageStatus",
    "watchDependentResources",
    "snakeCaseParameters",
    "watchClusterScopedResources",
    "watchAnnotationsChanges",
    "markUnsafe",
    "selector",
    "blacklist",
    "finalizer",
];
const FINALIZER_FIELDS: &[&str] = &["name", "playbook", "role", "vars"];

impl WatchConfig {
    /// Returns the JSON schema of an entry, with the descriptions of its fields.
    #[must_use]
    pub fn schema() -> Value {
        schemars::schema_for!(Self).to_value()
    }

    /// Returns group and version.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Returns a title such as `cache.example.com/v1alpha1, Kind=Memcached`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}, Kind={}", self.api_version(), self.kind)
    }

    /// Returns the suffix of environment variables about this kind, such as `MEMCACHED_CACHE_EXAMPLE_COM`.
    pub(crate) fn environment_suffix(&self) -> String {
        format!("{}_{}", self.kind, self.group.replace('.', "_")).to_uppercase()
    }
}

impl Watches {
    /// Reads a watches.yaml, expands environment variables, and resolves its roles and playbooks.
    ///
    /// # Errors
    /// Fails with every problem of the file, each with its line.
    pub fn load(
        path: &Path,
        roles_path: &[PathBuf],
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::Watches(format!("{}: {error}", path.display())))?;
        Self::parse(&text, path, roles_path, variable)
    }

    fn parse(
        text: &str,
        path: &Path,
        roles_path: &[PathBuf],
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let (text, unset) = expand(text, variable);
        let place = |line: usize| format!("{}:{line}", path.display());
        let mut warnings: Vec<String> = unset
            .into_iter()
            .map(|(line, name)| format!("{}: ${{{name}}} is not set in the environment", place(line)))
            .collect();
        let failed = |error: steersman_yaml::Error| Error::Watches(format!("{}: {error}", path.display()));
        let raw: Option<Vec<Value>> = steersman_yaml::from_slice_as(text.as_bytes()).map_err(failed)?;
        let raw = raw.unwrap_or_default();
        let lines = entry_lines(&text);
        let line_of = |index: usize| lines.get(index).copied().unwrap_or(1);
        let mut problems = Vec::new();
        for (index, entry) in raw.iter().enumerate() {
            let end = lines.get(index + 1).copied().unwrap_or(usize::MAX);
            let line_of_key = |key: &str| key_line(&text, line_of(index), end, key);
            for (key, problem) in unknown_fields(entry) {
                problems.push(format!("{}: {problem}", place(line_of_key(&key))));
            }
        }
        if !problems.is_empty() {
            return Err(Error::Watches(problems.join("\n")));
        }
        let configs: Option<Vec<WatchConfig>> =
            steersman_yaml::from_slice_as(text.as_bytes()).map_err(failed)?;
        let search = Search { directory: path.parent().unwrap_or(Path::new("")), roles_path };
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        for (index, config) in configs.unwrap_or_default().into_iter().enumerate() {
            let mut problem = |text: String| problems.push(format!("{}: {text}", place(line_of(index))));
            config.check(&mut problem);
            if !seen.insert((config.group.clone(), config.version.clone(), config.kind.clone())) {
                problem(format!("duplicate GVK: {}", config.title()));
            }
            if !config.mark_unsafe {
                warnings.push(format!(
                    "{}: {}: markUnsafe is not set, so that templates in objects are evaluated with the operator's rights",
                    place(line_of(index)),
                    config.title(),
                ));
            }
            let content = search.find(&config.playbook, &config.role);
            let final_content = config.finalizer.as_ref().map(|finalizer| {
                if finalizer.playbook.is_empty() && finalizer.role.is_empty() {
                    return Ok(None);
                }
                search.find(&finalizer.playbook, &finalizer.role).map(Some)
            });
            match (content, final_content.transpose()) {
                (Ok(content), Ok(own)) => {
                    let final_content = own.map(|own| own.unwrap_or_else(|| content.clone()));
                    entries.push(Watch { config, content, final_content });
                }
                (content, own) => {
                    for text in [content.err(), own.err()].into_iter().flatten() {
                        problem(format!("{}: {text}", config.title()));
                    }
                }
            }
        }
        if problems.is_empty() {
            Ok(Self { entries, warnings })
        } else {
            Err(Error::Watches(problems.join("\n")))
        }
    }

    /// Returns the directories that contain the file's roles.
    pub(crate) fn role_directories(&self) -> Vec<PathBuf> {
        let contents =
            self.entries.iter().flat_map(|watch| [Some(&watch.content), watch.final_content.as_ref()]);
        let mut directories = Vec::new();
        for content in contents.flatten() {
            if let Content::Role(path) = content
                && let Some(parent) = path.parent()
                && !directories.iter().any(|known| known == parent)
            {
                directories.push(parent.to_owned());
            }
        }
        directories
    }
}

impl WatchConfig {
    fn check(&self, problem: &mut impl FnMut(String)) {
        for (name, value) in [("version", &self.version), ("kind", &self.kind)] {
            if value.is_empty() {
                problem(format!("invalid GVK: {}: {name} must not be empty", self.title()));
            }
        }
        if let Err(text) = self.selector.as_ref().map_or(Ok(String::new()), LabelSelector::text) {
            problem(format!("{}: {text}", self.title()));
        }
        if let Some(finalizer) = &self.finalizer
            && finalizer.name.is_empty()
        {
            problem(format!("{}: finalizer needs a name", self.title()));
        }
        if self.max_runner_artifacts.is_some_and(|number| number < 0) {
            problem(format!("{}: maxRunnerArtifacts must not be negative", self.title()));
        }
    }
}

/// The search path for roles and playbooks.
struct Search<'a> {
    directory: &'a Path,
    roles_path: &'a [PathBuf],
}

impl Search<'_> {
    fn find(&self, playbook: &str, role: &str) -> std::result::Result<Content, String> {
        match (playbook, role) {
            ("", "") => Err("either playbook or role is required".to_owned()),
            (playbook, "") => self.playbook(playbook),
            ("", role) => self.role(role),
            _ => Err("only one of playbook and role may be given".to_owned()),
        }
    }

    fn playbook(&self, name: &str) -> std::result::Result<Content, String> {
        let tried = [PathBuf::from(name), self.directory.join(name)];
        first(&tried, Path::is_file).map(Content::Playbook).ok_or_else(|| missing("playbook", name, &tried))
    }

    fn role(&self, name: &str) -> std::result::Result<Content, String> {
        let mut tried = Vec::new();
        if Path::new(name).is_absolute() {
            tried.push(PathBuf::from(name));
        } else {
            for path in self.roles_path {
                tried.extend([path.join(name), path.join("roles").join(name)]);
            }
            tried.extend([Path::new("roles").join(name), self.directory.join("roles").join(name)]);
        }
        if let Some(found) = first(&tried, Path::is_dir) {
            return Ok(Content::Role(found));
        }
        // Ansible searches collections itself, as it knows their paths.
        let parts: Vec<&str> = name.split('.').collect();
        if parts.len() == 3 && parts.iter().all(|part| !part.is_empty() && !part.contains('/')) {
            return Ok(Content::CollectionRole(name.to_owned()));
        }
        Err(missing("role", name, &tried))
    }
}

fn first(tried: &[PathBuf], is: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let found = tried.iter().find(|path| is(path))?;
    std::path::absolute(found).ok()
}

fn missing(what: &str, name: &str, tried: &[PathBuf]) -> String {
    let mut tried: Vec<String> = tried.iter().map(|path| path.display().to_string()).collect();
    tried.dedup();
    format!("{what} {name:?} was not found: tried {}", tried.join(", "))
}

/// Expands `$NAME` and `${NAME}`. An unset variable becomes `${NAME}`, and is returned with its line.
fn expand(text: &str, variable: impl Fn(&str) -> Option<String>) -> (String, Vec<(usize, String)>) {
    let mut unset = Vec::new();
    let mut expanded = String::with_capacity(text.len());
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let mut rest = line;
        while let Some(position) = rest.find('$') {
            expanded.push_str(&rest[..position]);
            let after = &rest[position + 1..];
            let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
            let (name, end) = match after.strip_prefix('{') {
                Some(inner) => match inner.find('}') {
                    Some(end) => (&inner[..end], end + 2),
                    None => ("", 0),
                },
                None => {
                    let end = after.find(|character| !is_name(character)).unwrap_or(after.len());
                    (&after[..end], end)
                }
            };
            if name.is_empty() || !name.chars().all(is_name) {
                expanded.push('$');
                rest = after;
                continue;
            }
            match variable(name) {
                Some(value) => expanded.push_str(&value),
                None => {
                    expanded.push_str(&format!("${{{name}}}"));
                    unset.push((index + 1, name.to_owned()));
                }
            }
            rest = &after[end..];
        }
        expanded.push_str(rest);
    }
    (expanded, unset)
}

/// Returns the lines at which the entries of a top-level list begin.
fn entry_lines(text: &str) -> Vec<usize> {
    let dash = |line: &str| {
        let rest = line.trim_start_matches(' ');
        (rest == "-" || rest.starts_with("- ")).then(|| line.len() - rest.len())
    };
    let Some(indent) = text.lines().find_map(dash) else { return Vec::new() };
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| dash(line) == Some(indent)).map(|(index, _)| index + 1).collect()
}

/// Returns the line of a key within an entry, or else the entry's first line.
fn key_line(text: &str, start: usize, end: usize, key: &str) -> usize {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let within = lines.filter(|(line, _)| (start..end).contains(line));
    let is_key = |line: &str| {
        let rest = line.trim_start_matches([' ', '-', '{', '"', '\'']);
        rest.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
    };
    within.into_iter().find(|(_, line)| is_key(line)).map_or(start, |(line, _)| line)
}

fn unknown_fields(entry: &Value) -> Vec<(String, String)> {
    let known = |key: &str, fields: &[&str]| fields.iter().any(|field| field.eq_ignore_ascii_case(key));
    let mut unknown = Vec::new();
    let mut check = |value: &Value, fields: &[&str], within: &str| {
        for key in value.as_object().into_iter().flatten().map(|(key, _)| key) {
            if !known(key, fields) {
                let hint = nearest(key, fields).map_or(String::new(), |field| format!("; is it {field}?"));
                unknown.push((key.clone(), format!("unknown field {within}{key}{hint}")));
            }
        }
    };
    check(entry, FIELDS, "");
    let finalizer = entry.as_object().and_then(|entry| {
        entry.iter().find(|(key, _)| key.eq_ignore_ascii_case("finalizer")).map(|(_, value)| value)
    });
    if let Some(finalizer) = finalizer {
        check(finalizer, FINALIZER_FIELDS, "finalizer.");
    }
    unknown
}

fn nearest<'a>(key: &str, fields: &[&'a str]) -> Option<&'a str> {
    let distances = fields.iter().map(|field| (distance(&key.to_lowercase(), &field.to_lowercase()), *field));
    let (distance, field) = distances.min()?;
    (distance <= key.len().div_ceil(3)).then_some(field)
}

/// Computes the edit distance of two short words.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (index, character) in one.chars().enumerate() {
        let mut previous = row[0];
        row[0] = index + 1;
        for (position, other) in two.iter().enumerate() {
            let substituted = previous + usize::from(character != *other);
            previous = row[position + 1];
            row[position + 1] = substituted.min(previous + 1).min(row[position] + 1);
        }
    }
    row[two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Watches> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("roles/memcached")).unwrap();
        std::fs::write(directory.path().join("play.yml"), "[]").unwrap();
        let variable = |name: &str| (name == "NAME").then(|| "memcached".to_owned());
        Watches::parse(text, &directory.path().join("watches.yaml"), &[], variable)
    }

    fn problems(text: &str) -> Vec<String> {
        let error = parse(text).unwrap_err().to_string();
        error.lines().map(|line| line.rsplit_once("watches.yaml:").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn operator_sdks_fields_are_read() {
        let text = "---\n\
            - group: cache.example.com\n  version: v1alpha1\n  kind: Memcached\n  role: $NAME\n  reconcilePeriod: 90s\n  \
            vars: {a: 1}\n  ManageStatus: false\n  markUnsafe: true\n  finalizer: {name: a.example.com/f, vars: {state: absent}}\n\
            - {version: v1, kind: Plain, playbook: play.yml, finalizer: {name: f, role: memcached}}\n\
            - {version: v1, kind: Other, role: example.tools.other}\n";
        let watches = parse(text).unwrap();
        let [memcached, plain, other] = watches.entries.as_slice() else { panic!("{watches:?}") };
        assert!(matches!(&memcached.content, Content::Role(path) if path.ends_with("roles/memcached")));
        assert_eq!(memcached.final_content.as_ref(), Some(&memcached.content));
        assert_eq!(memcached.config.reconcile_period, Some(Duration::from_secs(90)));
        assert!(!memcached.config.manage_status && memcached.config.snake_case_parameters);
        assert_eq!(memcached.config.environment_suffix(), "MEMCACHED_CACHE_EXAMPLE_COM");
        assert!(matches!(&plain.content, Content::Playbook(path) if path.ends_with("play.yml")));
        assert!(matches!(&plain.final_content, Some(Content::Role(_))));
        assert_eq!(other.content, Content::CollectionRole("example.tools.other".into()));
        assert_eq!(watches.warnings.len(), 2, "two entries leave templates in objects alive");
    }

    #[test]
    fn all_problems_are_told_at_once_with_their_lines() {
        let text = "- group: a\n  kind: B\n  role: memcached\n\
            - {group: a, version: v1, kind: C, role: memcached, playbook: play.yml}\n\
            - {group: a, version: v1, kind: C, role: absent}\n\
            - {group: a, version: v1, kind: D, role: memcached, finalizer: {vars: {}}}\n";
        let problems = problems(text);
        assert!(problems[0].starts_with("1: invalid GVK: a/, Kind=B: version"), "{problems:#?}");
        assert!(problems[1].starts_with("4: a/v1, Kind=C: only one of"), "{problems:#?}");
        assert!(problems[2].starts_with("5: duplicate GVK: a/v1, Kind=C"), "{problems:#?}");
        assert!(
            problems[3].starts_with("5: a/v1, Kind=C: role \"absent\" was not found: tried roles/absent")
        );
        assert!(problems[4].starts_with("6: a/v1, Kind=D: finalizer needs a name"), "{problems:#?}");
    }

    #[test]
    fn unknown_fields_are_refused_with_the_nearest_name() {
        let text = "- version: v1\n  kind: B\n  role: memcached\n  watchDependantResources: false\n  finalizer:\n    name: f\n    playbok: x\n";
        let problems = problems(text);
        assert_eq!(problems[0], "4: unknown field watchDependantResources; is it watchDependentResources?");
        assert_eq!(problems[1], "7: unknown field finalizer.playbok; is it playbook?");
    }

    #[test]
    fn variables_that_are_not_set_stay_and_are_warned_of() {
        let (text, unset) =
            expand("a: $NAME\nb: ${NAME}x $$ ${ $1 $\n", |name| (name == "NAME").then(|| "v".to_owned()));
        assert_eq!(text, "a: v\nb: vx $$ ${ ${1} $\n");
        assert_eq!(unset, [(2, "1".to_owned())]);
    }
}
