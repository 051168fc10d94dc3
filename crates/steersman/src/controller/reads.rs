//! Who read what: when an object changes, those who read it are looked at again.

use std::collections::{HashMap, HashSet};

use crate::kind::{Key, Kind};

/// What reconcilers read, by reader and by what was read.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    readers: HashMap<(Kind, Key), HashSet<Key>>,
    read: HashMap<Key, Vec<Note>>,
}

#[derive(Debug)]
struct Note {
    what: (Kind, Key),
    /// Whether it was read in the current reconcile.
    current: bool,
}

impl Reads {
    /// A reconcile begins: what it does not read again is forgotten at its end.
    pub(crate) fn begin(&mut self, reader: &Key) {
        for note in self.read.get_mut(reader).into_iter().flatten() {
            note.current = false;
        }
    }

    pub(crate) fn note(&mut self, kind: &Kind, key: &Key, reader: &Key) {
        let what = (kind.clone(), key.clone());
        let notes = self.read.entry(reader.clone()).or_default();
        match notes.iter_mut().find(|note| note.what == what) {
            Some(note) => note.current = true,
            None => {
                notes.push(Note { what: what.clone(), current: true });
                self.readers.entry(what).or_default().insert(reader.clone());
            }
        }
    }

    pub(crate) fn end(&mut self, reader: &Key) {
        let Some(notes) = self.read.get_mut(reader) else { return };
        let readers = &mut self.readers;
        notes.retain(|note| {
            if !note.current
                && let Some(others) = readers.get_mut(&note.what)
            {
                others.remove(reader);
                if others.is_empty() {
                    readers.remove(&note.what);
                }
            }
            note.current
        });
        if notes.is_empty() {
            self.read.remove(reader);
        }
    }

    pub(crate) fn readers(&self, kind: &Kind, key: &Key) -> Vec<Key> {
        let mut readers: Vec<_> =
            self.readers.get(&(kind.clone(), key.clone())).into_iter().flatten().cloned().collect();
        readers.sort_unstable();
        readers
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    #[test]
    fn what_is_not_read_again_is_forgotten() {
        let kind = Kind::of::<Secret>();
        let (one, two, reader) = (Key::cluster("one"), Key::cluster("two"), Key::cluster("reader"));
        let mut reads = Reads::default();
        reads.begin(&reader);
        reads.note(&kind, &one, &reader);
        reads.note(&kind, &two, &reader);
        reads.end(&reader);
        assert_eq!(reads.readers(&kind, &one), std::slice::from_ref(&reader));
        reads.begin(&reader);
        reads.note(&kind, &two, &reader);
        reads.end(&reader);
        assert!(reads.readers(&kind, &one).is_empty());
        reads.begin(&reader);
        reads.end(&reader);
        assert!(reads.readers.is_empty() && reads.read.is_empty());
    }
}
