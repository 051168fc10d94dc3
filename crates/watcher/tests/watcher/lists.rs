//! Lists, in pages and as streams.

use std::error::Error as _;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_watcher::{Config, watcher};

use crate::{
    LIST, STREAM, brief, from, paged, rest, run,
    server::{
        Answer::{Body, Events, Refused, Unreachable},
        End, Server, added, bookmark, deleted, end_of_list, error, list, map, modified, page,
    },
    streaming,
};

#[tokio::test(start_paused = true)]
async fn a_list_in_pages_is_followed_by_a_watch_from_its_version() {
    let script = vec![
        page("5", &[map("a", "1"), map("b", "2")], "t"),
        page("5", &[], "u"),
        page("5", &[map("c", "3")], ""),
        Events(vec![added("d", "6")], End::Open),
    ];
    let (seen, requests) = paged(script).await;
    assert_eq!(
        seen,
        ["init", "init-apply a@1", "init-apply b@2", "init-apply c@3", "init-done", "apply d@6"]
    );
    assert_eq!(requests, [LIST, "limit=500&continue=t", "limit=500&continue=u", &from("5")]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_restarts_the_list_without_pages() {
    let script = vec![
        page("5", &[map("a", "1")], "t"),
        Refused(410),
        Refused(500),
        list("6", &[map("b", "2")]),
        Events(vec![error(410)], End::Closed),
        list("7", &[]),
    ];
    let (seen, requests) = paged(script).await;
    let first = ["init", "init-apply a@1", "list failed 410", "list failed 500"];
    let second = ["init", "init-apply b@2", "init-done", "watch error 410", "init", "init-done"];
    assert_eq!(seen, [&first[..], &second].concat());
    // The last list is paged again.
    let expected = [LIST, "limit=500&continue=t", "", "", &from("6"), LIST, &from("7")];
    assert_eq!(requests, expected);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_restarts_the_list() {
    let script = vec![page("5", &[map("a", "1")], "t"), Refused(500), list("6", &[map("b", "6")])];
    let (seen, requests) = paged(script).await;
    let expected = ["init", "init-apply a@1", "list failed 500", "init", "init-apply b@6", "init-done"];
    assert_eq!(seen, expected);
    assert_eq!(requests, [LIST, "limit=500&continue=t", LIST, &from("6")]);
}

#[tokio::test(start_paused = true)]
async fn nothing_but_errors_is_seen_until_a_list_is_answered() {
    let (seen, requests) = paged(vec![Refused(500), Unreachable, list("5", &[])]).await;
    assert_eq!(seen, ["list failed 500", "list failed", "init", "init-done"]);
    assert_eq!(requests, [LIST, LIST, LIST, &from("5")]);

    let script = vec![Refused(422), Unreachable, Events(vec![end_of_list("5")], End::Closed)];
    let (seen, requests) = streaming(script).await;
    assert_eq!(seen, ["watch refused 422", "watch refused", "init", "init-done"]);
    assert_eq!(requests, [STREAM, STREAM, STREAM, &from("5")]);
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_is_requested_again() {
    let (seen, requests) = paged(vec![list("", &[]), list("5", &[])]).await;
    assert_eq!(seen, ["no version", "init", "init-done"]);
    assert_eq!(requests, [LIST, LIST, &from("5")]);

    let ended = |version| Events(vec![added("a", "1"), end_of_list(version)], End::Closed);
    let (seen, requests) = streaming(vec![ended(""), ended("5")]).await;
    let expected = ["init", "init-apply a@1", "no version", "init", "init-apply a@1", "init-done"];
    assert_eq!(seen, expected);
    assert_eq!(requests, [STREAM, STREAM, &from("5")]);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_its_bookmark_and_becomes_the_watch() {
    let initial = [added("a", "1"), added("b", "2"), bookmark("3"), modified("a", "4"), deleted("b", "5")];
    let events = [&initial[..], &[end_of_list("6"), added("c", "7")]].concat();
    let (seen, requests) = streaming(vec![Events(events, End::Closed)]).await;
    let list = ["init", "init-apply a@1", "init-apply b@2", "init-apply a@4", "delete b@5", "init-done"];
    assert_eq!(seen, [&list[..], &["apply c@7"]].concat());
    assert_eq!(requests, [STREAM, &from("7")]);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_that_says_the_list_goes_on_does_not_end_it() {
    let mut bookmark = end_of_list("5");
    bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] = json!("false");
    let events = vec![bookmark, added("a", "1"), end_of_list("6")];
    let (seen, _) = streaming(vec![Events(events, End::Open)]).await;
    assert_eq!(seen, ["init", "init-apply a@1", "init-done"]);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_breaks_off_restarts() {
    let undecodable = json!({"type": "ADDED", "object": {"metadata": 7}});
    let ways = [
        (Events(vec![added("a", "1")], End::Closed), "watch failed"),
        (Events(vec![added("a", "1")], End::Broken), "watch failed"),
        (Events(vec![added("a", "1"), error(500), end_of_list("3")], End::Open), "watch error 500"),
        (Events(vec![added("a", "1"), error(410)], End::Open), "watch error 410"),
        (Events(vec![added("a", "1"), undecodable, end_of_list("3")], End::Open), "watch failed 0"),
    ];
    for (broken, expected) in ways {
        let (seen, requests) = streaming(vec![broken, Events(vec![end_of_list("5")], End::Closed)]).await;
        assert_eq!(seen, ["init", "init-apply a@1", expected, "init", "init-done"]);
        assert_eq!(requests, [STREAM, STREAM, &from("5")], "{expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn selectors_timeouts_and_pages_are_part_of_the_requests() {
    let config = Config {
        label_selector: Some("app=web".into()),
        field_selector: Some("metadata.name=one".into()),
        timeout: Some(60),
        page_size: Some(2),
        ..Config::default()
    };
    let script = vec![page("5", &[], "t"), list("5", &[])];
    let (_, requests) = run(config.clone(), script).await;
    let selected = "fieldSelector=metadata.name%3Done&labelSelector=app%3Dweb";
    let watch = format!("watch=true&timeoutSeconds=60&{selected}&allowWatchBookmarks=true&resourceVersion=5");
    let list_of = |rest| format!("{selected}{rest}");
    assert_eq!(requests, [list_of("&limit=2"), list_of("&limit=2&continue=t"), watch]);

    let (_, requests) = run(Config { page_size: None, ..config }, vec![list("5", &[])]).await;
    assert_eq!(requests[0], selected);
}

#[tokio::test(start_paused = true)]
async fn errors_have_their_source() {
    let server = Server::new([Body(json!({"items": 7}))]);
    let seen = rest(watcher(server.api(), Config::default()), |event| match event {
        Ok(_) => String::new(),
        Err(error) => {
            let source = error.source().map(ToString::to_string).unwrap_or_default();
            assert!(!source.is_empty() && error.to_string().ends_with(&source), "{error}");
            brief::<ConfigMap>(Err(error))
        }
    })
    .await;
    assert_eq!(seen, ["list failed"]);
}
