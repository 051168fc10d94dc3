//! JSONPath expressions of printer columns.
//! Hand-written: the dialect is client-go's, which predates RFC 9535 and differs from it in quoting, filters and
//! missing values.

use std::cmp::Ordering;

use serde_json::Value;

/// Maximum nesting depth of filters.
const MAX_DEPTH: usize = 16;

/// A JSONPath, such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// All fields or items.
    Every,
    /// Items from start to end with a step; negative positions count from the end.
    Slice(Option<i64>, Option<i64>, i64),
    /// Results of all of the paths.
    Union(Vec<Path>),
    Filter(Box<Filter>),
    /// The value and everything below it.
    Deep,
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Operand,
    /// Without a test, the operand only has to exist.
    test: Option<(Test, Operand)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Path),
    Literal(Value),
}

/// The path fails for this object: a value has the wrong type, or there is more than one where one is needed.
struct WrongType;

impl Path {
    /// Parses a path. `None` if it is invalid, which validation of its definition has reported already.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text.trim(), depth: 0 };
        let path = parser.path()?;
        parser.rest.is_empty().then_some(path)
    }

    /// Returns the first result.
    pub fn first<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.follow(value).ok()?.into_iter().next()
    }

    fn follow<'v>(&self, value: &'v Value) -> Result<Vec<&'v Value>, WrongType> {
        let mut found = vec![value];
        for step in &self.0 {
            let mut next = Vec::new();
            for value in found {
                step.take(value, &mut next)?;
            }
            found = next;
        }
        Ok(found)
    }
}

impl Step {
    fn take<'v>(&self, value: &'v Value, out: &mut Vec<&'v Value>) -> Result<(), WrongType> {
        match self {
            Self::Field(name) => out.extend(value.as_object().and_then(|map| map.get(name))),
            Self::Every => match value {
                Value::Object(map) => out.extend(map.values()),
                Value::Array(items) => out.extend(items),
                _ => {}
            },
            Self::Slice(start, end, step) => {
                let Some(items) = value.as_array() else {
                    return if value.is_null() { Ok(()) } else { Err(WrongType) };
                };
                out.extend(slice(items, *start, *end, *step)?);
            }
            Self::Union(paths) => {
                for path in paths {
                    out.extend(path.follow(value)?);
                }
            }
            Self::Filter(filter) => {
                let Some(items) = value.as_array() else {
                    return if value.is_null() { Ok(()) } else { Err(WrongType) };
                };
                for item in items {
                    if filter.holds(item)? {
                        out.push(item);
                    }
                }
            }
            Self::Deep => deep(value, out),
        }
        Ok(())
    }
}

fn slice(items: &[Value], start: Option<i64>, end: Option<i64>, step: i64) -> Result<Vec<&Value>, WrongType> {
    let length = i64::try_from(items.len()).map_err(|_| WrongType)?;
    let place = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (start, end) = (place(start.unwrap_or(0)), place(end.unwrap_or(length)).min(length));
    let step = usize::try_from(step).ok().filter(|step| *step > 0).ok_or(WrongType)?;
    if start < 0 || start >= length || start > end {
        return if length == 0 { Ok(Vec::new()) } else { Err(WrongType) };
    }
    let range =
        usize::try_from(start).map_err(|_| WrongType)?..usize::try_from(end).map_err(|_| WrongType)?;
    Ok(items.get(range).unwrap_or_default().iter().step_by(step).collect())
}

fn deep<'v>(value: &'v Value, out: &mut Vec<&'v Value>) {
    out.push(value);
    match value {
        Value::Object(map) => map.values().for_each(|child| deep(child, out)),
        Value::Array(items) => items.iter().for_each(|child| deep(child, out)),
        _ => {}
    }
}

impl Filter {
    fn holds(&self, item: &Value) -> Result<bool, WrongType> {
        let Some((test, right)) = &self.test else {
            return Ok(match &self.left {
                Operand::Path(path) => !path.follow(item)?.is_empty(),
                Operand::Literal(_) => true,
            });
        };
        let (Some(left), Some(right)) = (self.left.value(item)?, right.value(item)?) else {
            return Ok(false);
        };
        let order = compare(left, right).ok_or(WrongType)?;
        Ok(match test {
            Test::Equal => order == Ordering::Equal,
            Test::NotEqual => order != Ordering::Equal,
            Test::Less => order == Ordering::Less,
            Test::LessOrEqual => order != Ordering::Greater,
            Test::Greater => order == Ordering::Greater,
            Test::GreaterOrEqual => order != Ordering::Less,
        })
    }
}

impl Operand {
    fn value<'v>(&'v self, item: &'v Value) -> Result<Option<&'v Value>, WrongType> {
        match self {
            Self::Literal(value) => Ok(Some(value)),
            Self::Path(path) => match path.follow(item)?.as_slice() {
                [] => Ok(None),
                [one] => Ok(Some(one)),
                _ => Err(WrongType),
            },
        }
    }
}

/// Compares two values of the same type.
fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => {
            a.as_f64()?.partial_cmp(&b.as_f64()?)
        }
        _ => None,
    }
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Parses steps up to the first character that does not start one.
    fn path(&mut self) -> Option<Path> {
        let mut steps = Vec::new();
        let _ = self.eat("$") || self.eat("@");
        loop {
            if self.eat("..") {
                steps.push(Step::Deep);
                if !self.rest.starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if self.eat(".") {
                if !self.rest.starts_with('[') && !self.rest.is_empty() {
                    steps.push(self.field()?);
                }
            } else if self.eat("[") {
                steps.push(self.brackets()?);
            } else if steps.is_empty()
                && self.rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            {
                steps.push(self.field()?);
            } else {
                return Some(Path(steps));
            }
        }
    }

    fn field(&mut self) -> Option<Step> {
        let mut name = String::new();
        let mut characters = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => name.push(characters.next()?.1),
                '.' | '[' | ']' | ')' | '(' | '=' | '!' | '<' | '>' | ',' | ' ' | '\'' | '"' | '$' | '@'
                | '{' | '}' => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        self.rest = self.rest.get(end..)?;
        match name.as_str() {
            "" => None,
            "*" => Some(Step::Every),
            _ => Some(Step::Field(name)),
        }
    }

    /// Parses the content of brackets, including the closing one.
    fn brackets(&mut self) -> Option<Step> {
        self.blanks();
        if self.eat("?(") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return None;
            }
            let filter = self.filter()?;
            self.depth -= 1;
            self.blanks();
            return (self.eat(")]")).then(|| Step::Filter(Box::new(filter)));
        }
        let mut parts = Vec::new();
        loop {
            self.blanks();
            parts.push(match self.rest.chars().next()? {
                '\'' | '"' => Step::Field(self.quoted()?),
                '*' => {
                    self.eat("*");
                    Step::Every
                }
                _ => self.slice()?,
            });
            self.blanks();
            if self.eat("]") {
                break;
            }
            if !self.eat(",") {
                return None;
            }
        }
        match parts.len() {
            1 => parts.pop(),
            _ => Some(Step::Union(parts.into_iter().map(|step| Path(vec![step])).collect())),
        }
    }

    fn slice(&mut self) -> Option<Step> {
        let end = self.rest.find([']', ','])?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let number = |text: &str| match text.trim() {
            "" => Some(None),
            text => text.parse::<i64>().ok().map(Some),
        };
        let mut parts = text.split(':');
        let start = number(parts.next()?)?;
        let Some(end) = parts.next() else {
            // A single index is a slice of length one; that of -1 has an open end.
            let start = start?;
            let end = start.checked_add(1).filter(|end| *end != 0);
            return Some(Step::Slice(Some(start), end, 1));
        };
        let step = parts.next().map_or(Some(None), number)?;
        parts.next().is_none().then_some(Step::Slice(start, number(end)?, step.unwrap_or(1)))
    }

    fn quoted(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => text.push(characters.next()?.1),
                c if c == quote => {
                    self.rest = self.rest.get(at + 1..)?;
                    return Some(text);
                }
                c => text.push(c),
            }
        }
        None
    }

    fn filter(&mut self) -> Option<Filter> {
        let left = self.operand()?;
        self.blanks();
        let tests = [
            ("==", Test::Equal),
            ("!=", Test::NotEqual),
            ("<=", Test::LessOrEqual),
            (">=", Test::GreaterOrEqual),
            ("<", Test::Less),
            (">", Test::Greater),
        ];
        let test = match tests.into_iter().find(|(text, _)| self.eat(text)) {
            Some((_, test)) => Some((test, self.operand()?)),
            None => None,
        };
        Some(Filter { left, test })
    }

    fn operand(&mut self) -> Option<Operand> {
        self.blanks();
        match self.rest.chars().next()? {
            '\'' | '"' => self.quoted().map(|text| Operand::Literal(text.into())),
            '0'..='9' | '-' | '+' => {
                let is_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
                let end = self.rest.find(|c: char| !is_number(c)).unwrap_or(self.rest.len());
                let (text, rest) = self.rest.split_at(end);
                self.rest = rest;
                let integer = text.parse::<i64>().ok().map(Value::from);
                integer.or_else(|| text.parse::<f64>().ok().map(Value::from)).map(Operand::Literal)
            }
            _ if self.eat("true") => Some(Operand::Literal(true.into())),
            _ if self.eat("false") => Some(Operand::Literal(false.into())),
            _ => self.path().map(Operand::Path),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "metadata": {"name": "a", "annotations": {"example.com/x": "y"}},
            "spec": {"ports": [80, 443], "deep": {"er": {"name": "found"}}},
            "status": {"conditions": [
                {"type": "Synced", "status": "False"},
                {"type": "Ready", "status": "True", "count": 3},
            ]},
        });
        for (path, expected) in [
            (".metadata.name", json!("a")),
            ("metadata.name", json!("a")),
            (".metadata.annotations.example\\.com/x", json!("y")),
            (".metadata.annotations['example.com/x']", json!("y")),
            (".spec.ports[0]", json!(80)),
            (".spec.ports[-1]", json!(443)),
            (".spec.ports[1:2]", json!(443)),
            (".spec.ports[*]", json!(80)),
            (".spec.ports[1,0]", json!(443)),
            (".spec.deep.*.name", json!("found")),
            (".spec..name", json!("found")),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.type == 'Ready')].status", json!("True")),
            (".status.conditions[?(@.count>2)].type", json!("Ready")),
            (".status.conditions[?(@.type!='Synced')].type", json!("Ready")),
            (".status.conditions[?(@.count)].type", json!("Ready")),
        ] {
            let parsed = Path::parse(path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(parsed.first(&object), Some(&expected), "{path}");
        }
        for nowhere in [
            ".spec.nothing",
            ".metadata.name.more",
            ".spec.ports[5]",
            ".status.conditions[?(@.type=='None')].status",
            ".status.conditions[?(@.type==1)].status",
        ] {
            assert_eq!(Path::parse(nowhere).unwrap().first(&object), None, "{nowhere}");
        }
        // Only nested filters are limited, not consecutive ones.
        let many = format!(".status.conditions{}[0].status", "[?(@.none)]".repeat(MAX_DEPTH + 1));
        assert!(Path::parse(&many).is_some());
        let deep = |depth| format!(".a{}{}", "[?(@.a".repeat(depth), ")]".repeat(depth));
        assert!(Path::parse(&deep(MAX_DEPTH)).is_some());
        assert_eq!(Path::parse(&deep(MAX_DEPTH + 1)), None);
        for broken in [".a[", ".a[x]", ".a[?(@.b==]", ".a]", ".a['b"] {
            assert_eq!(Path::parse(broken), None, "{broken}");
        }
    }
}
