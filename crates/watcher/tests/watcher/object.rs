//! One object, by name.

use kube::ResourceExt as _;
use steersman_watcher::watch_object;

use crate::{
    Answer, brief_error, from, rest,
    server::{
        Answer::{Events, Refused},
        End, Server, added, deleted, error, list, map, modified,
    },
};

async fn states(script: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    let server = Server::new(script);
    let seen = rest(watch_object(server.api(), "a"), |state| match state {
        Ok(Some(map)) => map.resource_version().unwrap_or_default(),
        Ok(None) => "none".into(),
        Err(error) => brief_error(&error),
    })
    .await;
    (seen, server.requests())
}

#[tokio::test(start_paused = true)]
async fn an_object_is_there_or_not_from_the_start() {
    assert_eq!(states(vec![list("5", &[])]).await.0, ["none"]);
    assert_eq!(states(vec![list("5", &[map("a", "1")])]).await.0, ["1"]);
}

#[tokio::test(start_paused = true)]
async fn the_object_is_selected_by_its_name() {
    let (_, requests) = states(vec![list("5", &[])]).await;
    let field = "fieldSelector=metadata.name%3Da";
    let watch = from("5").replace("&allow", &format!("&{field}&allow"));
    assert_eq!(requests, [format!("{field}&limit=500"), watch]);
}

#[tokio::test(start_paused = true)]
async fn deletion_and_re_creation_are_seen() {
    let events = vec![modified("a", "6"), deleted("a", "7"), added("a", "8"), deleted("a", "9")];
    let (seen, _) = states(vec![list("5", &[map("a", "1")]), Events(events, End::Open)]).await;
    assert_eq!(seen, ["1", "6", "none", "8", "none"]);
}

#[tokio::test(start_paused = true)]
async fn what_happened_before_a_new_list_is_seen() {
    let gone = || Events(vec![error(410)], End::Closed);
    let script = vec![
        list("5", &[map("a", "1")]),
        gone(),
        list("6", &[]),
        Refused(500),
        gone(),
        list("7", &[map("a", "7")]),
    ];
    let (seen, _) = states(script).await;
    assert_eq!(seen, ["1", "watch error 410", "none", "watch refused 500", "watch error 410", "7"]);
}
