//! ValidatingWebhookConfiguration.

use serde_json::Value;

use crate::{
    admissionregistration::webhook::{self, cell},
    check::Errors,
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &ValidatingWebhookConfiguration,
    has_generation: true,
    allows_unconditional_update: false,
    columns: &[Column::NAME, Column::integer("Webhooks"), Column::AGE],
    cell,
    ..Kind::new("admissionregistration.k8s.io", "validatingwebhookconfigurations")
};

struct ValidatingWebhookConfiguration;

impl Rules for ValidatingWebhookConfiguration {
    fn default(&self, _: &str, object: &mut Value) {
        webhook::default_webhooks(object);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        webhook::validate(object, None, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        webhook::validate(change.object, Some(change.old), errors);
    }
}
