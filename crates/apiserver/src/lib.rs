//! Kubernetes API semantics as a [`tower_service::Service`]: no sockets, no workloads, no threads.
//!
//! ```no_run
//! # async fn doc() {
//! let server = steersman_apiserver::Server::builder().build();
//! let client = kube::Client::new(server.service(), "default");
//! # }
//! ```
#![doc = include_str!("../ARCHITECTURE.md")]

mod admission;
mod apply;
mod auth;
mod bootstrap;
mod builtin;
mod call;
mod catalog;
mod connect;
mod convert;
mod crd;
mod decode;
mod environment;
mod expiry;
mod handlers;
mod http;
mod metadata;
mod object;
mod openapi;
mod pipeline;
mod protobuf;
mod quota;
mod render;
mod schema;
mod selector;
mod server;
mod service;
mod status;
mod store;
mod strategy;
mod system;
mod table;

pub use admission::{
    Admission, AdmissionRequest, BoxFuture, Operation, WebhookCall, WebhookClient, WebhookTarget,
};
pub use auth::{
    Access, AccessLog, AllowAll, Attributes, Authenticator, Authorizer, Decision, Recorder, User,
};
pub use catalog::{Catalog, Group, Resource, Subresource, Version};
pub use connect::{Connection, Connector};
pub use environment::{Environment, SeededEnvironment, SystemEnvironment};
pub use http::Body;
pub use quota::Quota;
pub use schema::Quantity;
pub use server::{Builder, Server};
pub use service::Service;
pub use status::{ApiError, ApiResult, Cause, Refusal};
pub use steersman_structural::{FieldError, FieldErrorKind};
pub use store::{
    Entry, Event, EventKind, History, Journal, JournalError, JournalObserver, Record, Store, Undone,
};
pub use system::KUBERNETES_VERSION;

use steersman_formats::names;
use steersman_structural::fields;
