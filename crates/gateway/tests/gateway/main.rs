//! The whole surface of the gateway, on an embedded cluster with access control.

mod instances;
mod oidc;
mod operator;
mod security;
mod streams;
mod support;
mod webhooks;
