//! Chart repositories and OCI registries: fetching charts, pushing images, credentials, and a cache.
//!
//! ```no_run
//! # async fn example() -> Result<(), steersman_registry::Error> {
//! use steersman_registry::{Access, Fetcher, Paths, Request};
//!
//! let fetcher = Fetcher::new(Paths::from_env());
//! let chart = fetcher
//!     .fetch(&Request::new("oci://registry.example.com/charts/shop").version("^1.2"), &Access::default())
//!     .await?;
//! println!("{} has sha256 {}", chart.file_name, chart.digest);
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** nothing read from the network is unbounded: indexes, charts, manifests, tag lists and tokens have a maximum
//! size, redirects are counted, and every request has a timeout.
//!
//! **Invariant:** a username and password are only sent to the host that they were given for, unless the caller sets
//! [`Access::pass_credentials`].

mod cache;
mod credentials;
mod dependency;
mod distribution;
mod error;
mod fetch;
mod http;
pub mod image;
mod index;
mod lock;
mod oci;
mod package;
mod paths;
mod push;
mod repositories;
mod urls;
mod version;
mod yaml;

pub use cache::{Cache, write_atomically};
pub use credentials::Credential;
pub use dependency::{Manager, Progress, clean_path};
pub use error::Error;
pub use fetch::{Fetched, Fetcher, Request};
pub use http::{Access, Limits};
pub use index::{Entry, Index};
pub use lock::digest as lock_digest;
pub use oci::OciReference;
pub use paths::Paths;
pub use push::push;
pub use repositories::{Repositories, Repository};
