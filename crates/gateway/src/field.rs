//! Field paths: those that clients pass, and the JSONPath of printer columns.

use serde_json::Value;

/// A step of a field path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
    /// All elements.
    Each,
    /// The elements in which the field at a path equals a value.
    Where(Vec<Step>, String),
}

/// Parses a field path. Examples: `spec.containers[0].image`, `.metadata.labels["a.b/c"]`,
/// `.status.conditions[?(@.type=="Ready")].status`.
pub(crate) fn parse(text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = text.trim();
    rest = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(rest);
    rest = rest.strip_prefix('$').unwrap_or(rest);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (step, after) = bracket(inner)?;
            steps.push(step);
            rest = after;
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let mut key = String::new();
        let mut characters = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '.' | '[' => {
                    end = at;
                    break;
                }
                '\\' => key.push(characters.next()?.1),
                _ => key.push(character),
            }
        }
        if key.is_empty() {
            return None;
        }
        steps.push(if key == "*" { Step::Each } else { Step::Key(key) });
        rest = &rest[end..];
    }
    (!steps.is_empty()).then_some(steps)
}

/// Parses the content of a pair of brackets; returns the step and the rest of the path.
fn bracket(inner: &str) -> Option<(Step, &str)> {
    if let Some(after) = inner.strip_prefix("*]") {
        return Some((Step::Each, after));
    }
    if let Some(quote) = inner.chars().next().filter(|first| matches!(first, '\'' | '"')) {
        let (key, after) = inner[1..].split_once(quote)?;
        return Some((Step::Key(key.to_owned()), after.strip_prefix(']')?));
    }
    if let Some(filter) = inner.strip_prefix("?(@") {
        let (filter, after) = filter.split_once(")]")?;
        let (path, value) = filter.split_once("==")?;
        let value = value.trim().trim_matches(|quote| matches!(quote, '\'' | '"'));
        return Some((Step::Where(parse(path)?, value.to_owned()), after));
    }
    let (index, after) = inner.split_once(']')?;
    Some((Step::Index(index.parse().ok()?), after))
}

/// Returns all values at a path.
pub(crate) fn find<'a>(value: &'a Value, steps: &[Step]) -> Vec<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return vec![value] };
    match step {
        Step::Key(key) => value.get(key).map(|next| find(next, rest)).unwrap_or_default(),
        Step::Index(index) => value.get(index).map(|next| find(next, rest)).unwrap_or_default(),
        Step::Each => match value {
            Value::Array(elements) => elements.iter().flat_map(|next| find(next, rest)).collect(),
            Value::Object(members) => members.values().flat_map(|next| find(next, rest)).collect(),
            _ => Vec::new(),
        },
        Step::Where(path, wanted) => {
            let elements = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let holds = |element: &&Value| find(element, path).iter().any(|found| text(found) == *wanted);
            elements.iter().filter(holds).flat_map(|next| find(next, rest)).collect()
        }
    }
}

/// Returns the first value at a path.
pub(crate) fn first<'a>(value: &'a Value, steps: &[Step]) -> Option<&'a Value> {
    find(value, steps).into_iter().next()
}

/// Returns the value as a string, without quotes.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Builds a merge patch that sets the field at a path. None if the path has steps other than keys.
pub(crate) fn patch(steps: &[Step], value: Value) -> Option<Value> {
    steps.iter().rev().try_fold(value, |value, step| match step {
        Step::Key(key) => Some(Value::Object([(key.clone(), value)].into_iter().collect())),
        _ => None,
    })
}

/// Joins a path and a key, giving `spec.containers[0].image` or `metadata.labels["a.b/c"]`.
pub(crate) fn join(parent: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'$'));
    match (plain, parent.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{parent}.{key}"),
        (false, _) => format!("{parent}[{}]", Value::from(key)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_columns_and_clients_lead_to_values() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}},
            "spec": {"containers": [{"image": "one"}, {"image": "two"}]},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        let look =
            |path: &str| find(&object, &parse(path).unwrap()).into_iter().map(text).collect::<Vec<_>>();
        assert_eq!(look(".status.conditions[?(@.type==\"Ready\")].status"), ["True"]);
        assert_eq!(look("status.conditions[?(@.type=='A')].status"), ["False"]);
        assert_eq!(look("spec.containers[1].image"), ["two"]);
        assert_eq!(look(".spec.containers[*].image"), ["one", "two"]);
        assert_eq!(look("metadata.labels[\"a.b/c\"]"), ["x"]);
        assert_eq!(look(".metadata.labels.a\\.b/c"), ["x"]);
        assert!(look("spec.missing.deep").is_empty());
        for wrong in ["", ".", "a..b", "a[", "a[x]", "a['b", "a[?(@.b)]"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_patch_sets_one_field() {
        let patched = patch(&parse("spec.web.replicas").unwrap(), json!(3));
        assert_eq!(patched, Some(json!({"spec": {"web": {"replicas": 3}}})));
        assert_eq!(patch(&parse("spec.list[0]").unwrap(), json!(3)), None);
        assert_eq!(join("metadata.labels", "a.b/c"), "metadata.labels[\"a.b/c\"]");
    }
}
