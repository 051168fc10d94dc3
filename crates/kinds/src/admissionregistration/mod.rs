//! `admissionregistration.k8s.io`.

pub mod expression;
