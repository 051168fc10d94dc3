//! Watches of a single object.

use std::{fmt::Debug, future::ready};

use futures_util::{Stream, StreamExt as _};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::{Config, Event, Result, watcher};

/// Watches one object by name, and yields its current state and each later one.
///
/// A state is `None` while the object does not exist, and is repeated after a new list. Deletion and re-creation in quick
/// succession may show as one change.
///
/// ```no_run
/// use futures_util::StreamExt as _;
/// use k8s_openapi::api::core::v1::Pod;
/// use steersman_watcher::{WatchStreamExt as _, watch_object};
///
/// # async fn doc(pods: kube::Api<Pod>) {
/// let mut states = std::pin::pin!(watch_object(pods, "web-0").default_backoff());
/// while let Some(state) = states.next().await {
///     if let Ok(None) = state {
///         println!("web-0 does not exist");
///         break;
///     }
/// }
/// # }
/// ```
pub fn watch_object<K>(api: Api<K>, name: &str) -> impl Stream<Item = Result<Option<K>>> + Send + use<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let config = Config { field_selector: Some(format!("metadata.name={name}")), ..Config::default() };
    let mut exists = false;
    watcher(api, config).filter_map(move |event| {
        let state = match event {
            Ok(Event::Init) => {
                exists = false;
                None
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                exists = true;
                Some(Ok(Some(object)))
            }
            Ok(Event::InitDone) => (!exists).then_some(Ok(None)),
            Ok(Event::Delete(_)) => Some(Ok(None)),
            Err(error) => Some(Err(error)),
        };
        ready(state)
    })
}
