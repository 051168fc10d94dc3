//! MutatingWebhookConfiguration.

use serde_json::Value;
use steersman_api::object;

use crate::{
    admissionregistration::webhook::{self, cell},
    check::{Errors, children, default},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &MutatingWebhookConfiguration,
    has_generation: true,
    allows_unconditional_update: false,
    columns: &[Column::NAME, Column::integer("Webhooks"), Column::AGE],
    cell,
    ..Kind::new("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
};

struct MutatingWebhookConfiguration;

impl Rules for MutatingWebhookConfiguration {
    fn default(&self, _: &str, object: &mut Value) {
        webhook::default_webhooks(object);
        for hook in children(object::ensure(object), "webhooks") {
            default(hook, "reinvocationPolicy", "Never");
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        webhook::validate(object, None, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        webhook::validate(change.object, Some(change.old), errors);
    }
}
