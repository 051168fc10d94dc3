//! Building blocks of a Kubernetes API server: objects, statuses, selectors, tables, schemas and watches.
//! The crate contains no kinds, handlers or policies. [`store`] keeps encoded objects by revision and serves watches;
//! [`schema`] and [`protobuf`] decode request bodies like typed Go decoders; [`selector`], [`table`] and [`http`]
//! implement the API's formats; [`status`] holds the API's errors. [`strategy`] is the interface to the kinds:
//! `steersman-kinds` implements it for built-in ones, `steersman-apiserver` for custom resources.
//! - **Invariant:** objects are stored as JSON bytes without a resourceVersion. It is the object's position in the log,
//!   and is inserted when the object is read.
//! - **Invariant:** nothing is parsed, serialised or awaited while the store is locked.
//! - **Invariant:** a watcher is a position in a bounded log, not a queue. A watcher that falls behind the log gets 410
//!   Gone.
//! - **Invariant:** a watch event is encoded once for all watchers that receive the object unconverted.
//! - **Invariant:** time and randomness come only from the [`environment`].
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
