//! Read tracking: when an object changes, those whose last reconcile read it are reconciled again.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use kube::core::{Selector, SelectorExt as _};

use crate::{
    cache::{Change, IndexFn, Snapshot},
    kind::{Key, Kind},
};

/// A read of several objects. A change affects it if the object matches before or after the change.
#[derive(Clone)]
pub(crate) struct Query {
    /// `None`: all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<Selector>,
    pub(crate) index: Option<IndexQuery>,
}

/// The objects under one value of an index.
#[derive(Clone)]
pub(crate) struct IndexQuery {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) values: IndexFn,
}

impl IndexQuery {
    /// Queries the objects whose controller has a uid.
    pub(crate) fn by_controller(uid: &str) -> Self {
        let values: IndexFn = Arc::new(|snapshot| {
            let Ok(meta) = snapshot.meta() else { return Vec::new() };
            meta.controller().map(|owner| owner.uid.to_string()).into_iter().collect()
        });
        // Not a name that a user would choose.
        Self { name: "\0controller", value: uid.to_owned(), values }
    }
}

impl Query {
    /// Distinguishes queries of the same kind and namespace.
    fn identity(&self) -> String {
        let labels = self.labels.as_ref().map(ToString::to_string).unwrap_or_default();
        let index = self.index.as_ref().map(|index| format!("{}\0{}", index.name, index.value));
        format!("{labels}\0{}", index.unwrap_or_default())
    }

    fn matches(&self, state: &State) -> bool {
        self.labels.as_ref().is_none_or(|labels| labels.matches(&state.labels))
            && self.index.as_ref().is_none_or(|index| {
                let values = state.indexes.get(index.name);
                values.is_some_and(|values| values.contains(&index.value))
            })
    }
}

/// One state of an object, as queries match it.
struct State {
    labels: BTreeMap<String, String>,
    indexes: HashMap<&'static str, Vec<String>>,
}

impl State {
    fn new(snapshot: &Snapshot, indexes: &[(&'static str, IndexFn)]) -> Self {
        let labels = snapshot.meta().map(|meta| meta.labels()).unwrap_or_default();
        Self { labels, indexes: indexes.iter().map(|(name, values)| (*name, values(snapshot))).collect() }
    }
}

/// What reconcilers read, by reader and by target.
#[derive(Default)]
pub(crate) struct Reads {
    objects: HashMap<(Kind, Key), HashSet<Key>>,
    queries: HashMap<(Kind, Option<String>), HashMap<String, TrackedQuery>>,
    /// Targets of each reader, and whether the current reconcile has read them.
    read: HashMap<Key, HashMap<ReadTarget, bool>>,
}

/// A query and its readers.
struct TrackedQuery {
    query: Query,
    readers: HashSet<Key>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ReadTarget {
    Object(Kind, Key),
    Query(Kind, Option<String>, String),
}

impl Reads {
    /// Begins a reconcile: reads that it does not repeat are dropped at its end.
    pub(crate) fn begin(&mut self, reader: &Key) {
        for current in self.read.get_mut(reader).into_iter().flat_map(HashMap::values_mut) {
            *current = false;
        }
    }

    /// Records a read of one object, whether it exists or not.
    pub(crate) fn note(&mut self, kind: &Kind, key: &Key, reader: &Key) {
        let target = ReadTarget::Object(kind.clone(), key.clone());
        if self.read.entry(reader.clone()).or_default().insert(target, true).is_none() {
            self.objects.entry((kind.clone(), key.clone())).or_default().insert(reader.clone());
        }
    }

    /// Records a read of all matching objects.
    pub(crate) fn note_query(&mut self, kind: &Kind, query: Query, reader: &Key) {
        let identity = query.identity();
        let target = ReadTarget::Query(kind.clone(), query.namespace.clone(), identity.clone());
        if self.read.entry(reader.clone()).or_default().insert(target, true).is_none() {
            let place = (kind.clone(), query.namespace.clone());
            let tracked = self.queries.entry(place).or_default().entry(identity);
            tracked
                .or_insert_with(|| TrackedQuery { query, readers: HashSet::new() })
                .readers
                .insert(reader.clone());
        }
    }

    pub(crate) fn end(&mut self, reader: &Key) {
        let Some(mut notes) = self.read.remove(reader) else { return };
        notes.retain(|target, current| {
            if !*current {
                self.forget(target, reader);
            }
            *current
        });
        if !notes.is_empty() {
            self.read.insert(reader.clone(), notes);
        }
    }

    fn forget(&mut self, target: &ReadTarget, reader: &Key) {
        match target {
            ReadTarget::Object(kind, key) => {
                let what = (kind.clone(), key.clone());
                if let Some(readers) = self.objects.get_mut(&what) {
                    readers.remove(reader);
                    if readers.is_empty() {
                        self.objects.remove(&what);
                    }
                }
            }
            ReadTarget::Query(kind, namespace, identity) => {
                let place = (kind.clone(), namespace.clone());
                let Some(queries) = self.queries.get_mut(&place) else { return };
                if let Some(tracked) = queries.get_mut(identity) {
                    tracked.readers.remove(reader);
                    if tracked.readers.is_empty() {
                        queries.remove(identity);
                    }
                }
                if queries.is_empty() {
                    self.queries.remove(&place);
                }
            }
        }
    }

    /// Returns the queries that an object in a namespace may match.
    fn tracked(&self, kind: &Kind, key: &Key) -> impl Iterator<Item = &TrackedQuery> {
        let own = key.namespace().map(|namespace| Some(namespace.to_owned()));
        let places = own.into_iter().chain([None]);
        places.filter_map(|namespace| self.queries.get(&(kind.clone(), namespace))).flat_map(HashMap::values)
    }

    /// Returns the indexes of the queries. Evaluate them without this lock: their functions are user code.
    pub(crate) fn indexes(&self, kind: &Kind, key: &Key) -> Vec<(&'static str, IndexFn)> {
        let mut indexes: Vec<(&'static str, IndexFn)> = Vec::new();
        for index in self.tracked(kind, key).filter_map(|tracked| tracked.query.index.as_ref()) {
            if !indexes.iter().any(|(name, _)| *name == index.name) {
                indexes.push((index.name, IndexFn::clone(&index.values)));
            }
        }
        indexes
    }

    fn readers(&self, kind: &Kind, key: &Key, states: &[State]) -> Vec<Key> {
        let direct = self.objects.get(&(kind.clone(), key.clone())).into_iter().flatten();
        let matching =
            self.tracked(kind, key).filter(|tracked| states.iter().any(|state| tracked.query.matches(state)));
        let mut readers: Vec<Key> =
            direct.chain(matching.flat_map(|tracked| &tracked.readers)).cloned().collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    }
}

/// Returns the readers that a change affects.
pub(super) fn affected(reads: &Mutex<Reads>, kind: &Kind, change: &Change<'_>) -> Vec<Key> {
    let lock = || reads.lock().unwrap_or_else(PoisonError::into_inner);
    let indexes = lock().indexes(kind, change.key);
    let states: Vec<State> =
        [change.old, change.new].into_iter().flatten().map(|state| State::new(state, &indexes)).collect();
    lock().readers(kind, change.key, &states)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::json;

    use super::*;
    use crate::cache::Incoming;

    #[test]
    fn what_is_not_read_again_is_forgotten() {
        let kind = Kind::of::<Secret>();
        let (one, two, reader) = (Key::cluster("one"), Key::cluster("two"), Key::cluster("reader"));
        let everything = Query { namespace: None, labels: None, index: None };
        let mut reads = Reads::default();
        reads.begin(&reader);
        reads.note(&kind, &one, &reader);
        reads.note(&kind, &two, &reader);
        reads.note_query(&kind, everything, &reader);
        reads.end(&reader);
        assert_eq!(reads.readers(&kind, &one, &[]), std::slice::from_ref(&reader));
        reads.begin(&reader);
        reads.note(&kind, &two, &reader);
        reads.end(&reader);
        assert!(reads.readers(&kind, &one, &[]).is_empty());
        reads.begin(&reader);
        reads.end(&reader);
        assert!(reads.objects.is_empty() && reads.queries.is_empty() && reads.read.is_empty());
    }

    fn secret(color: &str) -> Snapshot {
        let object = json!({"metadata": {"name": "one", "namespace": "lab", "labels": {"color": color}}});
        let incoming: Incoming = serde_json::from_value(object).unwrap();
        incoming.snapshot("test", Arc::from)
    }

    #[test]
    fn a_query_hears_of_what_comes_and_of_what_goes() {
        let kind = Kind::of::<Secret>();
        let reads = Mutex::new(Reads::default());
        let color: IndexFn = Arc::new(|state| {
            let labels = state.meta().unwrap().labels();
            labels.into_values().collect()
        });
        let query = |namespace: Option<&str>, label: Option<&str>, value: Option<&str>| Query {
            namespace: namespace.map(str::to_owned),
            labels: label.map(|color| [("color".to_owned(), color.to_owned())].into_iter().collect()),
            index: value.map(|value| IndexQuery {
                name: "color",
                value: value.to_owned(),
                values: Arc::clone(&color),
            }),
        };
        for (reader, query) in [
            ("all", query(None, None, None)),
            ("elsewhere", query(Some("home"), None, None)),
            ("here", query(Some("lab"), None, None)),
            ("indexed-red", query(Some("lab"), None, Some("red"))),
            ("indexed-blue", query(None, None, Some("blue"))),
            ("labelled-red", query(None, Some("red"), None)),
            ("labelled-green", query(Some("lab"), Some("green"), None)),
        ] {
            reads.lock().unwrap().note_query(&kind, query, &Key::cluster(reader));
        }
        let (key, red, blue) = (Key::namespaced("lab", "one"), secret("red"), secret("blue"));
        let heard = |old: Option<&Snapshot>, new: Option<&Snapshot>| -> Vec<String> {
            let change = Change { key: &key, old, new, listed: false, author: None };
            affected(&reads, &kind, &change).iter().map(ToString::to_string).collect()
        };
        assert_eq!(heard(None, Some(&red)), ["all", "here", "indexed-red", "labelled-red"]);
        let both = ["all", "here", "indexed-blue", "indexed-red", "labelled-red"];
        assert_eq!(heard(Some(&red), Some(&blue)), both);
        assert_eq!(heard(Some(&blue), None), ["all", "here", "indexed-blue"]);
    }
}
