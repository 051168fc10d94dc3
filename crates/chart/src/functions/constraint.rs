//! Version constraints such as `>=1.2 <2 || ^3.x`.

use std::sync::LazyLock;

use regex::Regex;
use steersman_gostd::strconv::quote;

use super::semver::{MAX_CONSTRAINT_GROUPS, MAX_CONSTRAINT_LEN, SemverError, Version, compare_prerelease};

/// `1.2 - 1.4` in Go's own grammar.
///
/// The `|` in the character classes is literal: Go accepts it there and rejects it when parsing the version.
static RANGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const SPACE: &str = r"[\t\n\f\r ]";
    const VERSION: &str = r"v?[0-9|x|X|\*]+(?:\.[0-9|x|X|\*]+){0,2}(?:-[0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*)?(?:\+[0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*)?";
    Regex::new(&format!(r"{SPACE}*({VERSION}){SPACE}+-{SPACE}+({VERSION}){SPACE}*")).ok()
});

/// A version constraint: alternatives, each a list of conditions that must all hold.
#[derive(Clone, Debug)]
pub struct Constraint {
    alternatives: Vec<Vec<Condition>>,
}

#[derive(Clone, Debug)]
struct Condition {
    operator: Operator,
    version: Version,
    /// The version as written.
    text: String,
    /// The part of the version that is omitted or a wildcard.
    wild: Wild,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Tilde,
    Caret,
}

/// First number of a condition's version that is a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wild {
    Nothing,
    Patch,
    Minor,
    Everything,
}

impl Constraint {
    /// Parses a constraint.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        if text.len() > MAX_CONSTRAINT_LEN {
            return Err(SemverError::ConstraintTooLong);
        }
        let text = rewrite_ranges(text);
        let alternatives: Vec<&str> = text.split("||").collect();
        if alternatives.len() > MAX_CONSTRAINT_GROUPS {
            return Err(SemverError::TooManyGroups);
        }
        let alternatives = alternatives
            .into_iter()
            .map(|alternative| {
                Cursor(alternative.as_bytes()).conditions().unwrap_or_else(|| Err(improper(alternative)))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { alternatives })
    }

    /// Whether the version satisfies it. Pre-releases only match alternatives that name a pre-release themselves.
    pub fn check(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|conditions| {
            let with_pre = conditions.iter().any(|condition| !condition.version.pre.is_empty());
            conditions.iter().all(|condition| condition.check(version, with_pre).is_ok())
        })
    }

    /// Checks a version; the error has a message for each condition that fails.
    pub(crate) fn validate(&self, version: &Version) -> Result<(), Vec<String>> {
        let mut reasons = Vec::new();
        let mut told_of_pre = false;
        for conditions in &self.alternatives {
            let with_pre = conditions.iter().any(|condition| !condition.version.pre.is_empty());
            let mut satisfied = true;
            for condition in conditions {
                if !with_pre && !version.pre.is_empty() {
                    if !std::mem::replace(&mut told_of_pre, true) {
                        reasons.push(is_prerelease(version));
                    }
                    satisfied = false;
                } else if let Err(reason) = condition.check(version, with_pre) {
                    reasons.push(reason);
                    satisfied = false;
                }
            }
            if satisfied {
                return Ok(());
            }
        }
        Err(reasons)
    }
}

fn improper(text: &str) -> SemverError {
    SemverError::ImproperConstraint(quote(text.as_bytes()))
}

/// Replaces `1.2 - 1.4` by `>= 1.2, <= 1.4 `.
fn rewrite_ranges(text: &str) -> String {
    let mut out = text.to_owned();
    // Few constraints have a range, and building the regular expression costs more than everything else here.
    if !text.contains(['-']) || !text.contains(|c: char| c.is_ascii_whitespace()) {
        return out;
    }
    let Some(range) = &*RANGE else { return out };
    for captures in range.captures_iter(text) {
        let part = |i| captures.get(i).map_or("", |m| m.as_str());
        // As in Go, this replaces the first occurrence of the same text, which need not be this one.
        out = out.replacen(part(0), &format!(">= {}, <= {} ", part(1), part(2)), 1);
    }
    out
}

/// Parses conditions from the start of a string.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// Parses all conditions, separated by commas or white space; `None` if the string has another form.
    fn conditions(mut self) -> Option<Result<Vec<Condition>, SemverError>> {
        let mut found = Vec::new();
        self.spaces();
        loop {
            let operator = self.take(|b| b"=!<>~^".contains(&b));
            let operator = match operator {
                b"" | b"=" => Operator::Equal,
                b"!=" => Operator::NotEqual,
                b">" => Operator::Greater,
                b"<" => Operator::Less,
                b">=" | b"=>" => Operator::GreaterEqual,
                b"<=" | b"=<" => Operator::LessEqual,
                b"~" | b"~>" => Operator::Tilde,
                b"^" => Operator::Caret,
                _ => return None,
            };
            self.spaces();
            found.push((operator, self.version()?));
            let spaced = self.spaces();
            match self.0.split_first() {
                None => break,
                Some((b',', rest)) => {
                    self.0 = rest;
                    self.spaces();
                }
                Some(_) if spaced => {}
                Some(_) => return None,
            }
        }
        // Only once the whole string has the right form are the versions validated.
        Some(found.into_iter().map(|(operator, version)| Condition::new(operator, &version)).collect())
    }

    fn take(&mut self, accept: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self.0.iter().take_while(|b| accept(**b)).count();
        let (head, tail) = self.0.split_at_checked(len).unwrap_or((self.0, &[]));
        self.0 = tail;
        head
    }

    /// Skips white space as Go's `\s` defines it. Returns whether there was any.
    fn spaces(&mut self) -> bool {
        !self.take(|b| b"\t\n\x0C\r ".contains(&b)).is_empty()
    }

    /// Takes `mark` and at least one character that `accept` allows; returns both, or an empty slice.
    fn marked(&mut self, mark: u8, accept: impl Fn(u8) -> bool) -> &'a [u8] {
        let start = self.0;
        match start.split_first() {
            Some((first, rest)) if *first == mark && rest.first().is_some_and(|b| accept(*b)) => {
                self.0 = rest;
                let taken = self.take(accept).len();
                start.get(..=taken).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// Takes `mark` and identifiers separated by dots.
    fn words(&mut self, mark: u8) -> &'a [u8] {
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        let start = self.0;
        if !self.marked(mark, is_word).is_empty() {
            while !self.marked(b'.', is_word).is_empty() {}
        }
        start.get(..start.len() - self.0.len()).unwrap_or_default()
    }

    fn version(&mut self) -> Option<Pattern<'a>> {
        let is_number = |b: u8| b.is_ascii_digit() || b"|xX*".contains(&b);
        let start = self.0;
        self.0 = start.strip_prefix(b"v").unwrap_or(start);
        let major = self.take(is_number);
        if major.is_empty() {
            return None;
        }
        let minor = self.marked(b'.', is_number);
        let patch = if minor.is_empty() { minor } else { self.marked(b'.', is_number) };
        let pre = self.words(b'-');
        self.words(b'+');
        let whole = start.get(..start.len() - self.0.len()).unwrap_or_default();
        Some(Pattern { whole, major, minor, patch, pre })
    }
}

/// A version with possible wildcards, split into parts.
///
/// Minor and patch include their dot, the pre-release its dash.
struct Pattern<'a> {
    whole: &'a [u8],
    major: &'a [u8],
    minor: &'a [u8],
    patch: &'a [u8],
    pre: &'a [u8],
}

fn is_wildcard(part: &[u8]) -> bool {
    matches!(part.strip_prefix(b".").unwrap_or(part), b"" | b"x" | b"X" | b"*")
}

fn is_prerelease(version: &Version) -> String {
    let version = quote(version.to_string().as_bytes());
    format!("{version} is a prerelease version and the constraint is only looking for release versions")
}

impl Condition {
    fn new(operator: Operator, pattern: &Pattern<'_>) -> Result<Self, SemverError> {
        let Pattern { whole, major, minor, patch, pre } = *pattern;
        let (wild, version) = if is_wildcard(major) {
            (Wild::Everything, [b"0.0.0", pre].concat())
        } else if is_wildcard(minor) {
            (Wild::Minor, [major, b".0.0", pre].concat())
        } else if is_wildcard(patch) {
            (Wild::Patch, [major, minor, b".0", pre].concat())
        } else {
            (Wild::Nothing, whole.to_vec())
        };
        let version =
            Version::parse(&String::from_utf8_lossy(&version)).map_err(|_| SemverError::Constraint)?;
        Ok(Self { operator, version, text: String::from_utf8_lossy(whole).into_owned(), wild })
    }

    /// Checks a version against this condition; the error says why it fails.
    fn check(&self, version: &Version, with_pre: bool) -> Result<(), String> {
        if !version.pre.is_empty() && !with_pre {
            return Err(is_prerelease(version));
        }
        let complaint = match self.operator {
            Operator::Equal if self.wild == Wild::Nothing => {
                (*version != self.version).then_some("is not equal to")
            }
            Operator::Equal | Operator::Tilde => self.tilde(version),
            Operator::NotEqual => (!self.differs(version)).then_some("is equal to"),
            Operator::Greater => (!self.is_below(version)).then_some("is less than or equal to"),
            Operator::Less => (*version >= self.version).then_some("is greater than or equal to"),
            Operator::GreaterEqual => (*version < self.version).then_some("is less than"),
            Operator::LessEqual => (!self.is_not_below(version)).then_some("is greater than"),
            Operator::Caret => return self.caret(version),
        };
        complaint.map_or(Ok(()), |complaint| Err(self.complain(version, complaint)))
    }

    fn complain(&self, version: &Version, complaint: &str) -> String {
        format!("{} {complaint} {}", quote(version.to_string().as_bytes()), quote(self.text.as_bytes()))
    }

    fn differs(&self, version: &Version) -> bool {
        let own = &self.version;
        if self.wild != Wild::Nothing {
            if own.major != version.major {
                return true;
            }
            if self.wild == Wild::Minor {
                return false;
            }
            if own.minor != version.minor {
                return true;
            }
            if self.wild == Wild::Patch {
                let pre = !version.pre.is_empty() || !own.pre.is_empty();
                return pre && compare_prerelease(&version.pre, &own.pre).is_ne();
            }
            if own.patch != version.patch {
                return true;
            }
        }
        version != own
    }

    fn is_below(&self, version: &Version) -> bool {
        match self.wild {
            Wild::Nothing => *version > self.version,
            _ if version.major != self.version.major => version.major > self.version.major,
            Wild::Minor => false,
            Wild::Patch => version.minor > self.version.minor,
            Wild::Everything => *version > self.version,
        }
    }

    fn is_not_below(&self, version: &Version) -> bool {
        if self.wild == Wild::Nothing {
            return *version <= self.version;
        }
        version.major < self.version.major
            || (version.major == self.version.major
                && (version.minor <= self.version.minor || self.wild == Wild::Minor))
    }

    fn tilde(&self, version: &Version) -> Option<&'static str> {
        let own = &self.version;
        if version < own {
            return Some("is less than");
        }
        let zero = (own.major, own.minor, own.patch) == (0, 0, 0);
        if zero && !matches!(self.wild, Wild::Minor | Wild::Patch) {
            return None;
        }
        if version.major != own.major {
            return Some("does not have same major version as");
        }
        (version.minor != own.minor && self.wild != Wild::Minor)
            .then_some("does not have same major and minor version as")
    }

    fn caret(&self, version: &Version) -> Result<(), String> {
        let own = &self.version;
        let fail = |complaint: &str| Err(self.complain(version, complaint));
        if version < own {
            return fail("is less than");
        }
        if own.major > 0 || self.wild == Wild::Minor {
            return if version.major == own.major {
                Ok(())
            } else {
                fail("does not have same major version as")
            };
        }
        if version.major > 0 {
            return fail("does not have same major version as");
        }
        if own.minor > 0 || self.wild == Wild::Patch {
            if version.minor == own.minor {
                return Ok(());
            }
            let mut reason = self.complain(version, "does not have same minor version as");
            reason.push_str(". Expected minor versions to match when constraint major version is 0");
            return Err(reason);
        }
        if version.minor > 0 {
            return fail("does not have same minor version as");
        }
        if own.patch == version.patch {
            return Ok(());
        }
        let mut reason = self.complain(version, "does not equal");
        reason.push_str(". Expect version and constraint to equal when major and minor versions are 0");
        Err(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns why a version does not satisfy a constraint.
    fn reasons(constraint: &str, version: &str) -> Vec<String> {
        let (constraint, version) =
            (Constraint::parse(constraint).unwrap(), Version::parse(version).unwrap());
        let reasons = constraint.validate(&version);
        assert_eq!(reasons.is_ok(), constraint.check(&version));
        reasons.err().unwrap_or_default()
    }

    #[test]
    fn every_condition_that_fails_is_told() {
        for (constraint, version, expected) in [
            ("1.2.3", "1.2.4", "\"1.2.4\" is not equal to \"1.2.3\""),
            ("!=1.2.3", "1.2.3", "\"1.2.3\" is equal to \"1.2.3\""),
            (">1.2.3", "1.2.3", "\"1.2.3\" is less than or equal to \"1.2.3\""),
            ("<1.2.3", "1.2.3", "\"1.2.3\" is greater than or equal to \"1.2.3\""),
            (">=1.2.3", "1.2.2", "\"1.2.2\" is less than \"1.2.3\""),
            ("<=1.2.3", "1.2.4", "\"1.2.4\" is greater than \"1.2.3\""),
            ("~1.2.3", "1.2.2", "\"1.2.2\" is less than \"1.2.3\""),
            ("~1.2.3", "2.2.3", "\"2.2.3\" does not have same major version as \"1.2.3\""),
            ("~1.2.3", "1.3.3", "\"1.3.3\" does not have same major and minor version as \"1.2.3\""),
            ("^1.2", "1.1.0", "\"1.1.0\" is less than \"1.2\""),
            ("^1.2", "2.0.0", "\"2.0.0\" does not have same major version as \"1.2\""),
            ("^0.2", "1.0.0", "\"1.0.0\" does not have same major version as \"0.2\""),
            (
                "^0.2",
                "0.3.0",
                "\"0.3.0\" does not have same minor version as \"0.2\". Expected minor versions to match when \
                 constraint major version is 0",
            ),
            ("^0.0.2", "0.1.0", "\"0.1.0\" does not have same minor version as \"0.0.2\""),
            (
                "^0.0.2",
                "0.0.3",
                "\"0.0.3\" does not equal \"0.0.2\". Expect version and constraint to equal when major and minor \
                 versions are 0",
            ),
            (
                ">=1.2",
                "1.3.0-rc.1",
                "\"1.3.0-rc.1\" is a prerelease version and the constraint is only looking for release versions",
            ),
        ] {
            assert_eq!(reasons(constraint, version), [expected], "{constraint} {version}");
        }
    }

    #[test]
    fn alternatives_are_told_one_after_the_other() {
        assert!(reasons(">=1 <2 || 3", "1.5.0").is_empty());
        assert!(reasons("3 || >=1 <2", "1.5.0").is_empty());
        assert_eq!(
            reasons(">1 <1 || 3", "1.0.0"),
            [
                "\"1.0.0\" is less than or equal to \"1\"",
                "\"1.0.0\" is greater than or equal to \"1\"",
                "\"1.0.0\" is less than \"3\"",
            ]
        );
        // The pre-release is reported only once.
        let told = reasons(">=1 <2 || 3 || >=2-0", "1.0.0-a");
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("is a prerelease version") && told[1].contains("is less than"));
        assert!(reasons(">=1 || >=1-0", "1.5.0-a").is_empty());
    }

    #[test]
    fn lengths_and_groups_are_bounded() {
        let parse = |text: &str| Constraint::parse(text).map(drop).map_err(|error| error.to_string());
        let long = |length: usize| format!("1{}", " ".repeat(length - 1));
        assert!(parse(&long(MAX_CONSTRAINT_LEN)).is_ok() && parse(&long(MAX_CONSTRAINT_LEN + 1)).is_err());
        let groups = |count: usize| vec!["1"; count].join("||");
        assert!(
            parse(&groups(MAX_CONSTRAINT_GROUPS)).is_ok()
                && parse(&groups(MAX_CONSTRAINT_GROUPS + 1)).is_err()
        );
    }
}
