//! The last run of each object.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use steersman::{Key, Kind};

/// The number of objects at which deleted ones are first searched for.
const FIRST_LIMIT: usize = 1024;

/// An object that a run created.
pub(crate) type Dependent = (Kind, Key);

/// The last runs, by their object's UID. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    runs: HashMap<String, LastRun>,
    /// The number of objects left after the last search for deleted ones.
    left: usize,
    subscriber: Option<UnboundedSender<Key>>,
}

/// The last run of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LastRun {
    /// The object's generation at the run.
    pub(crate) generation: Option<i64>,
    pub(crate) succeeded: bool,
    /// The objects that this run and earlier ones created.
    pub(crate) made: HashSet<Dependent>,
}

impl Runs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last run of an object. None if there was none in this process.
    pub(crate) fn last(&self, uid: &str) -> Option<LastRun> {
        self.state().runs.get(uid).cloned()
    }

    /// Records a run that has ended, with the objects that it wrote (true) and deleted. Objects of earlier runs still count: a
    /// run may skip those that exist. Returns whether deleted objects should be searched for: see [`Runs::retain`].
    pub(crate) fn ended(
        &self,
        uid: &str,
        generation: Option<i64>,
        succeeded: bool,
        touched: HashMap<Dependent, bool>,
    ) -> bool {
        let mut state = self.state();
        let run = state.runs.entry(uid.to_owned()).or_default();
        run.generation = generation;
        run.succeeded = succeeded;
        for (dependent, is_there) in touched {
            match is_there {
                true => run.made.insert(dependent),
                false => run.made.remove(&dependent),
            };
        }
        state.runs.len() >= FIRST_LIMIT.max(2 * state.left)
    }

    /// Returns a stream of objects with a completed run. Sent after the run's status is written: see [`Runs::notify`].
    pub(crate) fn subscribe(&self) -> UnboundedReceiver<Key> {
        let (sender, receiver) = mpsc::unbounded();
        self.state().subscriber = Some(sender);
        receiver
    }

    /// Notifies the subscriber of a completed run. A run that changes nothing writes no status, so there is no watch event.
    pub(crate) fn notify(&self, key: &Key) {
        if let Some(subscriber) = &self.state().subscriber {
            // The subscriber is dropped when the operator stops.
            let _ = subscriber.unbounded_send(key.clone());
        }
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.state().runs.remove(uid);
    }

    /// Removes all other objects: the deletion of an object without a finalizer is not noticed.
    pub(crate) fn retain(&self, uids: &HashSet<String>) {
        let mut state = self.state();
        state.runs.retain(|uid, _| uids.contains(uid));
        state.left = state.runs.len();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn what_runs_made_adds_up_until_it_is_deleted() {
        let runs = Runs::default();
        let map = |name: &str| (Kind::of::<ConfigMap>(), Key::new(Some("lab"), name));
        runs.ended("u", Some(1), true, HashMap::from([(map("a"), true), (map("b"), true)]));
        runs.ended("u", Some(2), false, HashMap::from([(map("a"), false)]));
        let last = runs.last("u").unwrap();
        assert_eq!((last.generation, last.succeeded), (Some(2), false));
        assert_eq!(last.made, HashSet::from([map("b")]));
        assert_eq!(runs.last("other"), None);
    }

    #[test]
    fn a_subscriber_hears_of_runs_that_are_over() {
        let runs = Runs::default();
        let key = |name: &str| Key::new(Some("lab"), name);
        runs.notify(&key("before"));
        let mut over = runs.subscribe();
        runs.notify(&key("a"));
        assert_eq!(over.try_recv(), Ok(key("a")));
        assert!(over.try_recv().is_err());
        drop(over);
        runs.notify(&key("after"));
    }

    #[test]
    fn objects_that_are_gone_do_not_add_up() {
        let runs = Runs::default();
        let ended = |number: usize| runs.ended(&number.to_string(), None, true, HashMap::new());
        assert!((0..FIRST_LIMIT - 1).all(|number| !ended(number)));
        assert!(ended(FIRST_LIMIT));
        runs.retain(&HashSet::from(["3".to_owned()]));
        assert!(runs.last("3").is_some() && runs.last("4").is_none());
        assert!(!ended(4), "it is looked again when there are many");
    }
}
