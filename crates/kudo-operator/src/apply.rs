//! Applies the objects of tasks by a three-way merge, as KUDO does, and deletes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams, PropagationPolicy};
use serde_json::{Map, Value};
use steersman_kudo::annotation;
use steersman_release::{Kind, is_built_in, three_way};

use crate::error::{Error, Result};

/// The field manager of all writes.
pub(crate) const MANAGER: &str = "kudo";
/// The number of attempts when a write conflicts.
const ATTEMPTS: usize = 5;

/// An object and its kind.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) content: Value,
}

/// The result of applying an object.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) object: Value,
    pub(crate) outcome: Outcome,
}

/// The action taken to apply an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Created,
    Changed,
    /// It existed, without evidence that a plan had applied it.
    Adopted,
    Unchanged,
}

impl Target {
    pub(crate) fn name(&self) -> &str {
        self.content["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns a title such as `Deployment shop/web`.
    pub(crate) fn title(&self) -> String {
        let kind = &self.kind.resource.kind;
        match self.content["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("{kind} {namespace}/{}", self.name()),
            None => format!("{kind} {}", self.name()),
        }
    }

    pub(crate) fn api(&self, client: &Client) -> Api<DynamicObject> {
        match self.content["metadata"]["namespace"].as_str().filter(|_| self.kind.namespaced) {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.kind.resource),
            None => Api::all_with(client.clone(), &self.kind.resource),
        }
    }

    /// Returns the live object, if it exists.
    pub(crate) async fn live(&self, client: &Client) -> Result<Option<Value>> {
        let found = self.api(client).get_opt(self.name()).await.map_err(Error::kube(self.title()))?;
        found.map(|object| self.json(&object)).transpose()
    }

    fn json(&self, object: &DynamicObject) -> Result<Value> {
        let mut value = serde_json::to_value(object)
            .map_err(|error| Error::Refused(format!("{}: {error}", self.title())))?;
        value["apiVersion"] = self.kind.resource.api_version.as_str().into();
        value["kind"] = self.kind.resource.kind.as_str().into();
        Ok(value)
    }

    fn dynamic(&self, content: Value) -> Result<DynamicObject> {
        serde_json::from_value(content).map_err(|error| Error::Refused(format!("{}: {error}", self.title())))
    }

    /// Brings the object to its desired state. Nothing is written if it is there already.
    pub(crate) async fn apply(&self, client: &Client) -> Result<Applied> {
        let desired = with_last_applied(self.content.clone());
        let params = PostParams { field_manager: Some(MANAGER.into()), dry_run: false };
        let api = self.api(client);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let failed = Error::kube(self.title());
            let Some(live) = self.live(client).await? else {
                match api.create(&params, &self.dynamic(desired.clone())?).await {
                    Ok(created) => {
                        return Ok(Applied { object: self.json(&created)?, outcome: Outcome::Created });
                    }
                    Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => continue,
                    Err(error) => return Err(failed(error)),
                }
            };
            let (merged, adopted) = merged(&self.kind, &desired, &live);
            if merged == live {
                return Ok(Applied { object: live, outcome: Outcome::Unchanged });
            }
            match api.replace(self.name(), &params, &self.dynamic(merged)?).await {
                Ok(replaced) => {
                    let object = self.json(&replaced)?;
                    let outcome = match adopted {
                        true => Outcome::Adopted,
                        // Defaulting by the server may result in the same object.
                        false if object == live => Outcome::Unchanged,
                        false => Outcome::Changed,
                    };
                    return Ok(Applied { object, outcome });
                }
                Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Deletes the object and its dependents. Returns true once it is gone.
    pub(crate) async fn delete(&self, client: &Client) -> Result<bool> {
        let Some(live) = self.live(client).await? else { return Ok(true) };
        if live.pointer("/metadata/deletionTimestamp").is_some() {
            return Ok(false);
        }
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            ..DeleteParams::default()
        };
        match self.api(client).delete(self.name(), &params).await {
            Ok(_) => Ok(self.live(client).await?.is_none()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
            Err(error) => Err(Error::kube(self.title())(error)),
        }
    }
}

/// Adds the last-applied annotation: the original of the next three-way merge.
fn with_last_applied(mut content: Value) -> Value {
    let text = content.to_string();
    if let Some(annotations) = content.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.insert(annotation::LAST_APPLIED.to_owned(), text.into());
    }
    content
}

/// Returns the merged object, and whether the live one lacks evidence that a plan had applied it.
fn merged(kind: &Kind, desired: &Value, live: &Value) -> (Value, bool) {
    let annotations = &live["metadata"]["annotations"];
    let original = annotations[annotation::LAST_APPLIED].as_str();
    let original: Option<Value> = original.and_then(|text| serde_json::from_str(text).ok());
    let adopted = original.is_none();
    let original = original.unwrap_or(Value::Null);
    let group = kind.resource.group.as_str();
    // The lists of CustomResourceDefinitions have no merge keys.
    let is_strategic = is_built_in(group) && group != "apiextensions.k8s.io";
    let mut merged =
        if is_strategic { three_way(&original, desired, live) } else { merge(&original, desired, live) };
    if group.is_empty() && kind.resource.kind == "Secret" {
        encode(&mut merged);
    }
    (merged, adopted)
}

/// Moves a Secret's `stringData` to `data`, as the server does. Otherwise each comparison would find it
/// missing.
fn encode(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else { return };
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if let Some(data) = data.as_object_mut() {
        let texts = texts.into_iter().filter_map(|(key, text)| Some((key, BASE64.encode(text.as_str()?))));
        data.extend(texts.map(|(key, text)| (key, text.into())));
    }
}

/// A three-way JSON merge: lists are replaced as a whole.
fn merge(original: &Value, desired: &Value, live: &Value) -> Value {
    let (Value::Object(wanted), Value::Object(current)) = (desired, live) else { return desired.clone() };
    let none = Map::new();
    let before = original.as_object().unwrap_or(&none);
    let mut merged = current.clone();
    merged.retain(|key, _| wanted.contains_key(key) || !before.contains_key(key));
    for (key, value) in wanted {
        let now = match merged.get(key) {
            Some(now) => merge(before.get(key).unwrap_or(&Value::Null), value, now),
            None => value.clone(),
        };
        merged.insert(key.clone(), now);
    }
    Value::Object(merged)
}
