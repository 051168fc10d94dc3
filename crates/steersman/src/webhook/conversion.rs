//! Conversion between the versions of a kind, through one of them as the hub.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use serde_json::{Value, json};

use crate::kind::{Kind, Object};

type Convert = Arc<dyn Fn(Value) -> Result<Value, String> + Send + Sync>;

/// Conversion between the versions of a kind. All go through the hub, so each other version needs two functions.
///
/// A conversion must lose nothing: what a version can't express belongs in an annotation.
///
/// ```
/// use k8s_openapi::api::autoscaling::{v1, v2};
/// use steersman::Conversion;
///
/// // Converts what the two versions have in common; a real one keeps the rest in an annotation.
/// let conversion = Conversion::hub::<v2::HorizontalPodAutoscaler>().spoke(
///     |old: v1::HorizontalPodAutoscaler| {
///         Ok(v2::HorizontalPodAutoscaler { metadata: old.metadata, ..Default::default() })
///     },
///     |new: v2::HorizontalPodAutoscaler| {
///         Ok(v1::HorizontalPodAutoscaler { metadata: new.metadata, ..Default::default() })
///     },
/// );
/// ```
#[derive(Clone)]
#[must_use]
pub struct Conversion {
    pub(crate) hub: Kind,
    spokes: BTreeMap<String, (Convert, Convert)>,
}

impl Conversion {
    /// Uses a version as the hub, usually the storage version.
    pub fn hub<H: Object>() -> Self {
        Self { hub: Kind::of::<H>(), spokes: BTreeMap::new() }
    }

    /// Adds a version, with its conversions to the hub and from it.
    pub fn spoke<S: Object, H: Object>(
        mut self,
        to_hub: impl Fn(S) -> Result<H, String> + Send + Sync + 'static,
        from_hub: impl Fn(H) -> Result<S, String> + Send + Sync + 'static,
    ) -> Self {
        let version = S::api_version(&()).into_owned();
        self.spokes.insert(
            version,
            (
                Arc::new(move |value| through(value, &to_hub)),
                Arc::new(move |value| through(value, &from_hub)),
            ),
        );
        self
    }

    fn convert(&self, object: Value, desired: &str) -> Result<Value, String> {
        let current = object["apiVersion"].as_str().unwrap_or_default().to_owned();
        if current == desired {
            return Ok(object);
        }
        let hub = &self.hub.resource().api_version;
        let unknown = |version: &str| format!("unknown version {version}");
        let object = if current == *hub {
            object
        } else {
            let (to_hub, _) = self.spokes.get(&current).ok_or_else(|| unknown(&current))?;
            to_hub(object)?
        };
        if desired == hub {
            return Ok(object);
        }
        let (_, from_hub) = self.spokes.get(desired).ok_or_else(|| unknown(desired))?;
        from_hub(object)
    }
}

/// Converts by a typed function. The metadata are kept, except for labels and annotations.
fn through<A: Object, B: Object>(
    value: Value,
    convert: &dyn Fn(A) -> Result<B, String>,
) -> Result<Value, String> {
    let meta = value["metadata"].clone();
    let object: A = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let mut converted = serde_json::to_value(convert(object)?).map_err(|error| error.to_string())?;
    let mut kept = meta;
    if let Some(kept) = kept.as_object_mut() {
        for name in ["labels", "annotations"] {
            match converted["metadata"].get_mut(name).map(Value::take) {
                Some(value) if !value.is_null() => drop(kept.insert(name.to_owned(), value)),
                _ => drop(kept.remove(name)),
            }
        }
    }
    converted["metadata"] = kept;
    converted["apiVersion"] = B::api_version(&()).into();
    converted["kind"] = B::kind(&()).into();
    Ok(converted)
}

/// Answers a conversion request.
pub(super) fn answer(conversions: &[Conversion], request: &Value) -> Value {
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().cloned().unwrap_or_default();
    let converted: Result<Vec<Value>, String> = objects
        .into_iter()
        .map(|object| {
            let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
            let found = conversions.iter().find(|conversion| {
                conversion.hub.matches(version.unwrap_or_default(), kind.unwrap_or_default())
            });
            let found = found.ok_or_else(|| format!("no conversion is registered for {}", object["kind"]))?;
            // The user functions are called for whatever is stored: a panic must not cost the connection.
            catch_unwind(AssertUnwindSafe(|| found.convert(object, desired))).unwrap_or_else(|_| {
                tracing::error!(kind = %found.hub, desired, "a conversion panicked");
                Err("the conversion panicked".into())
            })
        })
        .collect();
    match converted {
        Ok(objects) => json!({
            "uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"},
        }),
        Err(message) => json!({
            "uid": request["uid"], "convertedObjects": [], "result": {"status": "Failure", "message": message},
        }),
    }
}
