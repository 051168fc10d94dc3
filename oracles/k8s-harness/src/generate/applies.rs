//! Sequences of applies and updates by several field managers.

use serde_json::Value;

use super::kinds::KINDS;
use super::objects::change;
use super::patches::part;
use super::random::Random;
use super::schemas::Schemas;
use crate::corpus::Step;

pub(crate) fn case(schemas: &Schemas, random: &mut Random) -> Vec<Step> {
    let kind = random.pick(&KINDS);
    let path = kind.object_path();
    let mut steps = Vec::new();
    for index in 0..3 + random.below(4) {
        let manager = *random.pick(&["one", "two", "three"]);
        let force = if random.percent(35) { "&force=true" } else { "" };
        // Later steps start from the valid object again: the server's current state is not known
        // here.
        let mut object = kind.object();
        if index > 0 {
            change(schemas, kind, &mut object, random, 2);
            object = keep_identity(&object, part(&object, random, 0));
        }
        let mut step = Step::default();
        match random.below(10) {
            0 if index > 0 => {
                step.request = format!("PATCH {path}?fieldManager={manager}");
                step.merge = Some(strip(object));
            }
            1 if index > 0 => {
                step.request = format!("PATCH {path}?fieldManager={manager}");
                step.strategic = Some(strip(object));
            }
            2 if index > 0 => {
                let mut whole = kind.object();
                change(schemas, kind, &mut whole, random, 1);
                step.request = format!("PUT {path}?fieldManager={manager}");
                step.json = Some(whole);
            }
            _ => {
                step.request = format!("PATCH {path}?fieldManager={manager}{force}");
                step.apply = Some(object);
            }
        }
        steps.push(step);
    }
    steps
}

/// Completes a part of an object so that it can be applied.
fn keep_identity(whole: &Value, mut part: Value) -> Value {
    for field in ["apiVersion", "kind"] {
        part[field] = whole[field].clone();
    }
    part["metadata"]["name"] = whole["metadata"]["name"].clone();
    part
}

/// Removes the fields that a patch does not need.
fn strip(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    object
}
