//! Contents and notifications of a store.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;

fn store_of(selection: Selection, watches: usize) -> Store {
    Store::new(Kind::of::<ConfigMap>(), selection, "test".into(), watches)
}

fn store() -> Store {
    store_of(Selection::default(), 1)
}

fn key(name: &str) -> Key {
    Key::namespaced("lab", name)
}

fn author(name: &str) -> Author {
    Author { controller: "controller".into(), object: key(name) }
}

fn object_of(name: &str, uid: &str, version: u64, metadata: Value) -> Incoming {
    let mut object = json!({
        "metadata": {"name": name, "namespace": "lab", "uid": uid, "resourceVersion": version.to_string()},
        "data": {"version": version.to_string()},
    });
    for (name, value) in metadata.as_object().into_iter().flatten() {
        object["metadata"][name] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn object(name: &str, version: u64) -> Incoming {
    object_of(name, "u", version, json!({}))
}

/// Logs a subscriber's events, one line each. A line has the versions before and after, whether from a list, and the
/// author.
fn heard(store: &Store) -> Arc<Mutex<Vec<String>>> {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&lines);
    store.subscribe(Arc::new(move |event| {
        let line = match event {
            CacheEvent::Synced => "synced".to_owned(),
            CacheEvent::Changed(Change { key, old, new, listed, author }) => {
                let version = |snapshot: &Option<&Snapshot>| {
                    snapshot.map_or("none".to_owned(), |snapshot| snapshot.version.to_string())
                };
                let by = author.map_or(String::new(), |author| format!(" by {}", author.object.name()));
                let listed = if *listed { " listed" } else { "" };
                format!("{} {}->{}{listed}{by}", key.name(), version(old), version(new))
            }
        };
        log.lock().unwrap().push(line);
    }));
    lines
}

fn taken(lines: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *lines.lock().unwrap())
}

fn held(store: &Store, name: &str) -> Option<u64> {
    store.get(&key(name)).map(|snapshot| snapshot.version)
}

#[test]
fn states_come_and_go() {
    let store = store();
    let lines = heard(&store);
    store.deliver(object("a", 1), 1, true);
    store.deliver(object("b", 2), 1, true);
    store.watch_synced(true);
    store.deliver(object("a", 3), 1, false);
    store.gone(&key("b"), 4);
    store.gone(&key("never"), 5);
    let expected =
        ["a none->1 listed", "b none->2 listed", "synced", "a 1->3", "b 2->none", "never none->none"];
    assert_eq!(taken(&lines), expected);
    assert_eq!((held(&store, "a"), held(&store, "b"), store.keys()), (Some(3), None, vec![key("a")]));
    // A late subscriber receives the current objects.
    assert_eq!(taken(&heard(&store)), ["a none->3 listed", "synced"]);
}

#[test]
fn a_state_that_was_delivered_before_is_told_once() {
    let store = store();
    let lines = heard(&store);
    store.deliver(object("a", 5), 1, false);
    store.deliver(object("a", 5), 1, false);
    assert_eq!(taken(&lines), ["a none->5"]);
    // An older one is reported, but the newer state stays.
    store.deliver(object("a", 3), 1, false);
    assert_eq!((taken(&lines), held(&store, "a")), (vec!["a none->5".to_owned()], Some(5)));
    // Versions that are not numbers have no order.
    store.deliver(object("a", 0), 1, false);
    assert_eq!((taken(&lines), held(&store, "a")), (vec!["a 5->0".to_owned()], Some(0)));
}

#[test]
fn an_own_write_is_read_at_once_and_its_author_known() {
    let store = store();
    let lines = heard(&store);
    store.deliver(object("a", 1), 1, false);
    assert_eq!(store.written(object("a", 4), Some(author("me"))).version, 4);
    assert_eq!((held(&store, "a"), taken(&lines).len()), (Some(4), 1), "others hear of it from the watch");
    // Another writer was in between.
    store.deliver(object("a", 2), 1, false);
    store.deliver(object("a", 4), 1, false);
    store.deliver(object("a", 5), 1, false);
    assert_eq!(taken(&lines), ["a none->4", "a none->4 by me", "a 4->5"]);
    assert!(store.read().own.is_empty(), "the watch has caught up");
    // A list may have skipped states of other writers.
    store.written(object("a", 7), Some(author("me")));
    store.deliver(object("a", 7), 2, true);
    assert_eq!(taken(&lines), ["a none->7 listed"]);
    // A late response changes nothing.
    assert_eq!(store.written(object("a", 6), Some(author("me"))).version, 6);
    assert_eq!(held(&store, "a"), Some(7));
    assert!(store.read().own.is_empty());
}

#[test]
fn an_own_deletion_is_seen_at_once() {
    let store = store();
    store.deliver(object("a", 1), 1, false);
    let lines = heard(&store);
    taken(&lines);
    let by_name: IndexFn = Arc::new(|_| vec!["x".to_owned()]);
    store.deleted(&key("a"), "other", author("me"));
    assert_eq!(held(&store, "a"), Some(1), "it is another object");
    store.deleted(&key("a"), "u", author("me"));
    assert_eq!((held(&store, "a"), store.list(|_| true).len()), (None, 0));
    assert!(store.by_index("x", "x", &by_name).is_empty());
    store.gone(&key("a"), 2);
    assert_eq!(taken(&lines), ["a 1->none by me"]);
    assert!(store.read().own.is_empty());

    // A new object of the same name is a different one, even before the watch reports that the first is gone.
    store.deliver(object("a", 3), 1, false);
    store.deleted(&key("a"), "u", author("me"));
    taken(&lines);
    store.deliver(object_of("a", "second", 5, json!({})), 1, false);
    assert_eq!((held(&store, "a"), taken(&lines)), (Some(5), vec!["a 3->5".to_owned()]));
    store.gone(&key("a"), 4);
    assert_eq!(held(&store, "a"), Some(5), "what is gone is the first");
    assert_eq!(taken(&lines), ["a none->none"]);
    store.gone(&key("a"), 6);
    assert_eq!((held(&store, "a"), taken(&lines)), (None, vec!["a 5->none".to_owned()]));
}

#[test]
fn what_a_list_does_not_contain_is_gone() {
    let store = store();
    let first = store.begin();
    for name in ["a", "b", "c"] {
        store.deliver(object(name, 1), first, true);
    }
    store.listed(None, first);
    assert_eq!(store.keys().len(), 3);
    let lines = heard(&store);
    taken(&lines);
    let second = store.begin();
    assert_eq!(second, first + 1);
    store.deliver(object("a", 1), second, true);
    // Written while the list is under way.
    store.written(object("d", 5), None);
    store.listed(Some("elsewhere"), second);
    assert_eq!(store.keys().len(), 4, "the list was of another namespace");
    store.listed(Some("lab"), second);
    assert_eq!(store.keys(), [key("a"), key("d")]);
    assert_eq!(taken(&lines), ["b 1->none", "c 1->none"]);
}

#[test]
fn a_store_is_synced_when_all_its_watches_are() {
    let store = store_of(Selection::default(), 2);
    let lines = heard(&store);
    let is_synced = || store.progress.borrow().synced;
    store.progress.send_modify(|progress| (progress.error, progress.absent) = (Some("no".into()), true));
    store.watch_synced(true);
    assert!(!is_synced() && store.progress.borrow().error.is_none() && !store.progress.borrow().absent);
    store.watch_synced(false);
    assert!(!is_synced(), "the same watch again");
    store.watch_synced(true);
    assert!(is_synced());
    store.watch_synced(false);
    assert_eq!((is_synced(), taken(&lines)), (true, vec!["synced".to_owned()]));
}

#[test]
fn indexes_follow_their_objects() {
    let store = store();
    let colors: IndexFn = Arc::new(|snapshot| {
        let meta = snapshot.meta().unwrap();
        meta.labels
            .iter()
            .filter(|(name, _)| &***name == "color")
            .map(|(_, color)| color.to_string())
            .collect()
    });
    let colored = |name: &str, version: u64, color: &str| {
        object_of(name, "u", version, json!({"labels": {"color": color}}))
    };
    let found = |color: &str| -> Vec<String> {
        store.by_index("color", color, &colors).into_iter().map(|(key, _)| key.name().to_owned()).collect()
    };
    store.deliver(colored("b", 1, "red"), 1, false);
    store.deliver(colored("a", 2, "red"), 1, false);
    assert_eq!((found("red"), found("blue")), (vec!["a".to_owned(), "b".to_owned()], Vec::new()));
    store.deliver(colored("c", 3, "red"), 1, false);
    store.deliver(colored("a", 4, "blue"), 1, false);
    store.gone(&key("b"), 5);
    assert_eq!((found("red"), found("blue")), (vec!["c".to_owned()], vec!["a".to_owned()]));
    store.gone(&key("c"), 6);
    assert!(found("red").is_empty() && !store.read().indexes["color"].keys.contains_key("red"));
}

#[test]
fn bytes_are_counted() {
    let store = store();
    assert_eq!(store.size(), (0, 0));
    store.deliver(object("a", 1), 1, false);
    let (count, one) = store.size();
    assert!(count == 1 && (50..1_000).contains(&one), "{one}");
    store.deliver(object("b", 1), 1, false);
    assert_eq!(store.size(), (2, one * 2));
    store.deliver(object("b", 2), 1, false);
    assert_eq!(store.size(), (2, one * 2));
    store.gone(&key("a"), 3);
    store.gone(&key("b"), 3);
    assert_eq!(store.size(), (0, 0));
}

#[test]
fn equal_field_sets_are_shared_and_unused_ones_forgotten() {
    let store = store();
    let owned = |name: &str, version: u64, field: &str| {
        let entry = json!({"manager": "test", "operation": "Apply", "fieldsV1": {format!("f:{field}"): {}}});
        object_of(name, "u", version, json!({"managedFields": [entry]}))
    };
    store.deliver(owned("a", 1, "same"), 1, false);
    store.deliver(owned("b", 1, "same"), 1, false);
    let managed = |name: &str| store.get(&key(name)).unwrap().managed.unwrap();
    assert!(Arc::ptr_eq(&managed("a"), &managed("b")));
    for version in 2..500 {
        store.deliver(owned("c", version, &version.to_string()), 1, false);
    }
    let sets = store.read().sets.len();
    assert!(sets <= 64, "{sets} sets for three objects");
    // Those that are used stay.
    for number in 0..200 {
        store.deliver(owned(&format!("d-{number}"), 1, &format!("own-{number}")), 1, false);
    }
    let sets = store.read().sets.len();
    assert!((202..=464).contains(&sets), "{sets}");
}

#[test]
fn what_was_applied_is_known_until_the_object_goes() {
    let store = store();
    store.deliver(object("a", 1), 1, false);
    assert_eq!(store.applied(&key("a")), None);
    store.note_applied(&key("a"), (7, 1));
    assert_eq!((store.applied(&key("a")), store.applied(&key("b"))), (Some((7, 1)), None));
    store.gone(&key("a"), 2);
    assert_eq!(store.applied(&key("a")), None);
}

#[test]
fn what_got_no_answer_is_doubtful_until_it_does() {
    let store = store();
    assert!(!store.is_doubtful(&key("a")));
    assert!(store.doubt(&key("a")) && !store.doubt(&key("a")));
    assert!(store.is_doubtful(&key("a")) && !store.is_doubtful(&key("b")));
    store.settle(&key("a"));
    assert!(!store.is_doubtful(&key("a")));
}

#[test]
fn a_store_covers_what_its_watch_brings() {
    let labelled = |color: &str| object_of("a", "u", 1, json!({"labels": {"color": color}}));
    assert!(store().covers(&labelled("red")));
    let red = || Selection { labels: Some("color=red".into()), ..Selection::default() };
    let store = store_of(red(), 1);
    assert!(store.covers(&labelled("red")) && !store.covers(&labelled("blue")));
    // The watch reports changes of every object that the store holds, whatever its labels are now.
    store.deliver(labelled("red"), 1, false);
    assert!(store.covers(&labelled("blue")));
    let fields = Selection { fields: Some("metadata.name=a".into()), ..red() };
    assert!(!store_of(fields, 1).covers(&labelled("red")), "the server knows, and not the cache");
    let odd = Selection { labels: Some("a near (b)".into()), ..Selection::default() };
    assert!(!store_of(odd, 1).covers(&labelled("red")));
}

#[tokio::test(start_paused = true)]
async fn silence_is_measured_from_the_last_sign() {
    let store = store();
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(store.silence(), Duration::from_secs(5));
    store.alive();
    assert_eq!(store.silence(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_not_filled_in_time_is_an_error() {
    let error = crate::cache::synced(&store(), Duration::from_secs(5)).await.unwrap_err();
    let text = "the cache of configmaps did not sync within 5s: the initial list is still in progress";
    assert_eq!(error.to_string(), text);
}
