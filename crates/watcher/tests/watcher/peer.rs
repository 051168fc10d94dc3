//! The same scripts against kube-runtime's watcher: equal events and requests where both agree on what is right.

use futures_util::StreamExt as _;
use kube::runtime::watcher as peer;
use steersman_watcher::{Config, Error, Event, InitialList, watcher};

use crate::{
    brief, rest,
    server::{
        Answer::{self, Events, Refused, Unreachable},
        End, Server, added, bookmark, deleted, end_of_list, error, list, map, modified, page,
    },
};

/// Converts an event of kube-runtime's watcher to ours.
fn event<K>(event: peer::Result<peer::Event<K>>) -> Result<Event<K>, Error> {
    event
        .map(|event| match event {
            peer::Event::Init => Event::Init,
            peer::Event::InitApply(object) => Event::InitApply(object),
            peer::Event::InitDone => Event::InitDone,
            peer::Event::Apply(object) => Event::Apply(object),
            peer::Event::Delete(object) => Event::Delete(object),
        })
        .map_err(|error| match error {
            peer::Error::InitialListFailed(error) => Error::InitialListFailed(error),
            peer::Error::WatchStartFailed(error) => Error::WatchStartFailed(error),
            peer::Error::WatchFailed(error) => Error::WatchFailed(error),
            peer::Error::WatchError(status) => Error::WatchError(status),
            peer::Error::NoResourceVersion => Error::NoResourceVersion,
        })
}

async fn compare(initial_list: InitialList, script: Vec<Answer>) {
    let (ours, theirs) = (Server::new(script.clone()), Server::new(script));
    let config = Config { initial_list, ..Config::default() };
    let peers = match initial_list {
        InitialList::Paged => peer::Config::default(),
        InitialList::Streaming => peer::Config::default().streaming_lists(),
    };
    let seen = rest(watcher(ours.api(), config), brief).await;
    let expected = rest(peer::watcher(theirs.api(), peers).map(event), brief).await;
    assert_eq!(seen, expected);
    assert_eq!(ours.requests(), theirs.requests());
}

#[tokio::test(start_paused = true)]
async fn pages_watches_and_failures_are_those_of_kube_runtime() {
    let script = vec![
        page("5", &[map("a", "1")], "t"),
        page("5", &[map("b", "2")], ""),
        Events(vec![added("c", "6"), modified("a", "7"), deleted("b", "8"), bookmark("9")], End::Closed),
        Refused(500),
        Unreachable,
        Events(vec![added("d", "10")], End::Broken),
        Events(vec![error(500)], End::Closed),
        Events(vec![error(410)], End::Closed),
        list("12", &[map("a", "7")]),
        Events(vec![added("e", "13")], End::Open),
    ];
    compare(InitialList::Paged, script).await;
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_are_those_of_kube_runtime() {
    let script = vec![
        Refused(500),
        Unreachable,
        Events(vec![added("a", "1")], End::Broken),
        Events(vec![added("a", "1"), added("b", "2"), end_of_list("5"), added("c", "6")], End::Closed),
        Events(vec![error(410)], End::Closed),
        Events(vec![added("a", "1"), end_of_list("9")], End::Open),
    ];
    compare(InitialList::Streaming, script).await;
}
