//! ServiceAccount.

use serde_json::{Value, json};
use steersman_api::{status::ApiResult, strategy::Hook};

use crate::{
    check::{Errors, Read},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &ServiceAccount,
    columns: &[Column::NAME, Column::AGE],
    ..Kind::new("", "serviceaccounts")
};

struct ServiceAccount;

/// Reduces references to secrets to their names, since they are in the same namespace.
fn name_secrets(object: &mut Value) {
    for secret in object.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = secret.str("name");
        *secret = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    }
}

impl Rules for ServiceAccount {
    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        name_secrets(object);
        Ok(())
    }

    fn prepare_update(&self, _: Hook<'_>, object: &mut Value, _: &Value) -> ApiResult<()> {
        name_secrets(object);
        Ok(())
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        change.whole_metadata(errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let key = "kubernetes.io/enforce-mountable-secrets";
        let of = |object: &Value| object.path(&["metadata", "annotations"]).opt(key).is_some();
        if of(object) && !old.is_some_and(of) {
            return vec![format!(
                "metadata.annotations[{key}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
            )];
        }
        Vec::new()
    }
}
