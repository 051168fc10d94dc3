//! Actions: named changes to an object, each made with a single request (a button in the portal).

use http::{Method, Response, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    access,
    answer::{self, Body},
    field::{self, Step},
    health, history,
    kinds::{Kind, list},
    problem::{Problem, Result},
    request::RequestContext,
    writes::{self, Change},
};

steersman_core::vocabulary! {
    /// Annotations that `steer serve` reads, and those that its actions set.
    pub const ANNOTATIONS = {
        /// On a CRD: actions of its kind in addition to the built-in ones, as JSON.
        const DECLARED = "steersman.dev/actions";
        /// On an object: set by the action `reconcile` to the current time, to trigger a reconcile by its
        /// operator.
        const REQUESTED = "steersman.dev/reconcile-requested-at";
        /// On a pod template: set by the action `restart` to the current time, as by `kubectl rollout
        /// restart`.
        const RESTARTED = "kubectl.kubernetes.io/restartedAt";
    };
}

/// A named change to an object.
#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub(crate) name: String,
    title: String,
    description: String,
    confirm: Option<String>,
    /// The path of the field that the action sets.
    value: Option<String>,
    /// The JSON schema of the value that a request has to provide.
    input: Option<Value>,
    effect: Effect,
}

#[derive(Debug, Clone)]
enum Effect {
    /// Sets a field to the request's value.
    Set(Vec<Step>),
    /// Applies a merge patch.
    Merge(Value),
    /// Sets the replicas through the scale subresource. The path is that of the field which it maps to.
    Scale(Vec<Step>),
    /// Sets an annotation to the current time.
    Stamp(&'static [&'static str], &'static str),
    Rollback,
}

/// An action as declared on a CustomResourceDefinition.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    name: String,
    title: Option<String>,
    #[serde(default)]
    description: String,
    confirm: Option<String>,
    value: Option<String>,
    patch: Option<Value>,
}

/// Returns the actions of a kind, or of one object. An object may have fields that the schema lacks.
pub(crate) fn of(kind: &Kind, object: Option<&Value>) -> Vec<Action> {
    let mut actions = Vec::new();
    if !kind.has_verb("patch") {
        return actions;
    }
    let count = || Some(json!({"type": "integer", "minimum": 0}));
    if let Some((path, effect)) = scale(kind, object) {
        actions.push(action("scale", "Scale", format!("Set {path}"), Some(path), count(), effect));
    }
    if let Some((path, [pause, resume])) = pause(kind, object) {
        let merge = |patch| Effect::Merge(patch);
        actions.push(action(
            "pause",
            "Pause",
            "Stop reconciling changes".into(),
            Some(path.clone()),
            None,
            merge(pause),
        ));
        actions.push(action(
            "resume",
            "Resume",
            "Reconcile changes again".into(),
            Some(path),
            None,
            merge(resume),
        ));
    }
    if kind.group == "apps" && ["Deployment", "StatefulSet", "DaemonSet"].contains(&kind.kind.as_str()) {
        let effect = Effect::Stamp(&["spec", "template", "metadata", "annotations"], RESTARTED);
        actions.push(action(
            "restart",
            "Restart",
            "Replace the pods in a rolling update".into(),
            None,
            None,
            effect,
        ));
    }
    let stamp = Effect::Stamp(&["metadata", "annotations"], REQUESTED);
    actions.push(action("reconcile", "Reconcile", "Reconcile now".into(), None, None, stamp));
    if kind.custom {
        let revision = Some(json!({"type": "integer", "minimum": 1}));
        let description = "Restore the spec of an earlier revision".into();
        actions.push(action("rollback", "Roll back", description, None, revision, Effect::Rollback));
    }
    for declared in declared(kind) {
        actions.retain(|known| known.name != declared.name);
        actions.push(declared);
    }
    actions
}

fn action(
    name: &str,
    title: &str,
    description: String,
    value: Option<String>,
    input: Option<Value>,
    effect: Effect,
) -> Action {
    Action { name: name.into(), title: title.into(), description, confirm: None, value, input, effect }
}

/// Finds the field with the number of replicas, and how it is set.
fn scale(kind: &Kind, object: Option<&Value>) -> Option<(String, Effect)> {
    if kind.subresources.iter().any(|name| name == "scale") {
        let path =
            kind.scale().and_then(|scale| scale["specReplicasPath"].as_str()).unwrap_or(".spec.replicas");
        let path = path.trim_start_matches('.').to_owned();
        let steps = field::parse(&path)?;
        return Some((path, Effect::Scale(steps)));
    }
    ["replicas", "replicaCount"].into_iter().find_map(|name| {
        let typed = spec_property(kind, name).is_some_and(|schema| schema["type"] == "integer");
        let live = object.is_some_and(|object| object["spec"][name].is_u64());
        (typed || live).then(|| {
            let path = format!("spec.{name}");
            (path, Effect::Set(vec![Step::Key("spec".into()), Step::Key(name.into())]))
        })
    })
}

/// Finds the field that pauses the object: in its spec, or the annotation that chart operators read.
fn pause(kind: &Kind, object: Option<&Value>) -> Option<(String, [Value; 2])> {
    let builtin = match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "Deployment") => Some("paused"),
        ("batch", "CronJob" | "Job") => Some("suspend"),
        _ => None,
    };
    let switch = builtin.or_else(|| {
        ["paused", "suspend"]
            .into_iter()
            .find(|name| spec_property(kind, name).is_some_and(|schema| schema["type"] == "boolean"))
    });
    if let Some(name) = switch {
        return Some((format!("spec.{name}"), [true, false].map(|on| json!({"spec": {name: on}}))));
    }
    object?.pointer("/status/deployedRelease")?;
    let path = field::join("metadata.annotations", health::PAUSED);
    Some((
        path,
        [json!("true"), Value::Null].map(|on| json!({"metadata": {"annotations": {health::PAUSED: on}}})),
    ))
}

fn spec_property<'a>(kind: &'a Kind, name: &str) -> Option<&'a Value> {
    kind.schema()?.pointer("/properties/spec/properties")?.get(name)
}

/// Returns the schema of the field at a path that consists of keys only.
fn schema_at<'a>(kind: &'a Kind, steps: &[Step]) -> Option<&'a Value> {
    steps.iter().try_fold(kind.schema()?, |schema, step| match step {
        Step::Key(key) => schema["properties"].get(key).or_else(|| schema.get("additionalProperties")),
        _ => None,
    })
}

fn declared(kind: &Kind) -> Vec<Action> {
    let Some(text) = kind.annotation(DECLARED) else { return Vec::new() };
    let declared: Vec<Declared> = match serde_json::from_str(text) {
        Ok(declared) => declared,
        Err(error) => {
            tracing::warn!(kind = kind.name(), %error, "the CRD's annotation {DECLARED} cannot be parsed");
            return Vec::new();
        }
    };
    declared.into_iter().filter_map(|one| one.into_action(kind)).collect()
}

impl Declared {
    /// Converts the declaration. None unless it has exactly one of `value` and `patch`, and `value` names a single
    /// field.
    fn into_action(self, kind: &Kind) -> Option<Action> {
        let (effect, input) = match (&self.value, self.patch) {
            (Some(path), None) => {
                let steps = field::parse(path)?;
                field::patch(&steps, Value::Null)?;
                let input = schema_at(kind, &steps).cloned().unwrap_or_else(|| json!({}));
                (Effect::Set(steps), Some(input))
            }
            (None, Some(patch)) if patch.is_object() => (Effect::Merge(patch), None),
            _ => {
                tracing::warn!(
                    kind = kind.name(),
                    action = self.name,
                    "an action needs exactly one of `value` and `patch`"
                );
                return None;
            }
        };
        Some(Action {
            title: self.title.unwrap_or_else(|| self.name.clone()),
            name: self.name,
            description: self.description,
            confirm: self.confirm,
            value: self.value,
            input,
            effect,
        })
    }
}

pub(crate) fn documents(actions: &[Action]) -> Vec<Value> {
    let document = |action: &Action| {
        json!({
            "name": action.name, "title": action.title, "description": action.description, "input": action.input,
            "value": action.value, "confirm": action.confirm,
        })
    };
    actions.iter().map(document).collect()
}

impl Action {
    /// The subresource that the action writes to.
    pub(crate) fn subresource(&self) -> &'static str {
        if matches!(self.effect, Effect::Scale(_)) { "scale" } else { "" }
    }

    /// Validates the request's value against the schema, as far as that yields readable errors. The API server
    /// validates all of it.
    fn check(&self, value: &Value) -> Result<()> {
        let Some(input) = &self.input else {
            return if value.is_null() {
                Ok(())
            } else {
                Err(Problem::invalid("value", format!("the action {} takes no value", self.name)))
            };
        };
        let fits = match input["type"].as_str() {
            _ if value.is_null() => false,
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            _ => true,
        };
        if !fits {
            let wanted = input["type"].as_str().unwrap_or("value");
            return Err(Problem::invalid(
                "value",
                format!("the action {} takes a value of type {wanted}", self.name),
            ));
        }
        let below = input["minimum"].as_f64().zip(value.as_f64()).is_some_and(|(least, value)| value < least);
        if below {
            return Err(Problem::invalid(
                "value",
                format!("should be greater than or equal to {}", input["minimum"]),
            ));
        }
        let choices = list(&input["enum"]);
        if !choices.is_empty() && !choices.contains(value) {
            return Err(Problem::invalid("value", format!("is not one of {}", Value::from(choices))));
        }
        Ok(())
    }
}

/// Serves `GET …/actions`: the actions of one object, and whether the caller may perform them.
pub(crate) async fn list_of(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Response<Body>> {
    ctx.query.allow(&["version"])?;
    let object = ctx.caller.cluster.get(&kind.path(namespace, Some(name))).await?;
    let actions = of(kind, Some(&object));
    let allowed = access::of_actions(ctx, kind, namespace, Some(name), &actions).await?;
    let mut documents = documents(&actions);
    for (document, allowed) in documents.iter_mut().zip(allowed) {
        document["allowed"] = allowed["allowed"].clone();
        document["reason"] = allowed["reason"].clone();
    }
    Ok(answer::json(StatusCode::OK, &json!({"items": documents})))
}

/// `POST …/actions/{action}`.
pub(crate) async fn take(
    ctx: &RequestContext,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
    action: &str,
) -> Result<Response<Body>> {
    ctx.query.allow(writes::PARAMETERS)?;
    let request = if ctx.body.is_empty() { json!({}) } else { ctx.json()? };
    let unknown = request.as_object().map(|request| request.keys().find(|key| *key != "value"));
    match unknown {
        None => return Err(Problem::bad_request("the body must be an object such as {\"value\": 3}")),
        Some(Some(key)) => return Err(Problem::invalid(key, "is unknown; the body has only `value`")),
        Some(None) => {}
    }
    let live = ctx.caller.cluster.get(&kind.path(namespace, Some(name))).await?;
    let actions = of(kind, Some(&live));
    let action = actions.iter().find(|known| known.name == action).ok_or_else(|| {
        let names: Vec<_> = actions.iter().map(|action| action.name.as_str()).collect();
        Problem::not_found(format!("{} has no action {action}; available: {}", kind.kind, names.join(", ")))
    })?;
    let value = request["value"].clone();
    action.check(&value)?;
    let object_path = kind.path(namespace, Some(name));
    let merge = |patch: Option<Value>| {
        let patch =
            patch.ok_or_else(|| Problem::bad_request("the action sets no field that can be patched"))?;
        Ok(Change {
            method: Method::PATCH,
            path: object_path.clone(),
            content_type: writes::MERGE,
            body: patch,
            behind: None,
        })
    };
    let change = match &action.effect {
        Effect::Set(steps) => merge(field::patch(steps, value))?,
        Effect::Merge(patch) => merge(Some(patch.clone()))?,
        Effect::Stamp(path, annotation) => {
            let stamp = json!({*annotation: Timestamp::now().to_string()});
            let keys: Vec<Step> = path.iter().map(|key| Step::Key((*key).to_owned())).collect();
            merge(field::patch(&keys, stamp))?
        }
        Effect::Scale(steps) => Change {
            method: Method::PATCH,
            path: format!("{object_path}/scale"),
            content_type: writes::MERGE,
            body: json!({"spec": {"replicas": value}}),
            behind: field::patch(steps, value),
        },
        Effect::Rollback => history::restore(ctx, kind, &live, &value).await?,
    };
    writes::perform(ctx, kind, namespace, Some(name), &action.name, change, Some(live)).await
}
