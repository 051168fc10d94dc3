//! What is known of the last run of each object.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use steersman::{Key, Kind};

/// From how many objects on it is looked for those that are gone.
const FIRST_LIMIT: usize = 1024;

/// An object that a run made.
pub(crate) type Dependent = (Kind, Key);

/// The last runs, by the uid of their object. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    runs: HashMap<String, LastRun>,
    /// How many were left when it was last looked for those that are gone.
    left: usize,
    subscriber: Option<UnboundedSender<Key>>,
}

/// The last run of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LastRun {
    /// The generation that it was for.
    pub(crate) generation: Option<i64>,
    pub(crate) succeeded: bool,
    /// What this run and those before it made.
    pub(crate) made: HashSet<Dependent>,
}

impl Runs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last run of an object. None: there was none in this process.
    pub(crate) fn last(&self, uid: &str) -> Option<LastRun> {
        self.state().runs.get(uid).cloned()
    }

    /// Notes down a run that is over, with what it wrote (true) and deleted. What earlier ones made counts on: a run may leave
    /// out what is there. Whether it is time to look for objects that are gone: see [`Runs::retain`].
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

    /// The objects whose runs are over from now on, once all that is said of the run stands in their status: see [`Runs::notify`].
    pub(crate) fn subscribe(&self) -> UnboundedReceiver<Key> {
        let (sender, receiver) = mpsc::unbounded();
        self.state().subscriber = Some(sender);
        receiver
    }

    /// Tells the subscriber of a run that is over. A run that changes nothing leaves the status as it was, so that no event would.
    pub(crate) fn notify(&self, key: &Key) {
        if let Some(subscriber) = &self.state().subscriber {
            // It is gone when the operator stops.
            let _ = subscriber.unbounded_send(key.clone());
        }
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.state().runs.remove(uid);
    }

    /// Forgets all others: of an object without a finalizer it is not told that it is gone.
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
