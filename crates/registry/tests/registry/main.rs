//! Chart repositories and OCI registries.

mod hostile;
mod http;
mod oci;
mod push;
mod support;
