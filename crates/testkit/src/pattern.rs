//! Patterns for file names, like Go's `filepath.Match`, and for test names, like `go test -run`.

use regex::Regex;

/// Whether a name matches a pattern of `*`, `?`, `[a-z]` and `\x`; `None` if the pattern is malformed.
pub(crate) fn matches(pattern: &str, name: &str) -> Option<bool> {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // Parse the whole pattern even if the name differs early: it may be malformed further on.
    let tokens = tokens(&pattern)?;
    Some(tokens_match(&tokens, &name))
}

enum Token {
    Any,
    One,
    Literal(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
}

fn tokens(pattern: &[char]) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = pattern.iter().copied().peekable();
    while let Some(character) = rest.next() {
        tokens.push(match character {
            '*' => Token::Any,
            '?' => Token::One,
            '\\' => Token::Literal(rest.next()?),
            '[' => {
                let negated = rest.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                loop {
                    if !ranges.is_empty() && rest.next_if_eq(&']').is_some() {
                        break;
                    }
                    let mut bound = || match rest.next()? {
                        '-' | ']' => None,
                        '\\' => rest.next(),
                        other => Some(other),
                    };
                    let low = bound()?;
                    let high = if rest.next_if_eq(&'-').is_some() {
                        match rest.next()? {
                            '-' | ']' => return None,
                            '\\' => rest.next()?,
                            other => other,
                        }
                    } else {
                        low
                    };
                    ranges.push((low, high));
                }
                Token::Class { negated, ranges }
            }
            other => Token::Literal(other),
        });
    }
    Some(tokens)
}

fn tokens_match(tokens: &[Token], name: &[char]) -> bool {
    match (tokens.split_first(), name.split_first()) {
        (None, rest) => rest.is_none(),
        (Some((Token::Any, after)), first) => {
            tokens_match(after, name)
                || first.is_some_and(|(character, rest)| *character != '/' && tokens_match(tokens, rest))
        }
        (Some(_), None) => false,
        (Some((token, after)), Some((character, rest))) => {
            let fits = match token {
                Token::One => *character != '/',
                Token::Literal(literal) => literal == character,
                Token::Class { negated, ranges } => {
                    ranges.iter().any(|(low, high)| (low..=high).contains(&character)) != *negated
                }
                Token::Any => false,
            };
            fits && tokens_match(after, rest)
        }
    }
}

/// Selects test cases by a regular expression, as kuttl does with `go test -run //PATTERN`.
#[derive(Debug)]
pub(crate) struct Filter {
    alternatives: Vec<Vec<Regex>>,
}

impl Filter {
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        let mut alternatives = Vec::new();
        for alternative in split(&format!("//{pattern}"), '|') {
            let elements: Result<Vec<_>, String> =
                split(&alternative, '/').iter().map(|element| steersman_regexp::compile(element)).collect();
            alternatives.push(elements?);
        }
        Ok(Self { alternatives })
    }

    /// Whether a test case runs.
    pub(crate) fn matches(&self, case: &str) -> bool {
        // Go writes spaces in names as underscores.
        let case: String =
            case.chars().map(|character| if character.is_whitespace() { '_' } else { character }).collect();
        let path = ["kuttl", "harness", case.as_str()];
        self.alternatives
            .iter()
            .any(|elements| elements.iter().zip(path).all(|(element, name)| element.is_match(name)))
    }
}

/// Splits a pattern at a character outside brackets and parentheses.
fn split(pattern: &str, at: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut brackets, mut parentheses) = (0_i32, 0_i32);
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        let Some(part) = parts.last_mut() else { break };
        match character {
            '[' => brackets += 1,
            ']' => brackets = (brackets - 1).max(0),
            '(' if brackets == 0 => parentheses += 1,
            ')' if brackets == 0 => parentheses -= 1,
            '\\' => {
                part.push(character);
                part.extend(characters.next());
                continue;
            }
            _ if character == at && brackets == 0 && parentheses == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        part.push(character);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_patterns() {
        for (pattern, name, expected) in [
            ("README*", "README.md", Some(true)),
            ("README*", "read", Some(false)),
            ("*.md", "a.md", Some(true)),
            ("?[a-c]\\*", "xb*", Some(true)),
            ("[^a]", "a", Some(false)),
            ("[", "a", None),
            ("[]", "a", None),
            ("a\\", "b", None),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn test_patterns_match_parts_of_names() {
        let runs = |pattern: &str, name: &str| Filter::new(pattern).unwrap().matches(name);
        assert!(runs("inst", "install") && runs("^install$", "install") && !runs("^inst$", "install"));
        assert!(runs("(a|b)c", "xbc") && runs("a|b", "a"));
        // The second alternative is matched against the outer test, whose name is kuttl.
        assert!(!runs("a|b", "b") && runs("a|k", "b"));
        assert!(Filter::new("(").is_err());
    }
}
