//! `admissionregistration.k8s.io`.

pub mod expression;
mod mutating_admission_policy;
mod mutating_admission_policy_binding;
mod mutating_webhook_configuration;
mod policy;
mod validating_admission_policy;
mod validating_admission_policy_binding;
mod validating_webhook_configuration;
mod webhook;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[
    mutating_admission_policy::KIND,
    mutating_admission_policy_binding::KIND,
    mutating_webhook_configuration::KIND,
    validating_admission_policy::KIND,
    validating_admission_policy_binding::KIND,
    validating_webhook_configuration::KIND,
];
