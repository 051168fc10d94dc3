//! Paginated lists of a few labelled objects by random selectors.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::random::Random;
use super::schemas::Schemas;
use crate::corpus::{Compared, Step};

const COLLECTION: &str = "/api/v1/namespaces/{ns}/configmaps";
const KEYS: [&str; 4] = ["app", "tier", "example.com/role", "n"];
const VALUES: [&str; 6] = ["web", "db", "", "1", "7", "x-y"];

pub(crate) fn case(_: &Schemas, random: &mut Random) -> Vec<Step> {
    let mut steps = Vec::new();
    for index in 0..3 + random.below(4) {
        let mut labels = Map::new();
        for key in KEYS {
            if random.percent(50) {
                labels.insert(key.to_owned(), random.text(&VALUES));
            }
        }
        steps.push(Step {
            request: format!("POST {COLLECTION}"),
            json: Some(json!({"metadata": {"name": format!("m{index}"), "labels": labels}})),
            compare: Compared::Nothing,
            ..Step::default()
        });
    }
    for _ in 0..3 {
        let mut query = format!("labelSelector={}", selector(random));
        if random.percent(25) {
            query.push_str(&format!(
                "&fieldSelector=metadata.name{}m{}",
                random.pick(&["=", "!=", "=="]),
                random.below(4)
            ));
        }
        if random.percent(40) {
            query.push_str(&format!("&limit={}", 1 + random.below(3)));
        }
        let accept = random.percent(20).then(|| "partial-list".to_owned());
        steps.push(Step {
            request: format!("GET {COLLECTION}?{query}"),
            accept: accept.clone(),
            save: BTreeMap::from([("next".to_owned(), "/metadata/continue".to_owned())]),
            ..Step::default()
        });
    }
    steps
}

fn selector(random: &mut Random) -> String {
    let terms: Vec<String> = (0..=random.below(3)).map(|_| term(random)).collect();
    terms.join(",")
}

fn term(random: &mut Random) -> String {
    let key = *random.pick(&KEYS);
    let mut values: Vec<Value> = Vec::new();
    for _ in 0..=random.below(3) {
        values.push(random.text(&VALUES));
    }
    let list: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
    let value = list[0];
    match random.below(11) {
        0 => format!("{key}={value}"),
        1 => format!("{key}=={value}"),
        2 => format!("{key}!={value}"),
        3 => format!("{key} in ({})", list.join(",")),
        4 => format!("{key} notin ({})", list.join(",")),
        5 => key.to_owned(),
        6 => format!("!{key}"),
        7 => format!("{key}>{value}"),
        8 => format!("{key}<{value}"),
        9 => format!(" {key} = {value} "),
        // Invalid in one of many ways.
        _ => (*random.pick(&[
            "=",
            "a in",
            "a in (",
            "a,,b",
            "!",
            "a==",
            "a=b=c",
            "a notin b",
            "a b",
            "(a)",
            "a!",
            "a>",
            "-a=b",
        ]))
        .to_owned(),
    }
}
