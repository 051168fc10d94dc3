//! An embedded Kubernetes cluster: the API server with nodes and workloads that behave as the real ones do, without
//! running anything.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Node;
//! use kube::{Api, api::ListParams};
//! use steersman_cluster::Cluster;
//!
//! let cluster = Cluster::start().await?;
//! cluster.settled().await;
//! let nodes: Api<Node> = Api::all(cluster.client());
//! assert_eq!(nodes.list(&ListParams::default()).await?.items.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Ordering failures
//!
//! Annotations on a pod say what becomes of it:
//!
//! | annotation | value | effect |
//! | --- | --- | --- |
//! | `cluster.steersman.dev/fail` | `image-pull` | `ErrImagePull` and `ImagePullBackOff` in turn |
//! | | `config-error` | `CreateContainerConfigError` |
//! | | `crash-loop` | the containers end again and again, `CrashLoopBackOff` in between |
//! | | `never-ready` | the containers run and are not ready |
//! | `cluster.steersman.dev/container` | a name | only this container fails |
//! | `cluster.steersman.dev/start-delay` | `5s` | time until the containers start |
//! | `cluster.steersman.dev/run-for` | `10s`, `forever` | time until the containers end |
//! | `cluster.steersman.dev/exit-code` | `1` | how they end |
//! | `cluster.steersman.dev/logs` | text | what `kubectl logs` shows |
//! | `cluster.steersman.dev/stop-delay` | `5s` | time that a deleted pod takes to end |
//!
//! Containers with an image that [`Builder::missing_image`] names wait for it for ever, in whichever pod they are.
//!
//! Without such an order, programs whose whole work is known do it: `true`, `false`, `sleep`, `exit` in a shell, and the
//! image that pauses. A container of a pod's start that fails, or has not ended, keeps the others waiting.
//!
//! The annotation `cluster.steersman.dev/address` on a service says at which address its webhooks answer, or the server of an
//! APIService, such as `127.0.0.1:9443` for an operator that runs beside the cluster. Without it nothing answers behind a
//! service: [`Builder::webhooks`] says what becomes of writes then.
//!
//! A node with `cluster.steersman.dev/lost: "true"` is no longer heard of. A node has the room that its status says:
//! pods wait for it, or take that of pods with a lower priority.
//!
//! # Metrics
//!
//! With [`Builder::metrics`], or with metrics-server installed by its manifests or its chart, the cluster has the API
//! `metrics.k8s.io`, by which `kubectl top` shows what pods and nodes use, and autoscalers scale. A running container uses half
//! of its requests, or 1m and 8Mi without requests. Annotations of a pod say otherwise, or else those of what controls it (of a
//! Deployment too, which passes them on to its ReplicaSets without a rollout):
//!
//! | annotation | value | effect |
//! | --- | --- | --- |
//! | `cluster.steersman.dev/cpu-usage` | `450m` | processors that each pod uses, spread over its containers |
//! | | `90%` | share of the requests that is used |
//! | `cluster.steersman.dev/memory-usage` | `64Mi`, `90%` | the same for memory |
//!
//! A value that can't be read is ignored with a warning to clients and in the log. An autoscaler is evaluated when it changes and
//! every 15 seconds. Processors of a pod count 10 seconds after it became ready. There are no custom and external metrics.
//!
//! # Limits
//!
//! Controllers make no more pods in a namespace of which 500 wait for a node, and go on when one of them has it. One turn
//! makes at most 500 writes, as with the real controllers, so that objects take turns. Events expire after an hour.
//!
//! # Speed
//!
//! A write is trees of small values made and dropped again. A program that writes tens of thousands of objects does so in
//! about two thirds of the time with an allocator for that, such as the crate `mimalloc`, as its `#[global_allocator]`.

mod activity;
mod annotations;
mod api_services;
mod builder;
mod cluster;
mod control_loop;
#[cfg(feature = "data-dir")]
mod disk;
#[cfg(not(feature = "data-dir"))]
#[path = "without_disk.rs"]
mod disk;
mod error;
mod front_proxy;
mod kubeconfig;
mod listener;
mod logs;
mod metrics;
mod options;
mod pki;
mod services;
mod serving;
mod signer;
mod tls_client;
mod user_service;
mod webhooks;
mod workloads;

pub use annotations::ANNOTATIONS;
pub use builder::Builder;
pub use cluster::{Checkpoint, Cluster};
pub use error::Error;
pub use options::Part;
pub use serving::{Served, Serving, self_signed};
pub use steersman_apiserver::{
    Access, ClientAuthentication, Environment, KUBERNETES_VERSION, RequestHeaderAuthentication, Settings,
    User,
};
pub use webhooks::WebhookPolicy;
