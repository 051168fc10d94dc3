//! Watches: a replayed watch always results in the listed state.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apiserver::{AllowAll, Body, History, SeededEnvironment, Server, Service, User};
use tower_service::Service as _;

async fn send(service: &Service, method: &str, path: &str, body: Value) -> Response<Body> {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    service.clone().call(request.body(Full::new(bytes)).unwrap()).await.unwrap()
}

async fn json_of(response: Response<Body>) -> Value {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// The objects that match `selector`, by name, as a list shows them.
async fn listed(service: &Service, selector: &str) -> BTreeMap<String, String> {
    let list =
        json_of(send(service, "GET", &format!("{PATH}?labelSelector={selector}"), Value::Null).await).await;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|i| (text(i, "name"), text(i, "resourceVersion"))).collect()
}

fn text(object: &Value, key: &str) -> String {
    object["metadata"][key].as_str().unwrap_or_default().to_owned()
}

/// Follows a watch until it has seen everything up to `until`, and checks each event on the way.
async fn replay(mut body: Body, until: u64) -> BTreeMap<String, String> {
    let mut state: BTreeMap<String, String> = BTreeMap::new();
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut last = 0;
    while last < until {
        let Some(frame) = body.frame().await else { panic!("ended at {last} before {until}") };
        let event: Value = serde_json::from_slice(&frame.unwrap().into_data().unwrap()).unwrap();
        let (name, version) = (text(&event["object"], "name"), text(&event["object"], "resourceVersion"));
        let revision: u64 = version.parse().unwrap();
        last = last.max(revision);
        if event["type"] == "BOOKMARK" {
            continue;
        }
        let before = seen.insert(name.clone(), revision);
        assert!(before.is_none_or(|b| b < revision), "{name}: {revision} after {before:?}");
        match event["type"].as_str().unwrap() {
            "ADDED" => assert!(state.insert(name, version).is_none(), "added twice"),
            "MODIFIED" => assert!(state.insert(name, version).is_some(), "modified before added"),
            "DELETED" => assert!(state.remove(&name).is_some(), "deleted before added"),
            other => panic!("{other}"),
        }
    }
    state
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_watcher_misses_or_reorders_anything() {
    let server = Server::default();
    let service = server.service();
    let mut generator = fastrand::Rng::with_seed(11);
    let selectors = ["", "c%3Dred", "c%21%3Dred", "c+in+(red,blue)"];
    let mut watches = Vec::new();
    let writer = {
        let service = service.clone();
        tokio::spawn(async move {
            for _ in 0..800 {
                let name = format!("o{}", generator.u8(..40));
                let color = ["red", "blue", "green"][generator.usize(..3)];
                let labels = json!({"metadata": {"name": name, "labels": {"c": color}}, "data": {"n": generator.u64(..).to_string()}});
                match generator.u8(..4) {
                    0 => send(&service, "DELETE", &format!("{PATH}/{name}"), Value::Null).await,
                    1 => send(&service, "POST", PATH, labels).await,
                    _ => send(&service, "PATCH", &format!("{PATH}/{name}"), labels).await,
                };
                tokio::task::yield_now().await;
            }
        })
    };
    for index in 0..40 {
        let selector = selectors[index % selectors.len()];
        let path =
            format!("{PATH}?watch=1&labelSelector={selector}&allowWatchBookmarks=true&timeoutSeconds=30");
        watches.push((selector, send(&service, "GET", &path, Value::Null).await.into_body()));
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
    // A final object, which every selector matches at some point, ends all watches.
    for color in ["red", "blue"] {
        let end = json!({"metadata": {"name": "end", "labels": {"c": color}}});
        if color == "red" {
            send(&service, "POST", PATH, end).await;
        } else {
            send(&service, "PATCH", &format!("{PATH}/end"), end).await;
        }
    }
    let until = server.store().revision();
    for (selector, body) in watches {
        let expected = listed(&service, selector).await;
        assert_eq!(replay(body, until).await, expected, "{selector}");
    }
}

#[tokio::test]
async fn a_slow_watcher_is_cut_with_410() {
    let server = Server::builder().history(History { events: 50, bytes: usize::MAX }).build();
    let service = server.service();
    let mut slow = send(
        &service,
        "GET",
        &format!("{PATH}?watch=1&resourceVersion={}", server.store().revision()),
        Value::Null,
    )
    .await
    .into_body();
    for i in 0..200 {
        send(&service, "POST", PATH, json!({"metadata": {"name": format!("o{i}")}})).await;
    }
    let frame = slow.frame().await.unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(&frame).unwrap();
    assert_eq!((event["type"].as_str(), event["object"]["code"].as_u64()), (Some("ERROR"), Some(410)));
    assert_eq!(event["object"]["reason"], "Expired");
    assert!(slow.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn bookmarks_and_ends_follow_the_virtual_clock() {
    let service = Server::default().service();
    let path = format!("{PATH}?watch=1&allowWatchBookmarks=true&timeoutSeconds=130");
    let mut body = send(&service, "GET", &path, Value::Null).await.into_body();
    let mut bookmarks = 0;
    while let Some(frame) = body.frame().await {
        let event: Value = serde_json::from_slice(&frame.unwrap().into_data().unwrap()).unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        bookmarks += 1;
    }
    assert_eq!(bookmarks, 3);
}

#[tokio::test]
async fn watches_of_one_user_can_be_ended() {
    let server = Server::builder().authorizer(AllowAll).build();
    let service = server.service();
    let watch = async |user: &str| {
        let request = Request::get(format!("{PATH}?watch=1")).extension(User::named(user, []));
        let answer = service.clone().call(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
        answer.into_body()
    };
    let (mut ada, mut bob) = (watch("ada").await, watch("bob").await);
    server.end_watches("ada");
    send(&service, "POST", PATH, json!({"metadata": {"name": "a"}})).await;
    let seen = bob.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(seen.starts_with(br#"{"type":"ADDED""#), "{seen:?}");
    // Events from before the end may still arrive.
    while ada.frame().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn a_seeded_server_repeats_itself() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let server = Server::builder().environment(SeededEnvironment::new(start, 42)).build();
        let service = Arc::new(server.service());
        for _ in 0..5 {
            send(&service, "POST", PATH, json!({"metadata": {"generateName": "g-"}})).await;
            tokio::time::advance(std::time::Duration::from_secs(7)).await;
        }
        let service_path = "/api/v1/namespaces/default/services";
        send(
            &service,
            "POST",
            service_path,
            json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}),
        )
        .await;
        runs.push((
            json_of(send(&service, "GET", PATH, Value::Null).await).await,
            json_of(send(&service, "GET", service_path, Value::Null).await).await,
        ));
    }
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0].0["items"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn a_watch_of_metadata_has_the_metadata_of_each_event_and_nothing_else() {
    let server = Server::default();
    let service = server.service();
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let request = |accept: Option<&str>| {
        let path = format!("{PATH}?watch=true&resourceVersion=1");
        let request = Request::builder().uri(path);
        let request = accept.into_iter().fold(request, |request, accept| request.header("accept", accept));
        request.body(Full::new(Bytes::new())).unwrap()
    };
    let mut whole = service.clone().call(request(None)).await.unwrap().into_body();
    let mut partial = service.clone().call(request(Some(accept))).await.unwrap().into_body();
    let object =
        json!({"metadata": {"name": "one", "annotations": {"a": "\"\\<>"}}, "data": {"metadata": "no"}});
    send(&service, "POST", PATH, object).await;
    send(&service, "PATCH", &format!("{PATH}/one"), json!({"data": {"n": "1"}})).await;
    send(&service, "DELETE", &format!("{PATH}/one"), Value::Null).await;
    for kind in ["ADDED", "MODIFIED", "DELETED"] {
        let mut events = Vec::new();
        for body in [&mut whole, &mut partial] {
            let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(frame.ends_with(b"\n"));
            events.push(serde_json::from_slice::<Value>(&frame).unwrap());
        }
        let metadata = &events[0]["object"]["metadata"];
        assert_eq!(metadata["name"], "one");
        let object =
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
        assert_eq!(events[1], json!({"type": kind, "object": object}));
    }
}
