//! Watches after a list: where they resume, and what causes a new list.

use serde_json::json;

use crate::{
    LIST, from, paged,
    server::{
        Answer::{Events, Refused, Unreachable},
        End, added, bookmark, deleted, error, list, map, modified, status,
    },
};

/// What follows a list at version 5.
async fn after_list(script: Vec<crate::Answer>) -> (Vec<String>, Vec<String>) {
    let script = [vec![list("5", &[])], script].concat();
    let (seen, requests) = paged(script).await;
    assert_eq!(
        (&seen[..2], &requests[..2]),
        (&["init".into(), "init-done".into()][..], &[LIST.into(), from("5")][..])
    );
    (seen[2..].to_vec(), requests[2..].to_vec())
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_resumes_at_its_last_event() {
    for (last, version, event) in [
        (added("a", "6"), "6", Some("apply a@6")),
        (modified("a", "7"), "7", Some("apply a@7")),
        (deleted("a", "8"), "8", Some("delete a@8")),
        (bookmark("9"), "9", None),
        (bookmark(""), "5", None),
    ] {
        let (seen, requests) = after_list(vec![Events(vec![last], End::Closed)]).await;
        assert_eq!(seen, event.into_iter().collect::<Vec<_>>());
        assert_eq!(requests, [from(version)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_resumes_at_its_last_event() {
    let script = vec![Events(vec![added("a", "6")], End::Broken), Events(vec![added("b", "7")], End::Open)];
    let (seen, requests) = after_list(script).await;
    assert_eq!(seen, ["apply a@6", "watch failed", "apply b@7"]);
    assert_eq!(requests, [from("6")]);
}

#[tokio::test(start_paused = true)]
async fn an_error_event_is_followed_by_a_watch_from_the_last_version() {
    let script = vec![Events(vec![added("a", "6"), error(500)], End::Open), Events(vec![], End::Open)];
    let (seen, requests) = after_list(script).await;
    assert_eq!(seen, ["apply a@6", "watch error 500"]);
    assert_eq!(requests, [from("6")]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_is_requested_again_from_the_same_version() {
    let script = vec![Refused(500), Unreachable, Refused(403), Events(vec![added("a", "6")], End::Open)];
    let (seen, requests) = after_list(script).await;
    assert_eq!(seen, ["watch refused 500", "watch refused", "watch refused 403", "apply a@6"]);
    assert_eq!(requests, [from("5"), from("5"), from("5")]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_leads_to_a_new_list() {
    for (gone, expected) in [
        (Refused(410), "watch refused 410"),
        (Events(vec![error(410), added("late", "6")], End::Open), "watch error 410"),
        (Events(vec![status(410), added("late", "6")], End::Open), "watch failed 410"),
    ] {
        let (seen, requests) = after_list(vec![gone, list("9", &[map("a", "8")])]).await;
        assert_eq!(seen, [expected, "init", "init-apply a@8", "init-done"]);
        assert_eq!(requests, [LIST, &from("9")]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_version_leads_to_a_new_list() {
    let script = vec![Events(vec![added("a", ""), added("b", "6")], End::Open), list("9", &[])];
    let (seen, requests) = after_list(script).await;
    assert_eq!(seen, ["no version", "init", "init-done"]);
    assert_eq!(requests, [LIST, &from("9")]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_decoded_is_skipped() {
    for (undecodable, expected) in [
        (json!({"type": "ADDED", "object": {"metadata": 7}}), "watch failed 0"),
        (json!("text"), "watch failed"),
    ] {
        let events = vec![added("a", "6"), undecodable, added("b", "8")];
        let (seen, requests) = after_list(vec![Events(events, End::Closed)]).await;
        assert_eq!(seen, ["apply a@6", expected, "apply b@8"]);
        assert_eq!(requests, [from("8")]);
    }
}
