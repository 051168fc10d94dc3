//! Building blocks of a Kubernetes API server: what an object, a status, a selector, a table, a schema and a watch are.
//!
//! Nothing in here knows a kind, a handler or a policy. [`store`] keeps encoded objects under revisions and lets watchers follow
//! them; [`schema`] and [`protobuf`] decode request bodies the way typed Go decoders do; [`selector`], [`table`] and [`http`] are
//! the formats that clients speak; [`status`] is how requests fail. [`strategy`] is the seam to the kinds: built-in ones implement
//! it in `steersman-kinds`, custom resources in `steersman-apiserver`.
//!
//! - **Invariant:** objects are stored as JSON bytes without a resourceVersion, which is the position in the log and is written into a gap
//!   when the object is read.
//! - **Invariant:** nothing is parsed, serialised or awaited while the store is locked.
//! - **Invariant:** a watcher is a position in a bounded log, not a queue. One that falls behind the window gets 410.
//! - **Invariant:** an event's frame is encoded once for all watchers that see the plain object.
//! - **Invariant:** time and randomness come from the [`environment`] alone.
//!
//! ```
//! use serde_json::json;
//! use steersman_api::selector::LabelSelector;
//!
//! let selector = LabelSelector::parse("app=web,tier!=cache")?;
//! assert!(selector.selects(&json!({"metadata": {"labels": {"app": "web"}}})));
//! # Ok::<(), String>(())
//! ```

pub mod allocator;
pub mod environment;
pub mod group_version;
pub mod http;
pub mod metadata;
pub mod object;
pub mod protobuf;
pub mod quota;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod status;
pub mod store;
pub mod strategy;
pub mod table;
pub mod user;

use std::{future::Future, pin::Pin};

pub use steersman_formats::names;
pub use steersman_structural::fields;

/// A boxed future that may borrow from its caller.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
