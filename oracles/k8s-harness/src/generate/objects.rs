//! Objects of built-in kinds with random fields: create, replace, delete.

use serde_json::Value;

use super::kinds::{KINDS, Kind};
use super::random::Random;
use super::schemas::Schemas;
use crate::corpus::Step;

pub(crate) fn case(schemas: &Schemas, random: &mut Random) -> Vec<Step> {
    let kind = random.pick(&KINDS);
    let object = mutated(schemas, kind, random, 4);
    let mut steps =
        vec![Step { request: format!("POST {}", kind.path), json: Some(object.clone()), ..Step::default() }];
    if random.percent(60) {
        let mut changed = if random.percent(50) { object } else { kind.object() };
        change(schemas, kind, &mut changed, random, 2);
        steps.push(Step {
            request: format!("PUT {}", kind.object_path()),
            json: Some(changed),
            ..Step::default()
        });
    }
    if random.percent(25) {
        steps.push(Step { request: format!("DELETE {}", kind.object_path()), ..Step::default() });
    }
    steps
}

/// Returns the valid object with up to `most` changes.
pub(crate) fn mutated(schemas: &Schemas, kind: &Kind, random: &mut Random, most: usize) -> Value {
    let mut object = kind.object();
    change(schemas, kind, &mut object, random, most);
    object
}

/// Changes an object in up to `most` places.
pub(crate) fn change(schemas: &Schemas, kind: &Kind, object: &mut Value, random: &mut Random, most: usize) {
    if let Some(schema) = schemas.of_kind(&kind.group, &kind.version, &kind.kind) {
        for _ in 0..random.below(most + 1) {
            schemas.mutate(object, schema, random);
        }
    }
}
