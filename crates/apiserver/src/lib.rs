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
mod aggregation;
mod apply;
mod auth;
mod bootstrap;
mod call;
mod catalog;
mod cluster_service;
mod commit;
mod conditions;
mod connect;
mod connector;
mod convert;
mod core;
mod crd;
mod decode;
mod expiry;
mod flow_control;
mod handlers;
mod health;
mod learn;
mod openapi;
mod pipeline;
mod render;
mod route;
mod scale;
mod server;
mod service;
mod settings;
mod system;
mod update;
mod write;

pub use admission::{
    Admission, AdmissionRequest, BoxFuture, Operation, WebhookCall, WebhookClient, WebhookTarget,
};
pub use aggregation::{
    ApiServiceClient, ApiServiceTarget, ClientAuthentication, ProxyBody, RequestHeaderAuthentication,
};
pub use auth::{
    Access, AccessLog, AllowAll, Attributes, Authenticator, Authorizer, Decision, Recorder, Unrestricted,
    User,
};
pub use catalog::{Catalog, Group, Resource, Subresource, Verb, Version};
pub use cluster_service::{Endpoints, ServiceTarget};
pub use connector::{Connection, Connector};
pub use handlers::EventStream;
pub use server::{Builder, Server};
pub use service::Service;
pub use settings::Settings;
pub use steersman_api::{
    environment::{Environment, SeededEnvironment, SystemEnvironment},
    fields::{FieldError, FieldErrorKind},
    http::Body,
    status::{ApiError, ApiResult, Cause, Reason, Refusal},
    store::{
        Entry, Event, EventKind, History, Journal, JournalError, JournalObserver, Record, Store, Undone,
    },
};

/// The Kubernetes version that this server emulates.
pub const KUBERNETES_VERSION: &str = "v1.36.3";
