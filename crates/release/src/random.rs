//! Values that templates draw at random: keeping those of the last revision.
//!
//! A place whose value differs between two renders of the same chart with the same values is drawn at random, or follows
//! from something that is. Such places keep what they held in the last revision, if they were there.

use std::collections::HashMap;

use serde_json::Value;
use steersman_chart::{Manifest, Rendered};

use crate::error::Result;
use crate::object::documents;
use crate::record::Release;

/// What tells objects of one manifest apart, without a cluster.
type Key = (String, String, String, String);

fn key(document: &Value) -> Key {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = |name: &str| text(document.get("metadata").and_then(|metadata| metadata.get(name)));
    let group = text(document.get("apiVersion"));
    let group = group.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    (group, text(document.get("kind")), metadata("namespace"), metadata("name"))
}

/// Puts what the last revision held into the places of `rendered` that `again` shows to be random.
pub(crate) fn keep(rendered: &mut Rendered, again: &Rendered, last: &Release) -> Result<()> {
    let mut known: HashMap<Key, Value> = HashMap::new();
    for document in documents(&last.manifest)? {
        known.insert(key(&document), document);
    }
    for hook in &last.hooks {
        for document in documents(&hook.manifest)? {
            known.insert(key(&document), document);
        }
    }
    let pairs = rendered.manifests.iter_mut().zip(&again.manifests);
    for (manifest, other) in pairs {
        keep_in(manifest, other, &known)?;
    }
    for (hook, other) in rendered.hooks.iter_mut().zip(&again.hooks) {
        keep_in(&mut hook.manifest, &other.manifest, &known)?;
    }
    Ok(())
}

fn keep_in(manifest: &mut Manifest, other: &Manifest, known: &HashMap<Key, Value>) -> Result<()> {
    if manifest.content == other.content {
        return Ok(());
    }
    let (ours, theirs) = (documents(&manifest.content)?, documents(&other.content)?);
    let ([ours], [theirs]) = (ours.as_slice(), theirs.as_slice()) else { return Ok(()) };
    let Some(before) = known.get(&key(ours)) else { return Ok(()) };
    let mut merged = ours.clone();
    if settle(&mut merged, theirs, before)
        && let Ok(text) = steersman_yaml::to_string(&merged)
    {
        manifest.content = text.trim_end().to_owned();
    }
    Ok(())
}

/// Takes what `before` holds where `ours` and `theirs` differ; says whether anything was taken.
fn settle(ours: &mut Value, theirs: &Value, before: &Value) -> bool {
    if ours == theirs {
        return false;
    }
    match (&mut *ours, theirs, before) {
        (Value::Object(ours), Value::Object(theirs), Value::Object(before)) => {
            let mut taken = false;
            for (key, value) in ours.iter_mut() {
                if let (Some(other), Some(before)) = (theirs.get(key), before.get(key)) {
                    taken |= settle(value, other, before);
                }
            }
            taken
        }
        (Value::Array(ours), Value::Array(theirs), Value::Array(before))
            if ours.len() == theirs.len() && ours.len() == before.len() =>
        {
            let mut taken = false;
            for ((value, other), before) in ours.iter_mut().zip(theirs).zip(before) {
                taken |= settle(value, other, before);
            }
            taken
        }
        (Value::Object(_) | Value::Array(_), ..) => false,
        (_, _, Value::Object(_) | Value::Array(_)) => false,
        _ => {
            *ours = before.clone();
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_that_differ_between_renders_keep_their_value() {
        let mut ours =
            json!({ "data": { "password": "b", "user": "new", "fresh": "x" }, "list": [{ "k": "b" }] });
        let theirs =
            json!({ "data": { "password": "c", "user": "new", "fresh": "y" }, "list": [{ "k": "c" }] });
        let before = json!({ "data": { "password": "a", "user": "old" }, "list": [{ "k": "a" }] });
        assert!(settle(&mut ours, &theirs, &before));
        assert_eq!(
            ours,
            json!({ "data": { "password": "a", "user": "new", "fresh": "x" }, "list": [{ "k": "a" }] })
        );
    }
}
