//! Map functions: creating, reading, modifying in place.

use std::collections::BTreeMap;

use steersman_gotemplate::{Budget, CallError, Funcs, List, ListType, Map, MapType, Str, Value};

use super::args::define;
use super::gofmt::strval;
use super::{Host, MAP_ENTRY, map_memory, merge};

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "dict" [budget] (; values: &[Value]) => dict(budget, values);
        "get" (map: Map, key: &Str) => map.get(key).unwrap_or_else(|| Value::string(""));
        "set" [host, budget] (map: Map, key: &Str, value: &Value) => {
            budget.charge_memory(MAP_ENTRY)?;
            if merge::is_container(value) {
                host.changed(&map);
            }
            set(map, key, value)
        };
        "unset" (map: Map, key: &Str) => {
            map.remove(key);
            map
        };
        "hasKey" (map: Map, key: &Str) => map.borrow().contains_key(key);
        "pluck" (key: &Str; maps: Vec<Map>) =>
            List::new(ListType::ANY, maps.iter().filter_map(|map| map.get(key)).collect());
        "keys" [budget] (; maps: Vec<Map>) => {
            // The same map may be passed many times.
            budget.charge_elements(maps.iter().map(Map::len).sum())?;
            Value::strings(maps.iter().flat_map(|map| map.borrow().keys().cloned().collect::<Vec<_>>()))
        };
        "values" (map: Map) => List::new(ListType::ANY, map.borrow().values().cloned().collect());
        "pick" [budget] (map: Map; keys: Vec<&Str>) => {
            budget.charge_memory(map_memory(keys.len()))?;
            Value::map(keys.iter().filter_map(|key| Some(((*key).clone(), map.get(key)?))))
        };
        "omit" [budget] (map: Map; keys: Vec<&Str>) => {
            budget.charge_memory(map_memory(map.len()))?;
            budget.charge_cost(map.len() * (1 + keys.len() / 8))?;
            let mut entries = map.borrow().clone();
            entries.retain(|key, _| !keys.contains(&key));
            Map::with_type(MapType::ANY, entries)
        };
        // A failed merge panics in Go, so both variants fail with the same error.
        "merge" | "mustMerge" [host, budget] (target: Map; sources: Vec<Map>) =>
            merge_all(host, budget, target, &sources, false);
        "mergeOverwrite" | "mustMergeOverwrite" [host, budget] (target: Map; sources: Vec<Map>) =>
            merge_all(host, budget, target, &sources, true);
        "dig" (; path: &[Value]) => dig(path);
    });
}

fn dict(budget: &Budget, values: &[Value]) -> Result<Map, CallError> {
    budget.charge_memory(map_memory(values.len().div_ceil(2)))?;
    let mut entries = BTreeMap::new();
    for pair in values.chunks(2) {
        if let [key, rest @ ..] = pair {
            let value = rest.first().cloned().unwrap_or_else(|| Value::string(""));
            entries.insert(strval(budget, key)?, value);
        }
    }
    Ok(Map::with_type(MapType::ANY, entries))
}

fn set(map: Map, key: &Str, value: &Value) -> Result<Map, CallError> {
    if map.is_nil() {
        return Err(CallError::new("assignment to entry in nil map"));
    }
    map.insert(key.clone(), value.clone());
    Ok(map)
}

fn merge_all<H: Host>(
    host: &mut H,
    budget: &Budget,
    target: Map,
    sources: &[Map],
    overwrite: bool,
) -> Result<Value, CallError> {
    let target =
        if target.is_nil() && sources.iter().any(|source| !source.is_nil()) { Map::new() } else { target };
    for source in sources {
        merge::merge(budget, &target, source, overwrite, &mut |map| host.changed(map))?;
    }
    Ok(Value::Map(target))
}

fn dig(path: &[Value]) -> Result<Value, CallError> {
    let [keys @ .., default, dict] = path else {
        return Err(CallError::new("dig needs at least three arguments"));
    };
    if keys.is_empty() {
        return Err(CallError::new("dig needs at least three arguments"));
    }
    let mut current = as_dict(dict)?;
    let keys = keys.iter().map(as_key).collect::<Result<Vec<_>, _>>()?;
    for (i, key) in keys.iter().enumerate() {
        match current.get(key) {
            None => return Ok(default.clone()),
            Some(found) if i + 1 == keys.len() => return Ok(found),
            Some(found) => current = as_dict(&found)?,
        }
    }
    Ok(default.clone())
}

/// Returns the value if its type is exactly `map[string]interface {}`; named map types are not.
fn as_dict(value: &Value) -> Result<Map, CallError> {
    match value {
        Value::Map(map) if map.ty().name == MapType::ANY.name => Ok(map.clone()),
        other => Err(not_converted(other, MapType::ANY.name)),
    }
}

fn as_key(value: &Value) -> Result<&Str, CallError> {
    match value {
        Value::String(key) => Ok(key),
        other => Err(not_converted(other, "string")),
    }
}

fn not_converted(value: &Value, wanted: &str) -> CallError {
    let actual = match value {
        Value::Nil => "nil".into(),
        other => other.type_name(),
    };
    CallError::new(format!("interface conversion: interface {{}} is {actual}, not {wanted}"))
}
