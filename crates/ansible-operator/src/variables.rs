//! The extra variables of a run, built from the object and watches.yaml.

use serde_json::{Map, Value, json};

use crate::snake_case::snake_case;
use crate::watches::WatchConfig;

/// The key by which Ansible's JSON decoder recognizes a string that must not be templated.
const UNSAFE: &str = "__ansible_unsafe";

/// The variables of a run, and warnings about them, one sentence each.
#[derive(Debug)]
pub(crate) struct Variables {
    pub(crate) values: Map<String, Value>,
    pub(crate) warnings: Vec<String>,
}

/// Returns the extra variables for an object. In order of increasing precedence: the spec's keys,
/// `ansible_operator_meta`, the whole object, its spec, those of watches.yaml, and those of the finalizer in its run.
pub(crate) fn variables(
    config: &WatchConfig,
    object: &Value,
    final_vars: Option<&Map<String, Value>>,
) -> Variables {
    let mut warnings = Vec::new();
    let spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
    let shield = |value: Value| if config.mark_unsafe { marked_unsafe(value) } else { value };
    let mut values = Map::new();
    let mut origins: Map<String, Value> = Map::new();
    for (key, value) in spec.as_object().into_iter().flatten() {
        let (name, value) = if config.snake_case_parameters {
            (snake_case(key), in_snake_case(value.clone()))
        } else {
            (key.clone(), value.clone())
        };
        if let Some(Value::String(other)) = origins.insert(name.clone(), json!(key)) {
            warnings
                .push(format!("spec.{other} and spec.{key} both set the variable {name}: the last one wins"));
        }
        values.insert(name, shield(value));
    }
    let meta =
        |field: &str| object.pointer(&format!("/metadata/{field}")).cloned().unwrap_or_else(|| json!(""));
    let name = format!("_{}_{}", config.group, config.kind.to_lowercase()).replace(['.', '-'], "_");
    let mut operators = Map::new();
    operators.insert(
        "ansible_operator_meta".into(),
        json!({ "name": shield(meta("name")), "namespace": shield(meta("namespace")) }),
    );
    operators.insert(name.clone(), shield(object.clone()));
    operators.insert(format!("{name}_spec"), shield(spec));
    for vars in [Some(&config.vars), final_vars].into_iter().flatten() {
        operators.extend(vars.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    for (key, value) in operators {
        if let Some(Value::String(hidden)) = origins.get(&key) {
            warnings.push(format!("spec.{hidden} has no effect: the operator sets the variable {key}"));
        }
        values.insert(key, value);
    }
    Variables { values, warnings }
}

fn in_snake_case(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (snake_case(&key), in_snake_case(value))).collect()
        }
        Value::Array(list) => list.into_iter().map(in_snake_case).collect(),
        other => other,
    }
}

/// Marks every string so that Ansible does not evaluate templates in it.
fn marked_unsafe(value: Value) -> Value {
    match value {
        Value::String(text) => json!({ UNSAFE: text }),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, marked_unsafe(value))).collect(),
        Value::Array(list) => list.into_iter().map(marked_unsafe).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> WatchConfig {
        let text = "{group: my-cache.example.com, version: v1, kind: MemCached, snakeCaseParameters: true}";
        steersman_yaml::from_slice_as(text.as_bytes()).unwrap()
    }

    fn object(spec: Value) -> Value {
        json!({ "metadata": { "name": "one", "namespace": "lab" }, "spec": spec })
    }

    #[test]
    fn variables_are_named_as_in_operator_sdk() {
        let object = object(json!({ "maxMemory": 5, "nodes": [{ "hostIPs": ["a"] }] }));
        let values = variables(&config(), &object, None).values;
        let expected = json!({
            "max_memory": 5,
            "nodes": [{ "host_ips": ["a"] }],
            "ansible_operator_meta": { "name": "one", "namespace": "lab" },
            "_my_cache_example_com_memcached": object,
            "_my_cache_example_com_memcached_spec": object["spec"],
        });
        assert_eq!(Value::Object(values), expected);
    }

    #[test]
    fn later_variables_win_and_what_is_hidden_is_told() {
        let mut config = config();
        config.vars = json!({ "state": "present", "size": 9 }).as_object().unwrap().clone();
        let finals = json!({ "state": "absent" });
        let object = object(json!({ "size": 1, "maxSize": 1, "max_size": 2, "ansible_operator_meta": {} }));
        let made = variables(&config, &object, finals.as_object());
        assert_eq!(made.values["state"], "absent");
        assert_eq!(made.values["size"], 9);
        assert_eq!(made.values["ansible_operator_meta"]["name"], "one");
        assert_eq!(
            made.warnings,
            [
                "spec.maxSize and spec.max_size both set the variable max_size: the last one wins",
                "spec.ansible_operator_meta has no effect: the operator sets the variable ansible_operator_meta",
                "spec.size has no effect: the operator sets the variable size",
            ]
        );
    }

    #[test]
    fn strings_are_marked_if_asked_for() {
        let mut config = config();
        config.mark_unsafe = true;
        config.snake_case_parameters = false;
        let object = object(json!({ "aB": ["{{ 1 }}", 2] }));
        let values = variables(&config, &object, None).values;
        assert_eq!(values["aB"], json!([{ UNSAFE: "{{ 1 }}" }, 2]));
        assert_eq!(values["ansible_operator_meta"]["name"], json!({ UNSAFE: "one" }));
        let whole = "_my_cache_example_com_memcached";
        assert_eq!(values[whole]["spec"]["aB"][0], json!({ UNSAFE: "{{ 1 }}" }));
    }
}
