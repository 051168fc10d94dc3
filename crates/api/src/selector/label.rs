//! Label selectors: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`.

use serde_json::Value;

use crate::{names, store::Pairs};

/// A parsed label selector. The empty selector matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Open,
    Close,
    Comma,
    Not,
    Equal,
    DoubleEqual,
    NotEqual,
    Greater,
    Less,
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(w) => w,
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
            Self::Not => "!",
            Self::Equal => "=",
            Self::DoubleEqual => "==",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::End => "",
        }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(w) if w == word)
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(&c) = chars.peek() {
        if matches!(c, ' ' | '\t' | '\r' | '\n') {
            chars.next();
            continue;
        }
        let token = match c {
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            '>' => Token::Greater,
            '<' => Token::Less,
            '=' | '!' => {
                chars.next();
                let doubled = chars.peek() == Some(&'=');
                if doubled {
                    chars.next();
                }
                out.push(match (c, doubled) {
                    ('=', true) => Token::DoubleEqual,
                    ('=', false) => Token::Equal,
                    (_, true) => Token::NotEqual,
                    (_, false) => Token::Not,
                });
                continue;
            }
            _ => {
                let mut word = String::new();
                while let Some(&c) = chars.peek() {
                    if matches!(c, ' ' | '\t' | '\r' | '\n' | '(' | ')' | ',' | '=' | '!' | '<' | '>') {
                        break;
                    }
                    word.push(c);
                    chars.next();
                }
                out.push(Token::Word(word));
                continue;
            }
        };
        chars.next();
        out.push(token);
    }
    out.push(Token::End);
    out
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut out = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Not => {
                    out.push(self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?);
                    match self.next() {
                        Token::End => return Ok(out),
                        Token::Comma => {
                            if !matches!(self.peek(), Token::Word(_) | Token::Not) {
                                return Err(format!(
                                    "found '{}', expected: identifier after ','",
                                    self.peek().text()
                                ));
                            }
                        }
                        other => {
                            return Err(format!(
                                "found '{}', expected: ',' or 'end of string'",
                                other.text()
                            ));
                        }
                    }
                }
                Token::End => return Ok(out),
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = matches!(self.peek(), Token::Not);
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        let complaints = names::qualified(&key);
        if let Some(complaint) = complaints.first() {
            return Err(format!("<nil>: Invalid value: {}: {complaint}", crate::status::quote(&key)));
        }
        if negated {
            return Ok(Requirement { key, operator: Operator::DoesNotExist });
        }
        let operator = match self.peek().clone() {
            Token::End | Token::Comma => Operator::Exists,
            Token::Equal | Token::DoubleEqual => {
                self.next();
                Operator::In(vec![self.exact_value(&key)?])
            }
            Token::NotEqual => {
                self.next();
                Operator::NotIn(vec![self.exact_value(&key)?])
            }
            Token::Greater => {
                self.next();
                Operator::GreaterThan(self.integer()?)
            }
            Token::Less => {
                self.next();
                Operator::LessThan(self.integer()?)
            }
            token if token.is_word("in") => {
                self.next();
                Operator::In(self.values(&key)?)
            }
            token if token.is_word("notin") => {
                self.next();
                Operator::NotIn(self.values(&key)?)
            }
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()));
            }
        };
        Ok(Requirement { key, operator })
    }

    fn exact_value(&mut self, key: &str) -> Result<String, String> {
        match self.peek().clone() {
            Token::End | Token::Comma => Ok(String::new()),
            Token::Word(value) => {
                self.next();
                checked(key, 0, value)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn integer(&mut self) -> Result<i64, String> {
        let value = match self.peek().clone() {
            Token::End | Token::Comma => String::new(),
            Token::Word(value) => {
                self.next();
                value
            }
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        value.parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                crate::status::quote(&value)
            )
        })
    }

    /// Parses values up to the closing parenthesis, without consuming it. Nothing between two commas is the empty
    /// value.
    fn identifiers(&mut self) -> Result<Vec<String>, String> {
        let mut out = Vec::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    out.push(value);
                    match self.peek() {
                        Token::Comma => {}
                        Token::Close => return Ok(out),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Comma => {
                    if out.is_empty() {
                        out.push(String::new());
                    }
                    match self.peek() {
                        Token::Close => {
                            out.push(String::new());
                            return Ok(out);
                        }
                        Token::Comma => {
                            self.next();
                            out.push(String::new());
                            if matches!(self.peek(), Token::Close) {
                                return Ok(out);
                            }
                        }
                        _ => {}
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
    }

    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let out = match self.peek() {
            Token::Word(_) | Token::Comma => self.identifiers()?,
            Token::Close => vec![String::new()],
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        };
        self.next();
        // Values are validated once all of them have been read.
        out.into_iter().enumerate().map(|(index, value)| checked(key, index, value)).collect()
    }
}

fn checked(key: &str, index: usize, value: String) -> Result<String, String> {
    match names::label_value(&value).first() {
        None => Ok(value),
        Some(complaint) => Err(format!(
            "values[{index}][{key}]: Invalid value: {}: {complaint}",
            crate::status::quote(&value)
        )),
    }
}

impl LabelSelector {
    /// Parses the string form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        Ok(Self(parser.requirements()?))
    }

    /// Whether the selector is empty, matching everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Converts a `metav1.LabelSelector`. Null matches everything.
    ///
    /// # Errors
    /// Fails on an unknown operator.
    pub fn from_object(selector: &Value) -> Result<Self, String> {
        let labels = selector["matchLabels"].as_object().into_iter().flatten().map(|(key, value)| {
            let value = value.as_str().unwrap_or_default().to_owned();
            Ok(Requirement { key: key.clone(), operator: Operator::In(vec![value]) })
        });
        let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|expression| {
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values.filter_map(|v| Some(v.as_str()?.to_owned())).collect();
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In(values),
                "NotIn" => Operator::NotIn(values),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(format!(
                        "{} is not a valid label selector operator",
                        crate::status::quote(other)
                    ));
                }
            };
            Ok(Requirement { key: expression["key"].as_str().unwrap_or_default().to_owned(), operator })
        });
        labels.chain(expressions).collect::<Result<_, _>>().map(Self)
    }

    /// Whether an object with these labels matches.
    pub fn matches(&self, labels: &Pairs) -> bool {
        self.matches_with(|key| labels.get(key))
    }

    /// Whether an object matches by its labels.
    pub fn selects(&self, object: &Value) -> bool {
        let labels = crate::object::get(object, &["metadata", "labels"]);
        self.matches_with(|key| labels?.get(key)?.as_str())
    }

    fn matches_with<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|r| match (&r.operator, value(&r.key)) {
            (Operator::Exists, found) => found.is_some(),
            (Operator::DoesNotExist, found) => found.is_none(),
            (Operator::In(values), found) => found.is_some_and(|f| values.iter().any(|v| v == f)),
            (Operator::NotIn(values), found) => found.is_none_or(|f| values.iter().all(|v| v != f)),
            (Operator::GreaterThan(bound), found) => integer(found).is_some_and(|n| n > *bound),
            (Operator::LessThan(bound), found) => integer(found).is_some_and(|n| n < *bound),
        })
    }
}

fn integer(text: Option<&str>) -> Option<i64> {
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels: Pairs = labels.iter().copied().collect();
        LabelSelector::parse(selector).unwrap().matches(&labels)
    }

    #[test]
    fn the_whole_grammar() {
        let labels = [("app", "web"), ("tier", "front"), ("n", "5")];
        for yes in [
            "",
            "app",
            "app=web",
            "app==web",
            "app!=db",
            "!x",
            "app in (web,db)",
            "app notin (db)",
            "x notin (y)",
            "n>4",
            "n<6",
            "app=web,tier in (front),!z",
            " app = web , n > 1 ",
            "x!=y",
        ] {
            assert!(matches(yes, &labels), "{yes}");
        }
        for no in ["x", "app=db", "!app", "app notin (web)", "n>5", "n<5", "app>1", "x in (y)", "app=web,x"] {
            assert!(!matches(no, &labels), "{no}");
        }
        for bad in ["a=b=c", "a in b", "a in (b", ",a", "a,", "a>x", "=b", "a b", "$x"] {
            assert!(LabelSelector::parse(bad).is_err(), "{bad}");
        }
        assert!(matches("a in (,)", &[("a", "")]));
        assert!(matches("a in (b,,)", &[("a", "")]));
        assert!(matches("a=", &[("a", "")]));
    }
}
