//! The complete API of the gateway, on an embedded cluster with RBAC.

mod instances;
mod oidc;
mod operator;
mod security;
mod streams;
mod support;
mod webhooks;
