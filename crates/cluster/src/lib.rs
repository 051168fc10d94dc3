//! An embedded Kubernetes cluster: the API server with simulated nodes and workloads.
//!
//! They behave as the real ones do, without running anything.
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
//! # Injecting failures
//!
//! Annotations on a pod control its simulation:
//!
//! | annotation | value | effect |
//! | --- | --- | --- |
//! | `cluster.steersman.dev/fail` | `image-pull` | the containers alternate between `ErrImagePull` and `ImagePullBackOff` |
//! | | `config-error` | `CreateContainerConfigError` |
//! | | `crash-loop` | the containers exit again and again, with `CrashLoopBackOff` in between |
//! | | `never-ready` | the containers run but never become ready |
//! | `cluster.steersman.dev/container` | a name | only this container fails |
//! | `cluster.steersman.dev/start-delay` | `5s` | delay before the containers start |
//! | `cluster.steersman.dev/run-for` | `10s`, `forever` | time after which the containers exit |
//! | `cluster.steersman.dev/exit-code` | `1` | the containers' exit code |
//! | `cluster.steersman.dev/logs` | any string | the output of `kubectl logs` |
//! | `cluster.steersman.dev/stop-delay` | `5s` | time that a deleted pod takes to terminate |
//!
//! Images registered with [`Builder::missing_image`] can't be pulled: containers that use them never start, in any pod.
//!
//! Without these annotations, programs with a predictable outcome are simulated: `true`, `false`, `sleep`, `exit` in a
//! shell, and the `pause` image. An init container that fails, or is still running, blocks the containers after it.
//!
//! The annotation `cluster.steersman.dev/address` on a service is the address of the server behind it, for webhooks and
//! APIServices, such as `127.0.0.1:9443` for an operator that runs on the same machine as the cluster. A service without it
//! has no server, and [`Builder::webhooks`] decides whether writes that need its webhooks fail.
//!
//! A node with the annotation `cluster.steersman.dev/lost: "true"` becomes unreachable: its lease is no longer renewed. A
//! node's capacity is what its status says: pods that don't fit stay pending, or preempt pods of lower priority.
//!
//! # Metrics
//!
//! With [`Builder::metrics`], or with metrics-server installed by its manifests or its chart, the cluster serves
//! `metrics.k8s.io`: `kubectl top` shows the usage of pods and nodes, and HorizontalPodAutoscalers scale by it. By default
//! a running container uses half of its requests, or 1m and 8Mi without requests. Annotations on the pod override this, or
//! else annotations on its controller (also on a Deployment, which copies them to its ReplicaSets without a rollout):
//!
//! | annotation | value | effect |
//! | --- | --- | --- |
//! | `cluster.steersman.dev/cpu-usage` | `450m` | CPU usage of each pod, divided among its containers |
//! | | `90%` | CPU usage as a share of the requests |
//! | `cluster.steersman.dev/memory-usage` | `64Mi`, `90%` | memory usage, likewise |
//!
//! An invalid value is ignored, with a warning to clients and in the log. A HorizontalPodAutoscaler is evaluated when it
//! changes and every 15 seconds. The CPU usage of a pod counts from 10 seconds after it became ready. There are no custom
//! or external metrics.
//!
//! # Limits
//!
//! Controllers create no more pods in a namespace while 500 of its pods are unscheduled, and resume when one of them is
//! bound. One reconcile makes at most 500 writes, as with the real controllers, so that no object delays the others. Events
//! expire after an hour.
//!
//! # Speed
//!
//! Writes allocate and free many small values. A program that writes tens of thousands of objects takes about two thirds of
//! the time with an allocator made for that, such as the crate `mimalloc`, as its `#[global_allocator]`.

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
