//! Command lines: expands variables, splits words and finds flags as kuttl's Go libraries do.

/// Expands `$NAME` and `${NAME}`; `$$` is a dollar sign.
pub(crate) fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        expanded.push_str(before);
        let after = &after[1..];
        let (name, length) = variable_name(after);
        match name {
            Some("$") => expanded.push('$'),
            Some(name) => expanded.push_str(&variable(name).unwrap_or_default()),
            // A dollar sign that no name follows is kept; malformed braces are dropped.
            None if length == 0 => expanded.push('$'),
            None => {}
        }
        rest = &after[length..];
    }
    expanded.push_str(rest);
    expanded
}

/// Returns the variable name at the start, and its length in bytes. A length without name is malformed.
fn variable_name(text: &str) -> (Option<&str>, usize) {
    let is_special = |byte: u8| matches!(byte, b'*' | b'#' | b'$' | b'@' | b'!' | b'?' | b'-' | b'0'..=b'9');
    let bytes = text.as_bytes();
    match bytes.first() {
        Some(b'{') => {
            if bytes.len() > 2 && is_special(bytes[1]) && bytes[2] == b'}' {
                return (Some(&text[1..2]), 3);
            }
            match text.find('}') {
                Some(1) => (None, 2),
                Some(end) => (Some(&text[1..end]), end + 1),
                None => (None, 1),
            }
        }
        Some(byte) if is_special(*byte) => (Some(&text[..1]), 1),
        _ => {
            let length =
                bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
            ((length > 0).then(|| &text[..length]), length)
        }
    }
}

/// Splits a command line into words, with quotes, escapes and comments as in a shell.
pub(crate) fn split_words(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut characters = text.chars();
    let mut word: Option<String> = None;
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '#' if word.is_none() => {
                // A comment ends with its line.
                characters.by_ref().find(|character| *character == '\n');
            }
            '\\' => {
                let next = characters.next().ok_or("EOF found after escape character")?;
                word.get_or_insert_default().push(next);
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some('"') => break,
                        Some('\\') => word.push(characters.next().ok_or("EOF found after escape character")?),
                        Some(other) => word.push(other),
                        None => return Err("EOF found when expecting closing quote"),
                    }
                }
            }
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some('\'') => break,
                        Some(other) => word.push(other),
                        None => return Err("EOF found when expecting closing quote"),
                    }
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Whether the words set `--namespace` or `-n`. Unknown flags take the next word as their value.
pub(crate) fn has_namespace(words: &[String]) -> Result<bool, String> {
    let mut found = String::new();
    let mut rest = words.iter().map(String::as_str).peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            break;
        }
        if let Some(flag) = word.strip_prefix("--") {
            let (name, value) =
                flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            match (name, value) {
                ("", _) => return Err(format!("bad flag syntax: {word}")),
                ("namespace", Some(value)) => found = value.to_owned(),
                ("namespace", None) => {
                    found = rest.next().ok_or("flag needs an argument: --namespace")?.to_owned();
                }
                ("help", _) => return Err("pflag: help requested".to_owned()),
                (_, Some(_)) => {}
                (_, None) => {
                    rest.next_if(|next| !next.starts_with('-'));
                }
            }
        } else if let Some(flags) = word.strip_prefix('-').filter(|flags| !flags.is_empty()) {
            let mut flags = flags;
            while let Some(flag) = flags.chars().next() {
                let value = &flags[flag.len_utf8()..];
                match flag {
                    'n' => {
                        found = match value {
                            "" => rest.next().ok_or("flag needs an argument: 'n' in -n")?.to_owned(),
                            value => value.strip_prefix('=').unwrap_or(value).to_owned(),
                        };
                        break;
                    }
                    'h' => return Err("pflag: help requested".to_owned()),
                    _ if value.starts_with('=') => break,
                    _ => {
                        if value.is_empty() {
                            rest.next_if(|next| !next.starts_with('-'));
                        }
                        flags = value;
                    }
                }
            }
        }
    }
    Ok(!found.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded() {
        let variable = |name: &str| (name == "NAMESPACE").then(|| "ns".to_owned());
        let expanded = |text: &str| expand(text, &variable);
        assert_eq!(expanded("-n $NAMESPACE ${NAMESPACE}s"), "-n ns nss");
        assert_eq!(expanded("$$NAMESPACE $UNSET|"), "$NAMESPACE |");
        assert_eq!(expanded("cost: 5$ ${} ${x"), "cost: 5$  x");
        assert_eq!(expanded("$"), "$");
    }

    #[test]
    fn words_are_split_as_in_a_shell() {
        assert_eq!(
            split_words(r#"a "b c" 'd "e' f\ g h"i"j # k"#).unwrap(),
            ["a", "b c", "d \"e", "f g", "hij"]
        );
        assert_eq!(split_words("a#b ''\n#c\nd").unwrap(), ["a#b", "", "d"]);
        assert_eq!(split_words(r#"a "b\"c" 'd\e'"#).unwrap(), ["a", "b\"c", "d\\e"]);
        for wrong in ["'a", "\"a", "a\\"] {
            assert!(split_words(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn namespace_flags_are_found() {
        let has = |text: &str| has_namespace(&split_words(text).unwrap());
        for with in
            ["k get -n x", "k get --namespace x", "k -nx", "k --namespace=x", "k -A=1 -n=x", "k -o yaml -n x"]
        {
            assert_eq!(has(with), Ok(true), "{with}");
        }
        for without in ["k get", "k exec p -- -n x", "k -l a=b", "k --x -y", "k --namespace=", "k -o -- -n x"]
        {
            assert_eq!(has(without), Ok(false), "{without}");
        }
        assert!(has("k -n").is_err() && has("k --help").is_err());
    }
}
