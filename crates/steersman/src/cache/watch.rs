//! Keeps a store up to date by one watch.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, pin_mut};
use kube::{Api, Client};
use steersman_watcher::{self as watcher, Config, Event, InitialList};

use super::{
    snapshot::Incoming,
    store::Store,
    watch_backoff::{DELAY, with_watch_backoff},
};
use crate::{error::describe, write_guard};

/// Maximum backoff while the API server does not serve the kind.
const ABSENT: Duration = Duration::from_secs(2);

/// Maximum backoff while the API server can't be reached. Attempts cost it nothing, and it may be back at any moment.
const UNREACHABLE: Duration = Duration::from_secs(5);

/// Selectors of a watch, and whether it is for metadata only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Selection {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// Whether to watch metadata only.
    pub(crate) metadata: bool,
}

impl Selection {
    /// Whether it selects every object of the kind.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_none()
    }
}

/// Runs the watch until dropped.
pub(crate) async fn run(
    store: Arc<Store>,
    client: Client,
    namespace: Option<String>,
    selection: Selection,
    streaming: bool,
) {
    let client =
        with_watch_backoff(if selection.metadata { write_guard::metadata_only(client) } else { client });
    let api: Api<Incoming> = match &namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, store.kind.resource()),
        None => Api::all_with(client, store.kind.resource()),
    };
    let mut config =
        Config { label_selector: selection.labels, field_selector: selection.fields, ..Config::default() };
    if streaming {
        // Streamed objects arrive one by one, while a page of a list would be in memory twice.
        config.initial_list = InitialList::Streaming;
    }
    let mut epoch = 0;
    let mut first = true;
    let mut delay = DELAY.0;
    loop {
        let events = watcher::watcher(api.clone(), config.clone());
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    delay = DELAY.0;
                    store.alive();
                    match event {
                        Event::Init => epoch = store.begin(),
                        Event::InitApply(object) => store.deliver(object, epoch, true),
                        Event::InitDone => {
                            store.listed(namespace.as_deref(), epoch);
                            store.watch_synced(std::mem::take(&mut first));
                        }
                        Event::Apply(object) => store.deliver(object, epoch, false),
                        Event::Delete(object) => store.gone(&object.key(), object.version()),
                    }
                }
                Err(error) => {
                    let absent = is_absent(&error);
                    tracing::debug!(kind = %store.kind, error = describe(&error), "watch failed");
                    store.progress.send_modify(|progress| {
                        progress.error = Some(describe(&error));
                        progress.absent = absent;
                    });
                    let refused = refuses_streams(&error);
                    if refused && config.initial_list == InitialList::Streaming {
                        config.initial_list = InitialList::Paged;
                        break;
                    }
                    delay = (delay * 2).min(longest_delay(&error));
                    // Jitter, so that many watches do not reconnect at once.
                    tokio::time::sleep(delay.mul_f64(0.75 + fastrand::f64() / 4.0)).await;
                }
            }
        }
    }
}

fn status(error: &watcher::Error) -> Option<u16> {
    error.status().map(|status| status.code)
}

/// Returns the maximum backoff after an error.
fn longest_delay(error: &watcher::Error) -> Duration {
    let inner = match error {
        watcher::Error::InitialListFailed(inner)
        | watcher::Error::WatchStartFailed(inner)
        | watcher::Error::WatchFailed(inner) => Some(inner),
        _ => None,
    };
    match inner {
        _ if is_absent(error) => ABSENT,
        Some(kube::Error::HyperError(_) | kube::Error::Service(_)) => UNREACHABLE,
        _ => DELAY.1,
    }
}

/// Whether the API server does not serve the kind.
fn is_absent(error: &watcher::Error) -> bool {
    status(error) == Some(404)
}

/// Whether the API server refuses to stream lists.
fn refuses_streams(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(_)) && matches!(status(error), Some(400 | 422))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn api(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status { code, ..Status::default() }))
    }

    #[test]
    fn the_code_of_a_failed_watch_is_known() {
        let failures: [fn(kube::Error) -> watcher::Error; 3] = [
            watcher::Error::InitialListFailed,
            watcher::Error::WatchStartFailed,
            watcher::Error::WatchFailed,
        ];
        for failed in failures {
            assert_eq!(status(&failed(api(404))), Some(404));
            assert!(is_absent(&failed(api(404))) && !is_absent(&failed(api(403))));
            assert_eq!(status(&failed(kube::Error::LinesCodecMaxLineLengthExceeded)), None);
            assert_eq!(longest_delay(&failed(api(404))), ABSENT);
            assert_eq!(longest_delay(&failed(api(403))), DELAY.1);
            assert_eq!(longest_delay(&failed(kube::Error::Service("down".into()))), UNREACHABLE);
        }
        let told = watcher::Error::WatchError(Box::new(Status { code: 410, ..Status::default() }));
        assert_eq!(status(&told), Some(410));
        assert_eq!((status(&watcher::Error::NoResourceVersion), is_absent(&told)), (None, false));
    }

    #[test]
    fn only_the_start_of_a_watch_refuses_streams() {
        for (code, refused) in [(400, true), (422, true), (403, false), (500, false)] {
            assert_eq!(refuses_streams(&watcher::Error::WatchStartFailed(api(code))), refused, "{code}");
            assert!(!refuses_streams(&watcher::Error::WatchFailed(api(code))), "{code}");
        }
    }

    #[test]
    fn a_selection_without_selectors_is_everything() {
        assert!(Selection::default().is_everything());
        assert!(Selection { metadata: true, ..Selection::default() }.is_everything());
        assert!(!Selection { labels: Some("a".into()), ..Selection::default() }.is_everything());
        assert!(!Selection { fields: Some("a".into()), ..Selection::default() }.is_everything());
    }
}
