//! Namespaces.

use serde_json::{Value, json};

use super::Rules;
use crate::{object, status::ApiResult, strategy::Hook};

pub(super) struct Namespace;

/// The finalizer that stands for a namespace's content.
const CONTENT: &str = "kubernetes";

impl Rules for Namespace {
    fn default(&self, _: &str, object: &mut Value) {
        let name = object::name(object).to_owned();
        if !name.is_empty() {
            let metadata = object::metadata(object);
            let labels = object::ensure(metadata.entry("labels").or_insert(Value::Null));
            labels.insert("kubernetes.io/metadata.name".into(), name.into());
        }
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        object::child(object, "status").insert("phase".into(), "Active".into());
        let spec = object::child(object, "spec");
        let list = spec.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut()
            && !list.iter().any(|f| f == CONTENT)
        {
            list.push(CONTENT.into());
        }
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        // Only the finalize subresource changes these.
        if hook.subresource != Some("finalize") {
            object::carry(old, object, "spec");
        }
        Ok(())
    }
}
