//! Patterns of `.Files.Glob`: the syntax of gobwas/glob with `/` as the separator.
//!
//! Rust's glob crates interpret braces, ranges and double stars differently, which charts would notice.

/// A parsed pattern.
#[derive(Debug)]
pub(super) struct Glob(Vec<Token>);

#[derive(Debug)]
enum Token {
    /// Exactly this text.
    Text(String),
    /// `*`: any text without a separator.
    Any,
    /// `**`: any text.
    Super,
    /// `?`: one character except a separator.
    Single,
    /// `[abc]`, `[!abc]`: one character in, or not in, the list.
    List { chars: Vec<char>, negated: bool },
    /// `[a-c]`, `[!a-c]`: one character in, or not in, the range.
    Range { low: char, high: char, negated: bool },
    /// `{a,b*}`: any of these patterns.
    AnyOf(Vec<Vec<Token>>),
}

const SEPARATOR: char = '/';

impl Glob {
    /// Parses a pattern; `None` if it is malformed.
    pub(super) fn parse(pattern: &str) -> Option<Self> {
        let mut parser = Parser { chars: pattern.chars().peekable(), level: 0 };
        let mut alternatives = parser.alternatives()?;
        let only = alternatives.pop()?;
        alternatives.is_empty().then_some(Self(only))
    }

    /// Whether the whole name matches.
    pub(super) fn matches(&self, name: &str) -> bool {
        if let Some(row) = self.row() {
            return matches_row(&row, name);
        }
        let chars: Vec<char> = name.chars().collect();
        let tokens: Vec<&Token> = self.0.iter().collect();
        let mut budget = 1_000_000;
        matches(&tokens, &chars, &mut budget)
    }
}

impl Glob {
    /// Returns the tokens with their lengths in characters, if several and all of fixed length.
    fn row(&self) -> Option<Vec<(&Token, usize)>> {
        let length = |token: &Token| match token {
            Token::Text(text) => Some(text.chars().count()),
            Token::Single | Token::List { .. } | Token::Range { .. } => Some(1),
            Token::Any | Token::Super | Token::AnyOf(_) => None,
        };
        let row: Option<Vec<_>> = self.0.iter().map(|token| Some((token, length(token)?))).collect();
        row.filter(|row| row.len() > 1 && row.iter().all(|(_, length)| *length > 0))
    }
}

/// Matches token by token.
///
/// gobwas assumes that the last character of each token is one byte long, so a longer one never matches there.
fn matches_row(row: &[(&Token, usize)], name: &str) -> bool {
    if row.iter().map(|(_, length)| length).sum::<usize>() != name.chars().count() {
        return false;
    }
    let mut rest = name;
    row.iter().all(|(token, length)| {
        let end = rest.char_indices().nth(length - 1).map(|(last, _)| last + 1);
        let Some((part, after)) = end.and_then(|end| rest.split_at_checked(end)) else { return false };
        rest = after;
        matches(&[*token], &part.chars().collect::<Vec<_>>(), &mut 1000)
    })
}

/// Maximum nesting of braces.
const MAX_LEVEL: usize = 32;

struct Parser<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    level: usize,
}

impl Parser<'_> {
    /// Parses alternatives up to the closing brace or the end.
    fn alternatives(&mut self) -> Option<Vec<Vec<Token>>> {
        let mut alternatives = vec![Vec::new()];
        while let Some(c) = self.chars.next() {
            let token = match c {
                // gobwas stops at a NUL.
                '\0' => break,
                '{' => {
                    self.level += 1;
                    if self.level > MAX_LEVEL {
                        return None;
                    }
                    Token::AnyOf(self.alternatives()?)
                }
                ',' if self.level > 0 => {
                    alternatives.push(Vec::new());
                    continue;
                }
                '}' if self.level > 0 => {
                    self.level -= 1;
                    return Some(alternatives);
                }
                '[' => self.range()?,
                '?' => Token::Single,
                '*' if self.chars.next_if_eq(&'*').is_some() => Token::Super,
                '*' => Token::Any,
                c => self.text(c),
            };
            alternatives.last_mut()?.push(token);
        }
        // As in gobwas, the end closes an open brace.
        self.level = self.level.saturating_sub(1);
        Some(alternatives)
    }

    fn text(&mut self, first: char) -> Token {
        let mut text = String::new();
        let mut next = Some(first);
        while let Some(c) = next {
            if c == '\\' {
                text.extend(self.chars.next());
            } else {
                text.push(c);
            }
            let in_braces = self.level > 0;
            let is_text = |c: &char| match c {
                '?' | '*' | '[' | '{' | '\0' => false,
                '}' | ',' => !in_braces,
                _ => true,
            };
            next = self.chars.next_if(is_text);
        }
        Token::Text(text)
    }

    fn range(&mut self) -> Option<Token> {
        let negated = self.chars.next_if_eq(&'!').is_some();
        let first = self.chars.next()?;
        if self.chars.next_if_eq(&'-').is_some() {
            let high = self.chars.next()?;
            let closed = self.chars.next() == Some(']');
            return (closed && first <= high).then_some(Token::Range { low: first, high, negated });
        }
        let mut chars = Vec::new();
        let mut next = Some(first);
        loop {
            match next? {
                ']' => break,
                '\\' => chars.push(self.chars.next()?),
                c => chars.push(c),
            }
            next = self.chars.next();
        }
        (!chars.is_empty()).then_some(Token::List { chars, negated })
    }
}

/// Whether the tokens match all of `text`. `budget` limits the attempts, which grow exponentially with stars.
fn matches(tokens: &[&Token], text: &[char], budget: &mut usize) -> bool {
    let Some(left) = budget.checked_sub(1) else { return false };
    *budget = left;
    let Some((token, rest)) = tokens.split_first() else { return text.is_empty() };
    let one = |accept: &dyn Fn(char) -> bool, budget: &mut usize| match text.split_first() {
        Some((c, after)) if accept(*c) => matches(rest, after, budget),
        _ => false,
    };
    match token {
        Token::Text(wanted) => {
            let mut after = text;
            for c in wanted.chars() {
                match after.split_first() {
                    Some((have, rest)) if *have == c => after = rest,
                    _ => return false,
                }
            }
            matches(rest, after, budget)
        }
        Token::Single => one(&|c| c != SEPARATOR, budget),
        Token::List { chars, negated } => one(&|c| chars.contains(&c) != *negated, budget),
        Token::Range { low, high, negated } => one(&|c| (*low <= c && c <= *high) != *negated, budget),
        Token::Any | Token::Super => {
            let is_super = matches!(token, Token::Super);
            let mut after = text;
            loop {
                if matches(rest, after, budget) {
                    return true;
                }
                match after.split_first() {
                    Some((c, next)) if is_super || *c != SEPARATOR => after = next,
                    _ => return false,
                }
            }
        }
        Token::AnyOf(alternatives) => alternatives.iter().any(|alternative| {
            let tokens: Vec<&Token> = alternative.iter().chain(rest.iter().copied()).collect();
            matches(&tokens, text, budget)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn matches_as_gobwas_does() {
        let cases = [
            ("*", "abc", true),
            ("*", "a/b", false),
            ("**", "a/b", true),
            ("config/*.yaml", "config/a.yaml", true),
            ("config/*.yaml", "config/b/a.yaml", false),
            ("config/**.yaml", "config/b/a.yaml", true),
            ("{a,b}.txt", "b.txt", true),
            ("{a,b{c,d}}.txt", "bd.txt", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[abc]x", "cx", true),
            ("[!abc]x", "dx", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("a\\*c", "a*c", true),
            ("a,b", "a,b", true),
            ("a}b", "a}b", true),
            ("[!a].txt", "b.txt", true),
            ("[!a].txt", "é.txt", false),
        ];
        for (pattern, name, expected) in cases {
            let glob = Glob::parse(pattern).unwrap();
            assert_eq!(glob.matches(name), expected, "{pattern} on {name}");
        }
        for broken in ["[", "[a", "[b-a]", "[a-bc]", "[]"] {
            assert!(Glob::parse(broken).is_none(), "{broken}");
        }
    }
}
