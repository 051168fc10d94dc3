//! Admission reviews.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::future::FutureExt as _;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// The operation of an admission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is updated.
    Update,
    /// An object is deleted.
    Delete,
}

/// An admission request, apart from the object itself.
#[derive(Debug, Clone)]
pub struct Review<K> {
    /// The operation.
    pub operation: Operation,
    /// The object before an update or a deletion.
    pub old: Option<K>,
    /// The object's namespace; empty if it is cluster-scoped. The object itself may not contain it yet.
    pub namespace: String,
    /// Name of the requesting user.
    pub user: String,
    /// Whether it is a dry run.
    pub dry_run: bool,
}

/// Why an object is denied. Made from a message, or from field errors with [`Denied::field`].
///
/// ```
/// use steersman::Denied;
///
/// let denied = Denied::field("spec.min", "must not be above spec.max").and("spec.image", "must not be empty");
/// assert!(denied.into_result().is_err());
/// assert!(Denied::default().into_result().is_ok());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denied {
    message: String,
    causes: Vec<(String, String)>,
    panicked: bool,
}

impl Denied {
    /// Denies a field, with a message.
    #[must_use]
    pub fn field(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::default().and(path, message)
    }

    /// Adds another invalid field.
    #[must_use]
    pub fn and(mut self, path: impl Into<String>, message: impl Into<String>) -> Self {
        self.causes.push((path.into(), message.into()));
        self
    }

    /// Returns `Err` if there is a message or an invalid field.
    ///
    /// # Errors
    /// Returns itself.
    pub fn into_result(self) -> Result<(), Self> {
        if self.causes.is_empty() && self.message.is_empty() { Ok(()) } else { Err(self) }
    }

    fn status(&self) -> Value {
        let causes: Vec<_> = self
            .causes
            .iter()
            .map(
                |(field, message)| json!({"reason": "FieldValueInvalid", "field": field, "message": message}),
            )
            .collect();
        let mut texts: Vec<String> =
            self.causes.iter().map(|(field, text)| format!("{field}: {text}")).collect();
        if !self.message.is_empty() {
            texts.insert(0, self.message.clone());
        }
        let message = texts.join("; ");
        if self.panicked {
            return json!({"code": 500, "reason": "InternalError", "message": message});
        }
        if causes.is_empty() {
            return json!({"code": 403, "reason": "Forbidden", "message": message});
        }
        json!({"code": 422, "reason": "Invalid", "message": message, "details": {"causes": causes}})
    }
}

impl<T: Into<String>> From<T> for Denied {
    fn from(message: T) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}

/// User function that validates an object.
type Check<K> = dyn Fn(&K, &Review<K>) -> Result<(), Denied>;
/// User function that mutates an object.
type Change<K> = dyn Fn(&mut K, &Review<K>) -> Result<(), Denied>;

fn review<K: DeserializeOwned>(request: &Value) -> Result<(Value, K, Review<K>), Denied> {
    let read = |value: &Value| {
        serde_json::from_value::<K>(value.clone())
            .map_err(|error| Denied::from(format!("cannot decode the object: {error}")))
    };
    let operation = serde_json::from_value(request["operation"].clone())
        .map_err(|_| Denied::from(format!("unknown operation {}", request["operation"])))?;
    let old = match &request["oldObject"] {
        Value::Null => None,
        old => Some(read(old)?),
    };
    // A deletion has only the old object.
    let object = if operation == Operation::Delete { &request["oldObject"] } else { &request["object"] };
    let review = Review {
        operation,
        old,
        namespace: request["namespace"].as_str().unwrap_or_default().to_owned(),
        user: request["userInfo"]["username"].as_str().unwrap_or_default().to_owned(),
        dry_run: request["dryRun"].as_bool().unwrap_or_default(),
    };
    Ok((object.clone(), read(object)?, review))
}

/// Runs a user function. A panic denies: nothing is known about the object then.
fn guarded<T>(work: impl FnOnce() -> Result<T, Denied>) -> Result<T, Denied> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> Denied {
    tracing::error!("a webhook panicked: denying the request");
    Denied { panicked: true, ..Denied::from("the webhook panicked") }
}

pub(super) fn validate<K: DeserializeOwned>(request: &Value, check: &Check<K>) -> Value {
    let result = review::<K>(request)
        .and_then(|(_, object, review)| guarded(|| check(&object, &review).map(|()| Value::Null)));
    respond(request, result)
}

pub(super) fn mutate<K: DeserializeOwned + Serialize>(request: &Value, change: &Change<K>) -> Value {
    let result = review::<K>(request).and_then(|(_, mut object, review)| {
        guarded(move || {
            let before = written(&object)?;
            change(&mut object, &review)?;
            Ok(Value::Array(changes(&before, &written(&object)?)))
        })
    });
    respond(request, result)
}

/// As [`mutate`], with an async function.
pub(super) async fn mutate_async<K, R>(request: Value, change: impl FnOnce(K, Review<K>) -> R) -> Value
where
    K: DeserializeOwned + Serialize,
    R: Future<Output = Result<K, Denied>>,
{
    let result =
        match review::<K>(&request).and_then(|(_, object, review)| Ok((written(&object)?, object, review))) {
            Err(denied) => Err(denied),
            Ok((before, object, review)) => {
                let changed = AssertUnwindSafe(async { change(object, review).await }).catch_unwind().await;
                let changed = changed.unwrap_or_else(|_| Err(panicked()));
                changed.and_then(|object| Ok(Value::Array(changes(&before, &written(&object)?))))
            }
        };
    respond(&request, result)
}

/// The patch is between two states of the type, so that fields unknown to the type do not get lost.
fn written<K: Serialize>(object: &K) -> Result<Value, Denied> {
    serde_json::to_value(object).map_err(|error| Denied::from(format!("cannot encode the object: {error}")))
}

/// Returns the difference between two objects as a JSON patch. A field that is not an object on both sides is replaced as a
/// whole. A patch by the `json-patch` crate would address list items, which the server may hold at other indexes.
fn changes(before: &Value, after: &Value) -> Vec<Value> {
    fn walk(before: &Value, after: &Value, path: &str, patch: &mut Vec<Value>) {
        let (Value::Object(before), Value::Object(after)) = (before, after) else { return };
        let escape = |name: &str| name.replace('~', "~0").replace('/', "~1");
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            patch.push(json!({"op": "remove", "path": format!("{path}/{}", escape(name))}));
        }
        for (name, value) in after {
            let path = format!("{path}/{}", escape(name));
            match before.get(name) {
                Some(old) if old == value => {}
                Some(old @ Value::Object(_)) if value.is_object() => walk(old, value, &path, patch),
                // `add` replaces an existing value, and works if the server's object lacks what the type has as a
                // default.
                _ => patch.push(json!({"op": "add", "path": path, "value": value})),
            }
        }
    }
    let mut patch = Vec::new();
    walk(before, after, "", &mut patch);
    patch
}

fn respond(request: &Value, result: Result<Value, Denied>) -> Value {
    let uid = &request["uid"];
    match result {
        Ok(Value::Array(patch)) if !patch.is_empty() => {
            let patch = base64(Value::Array(patch).to_string().as_bytes());
            json!({"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch})
        }
        Ok(_) => json!({"uid": uid, "allowed": true}),
        Err(denied) => json!({"uid": uid, "allowed": false, "status": denied.status()}),
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn request(object: &Value) -> Value {
        json!({"uid": "u", "operation": "CREATE", "object": object, "userInfo": {"username": "me"}})
    }

    #[test]
    fn defaults_become_a_patch_of_what_changed() {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a/b": "1"}});
        let response = mutate::<ConfigMap>(&request(&map), &|map, review| {
            assert_eq!(review.user, "me");
            let data = map.data.get_or_insert_default();
            data.remove("a/b");
            data.insert("c".into(), "2".into());
            map.immutable = Some(true);
            Ok(())
        });
        use base64::Engine as _;
        let patch =
            base64::engine::general_purpose::STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(
            patch,
            json!([
                {"op": "remove", "path": "/data/a~1b"},
                {"op": "add", "path": "/data/c", "value": "2"},
                {"op": "add", "path": "/immutable", "value": true},
            ])
        );
    }

    #[test]
    fn a_field_that_becomes_or_was_no_object_is_replaced() {
        let (object, list) = (json!({"a": {"b": 1}}), json!({"a": [1]}));
        assert_eq!(changes(&object, &list), [json!({"op": "add", "path": "/a", "value": [1]})]);
        assert_eq!(changes(&list, &object), [json!({"op": "add", "path": "/a", "value": {"b": 1}})]);
    }

    #[test]
    fn denials_say_which_fields() {
        let map = json!({"metadata": {"name": "x"}});
        let check = |map: &ConfigMap, _: &Review<ConfigMap>| {
            if map.data.is_none() {
                Err(Denied::field("data", "is required").and("immutable", "is not set"))
            } else {
                Ok(())
            }
        };
        let response = validate::<ConfigMap>(&request(&map), &check);
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["message"], "data: is required; immutable: is not set");
        assert_eq!(response["status"]["details"]["causes"][1]["field"], "immutable");
        let response = validate::<ConfigMap>(&request(&json!({"data": {}})), &check);
        assert_eq!(response, json!({"uid": "u", "allowed": true}));
    }

    #[test]
    fn a_panic_denies() {
        let response = validate::<ConfigMap>(&request(&json!({})), &|_, _| panic!("oops"));
        assert_eq!(response["status"]["message"], "the webhook panicked");
        assert_eq!(response["status"]["code"], 500);
    }
}
