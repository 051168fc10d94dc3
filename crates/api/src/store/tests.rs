use serde_json::json;

use super::{watch::Batch, *};

fn draft(name: &str, n: u64) -> Draft {
    Draft::new(&json!({"metadata": {"name": name, "labels": {"n": n.to_string()}}, "n": n}), vec![]).unwrap()
}

#[test]
fn the_resource_version_is_written_into_the_gap() {
    let store = Store::new(History::default(), None);
    let entry = store.create("things", "ns/a", draft("a", 1)).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&entry.json()).unwrap();
    assert_eq!(value["metadata"]["resourceVersion"], entry.revision().to_string());
    assert_eq!(value, entry.value());
    assert_eq!((entry.namespace(), entry.name()), ("ns", "a"));
}

#[test]
fn a_length_leaves_room_for_the_records_of_fields() {
    let store = Store::new(History::default(), None);
    let fields =
        json!({"f:data": {"f:a-name-that-is-rather-long": {}, "f:another-one-that-is-no-shorter": {}}});
    let managers = json!([{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    let object = json!({"apiVersion": "v1", "metadata": {"name": "a", "managedFields": managers}});
    let entry = store.create("things", "a", Draft::new(&object, vec![]).unwrap()).unwrap();
    assert!((100..entry.json().len()).contains(&entry.size()));
    assert!((entry.json().len()..entry.json().len() + 48).contains(&entry.length()));
}

#[test]
fn a_write_must_know_the_present() {
    let store = Store::new(History::default(), None);
    let first = store.create("things", "a", draft("a", 1)).unwrap();
    assert_eq!(store.create("things", "a", draft("a", 2)).unwrap_err(), WriteError::Exists);
    let second = store.update("things", "a", first.revision(), draft("a", 2)).unwrap();
    assert_eq!(
        store.update("things", "a", first.revision(), draft("a", 3)).unwrap_err(),
        WriteError::Changed
    );
    assert_eq!(store.delete("things", "a", first.revision()).unwrap_err(), WriteError::Changed);
    store.delete("things", "a", second.revision()).unwrap();
    assert!(store.get("things", "a").is_none());
}

#[test]
fn the_past_can_be_listed() {
    let store = Store::new(History::default(), None);
    let a = store.create("things", "x/a", draft("a", 1)).unwrap();
    store.create("things", "x/b", draft("b", 1)).unwrap();
    store.create("things", "y/c", draft("c", 1)).unwrap();
    let then = store.revision();
    store.update("things", "x/a", a.revision(), draft("a", 2)).unwrap();
    store.delete("things", "x/b", store.get("things", "x/b").unwrap().revision()).unwrap();
    store.create("things", "x/d", draft("d", 1)).unwrap();
    let keys = |s: Snapshot| s.entries.iter().map(|e| (e.key().to_owned(), e.revision())).collect::<Vec<_>>();
    let past = store.snapshot_at("things", "x/", None, then).unwrap();
    assert_eq!(keys(past), [("x/a".into(), 2), ("x/b".into(), 3)]);
    let rest = store.snapshot_at("things", "x/", Some("x/a"), then).unwrap();
    assert_eq!(keys(rest), [("x/b".into(), 3)]);
    assert_eq!(
        store.snapshot_at("things", "", None, 99).unwrap_err(),
        RevisionError::TooNew(store.revision())
    );
}

#[test]
fn a_slow_watcher_is_told_and_nothing_piles_up() {
    let store = Store::new(History { events: 10, bytes: usize::MAX }, None);
    let mut slow = store.follow("things", store.revision()).unwrap();
    for n in 0..30 {
        store.create("things", &format!("t{n}"), draft("t", n)).unwrap();
    }
    assert_eq!(slow.poll().unwrap_err(), RevisionError::TooOld);
    let mut quick = store.follow("things", store.revision() - 10).unwrap();
    let Ok(Batch::Events(events)) = quick.poll() else { panic!("expected events") };
    assert_eq!(events.len(), 10);
    assert!(matches!(quick.poll(), Ok(Batch::Idle(r)) if r == store.revision()));
    assert_eq!(store.follow("things", 1).unwrap_err(), RevisionError::TooOld);
}

/// A journal with reports triggered by the test.
#[derive(Debug, Default)]
struct Stepwise {
    observer: OnceLock<JournalObserver>,
}

impl Journal for Stepwise {
    fn start(&self, observer: JournalObserver) {
        self.observer.set(observer).unwrap();
    }

    fn append(&self, _: Record) {}
}

fn with_journal() -> (Store, JournalObserver) {
    let journal = Arc::new(Stepwise::default());
    let store = Store::new(History::default(), Some(Arc::clone(&journal) as Arc<dyn Journal>));
    let observer = journal.observer.get().unwrap().clone();
    (store, observer)
}

#[test]
fn what_is_not_durable_is_not_seen() {
    let (store, observer) = with_journal();
    let mut cursor = store.follow("things", store.revision()).unwrap();
    let before = store.revision();
    let first = store.create("things", "a", draft("a", 1)).unwrap();
    let second = store.update("things", "a", first.revision(), draft("a", 2)).unwrap();
    assert!(store.get("things", "a").is_some() && store.read("things", "a").is_none());
    assert!(store.list("things", "", None).entries.is_empty());
    assert!(store.snapshot_and_follow("things", "").0.entries.is_empty());
    assert!(matches!(cursor.poll(), Ok(Batch::Idle(r)) if r == before));
    assert_eq!(store.follow("things", first.revision()).unwrap_err(), RevisionError::TooNew(before));
    store.end_watches("things");
    assert!(matches!(cursor.poll(), Ok(Batch::Idle(_))), "what comes before the end is not durable yet");

    observer.durable(first.revision());
    assert_eq!(store.read("things", "a").unwrap().revision(), first.revision());
    assert_eq!(store.list("things", "", None).entries[0].revision(), first.revision());
    observer.durable(second.revision());
    assert_eq!(store.revision(), second.revision());
    assert!(matches!(cursor.poll(), Ok(Batch::Events(events)) if events.len() == 2));
    assert!(matches!(cursor.poll(), Ok(Batch::Ended)));
}

#[tokio::test]
async fn a_journal_that_fails_undoes_what_it_does_not_have() {
    let (store, observer) = with_journal();
    let undone = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&undone);
    store.on_undo(move |events| told.lock().unwrap().extend(events.iter().map(|(_, e)| e.revision)));
    let kept = store.create("things", "kept", draft("kept", 1)).unwrap();
    let gone = store.create("things", "gone", draft("gone", 1)).unwrap();
    observer.durable(gone.revision());
    let changed = store.update("things", "kept", kept.revision(), draft("kept", 2)).unwrap();
    let again = store.update("things", "kept", changed.revision(), draft("kept", 3)).unwrap();
    let (_, deleted) = store.delete("things", "gone", gone.revision()).unwrap();
    let new = store.create("other", "new", draft("new", 1)).unwrap();

    let Undone { through, records } = observer.failed("the disk is full");
    assert_eq!(through, new.revision());
    assert_eq!(*undone.lock().unwrap(), [new.revision(), deleted, again.revision(), changed.revision()]);
    let former: Vec<_> = records.iter().map(|r| (r.key.as_str(), r.revision, r.object.is_some())).collect();
    assert_eq!(
        former,
        [("new", new.revision(), false), ("gone", gone.revision(), true), ("kept", kept.revision(), true)]
    );
    assert_eq!(store.get("things", "kept").unwrap().revision(), kept.revision());
    assert!(store.get("things", "gone").is_some() && store.get("other", "new").is_none());
    assert!(store.durable(kept.revision()).await.is_ok());
    assert!(store.durable(again.revision()).await.unwrap_err().to_string().contains("the disk is full"));
    assert_eq!(store.failure().as_deref(), Some("the disk is full"));

    // Revisions of writes that were rolled back are not reused.
    observer.recovered();
    let next = store.create("other", "new", draft("new", 2)).unwrap();
    assert!(next.revision() > new.revision() && store.failure().is_none());
    observer.durable(next.revision());
    assert!(store.durable(new.revision()).await.is_err() && store.durable(next.revision()).await.is_ok());
    let mut cursor = store.follow("other", gone.revision()).unwrap();
    assert!(matches!(cursor.poll(), Ok(Batch::Events(events)) if events.len() == 1));
}
