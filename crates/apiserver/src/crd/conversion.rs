//! Webhook conversion of custom resources (`ConversionReview`).

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::Value;
use steersman_api::BoxFuture;
use steersman_api::{
    environment::{Environment, EnvironmentExt as _},
    metadata, object, schema,
    status::{aggregate, quote},
    strategy,
};

use crate::{
    admission::webhook::{Caller, Client},
    core::Core,
};

const GROUP: &str = "apiextensions.k8s.io";
/// Timeout of a conversion webhook call.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The request to a webhook, which borrows the objects.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    api_version: &'a str,
    kind: &'a str,
    request: Request<'a>,
}

#[derive(Serialize)]
struct Request<'a> {
    #[serde(rename = "desiredAPIVersion")]
    to: &'a str,
    objects: &'a [&'a Value],
    uid: &'a str,
}

/// The conversion webhook of a definition.
#[derive(Debug)]
pub(crate) struct Converter {
    client: Client,
    caller: Caller,
    environment: Arc<dyn Environment>,
    /// The review versions that the webhook supports, from the definition.
    reviews: Vec<String>,
    /// The apiVersions of the definition.
    known: Vec<String>,
}

impl Converter {
    /// Returns the converter of a definition, if its strategy is `Webhook`.
    pub(super) fn new(core: &Core, definition: &Value) -> Option<Self> {
        let spec = &definition["spec"];
        let conversion = &spec["conversion"];
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let group = text(&spec["group"]);
        let webhook = &conversion["webhook"];
        Some(Self {
            client: Client::new(&webhook["clientConfig"]),
            caller: core.webhooks.caller.clone(),
            environment: Arc::clone(&core.environment),
            reviews: list(&webhook["conversionReviewVersions"]).iter().map(text).collect(),
            known: list(&spec["versions"]).iter().map(|v| format!("{group}/{}", text(&v["name"]))).collect(),
        })
    }

    /// Converts objects to version `to` and returns whether each was changed.
    /// Objects already in that version are not sent to the webhook.
    ///
    /// # Errors
    /// If the conversion fails, with the text of the real server.
    async fn convert_all(&self, objects: Vec<Value>, to: &str) -> Result<Vec<(Value, bool)>, String> {
        // Empty objects need no conversion.
        let is_other = |object: &Value| object["apiVersion"] != to && !is_empty(object);
        let asked: Vec<&Value> = objects.iter().filter(|object| is_other(object)).collect();
        let Some(first) = asked.first() else {
            return Ok(objects.into_iter().map(|object| (named(object, to), false)).collect());
        };
        if !self.known.iter().any(|known| known == to) {
            return Err(format!("request to convert CR to an invalid group/version: {to}"));
        }
        for object in &asked {
            let from = text(object, &["apiVersion"]);
            if !self.known.iter().any(|known| known == from) {
                return Err(format!("request to convert CR from an invalid group/version: {from}"));
            }
        }
        let whose = format!("conversion webhook for {}", kind_of(first));
        let answers = self.ask(&asked, to).await.map_err(|why| format!("{whose} failed: {why}"))?;
        if answers.len() != asked.len() {
            return Err(format!("{whose} returned {} objects, expected {}", answers.len(), asked.len()));
        }
        let (mut answers, single) = (answers.into_iter(), asked.len() == 1);
        let mut converted = Vec::with_capacity(objects.len());
        let mut index = 0;
        for original in objects {
            if !is_other(&original) {
                converted.push((named(original, to), false));
                continue;
            }
            let answer = answers.next().unwrap_or_default();
            let answer =
                accept(&original, answer, to).map_err(|odd| format!("{whose} {}", odd.say(index, single)))?;
            converted.push((answer, true));
            index += 1;
        }
        Ok(converted)
    }

    /// Calls the webhook and returns the converted objects.
    async fn ask(&self, objects: &[&Value], to: &str) -> Result<Vec<Value>, String> {
        let known = |version: &&String| matches!(version.as_str(), "v1" | "v1beta1");
        let Some(version) = self.reviews.iter().find(known) else {
            return Err("no supported conversion review versions".into());
        };
        let uid = self.environment.uid();
        let question = Question {
            api_version: &format!("{GROUP}/{version}"),
            kind: "ConversionReview",
            request: Request { to, objects, uid: &uid },
        };
        let question = serde_json::to_vec(&question).map_err(|error| error.to_string())?;
        let answer = self.caller.call(&self.client, &question.into(), TIMEOUT).await?;
        let mut answer: Value = serde_json::from_slice(&answer).map_err(|error| {
            format!("couldn't get version/kind; json parse error: {}", schema::syntax(&answer, &error))
        })?;
        if version == "v1" {
            let expected = format!("{GROUP}/v1, Kind=ConversionReview");
            let found = kind_of(&answer);
            if found != expected {
                return Err(format!("expected webhook response of {expected}, got {found}"));
            }
        }
        // The response may be any JSON value.
        let mut response = answer.get_mut("response").map(Value::take).unwrap_or_default();
        if response.is_null() {
            return Err("no response provided".into());
        }
        let given = text(&response, &["uid"]);
        if version == "v1" && given != uid {
            return Err(format!("expected response.uid={}, got {}", quote(&uid), quote(given)));
        }
        let status = text(&response, &["result", "status"]);
        if status != "Success" {
            return Err(match text(&response, &["result", "message"]) {
                "" => format!("response.result.status was '{status}', not 'Success'"),
                message => message.to_owned(),
            });
        }
        match response.get_mut("convertedObjects").map(Value::take) {
            Some(Value::Array(objects)) => Ok(objects),
            _ => Ok(Vec::new()),
        }
    }
}

impl strategy::Converter for Converter {
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        to: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(Value, bool)>, String>> {
        Box::pin(self.convert_all(objects, to))
    }
}

/// Whether an object has only `apiVersion` and `kind`.
fn is_empty(object: &Value) -> bool {
    object.as_object().is_some_and(|fields| fields.keys().all(|key| key == "apiVersion" || key == "kind"))
}

/// Returns the object with another `apiVersion`.
fn named(mut object: Value, api_version: &str) -> Value {
    object::ensure(&mut object).insert("apiVersion".into(), api_version.into());
    object
}

fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    object::text(value, path).unwrap_or_default()
}

/// Formats an object's type: `group/version, Kind=kind`.
fn kind_of(object: &Value) -> String {
    format!("{}, Kind={}", text(object, &["apiVersion"]), text(object, &["kind"]))
}

/// The reasons a converted object is invalid.
enum InvalidConversion {
    /// Wrong kind or version.
    Kind(String),
    /// A different object.
    Identity(String),
    /// Invalid metadata.
    Metadata(String),
}

impl InvalidConversion {
    /// Formats the message, which differs for a single object and for one of several.
    fn say(&self, index: usize, single: bool) -> String {
        match self {
            Self::Kind(why) if single => format!("returned invalid object at index {index}: {why}"),
            Self::Identity(why) if single => format!("returned invalid object: {why}"),
            Self::Kind(why) | Self::Identity(why) => {
                format!("returned invalid converted object at index {index}: {why}")
            }
            Self::Metadata(why) if single => format!("returned invalid metadata: {why}"),
            Self::Metadata(why) => format!("returned invalid metadata in object at index {index}: {why}"),
        }
    }
}

/// Validates a converted object and restores the metadata that a conversion must not change.
fn accept(original: &Value, mut converted: Value, to: &str) -> Result<Value, InvalidConversion> {
    let field = |name: &str| (text(original, &[name]), text(&converted, &[name]));
    let (_, version) = field("apiVersion");
    if version != to {
        return Err(InvalidConversion::Kind(format!(
            "invalid groupVersion (expected {to}, received {version})"
        )));
    }
    let (expected, kind) = field("kind");
    if kind != expected {
        return Err(InvalidConversion::Kind(format!("invalid kind (expected {expected}, received {kind})")));
    }
    for (name, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (before, after) = (object::meta_text(original, name), object::meta_text(&converted, name));
        if before != after {
            return Err(InvalidConversion::Identity(format!(
                "must have the same {shown}: {before} != {after}"
            )));
        }
    }
    let said = match converted.get_mut("metadata").map(Value::take) {
        None => return Err(InvalidConversion::Metadata("missing metadata in converted object".into())),
        Some(said @ Value::Object(_)) => said,
        Some(other) => {
            let found = go_type(&other);
            return Err(InvalidConversion::Metadata(format!(
                "invalid metadata of type {found} in converted object"
            )));
        }
    };
    object::carry(original, &mut converted, "metadata");
    for name in ["labels", "annotations"] {
        let Some(entries) = said.get(name).filter(|entries| !entries.is_null()) else {
            object::metadata(&mut converted).remove(name);
            continue;
        };
        let Some(pairs) = entries.as_object() else {
            let found = go_type(entries);
            return Err(InvalidConversion::Metadata(format!(
                "invalid metadata.{name} of type {found} in converted object"
            )));
        };
        if let Some((key, odd)) = pairs.iter().find(|(_, value)| !value.is_string()) {
            let found = go_type(odd);
            return Err(InvalidConversion::Metadata(format!(
                "metadata.{name}[{key}] must be a string, but is {found} in converted object"
            )));
        }
        let changed = original["metadata"].get(name) != Some(entries);
        object::metadata(&mut converted).insert(name.into(), entries.clone());
        if changed {
            let mut errors = Vec::new();
            if name == "labels" {
                metadata::labels(&converted, "metadata.labels", &["metadata", "labels"], &mut errors);
            } else {
                metadata::annotations(&converted, &mut errors);
            }
            if !errors.is_empty() {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                return Err(InvalidConversion::Metadata(aggregate(&errors)));
            }
        }
    }
    Ok(converted)
}

/// Returns Go's name for the type of a JSON value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
