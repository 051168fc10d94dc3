//! Many objects and many watchers.
//!
//! No watcher misses a change or observes two in the wrong order, and one that is too slow gets an error.

use std::collections::BTreeMap;

use futures::{AsyncBufReadExt as _, StreamExt as _, stream::FuturesUnordered};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
};
use steersman_api::store::History;
use steersman_apiserver::Server;
use steersman_cluster::Cluster;

const END: &str = "the-end";

fn map(name: &str, value: usize) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("value".to_owned(), value.to_string())])),
        ..ConfigMap::default()
    }
}

/// The changes that a watcher observed: kind of change, name and version.
type Seen = Vec<(String, String, u64)>;

/// Returns the string after `before` in a line, up to the next quote; faster than parsing the line.
fn between<'a>(line: &'a str, before: &str) -> &'a str {
    let start = line.find(before).map_or(line.len(), |at| at + before.len());
    line[start..].split('"').next().unwrap_or_default()
}

/// Watches from a version until the last object is observed.
async fn follow(client: Client, from: String) -> Seen {
    let uri = format!("/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={from}");
    let lines = client.request_stream(Request::get(uri).body(Vec::new()).unwrap()).await.unwrap().lines();
    let mut lines = std::pin::pin!(lines);
    let mut seen = Seen::new();
    while let Some(line) = lines.next().await {
        let line = line.unwrap();
        let name = between(&line, r#""name":""#).to_owned();
        let version = between(&line, r#""resourceVersion":""#).parse().unwrap();
        let last = name == END;
        seen.push((between(&line, r#"{"type":""#).to_owned(), name, version));
        if last {
            return seen;
        }
    }
    panic!("the watch ended early, after {} changes", seen.len());
}

/// Writes its own objects, in an order determined by the seed.
async fn write(client: Client, writer: usize, objects: usize) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut state = writer as u64 + 1;
    for number in 0..objects {
        let name = format!("w{writer}-{number}");
        maps.create(&PostParams::default(), &map(&name, 0)).await.unwrap();
        // A linear congruential generator: repeatable, and random enough to choose.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match (state >> 33) % 4 {
            0 => {
                maps.delete(&name, &DeleteParams::default()).await.unwrap();
                maps.create(&PostParams::default(), &map(&name, 1)).await.unwrap();
            }
            1 => {
                maps.replace(&name, &PostParams::default(), &map(&name, 2)).await.unwrap();
            }
            2 => {
                maps.replace(&name, &PostParams::default(), &map(&name, 3)).await.unwrap();
                maps.delete(&name, &DeleteParams::default()).await.unwrap();
            }
            _ => {}
        }
    }
}

async fn no_watcher_misses_a_change(objects: usize, watchers: usize) {
    const WRITERS: usize = 8;
    let cluster = Cluster::builder().workloads(false).start().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let before = maps.list(&ListParams::default()).await.unwrap();
    let from = before.metadata.resource_version.unwrap();
    let following: FuturesUnordered<_> =
        (0..watchers).map(|_| tokio::spawn(follow(cluster.client(), from.clone()))).collect();
    let writing: FuturesUnordered<_> =
        (0..WRITERS).map(|writer| tokio::spawn(write(cluster.client(), writer, objects / WRITERS))).collect();
    writing.for_each(|done| async { done.unwrap() }).await;
    maps.create(&PostParams::default(), &map(END, 0)).await.unwrap();
    let all: Vec<Seen> = following.map(Result::unwrap).collect().await;
    let first = &all[0];
    assert!(first.len() > objects, "{} changes", first.len());
    assert!(first.windows(2).all(|pair| pair[0].2 < pair[1].2), "changes came in the wrong order");
    assert!(all.iter().all(|seen| seen == first), "two watchers saw different histories");
    let mut state: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, name, version) in first {
        let old = match kind.as_str() {
            "DELETED" => state.remove(name.as_str()),
            _ => state.insert(name, *version),
        };
        assert_eq!(old.is_none(), kind == "ADDED", "{kind} {name} at {version}");
    }
    let present = maps.list(&ListParams::default()).await.unwrap().items;
    let present: BTreeMap<String, u64> =
        present.iter().map(|m| (m.name_any(), m.resource_version().unwrap().parse().unwrap())).collect();
    let replayed: BTreeMap<String, u64> = state.into_iter().map(|(name, v)| (name.to_owned(), v)).collect();
    assert_eq!(present, replayed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_see_every_change_in_order() {
    no_watcher_misses_a_change(400, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ten thousand objects and a hundred watchers take a minute without optimisation"]
async fn a_hundred_watchers_see_every_change_of_ten_thousand_objects() {
    no_watcher_misses_a_change(10_000, 100).await;
}

#[tokio::test]
async fn who_is_too_slow_is_told_to_start_over() {
    let server = Server::builder().history(History { events: 50, ..History::default() }).build();
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let from = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let uri = format!("/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={from}");
    let request = || Request::get(uri.as_str()).body(Vec::new()).unwrap();
    let slow = client.request_stream(request()).await.unwrap().lines();
    for number in 0..200 {
        maps.create(&PostParams::default(), &map(&format!("m-{number}"), 0)).await.unwrap();
    }
    for watch in [slow, client.request_stream(request()).await.unwrap().lines()] {
        let lines: Vec<String> = watch.map(Result::unwrap).collect().await;
        let last: serde_json::Value = serde_json::from_str(lines.last().unwrap()).unwrap();
        assert_eq!((&last["type"], &last["object"]["code"]), (&"ERROR".into(), &410.into()), "{last}");
        assert!(lines.len() < 60, "nothing is kept for a client that does not read");
    }
}
