//! Server-sent events.

use serde_json::json;

use crate::support::{EDITOR, Place, SHOPS, VIEWER, shop};

fn pair(event: &str, name: &str) -> (String, String) {
    (event.to_owned(), name.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_arrive_and_a_stream_goes_on_where_it_was() {
    let place = Place::new().await;
    place.post(EDITOR, SHOPS, &shop("apple", 1)).await.expect(201);
    let mut events = place.events(VIEWER, SHOPS, None).await;
    assert_eq!(events.change().await, pair("ADDED", "apple"));
    let sync = events.next().await.unwrap();
    assert_eq!(sync.event, "sync");
    assert!(sync.id.is_some());

    place.patch(EDITOR, &format!("{SHOPS}/apple"), &json!({"spec": {"replicas": 2}})).await.expect(200);
    let changed = events.next().await.unwrap();
    assert_eq!(changed.data["type"], "MODIFIED");
    assert_eq!(changed.data["item"]["cells"][0], 2);
    assert_eq!(changed.id.as_deref(), changed.data["item"]["object"]["metadata"]["resourceVersion"].as_str());
    drop(events);

    place.post(EDITOR, SHOPS, &shop("berry", 1)).await.expect(201);
    place.delete(EDITOR, &format!("{SHOPS}/apple")).await.expect(200);
    let mut events = place.events(VIEWER, SHOPS, changed.id.as_deref()).await;
    assert_eq!(events.change().await, pair("ADDED", "berry"), "nothing twice, nothing lost");
    assert_eq!(events.change().await, pair("DELETED", "apple"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_leaves_the_filter_is_gone() {
    let place = Place::new().await;
    let mut events = place.events(VIEWER, &format!("{SHOPS}?filter=spec.replicas%3E1"), None).await;
    assert_eq!(events.next().await.unwrap().event, "sync");
    place.post(EDITOR, SHOPS, &shop("apple", 1)).await.expect(201);
    let one = format!("{SHOPS}/apple");
    for replicas in [2, 3, 1] {
        place.patch(EDITOR, &one, &json!({"spec": {"replicas": replicas}})).await.expect(200);
    }
    assert_eq!(events.change().await, pair("ADDED", "apple"));
    assert_eq!(events.change().await, pair("MODIFIED", "apple"));
    assert_eq!(events.change().await, pair("DELETED", "apple"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_instance_is_watched_alone() {
    let place = Place::new().await;
    let mut events = place.events(VIEWER, &format!("{SHOPS}/apple"), None).await;
    assert_eq!(events.next().await.unwrap().event, "sync");
    place.post(EDITOR, SHOPS, &shop("berry", 1)).await.expect(201);
    place.post(EDITOR, SHOPS, &shop("apple", 1)).await.expect(201);
    assert_eq!(events.change().await, pair("ADDED", "apple"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_sent_again_when_it_changes() {
    let place = Place::new().await;
    place.post(EDITOR, SHOPS, &shop("apple", 1)).await.expect(201);
    let mut events = place.events(VIEWER, &format!("{SHOPS}/apple/tree"), None).await;
    let tree = events.next().await.unwrap();
    assert_eq!((tree.event.as_str(), &tree.data["root"]["health"]["status"]), ("tree", &json!("unknown")));
    assert!(tree.data["denied"].as_array().unwrap().contains(&json!("pods")));
    let looks = place.reads("viewer");
    // Objects outside the tree do not cause it to be read again.
    for number in 0..3 {
        place.post(EDITOR, SHOPS, &shop(&format!("berry-{number}"), 1)).await.expect(201);
    }
    place.report("apple", &json!({"conditions": [{"type": "Ready", "status": "True"}]})).await;
    let tree = events.next().await.unwrap();
    assert_eq!(tree.data["root"]["health"]["status"], "ready");
    assert_eq!(place.reads("viewer"), looks.map(|looks| looks + 1), "looked at once, for the change");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_resumes_too_late_starts_anew() {
    let place = Place::new().await;
    place.post(EDITOR, SHOPS, &shop("apple", 1)).await.expect(201);
    let headers =
        [("authorization", "Bearer viewer-token"), ("accept", "text/event-stream"), ("last-event-id", "a b")];
    assert_eq!(place.raw("GET", SHOPS, &headers, b"").await.status, 400);
    let ahead = place.events(VIEWER, SHOPS, Some("1")).await.next().await.unwrap();
    assert!(["reset", "change"].contains(&ahead.event.as_str()), "{ahead:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_caller_share_a_watch_and_each_sees_all() {
    let place = Place::new().await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(place.events(VIEWER, SHOPS, None).await);
    }
    for events in &mut all {
        assert_eq!(events.next().await.unwrap().event, "sync");
    }
    place.post(EDITOR, SHOPS, &shop("apple", 1)).await.expect(201);
    let mut last = None;
    for events in &mut all {
        let frame = events.next().await.unwrap();
        assert_eq!(frame.data["item"]["object"]["metadata"]["name"], "apple");
        last = frame.id;
    }
    // A stream that joins the watch later, at the position of another one.
    place.post(EDITOR, SHOPS, &shop("berry", 1)).await.expect(201);
    assert_eq!(all[0].change().await, pair("ADDED", "berry"));
    let mut resumed = place.events(VIEWER, SHOPS, last.as_deref()).await;
    assert_eq!(resumed.change().await, pair("ADDED", "berry"));
    // One that shows other fields of the same watch.
    let mut short = place.events(VIEWER, &format!("{SHOPS}?fields=spec.version"), last.as_deref()).await;
    let frame = short.next().await.unwrap();
    assert_eq!(frame.data["item"]["object"]["spec"], json!(null), "{frame:?}");
    assert_eq!(place.watches("viewer").unwrap_or(1), 1);
    // Credentials are part of the key: another user's stream opens its own watch.
    let mut others = place.events(EDITOR, SHOPS, last.as_deref()).await;
    assert_eq!(others.change().await, pair("ADDED", "berry"));
    assert_eq!(place.watches("viewer").zip(place.watches("editor")).unwrap_or((1, 1)), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_open_does_not_let_in_who_may_no_longer_watch() {
    let place = Place::new().await;
    let mut open = place.events(VIEWER, SHOPS, None).await;
    let at = open.next().await.unwrap().id.unwrap();
    let binding = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/viewer";
    let request = http::Request::delete(binding).body(Vec::new()).unwrap();
    let _: serde_json::Value = place.client().request(request).await.unwrap();
    let headers =
        [("authorization", "Bearer viewer-token"), ("accept", "text/event-stream"), ("last-event-id", &at)];
    assert_eq!(place.raw("GET", SHOPS, &headers, b"").await.status, 403);
    // Other users' streams are not affected.
    let mut others = place.events(EDITOR, SHOPS, Some(&at)).await;
    place.post(EDITOR, SHOPS, &shop("apple", 1)).await.expect(201);
    assert_eq!(others.change().await, pair("ADDED", "apple"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_falls_behind_and_misses_nothing() {
    const CHANGES: u64 = 1000;
    let place = Place::new().await;
    place.post(EDITOR, SHOPS, &shop("apple", 1)).await.expect(201);
    let mut slow = place.events(VIEWER, SHOPS, None).await;
    assert_eq!(slow.change().await, pair("ADDED", "apple"));
    assert_eq!(slow.next().await.unwrap().event, "sync");
    // More than the socket buffers and the shared watch hold while nothing is read.
    let padding = "x".repeat(10_000);
    for number in 1..=CHANGES {
        place.report("apple", &json!({"number": number, "padding": padding})).await;
    }
    for number in 1..=CHANGES {
        let frame = slow.next().await.expect("the stream ended");
        assert_eq!(frame.data["item"]["object"]["status"]["number"], number, "{}", frame.event);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_their_session() {
    let place = Place::new().await;
    place.post(EDITOR, SHOPS, &shop("apple", 1)).await.expect(201);
    let json = ("content-type", "application/json");
    let body = json!({"token": VIEWER}).to_string();
    let answer = place.raw("POST", "/v1/session", &[json], body.as_bytes()).await;
    let csrf = answer.expect(201)["csrfToken"].as_str().unwrap().to_owned();
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let cookie = ("cookie", cookie.as_str());
    let mut list = place.events_with(SHOPS, &[cookie]).await;
    assert_eq!(list.change().await, pair("ADDED", "apple"));
    assert_eq!(list.next().await.unwrap().event, "sync");
    let mut tree = place.events_with(&format!("{SHOPS}/apple/tree"), &[cookie]).await;
    assert_eq!(tree.next().await.unwrap().event, "tree");
    // Another session of the same user shares the watch, and remains open.
    let mut other = place.events(VIEWER, SHOPS, None).await;
    assert_eq!(other.change().await, pair("ADDED", "apple"));
    assert_eq!(other.next().await.unwrap().event, "sync");

    let signed_out = place.raw("DELETE", "/v1/session", &[cookie, ("x-csrf-token", &csrf)], b"").await;
    assert_eq!(signed_out.status, 204);
    for stream in [&mut list, &mut tree] {
        let problem = stream.next().await.unwrap();
        assert_eq!((problem.event.as_str(), &problem.data["status"]), ("problem", &json!(401)));
        assert!(stream.next().await.is_none());
    }
    place.post(EDITOR, SHOPS, &shop("berry", 1)).await.expect(201);
    assert_eq!(other.change().await, pair("ADDED", "berry"));
}
