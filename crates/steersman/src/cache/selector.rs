//! Label selectors in string form: `app=web,tier in (front,back),!legacy`.

use kube::core::{Expression, Selector};

/// Parses a selector in the syntax of `kubectl --selector`. `None`: it is invalid.
pub(super) fn parse(text: &str) -> Option<Selector> {
    let mut expressions = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        // A comma in parentheses separates values.
        let end = match (rest.find(','), rest.find('(')) {
            (Some(comma), Some(open)) if open < comma => {
                let close = rest.find(')')?;
                rest.get(close..)?.find(',').map(|comma| close + comma)
            }
            (comma, _) => comma,
        };
        let (one, more) = match end {
            Some(end) => (rest.get(..end)?, rest.get(end + 1..)?),
            None => (rest, ""),
        };
        expressions.push(expression(one.trim())?);
        rest = more.trim();
    }
    Some(expressions.into_iter().collect())
}

fn expression(text: &str) -> Option<Expression> {
    let word = |text: &str| {
        let text = text.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        text.chars().all(plain).then(|| text.to_owned())
    };
    let key = |text: &str| word(text).filter(|key| !key.is_empty());
    if let Some((left, values)) = text.split_once('(') {
        let values = values.strip_suffix(')')?.split(',').map(word).collect::<Option<_>>()?;
        let (name, operator) = left.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => Some(Expression::In(key(name)?, values)),
            "notin" => Some(Expression::NotIn(key(name)?, values)),
            _ => None,
        };
    }
    if let Some((name, value)) = text.split_once("!=") {
        return Some(Expression::NotEqual(key(name)?, word(value)?));
    }
    if let Some((name, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(Expression::Equal(key(name)?, word(value)?));
    }
    if let Some(name) = text.strip_prefix('!') {
        return Some(Expression::DoesNotExist(key(name)?));
    }
    Some(Expression::Exists(key(text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_read_as_kubectl_takes_them() {
        for (text, expected) in [
            ("", ""),
            ("app=web", "app=web"),
            ("app == web , tier!=back", "app=web,tier!=back"),
            ("example.com/part in (a, b),app", "example.com/part in (a,b),app"),
            ("app,tier notin (x),!legacy", "app,tier notin (x),!legacy"),
            ("empty=", "empty="),
        ] {
            assert_eq!(parse(text).map(|selector| selector.to_string()).as_deref(), Some(expected), "{text}");
        }
        for wrong in ["=", "a in b", "a in (b", "a near (b)", "a,,b", "a b"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
