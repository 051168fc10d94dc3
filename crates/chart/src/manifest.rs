//! Rendered files to manifests and hooks: splitting, reading their metadata, sorting.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use steersman_yaml::Node;

use crate::gofmt;
use crate::load::decode::{self, Struct};
use crate::metadata::base_name;
use crate::parallel;
use crate::rendered_files::RenderedFiles;
use crate::yaml;

/// A rendered document that is to be applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Path of its template.
    pub path: String,
    /// The document.
    pub content: String,
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its `kind`.
    pub kind: String,
    /// Its `metadata.name`.
    pub name: String,
}

/// A document that is applied at certain points of a release's lifecycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hook {
    /// The document and its metadata.
    pub manifest: Manifest,
    /// Events at which it is applied.
    pub events: Vec<HookEvent>,
    /// Order among hooks of the same event, lowest first. 0 by default.
    pub weight: i64,
    /// When to delete it, as written but in lower case.
    ///
    /// Helm defines `before-hook-creation`, `hook-succeeded` and `hook-failed`.
    pub delete_policies: Vec<String>,
    /// When to print its logs, as written but in lower case. Helm defines `hook-succeeded` and `hook-failed`.
    pub output_log_policies: Vec<String>,
}

impl Hook {
    /// Whether it is a test of the chart.
    pub fn is_test(&self) -> bool {
        self.events.contains(&HookEvent::Test)
    }
}

/// A point in a release's lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as Helm does")]
pub enum HookEvent {
    PreInstall,
    PostInstall,
    PreDelete,
    PostDelete,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    Test,
}

impl HookEvent {
    /// Returns the event's name in the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreInstall => "pre-install",
            Self::PostInstall => "post-install",
            Self::PreDelete => "pre-delete",
            Self::PostDelete => "post-delete",
            Self::PreUpgrade => "pre-upgrade",
            Self::PostUpgrade => "post-upgrade",
            Self::PreRollback => "pre-rollback",
            Self::PostRollback => "post-rollback",
            Self::Test => "test",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "pre-install" => Self::PreInstall,
            "post-install" => Self::PostInstall,
            "pre-delete" => Self::PreDelete,
            "post-delete" => Self::PostDelete,
            "pre-upgrade" => Self::PreUpgrade,
            "post-upgrade" => Self::PostUpgrade,
            "pre-rollback" => Self::PreRollback,
            "post-rollback" => Self::PostRollback,
            "test" | "test-success" => Self::Test,
            _ => return None,
        })
    }
}

/// Kinds in install order; others come last, by name.
pub const INSTALL_ORDER: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
];

/// Kinds in uninstall order; others come last, by name.
pub const UNINSTALL_ORDER: &[&str] = &[
    "APIService",
    "Ingress",
    "IngressClass",
    "Service",
    "CronJob",
    "Job",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "Pod",
    "DaemonSet",
    "RoleBindingList",
    "RoleBinding",
    "RoleList",
    "Role",
    "ClusterRoleBindingList",
    "ClusterRoleBinding",
    "ClusterRoleList",
    "ClusterRole",
    "CustomResourceDefinition",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "ConfigMap",
    "SecretList",
    "Secret",
    "ServiceAccount",
    "PodDisruptionBudget",
    "PodSecurityPolicy",
    "LimitRange",
    "ResourceQuota",
    "NetworkPolicy",
    "Namespace",
    "PriorityClass",
];

/// Sorts by the order of kinds; items of the same kind keep their order.
pub fn sort_by_kind<T>(items: &mut [T], order: &[&str], kind: impl Fn(&T) -> &str) {
    let rank = |item: &T| order.iter().position(|known| *known == kind(item)).unwrap_or(order.len());
    items.sort_by(|a, b| {
        let (left, right) = (rank(a), rank(b));
        let by_name = || if left == order.len() { kind(a).cmp(kind(b)) } else { std::cmp::Ordering::Equal };
        left.cmp(&right).then_with(by_name)
    });
}

/// Splits a string into documents as Helm does, at lines that begin with three dashes.
///
/// ```
/// let documents = steersman_chart::split("kind: A\n---\nkind: B\n");
/// assert_eq!(documents.len(), 2);
/// ```
pub fn split(text: &str) -> Vec<&str> {
    const MARK: &[u8] = b"---";
    let blank = |c: char| matches!(c, '\t' | '\n' | '\x0C' | '\r' | ' ');
    let text = gofmt::trim_space(text);
    let mut documents = Vec::new();
    let mut rest = text;
    if text.as_bytes().starts_with(MARK) {
        rest = text[MARK.len()..].trim_start_matches(blank);
    }
    let finder = memchr::memmem::Finder::new(b"\n---");
    loop {
        let Some(at) = finder.find(rest.as_bytes()) else {
            documents.push(rest);
            break;
        };
        let (document, after) = rest.split_at(at);
        documents.push(document.trim_end_matches(blank));
        rest = after[1 + MARK.len()..].trim_start_matches(blank);
    }
    documents.retain(|document| !document.is_empty());
    documents.into_iter().map(gofmt::trim_space).collect()
}

/// Removes the notes from rendered files and returns them; with `sub_notes`, subcharts' notes too.
pub(crate) fn take_notes(mut files: RenderedFiles, chart: &str, sub_notes: bool) -> (RenderedFiles, String) {
    const SUFFIX: &str = "NOTES.txt";
    let own = format!("{chart}/templates/{SUFFIX}");
    let mut notes = Vec::new();
    files.retain(|path, text| {
        let is_notes = path.ends_with(SUFFIX);
        if is_notes && (sub_notes || *path == own) {
            if !notes.is_empty() {
                notes.push(b'\n');
            }
            notes.extend_from_slice(text);
        }
        !is_notes
    });
    (files, String::from_utf8_lossy(&notes).into_owned())
}

/// The manifests and hooks of rendered files.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    pub(crate) manifests: Vec<Manifest>,
    pub(crate) hooks: Vec<Hook>,
    /// Warnings that Helm would log.
    pub(crate) warnings: Vec<String>,
}

/// Splits files into sorted manifests and hooks. Fails on a document that needs more than `memory` to read.
pub(crate) fn sort(
    files: &RenderedFiles,
    order: &[&str],
    heads: &Heads,
    memory: usize,
) -> Result<Sorted, String> {
    let mut sorted = Sorted::default();
    let known = heads.known();
    let keep = files.values().map(|text| text.len()).sum::<usize>() <= MAX_KNOWN;
    let texts: Vec<(&String, Cow<'_, str>)> = files
        .iter()
        .filter(|(path, _)| !base_name(path).starts_with('_'))
        .map(|(path, text)| (path, text.as_str().map_or_else(|| text.to_str_lossy(), Cow::Borrowed)))
        .collect();
    let split: Vec<_> = texts
        .iter()
        .map(|(path, text)| {
            let documents = split(text);
            let same = |known: &&Documents| known.iter().map(|(text, _)| text).eq(&documents);
            (*path, known.get(*path).filter(same), documents)
        })
        .collect();
    let unread: Vec<&str> = split
        .iter()
        .filter(|(_, known, _)| known.is_none())
        .flat_map(|(_, _, documents)| documents.iter().copied())
        .collect();
    let mut read =
        parallel::map(&unread, |text| text.len(), |text| Head::read(text.as_bytes(), memory)).into_iter();
    let mut fresh = Vec::new();
    for (path, known, documents) in split {
        if let Some(known) = known {
            for (document, head) in known.iter() {
                classify(path, document, head.clone(), &mut sorted);
            }
            continue;
        }
        let mut learned = Vec::with_capacity(documents.len());
        for (document, head) in documents.into_iter().zip(read.by_ref()) {
            let head = head.map_err(|error| format!("YAML parse error on {path}: {error}"))?;
            classify(path, document, head.clone(), &mut sorted);
            if keep {
                learned.push((document.to_owned(), head));
            }
        }
        if keep {
            fresh.push((path.clone(), Arc::from(learned)));
        }
    }
    heads.learn(fresh);
    sort_by_kind(&mut sorted.manifests, order, |manifest| &manifest.kind);
    sort_by_kind(&mut sorted.hooks, order, |hook| &hook.manifest.kind);
    Ok(sorted)
}

fn classify(path: &str, document: &str, head: Head, sorted: &mut Sorted) {
    let Head { api_version, kind, name, annotations } = head;
    let manifest = Manifest { path: path.to_owned(), content: document.to_owned(), api_version, kind, name };
    let Some(events) = annotations.get("helm.sh/hook") else {
        sorted.manifests.push(manifest);
        return;
    };
    let lower = |text: &str| gofmt::trim_space(text).to_lowercase();
    let known: Option<Vec<HookEvent>> =
        events.split(',').map(|name| HookEvent::parse(&lower(name))).collect();
    let Some(known) = known else {
        let events = gofmt::quote(&events.as_str().into());
        sorted.warnings.push(format!("info: skipping unknown hook: {events}"));
        return;
    };
    let list = |annotation: &str| -> Vec<String> {
        annotations.get(annotation).map(|text| text.split(',').map(lower).collect()).unwrap_or_default()
    };
    sorted.hooks.push(Hook {
        manifest,
        events: known,
        weight: annotations.get("helm.sh/hook-weight").and_then(|text| text.parse().ok()).unwrap_or(0),
        delete_policies: list("helm.sh/hook-delete-policy"),
        output_log_policies: list("helm.sh/hook-output-log-policy"),
    });
}

/// Cache of documents and their metadata from earlier renders.
///
/// The next render yields mostly the same documents, and parsing YAML is much of its work.
#[derive(Default)]
pub(crate) struct Heads(Mutex<Arc<KnownHeads>>);

type KnownHeads = HashMap<String, Documents>;
/// Documents of a file, in order.
type Documents = Arc<[(String, Head)]>;

/// Maximum size of the cached documents in bytes.
const MAX_KNOWN: usize = 32 * 1024 * 1024;

impl Heads {
    fn known(&self) -> Arc<KnownHeads> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn learn(&self, fresh: Vec<(String, Documents)>) {
        if fresh.is_empty() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let heads = Arc::make_mut(&mut known);
        heads.extend(fresh);
        let bytes: usize =
            heads.values().flat_map(|documents| documents.iter()).map(|(text, _)| text.len()).sum();
        if bytes > MAX_KNOWN {
            heads.clear();
        }
    }
}

/// Metadata read from every document.
#[derive(Clone, Debug, Default)]
struct Head {
    api_version: String,
    kind: String,
    name: String,
    annotations: BTreeMap<String, String>,
}

impl Head {
    fn read(document: &[u8], memory: usize) -> Result<Self, String> {
        if steersman_yaml::reading_memory(document) > memory {
            return Err(format!("parsing the document would exceed the memory limit of {memory} bytes"));
        }
        const METADATA: Struct = Struct {
            name: "",
            go_type: "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }",
            fields: &["name", "annotations"],
        };
        const HEAD: Struct = Struct {
            name: "SimpleHead",
            go_type: "releaseutil.SimpleHead",
            fields: &["apiVersion", "kind", "metadata"],
        };
        let document: Node<'_> = yaml::parse(document)?;
        let mut head = Self::default();
        decode::run(&document, |decoder, data| {
            decoder.object(data, &HEAD, |decoder, field, data| match field {
                "apiVersion" => decoder.string(data, &mut head.api_version),
                "kind" => decoder.string(data, &mut head.kind),
                _ => decoder.object(data, &METADATA, |decoder, field, data| match field {
                    "name" => decoder.string(data, &mut head.name),
                    _ => decoder.string_map(data, &mut head.annotations),
                }),
            });
        })?;
        Ok(head)
    }
}
