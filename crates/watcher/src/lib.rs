//! Watches Kubernetes objects as client-go's reflector does.
//!
//! [`watcher`] lists the objects of an [`Api`](kube::Api) and then follows them. It is a stream that never ends:
//!
//! | events | what they mean |
//! | --- | --- |
//! | `Init`, `InitApply`…, `InitDone` | a complete list: an object that it does not include no longer exists |
//! | `Apply` | an object was created or changed |
//! | `Delete` | an object was deleted, in its last state |
//! | `Err` | a request failed: polling the stream again retries it |
//!
//! The list is read in pages, or as the first events of a watch ([`InitialList::Streaming`]). Each object and each bookmark
//! of a watch advances the resourceVersion, and a watch that ends, with or without an error, resumes at the last one. If it
//! cannot resume, a new list follows, with `Init` again: after 410 Gone, after an object without a resourceVersion, and
//! after a list that failed midway. `Init` is sent with the first response: while the server is down there are only errors.
//!
//! An object that can't be decoded fails a list. In a watch it is reported as an error and then skipped: resuming at the
//! last version would return it again.
//!
//! Retries are not delayed unless the stream is wrapped by [`WatchStreamExt::default_backoff`] or the caller waits on its own.
//!
//! ```no_run
//! use futures_util::StreamExt as _;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, Client, ResourceExt as _};
//! use steersman_watcher::{Config, Event, WatchStreamExt as _, watcher};
//!
//! # async fn doc(client: Client) {
//! let maps: Api<ConfigMap> = Api::default_namespaced(client);
//! let config = Config { label_selector: Some("app=web".into()), ..Config::default() };
//! let mut events = std::pin::pin!(watcher(maps, config).default_backoff());
//! while let Some(event) = events.next().await {
//!     match event {
//!         Ok(Event::InitApply(map) | Event::Apply(map)) => println!("{} is there", map.name_any()),
//!         Ok(Event::Delete(map)) => println!("{} is gone", map.name_any()),
//!         Ok(Event::Init | Event::InitDone) => {}
//!         Err(error) => eprintln!("{error}"),
//!     }
//! }
//! # }
//! ```
//!
//! [`watch_object`] follows one object by name.

mod backoff;
mod error;
mod object;
mod watcher;

pub use backoff::{Backoff, WatchStreamExt};
pub use error::{Error, Result};
pub use object::watch_object;
pub use watcher::{Config, Event, InitialList, watcher};
