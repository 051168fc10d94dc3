//! `apiextensions.k8s.io`.

pub(crate) mod custom_resource_definition;
