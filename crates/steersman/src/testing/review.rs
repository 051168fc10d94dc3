//! Calls an operator's webhooks without a server.

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::{Kind, Object, Operator};

/// Calls an operator's webhook (`mutate` or `validate`) for an object, without a server. It is a creation if there is
/// no old state, and a deletion if there is no new one. Returns the object as it would be stored.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman::{Denied, Operator, Webhook, testing::review};
///
/// let webhook = Webhook::validating::<ConfigMap>(|map, _| {
///     if map.data.is_none() { Err(Denied::field("data", "must be set")) } else { Ok(()) }
/// });
/// let operator = Operator::new("maps").webhook(webhook);
/// assert!(review(&operator, "validate", None, Some(&ConfigMap::default())).is_err());
/// ```
///
/// # Errors
/// Fails with the webhook's message if it denies.
pub fn review<K: Object>(
    operator: &Operator,
    verb: &str,
    old: Option<&K>,
    new: Option<&K>,
) -> Result<K, String> {
    let resource = Kind::of::<K>().resource().clone();
    let path = format!(
        "/{verb}-{}-{}-{}",
        resource.group.replace('.', "-"),
        resource.version,
        resource.kind.to_lowercase()
    );
    let operation = match (old, new) {
        (None, _) => "CREATE",
        (Some(_), Some(_)) => "UPDATE",
        (Some(_), None) => "DELETE",
    };
    let request = json!({"uid": "test", "operation": operation, "object": new, "oldObject": old});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let answer = operator.webhooks().answer(&path, &review).now_or_never();
    let answer = answer.ok_or("the webhook did not answer at once: deploy the operator to call it")?;
    let answer = answer.ok_or_else(|| format!("no webhook at {path}"))?;
    let response = &answer["response"];
    if response["allowed"] != true {
        return Err(response["status"]["message"].as_str().unwrap_or_default().to_owned());
    }
    let mut object = json!(new.or(old));
    if let Some(patch) = response["patch"].as_str() {
        apply_patch(&mut object, patch)?;
    }
    serde_json::from_value(object).map_err(|error| error.to_string())
}

/// Applies the patches that the webhooks send: additions and removals of fields.
fn apply_patch(object: &mut Value, patch: &str) -> Result<(), String> {
    use base64::Engine as _;
    let patch = base64::engine::general_purpose::STANDARD.decode(patch).map_err(|error| error.to_string())?;
    let steps: Vec<Value> = serde_json::from_slice(&patch).map_err(|error| error.to_string())?;
    for step in steps {
        let path = step["path"].as_str().unwrap_or_default();
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        let name = name.replace("~1", "/").replace("~0", "~");
        let fields = object.pointer_mut(parent).and_then(Value::as_object_mut);
        let fields = fields.ok_or_else(|| format!("cannot patch {parent}: not found"))?;
        match step.get("value") {
            Some(value) => drop(fields.insert(name, value.clone())),
            None => drop(fields.remove(&name)),
        }
    }
    Ok(())
}

/// Converts an object to another version with an operator's conversion, without a server.
///
/// # Errors
/// Fails with the operator's message.
pub fn convert<A: Object, B: Object>(operator: &Operator, object: &A) -> Result<B, String> {
    let desired = B::api_version(&());
    let request = json!({"uid": "test", "desiredAPIVersion": desired, "objects": [object]});
    let review =
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
    let answer = operator.webhooks().answer("/convert", &review).now_or_never().flatten();
    let answer = answer.ok_or("no conversion is registered")?;
    let response = &answer["response"];
    if response["result"]["status"] != "Success" {
        return Err(response["result"]["message"].as_str().unwrap_or_default().to_owned());
    }
    serde_json::from_value(response["convertedObjects"][0].clone()).map_err(|error| error.to_string())
}
