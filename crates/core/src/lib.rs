//! Concepts that the operator runtime, releases and the API server share.
//!
//! - [`environment`]: the source of time and randomness, injected so that a run can be replayed.
//! - [`readiness`]: the readiness of an object, computed from its JSON.
//! - [`vocabulary`](mod@vocabulary): names in the public interface, such as annotations, declared with their meanings.
//!
//! ```
//! use serde_json::json;
//! use steersman_core::readiness::{Readiness, readiness};
//!
//! let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Active"}});
//! assert_eq!(readiness(&namespace), Readiness::Ready);
//! ```
//!
//! Nothing here depends on a cluster, a chart or a runtime.

pub mod environment;
pub mod readiness;
pub mod vocabulary;
