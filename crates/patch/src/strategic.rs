//! Strategic merge patches: merge patches that merge lists by the merge keys declared in the schema.

use serde_json::{Map, Value};
use steersman_gostd::strconv::quote;

use crate::value::{self, go_print};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// The reasons a strategic merge patch can be refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    /// The patch is malformed: a directive has the wrong form. HTTP 400.
    #[error("{0}")]
    Malformed(&'static str),
    /// The patch has lists of lists. HTTP 422.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// The patch does not fit the document. HTTP 500.
    #[error("{0}")]
    Mismatch(String),
    /// The patch does not fit the schema. HTTP 500.
    #[error("{0}")]
    Schema(String),
}

fn malformed<T>(message: &'static str) -> Result<T, StrategicError> {
    Err(StrategicError::Malformed(message))
}

fn mismatch<T>(message: impl Into<String>) -> Result<T, StrategicError> {
    Err(StrategicError::Mismatch(message.into()))
}

const BAD_ORDER: &str = "invalid patch format of setElementOrder list";
const BAD_RETAIN_KEYS: &str = "invalid patch format of retainKeys";
const BAD_PRIMITIVE_LIST: &str = "invalid patch format of primitive list";

/// Applies a strategic merge patch to `document`.
/// `schema` is the name of the kind's schema in the OpenAPI `components`.
///
/// ```
/// use serde_json::{Map, json};
/// use steersman_patch::strategic_merge_patch;
///
/// let components = json!({"PodSpec": {"properties": {"containers": {
///     "type": "array",
///     "items": {"type": "object", "properties": {"name": {"type": "string"}, "image": {"type": "string"}}},
///     "x-kubernetes-patch-strategy": "merge",
///     "x-kubernetes-patch-merge-key": "name"
/// }}}});
/// let components: &Map<_, _> = components.as_object().unwrap();
/// let live = json!({"containers": [{"name": "web", "image": "nginx:1"}, {"name": "log", "image": "tail"}]});
/// let patch = json!({"containers": [{"name": "web", "image": "nginx:2"}]});
/// let patched = strategic_merge_patch(&live, &patch, components, "PodSpec")?;
/// assert_eq!(patched["containers"][0]["image"], "nginx:2");
/// assert_eq!(patched["containers"][1]["name"], "log");
/// # Ok::<(), steersman_patch::StrategicError>(())
/// ```
pub fn strategic_merge_patch(
    document: &Value,
    patch: &Value,
    components: &Map<String, Value>,
    schema: &str,
) -> Result<Value, StrategicError> {
    let schema = Schema { components, name: schema, schema: components.get(schema) };
    merge_map(object(document)?, object(patch)?, schema).map(Value::Object)
}

/// Returns the patch as the API server's merge mutates it, which some error messages quote.
/// Directives that were followed are removed, and so are nulls in values that are new to the document.
pub fn strategic_remains(
    document: &Value,
    patch: &Value,
    components: &Map<String, Value>,
    schema: &str,
) -> Value {
    let schema = Schema { components, name: schema, schema: components.get(schema) };
    let mut left = patch.clone();
    if let (Value::Object(document), Value::Object(left)) = (document, &mut left) {
        use_up(document, left, schema);
    }
    left
}

fn use_up(document: &Map<String, Value>, patch: &mut Map<String, Value>, schema: Schema<'_>) {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            patch.remove(DIRECTIVE);
            return;
        }
        Some(_) => return,
        None => {}
    }
    patch.remove(RETAIN_KEYS);
    let orders: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in orders {
        patch.remove(&directive);
        if let Some(key) = directive.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/')) {
            patch.remove(key);
        }
    }
    for (key, value) in patch {
        match (document.get(key), &mut *value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let Ok((child, strategy)) = schema.field(key) else { return };
                if strategy.strategy != "replace" {
                    use_up(old, new, child);
                }
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let Ok((child, strategy)) = schema.items(key) else { return };
                let items = new.iter_mut().filter(|_| strategy.strategy == "merge");
                for item in items.filter_map(Value::as_object_mut) {
                    let merge_key = item.get(strategy.merge_key).cloned();
                    let same = old.iter().find(|other| other.get(strategy.merge_key) == merge_key.as_ref());
                    if let (Some(Value::Object(same)), None, Some(_)) = (same, item.get(DIRECTIVE), merge_key)
                    {
                        use_up(same, item, child);
                    }
                }
            }
            (_, new) => *new = without_null_fields(std::mem::take(new)),
        }
    }
}

/// Treats null as an empty object.
fn object(value: &Value) -> Result<Map<String, Value>, StrategicError> {
    match value {
        Value::Object(map) => Ok(map.clone()),
        Value::Null => Ok(Map::new()),
        _ => malformed("invalid JSON document"),
    }
}

/// The schema of the current level.
#[derive(Clone, Copy)]
struct Schema<'a> {
    components: &'a Map<String, Value>,
    name: &'a str,
    schema: Option<&'a Value>,
}

/// The patch strategy and merge key of a field.
#[derive(Clone, Copy, Default)]
struct Strategy<'a> {
    strategy: &'a str,
    merge_key: &'a str,
}

impl<'a> Schema<'a> {
    fn field(self, key: &str) -> Result<(Self, Strategy<'a>), StrategicError> {
        let properties = self.schema.and_then(|s| s.get("properties")).and_then(Value::as_object);
        let Some(properties) = properties else {
            let kind = if self.schema.is_some_and(|s| s.get("additionalProperties").is_some()) {
                "map"
            } else {
                "struct"
            };
            return if kind == "map" {
                Err(StrategicError::Schema(format!(
                    "merging an object in json but data type is not struct, instead is: {kind}"
                )))
            } else {
                Err(self.unknown(key))
            };
        };
        let field = properties
            .get(key)
            .or_else(|| properties.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, f)| f))
            .ok_or_else(|| self.unknown(key))?;
        let text = |name: &str| field.get(name).and_then(Value::as_str).unwrap_or_default();
        let declared = text("x-kubernetes-patch-strategy");
        let strategies: Vec<&str> = declared.split(',').collect();
        let strategy = match strategies.as_slice() {
            ["retainKeys"] => "",
            [single] => single,
            ["retainKeys", other] | [other, "retainKeys"] => other,
            _ => {
                let list = strategies.join(" ");
                return Err(StrategicError::Schema(format!("unexpected patch strategy: [{list}]")));
            }
        };
        let merge_key = text("x-kubernetes-patch-merge-key");
        Ok((self.resolved(field), Strategy { strategy, merge_key }))
    }

    fn items(self, key: &str) -> Result<(Self, Strategy<'a>), StrategicError> {
        let (list, strategy) = self.field(key)?;
        let Some(items) = list.schema.and_then(|s| s.get("items")) else {
            return Err(StrategicError::Schema("expected slice or array type, but got: struct".into()));
        };
        Ok((self.resolved(items), strategy))
    }

    fn resolved(self, schema: &'a Value) -> Self {
        let reference = schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"));
        let Some(name) = reference.and_then(Value::as_str).and_then(|r| r.rsplit('/').next()) else {
            return Self { schema: Some(schema), name: "", ..self };
        };
        Self { schema: self.components.get(name), name, ..self }
    }

    fn unknown(self, key: &str) -> StrategicError {
        let name = self.name.rsplit('.').next().unwrap_or(self.name);
        StrategicError::Schema(format!(
            "unable to find api field in struct {name} for the json field {}",
            quote(key)
        ))
    }
}

fn merge_map(
    mut document: Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: Schema<'_>,
) -> Result<Map<String, Value>, StrategicError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => mismatch(format!(
                "unknown patch type: {} in map: {}",
                go_print(directive),
                go_print(&Value::Object(patch.clone()))
            )),
        };
    }
    retain_keys(&mut document, &mut patch)?;
    set_orders(&mut document, &mut patch, schema)?;

    for (key, value) in patch {
        let (key, is_delete_list) = match key.strip_prefix(DELETE_FROM_LIST) {
            Some(rest) => match rest.strip_prefix('/') {
                Some(name) => (name.to_owned(), true),
                None => return malformed(BAD_PRIMITIVE_LIST),
            },
            None => (key, false),
        };
        if value.is_null() {
            document.remove(&key);
            continue;
        }
        match (document.remove(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let (child, strategy) = schema.field(&key)?;
                let merged = if strategy.strategy == "replace" { new } else { merge_map(old, new, child)? };
                document.insert(key, Value::Object(merged));
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let (child, strategy) = schema.items(&key)?;
                let merged = if strategy.strategy == "merge" || is_delete_list {
                    merge_list(old, new, child, strategy.merge_key, is_delete_list)?
                } else {
                    new
                };
                document.insert(key, Value::Array(merged));
            }
            (Some(old), _) if is_delete_list => {
                document.insert(key, old);
            }
            (None, _) if is_delete_list => {}
            (_, new) => {
                if let Some(new) = without_directives(without_null_fields(new)) {
                    document.insert(key, new);
                }
            }
        }
    }
    Ok(document)
}

/// Applies `$retainKeys`, which lists all fields to keep.
fn retain_keys(
    document: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), StrategicError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return malformed(BAD_RETAIN_KEYS) };
    let listed = |key: &str| keys.iter().any(|k| k.as_str() == Some(key));
    let complete = patch.iter().all(|(key, value)| {
        value.is_null() || key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER) || listed(key)
    });
    if !complete {
        return malformed(BAD_RETAIN_KEYS);
    }
    document.retain(|key, _| listed(key));
    Ok(())
}

/// Applies `$setElementOrder/LIST`: merges the list and sorts the patch's items into the given order.
fn set_orders(
    document: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: Schema<'_>,
) -> Result<(), StrategicError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return mismatch(wrong_type(&other.unwrap_or(Value::Null))),
        };
        let Some(key) = directive.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/')) else {
            return malformed(BAD_ORDER);
        };
        let old = list_in(document, key)?;
        let new = list_in(patch, key)?;
        let (child, strategy) = schema.items(key)?;
        let merge_key = strategy.merge_key;
        check_order(new.as_deref().unwrap_or_default(), &order, merge_key)?;
        let merged = match (&old, &new) {
            (None, None) => continue,
            (Some(old), None) => old.clone(),
            (None, Some(new)) => match without_directives(Value::Array(new.clone())) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(old), Some(new)) if strategy.strategy == "merge" => {
                merge_list(old.clone(), new.clone(), child, merge_key, false)?
            }
            (Some(_), Some(new)) => new.clone(),
        };
        let (ours, others) = partition(merged, &order, merge_key)?;
        let old = old.unwrap_or_default();
        let is_map = element_is_map(&[&old, new.as_deref().unwrap_or_default()])?;
        let all = in_order(ours, others, &order, &old, merge_key, is_map)?;
        document.insert(key.to_owned(), Value::Array(all));
        patch.remove(key);
    }
    Ok(())
}

fn list_in(map: &Map<String, Value>, key: &str) -> Result<Option<Vec<Value>>, StrategicError> {
    match map.get(key) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => mismatch(wrong_type(other)),
    }
}

fn wrong_type(value: &Value) -> String {
    let actual = if value.is_null() { "%!s(<nil>)" } else { value::go_type(value) };
    format!("expected a []interface {{}}, but received a {actual}")
}

/// Checks that the items of a patch are in the order of `$setElementOrder`.
fn check_order(items: &[Value], order: &[Value], merge_key: &str) -> Result<(), StrategicError> {
    if items.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut wanted = items.iter().filter(|item| merge_key.is_empty() || !is_deletion(item)).peekable();
    for place in order {
        let Some(item) = wanted.peek() else { break };
        let same = if merge_key.is_empty() {
            *item == place
        } else {
            key_of(item, merge_key)? == key_of(place, merge_key)?
        };
        if same {
            wanted.next();
        }
    }
    if wanted.peek().is_some() {
        let (items, order) = (Value::Array(items.to_vec()), Value::Array(order.to_vec()));
        return mismatch(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            go_print(&items),
            go_print(&order)
        ));
    }
    Ok(())
}

fn is_deletion(item: &Value) -> bool {
    item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete")
}

fn key_of<'v>(item: &'v Value, merge_key: &str) -> Result<&'v Value, StrategicError> {
    let Value::Object(map) = item else {
        return mismatch(wrong_type(item).replace("[]interface {}, but", "map[string]interface {}, but"));
    };
    map.get(merge_key).ok_or_else(|| {
        let message = format!("map: {} does not contain declared merge key: {merge_key}", go_print(item));
        StrategicError::Mismatch(message)
    })
}

/// Whether the items of these lists are maps. All items must have the same type.
fn element_is_map(lists: &[&[Value]]) -> Result<bool, StrategicError> {
    let mut items = lists.iter().flat_map(|list| list.iter());
    let Some(first) = items.next() else { return mismatch("no elements in any of the given slices") };
    if first.is_array() {
        return Err(StrategicError::ListOfLists);
    }
    let kind = |value: &Value| match value {
        Value::Number(n) if n.is_f64() => 6,
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    };
    if items.any(|item| kind(item) != kind(first)) {
        let lists: Vec<_> = lists.iter().map(|list| go_print(&Value::Array(list.to_vec()))).collect();
        return mismatch(format!("list element types are not identical: [{}]", lists.join(" ")));
    }
    Ok(first.is_object())
}

fn merge_list(
    old: Vec<Value>,
    new: Vec<Value>,
    schema: Schema<'_>,
    merge_key: &str,
    is_delete_list: bool,
) -> Result<Vec<Value>, StrategicError> {
    if old.is_empty() && new.is_empty() {
        return Ok(old);
    }
    let is_map = element_is_map(&[&old, &new])?;
    if !is_map {
        if is_delete_list {
            return Ok(old.into_iter().filter(|item| !new.contains(item)).collect());
        }
        let merged = deduplicated(old.iter().chain(&new).cloned().collect());
        let (ours, others) = partition(merged, &new, "")?;
        return in_order(ours, others, &new, &old, "", false);
    }
    if merge_key.is_empty() {
        return Err(StrategicError::Schema("cannot merge lists without merge key for struct".into()));
    }
    let (old, new) = special_elements(old, new, merge_key)?;
    let mut merged = old.clone();
    for item in &new {
        let key = key_of(item, merge_key)?;
        let Value::Object(item_map) = item else { continue };
        match position(&merged, merge_key, key)? {
            Some(at) => {
                if let Some(Value::Object(current)) = merged.get(at).cloned() {
                    merged[at] = Value::Object(merge_map(current, item_map.clone(), schema)?);
                }
            }
            None => merged.push(item.clone()),
        }
    }
    let (ours, others) = partition(merged, &new, merge_key)?;
    in_order(ours, others, &new, &old, merge_key, true)
}

/// Applies a patch's directive items: deletion of single items, or replacement of the whole list.
fn special_elements(
    mut old: Vec<Value>,
    new: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let mut plain = Vec::with_capacity(new.len());
    let mut replace = false;
    for item in new {
        match item.get(DIRECTIVE) {
            None => plain.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    let key = key_of(&item, merge_key)?.clone();
                    while let Some(at) = position(&old, merge_key, &key)? {
                        old.remove(at);
                    }
                }
                Some("replace") => replace = true,
                Some("merge") => return mismatch("merging lists cannot yet be specified in the patch"),
                _ => {
                    let (directive, item) = (go_print(directive), go_print(&item));
                    return mismatch(format!("unknown patch type: {directive} in map: {item}"));
                }
            },
        }
    }
    if replace { Ok((plain, Vec::new())) } else { Ok((old, plain)) }
}

fn position(items: &[Value], merge_key: &str, key: &Value) -> Result<Option<usize>, StrategicError> {
    for (i, item) in items.iter().enumerate() {
        let Value::Object(map) = item else { return mismatch(format!("value for key {i} is not a map")) };
        if map.get(merge_key) == Some(key) {
            return Ok(Some(i));
        }
    }
    Ok(None)
}

/// Splits items into those that are in `by` and the others.
fn partition(
    items: Vec<Value>,
    by: &[Value],
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for item in items {
        let found = if merge_key.is_empty() {
            by.contains(&item)
        } else {
            position(by, merge_key, key_of(&item, merge_key)?)?.is_some()
        };
        if found { ours.push(item) } else { others.push(item) }
    }
    Ok((ours, others))
}

/// Sorts `ours` by the patch's order and `others` by the old one, and interleaves them by the latter.
fn in_order(
    ours: Vec<Value>,
    others: Vec<Value>,
    patch_order: &[Value],
    old_order: &[Value],
    merge_key: &str,
    is_map: bool,
) -> Result<Vec<Value>, StrategicError> {
    let ours = sorted(ours, patch_order, merge_key, is_map)?;
    let others = sorted(others, old_order, merge_key, is_map)?;
    let mut out = Vec::with_capacity(ours.len() + others.len());
    let (mut others, mut ours) = (others.into_iter().peekable(), ours.into_iter().peekable());
    loop {
        let take_other = match (others.peek(), ours.peek()) {
            (None, None) => return Ok(out),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(our)) => {
                match (index(old_order, other, merge_key, is_map), index(old_order, our, merge_key, is_map)) {
                    (Some(other), Some(our)) => other < our,
                    _ => false,
                }
            }
        };
        out.extend(if take_other { others.next() } else { ours.next() });
    }
}

fn index(items: &[Value], item: &Value, merge_key: &str, is_map: bool) -> Option<usize> {
    let key = |value: &Value| if is_map { value.get(merge_key).cloned() } else { Some(value.clone()) };
    let wanted = key(item);
    items.iter().position(|other| key(other) == wanted)
}

fn sorted(
    mut items: Vec<Value>,
    order: &[Value],
    merge_key: &str,
    is_map: bool,
) -> Result<Vec<Value>, StrategicError> {
    let mut deletions = Vec::new();
    if is_map {
        for item in items.iter().chain(order) {
            key_of(item, merge_key)?;
        }
        let is_deletion = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
        (deletions, items) = items.into_iter().partition(is_deletion);
    }
    let mut indexed: Vec<_> =
        items.into_iter().map(|item| (index(order, &item, merge_key, is_map), item)).collect();
    // An item missing from the order moves before everything that preceded it.
    for i in 1..indexed.len() {
        let mut j = i;
        while j > 0 {
            let less = match (indexed[j].0, indexed[j - 1].0) {
                (Some(a), Some(b)) => a < b,
                _ => true,
            };
            if !less {
                break;
            }
            indexed.swap(j, j - 1);
            j -= 1;
        }
    }
    Ok(indexed.into_iter().map(|(_, item)| item).chain(deletions).collect())
}

/// Removes duplicates. The last item moves into the place of each removed one, as in the server.
fn deduplicated(mut items: Vec<Value>) -> Vec<Value> {
    let mut i = 0;
    while i < items.len() {
        let mut j = i + 1;
        while j < items.len() {
            if items[i] == items[j] {
                items.swap_remove(j);
            } else {
                j += 1;
            }
        }
        i += 1;
    }
    items
}

/// Strips directives from a value that is new to the object; `None` if the value is itself a directive.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => return None,
        Value::Object(map) => {
            Value::Object(map.into_iter().filter_map(|(k, v)| Some((k, without_directives(v)?))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().filter_map(without_directives).collect()),
        scalar => scalar,
    })
}

fn without_null_fields(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept =
                map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_null_fields(v)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_null_fields).collect()),
        scalar => scalar,
    }
}
