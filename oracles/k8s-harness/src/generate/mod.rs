//! Cases generated from a seed: the same seed, area and number always produce the same case.

mod applies;
mod custom;
mod kinds;
mod lists;
mod objects;
mod patches;
mod random;
mod rules;
mod schemas;

use std::path::PathBuf;

use serde_json::Value;

pub use self::schemas::{SchemaError, Schemas};
use crate::corpus::{Case, Step};
use random::Random;

/// The areas, with their share of a thousand cases.
///
/// Cases that create a definition take a second each on the real server, so there are fewer of them.
const AREAS: [(&str, usize, Maker); 8] = [
    ("generated-objects", 330, objects::case),
    ("generated-patches", 280, patches::case),
    ("generated-applies", 220, applies::case),
    ("generated-lists", 60, lists::case),
    ("generated-definitions", 50, custom::definition),
    ("generated-rules", 40, rules::definition),
    ("generated-custom", 12, custom::case),
    ("generated-ruled", 8, rules::case),
];

type Maker = fn(&Schemas, &mut Random) -> Vec<Step>;

/// Generates about `count` cases, spread over all areas.
#[must_use]
pub fn cases(schemas: &Schemas, seed: u64, count: usize) -> Vec<Case> {
    let mut all = Vec::with_capacity(count);
    for (area, share, make) in AREAS {
        for number in 0..(count * share).div_ceil(1000) {
            let mut random = Random::new(seed, area, number);
            let mut steps = make(schemas, &mut random);
            steps.iter_mut().for_each(keep_apart);
            all.push(Case { feature: area.to_owned(), name: format!("seed {seed} number {number}"), steps });
        }
    }
    all
}

/// Removes what would change the outcome of other cases. A global default PriorityClass affects all pods created after it.
fn keep_apart(step: &mut Step) {
    if !step.request.contains("/priorityclasses") {
        return;
    }
    for body in [&mut step.json, &mut step.merge, &mut step.strategic, &mut step.apply, &mut step.jsonpatch] {
        let Some(body) = body else { continue };
        if let Some(default) = body.get_mut("globalDefault") {
            *default = Value::from(false);
        }
        for operation in body.as_array_mut().into_iter().flatten() {
            let whole = operation.get("path") == Some(&Value::from("/globalDefault"));
            if let Some(value) = operation.get_mut("value").filter(|_| whole) {
                *value = Value::from(false);
            }
        }
    }
}

/// Returns the path of the built-in schemas, `kubernetes/openapi-schemas.json` in the shared data. That is next to the
/// checkout or in `STEERSMAN_SHARED`.
#[must_use]
pub fn schema_file() -> PathBuf {
    let shared = std::env::var_os("STEERSMAN_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    shared.join("kubernetes/openapi-schemas.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_cases() {
        let Ok(schemas) = Schemas::load(&schema_file()) else {
            eprintln!("SKIPPED: {} is absent", schema_file().display());
            return;
        };
        let keys = |seed| cases(&schemas, seed, 200).iter().map(Case::key).collect::<Vec<_>>();
        assert_eq!(keys(1), keys(1));
        assert_ne!(keys(1), keys(2));
    }
}
