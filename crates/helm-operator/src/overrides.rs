//! Override values: values in watches.yaml that override those of the object.

use std::collections::BTreeMap;

use steersman_chart::{System, Values, template_name};

use crate::error::{Error, Result};

/// Expands `$VAR` and `${VAR}` as Go's `os.ExpandEnv` does, then Go templates with sprig's functions.
///
/// # Errors
/// Fails if a template does not parse or execute.
pub fn expand(
    overrides: &BTreeMap<String, String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>> {
    let mut expanded = BTreeMap::new();
    for (key, value) in overrides {
        let text = expand_variables(value, &variable);
        let text = template_name(&text, Box::new(System::default()))
            .map_err(|error| Error::Override { key: key.clone(), reason: error.to_string() })?;
        expanded.insert(key.clone(), text);
    }
    Ok(expanded)
}

/// Merges override values over others; they are always strings.
///
/// # Errors
/// Fails if a key does not parse.
pub(crate) fn apply(values: &mut Values, overrides: &BTreeMap<String, String>) -> Result<()> {
    for (key, value) in overrides {
        let expression = format!("{key}={value}");
        values
            .set_string(&expression)
            .map_err(|error| Error::Override { key: key.clone(), reason: error.to_string() })?;
    }
    Ok(())
}

fn expand_variables(text: &str, variable: &impl Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let (name, after) = variable_name(after);
        match name {
            Some("") => {}
            Some(name) => expanded.push_str(&variable(name).unwrap_or_default()),
            None => expanded.push('$'),
        }
        rest = after;
    }
    expanded.push_str(rest);
    expanded
}

/// Splits off the name after a `$`; no name if the `$` is literal.
fn variable_name(text: &str) -> (Option<&str>, &str) {
    const SPECIAL: &str = "*#$@!?-0123456789";
    if let Some(braced) = text.strip_prefix('{') {
        return match braced.split_once('}') {
            // Invalid syntax is consumed, as in Go.
            Some((name, after)) => (Some(name), after),
            None => (Some(""), braced),
        };
    }
    if let Some(first) = text.chars().next().filter(|first| SPECIAL.contains(*first)) {
        let (name, after) = text.split_at(first.len_utf8());
        return (Some(name), after);
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    if end == 0 {
        return (None, text);
    }
    let (name, after) = text.split_at(end);
    (Some(name), after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_templates_are_expanded() {
        let overrides = BTreeMap::from([
            ("image.tag".to_owned(), "$TAG-${FLAVOUR}".to_owned()),
            ("upper".to_owned(), "{{ \"$TAG\" | upper }}".to_owned()),
            ("price".to_owned(), "5 $".to_owned()),
        ]);
        let variable = |name: &str| match name {
            "TAG" => Some("v1".to_owned()),
            "FLAVOUR" => Some("slim".to_owned()),
            _ => None,
        };
        let expanded = expand(&overrides, variable).unwrap();
        assert_eq!(expanded["image.tag"], "v1-slim");
        assert_eq!(expanded["upper"], "V1");
        assert_eq!(expanded["price"], "5 $");
        let mut values = Values::new();
        values.set("image.tag=latest").unwrap();
        apply(&mut values, &expanded).unwrap();
        assert_eq!(values.to_json()["image"]["tag"], "v1-slim");
    }

    #[test]
    fn variables_are_named_as_in_go() {
        let variable = |name: &str| match name {
            "A" | "a_1" | "a b" | "1" | "*" => Some(format!("<{name}>")),
            _ => None,
        };
        for (text, expanded) in [
            ("$A", "<A>"),
            ("x${A}y", "x<A>y"),
            ("$A.$A", "<A>.<A>"),
            ("$a_1-", "<a_1>-"),
            ("$AB", ""),
            ("${a b}", "<a b>"),
            ("$1A", "<1>A"),
            ("$*x", "<*>x"),
            ("${}x", "x"),
            ("${A", "A"),
            ("$", "$"),
            ("a $ b", "a $ b"),
            ("$-", ""),
            ("$ä", "$ä"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(expand_variables(text, &variable), expanded, "{text}");
        }
    }

    #[test]
    fn what_does_not_expand_or_parse_is_named() {
        let overrides = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let error = expand(&overrides("a.b", "{{ nothing }}"), |_| None).unwrap_err().to_string();
        assert!(error.starts_with("override value a.b: "), "{error}");
        let error = apply(&mut Values::new(), &overrides("a[", "1")).unwrap_err().to_string();
        assert!(error.starts_with("override value a[: "), "{error}");
        let mut values = Values::new();
        apply(&mut values, &overrides("a.b", "1")).unwrap();
        assert_eq!(values.to_json(), serde_json::json!({ "a": { "b": "1" } }), "they are text");
    }
}
