//! Version constraints such as `>=1.2 <2 || ^3.x`.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;
use steersman_gotemplate::strconv::quote;

use super::semver::{MAX_CONSTRAINT_GROUPS, MAX_CONSTRAINT_LEN, SemverError, Version, compare_prerelease};

/// A version pattern: numbers or wildcards, then perhaps a pre-release and metadata. The `|` in the classes is no
/// alternation: it is allowed as a character, and rejected when the version is read.
const PATTERN: &str = r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";
const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";

/// The grammar is taken over as regular expressions, since its corners (what counts as a separator, where an operator
/// may stand alone) follow from how they match. White space is Go's `\s`.
struct Grammar {
    one: Regex,
    range: Regex,
    find: Regex,
    valid: Regex,
}

static GRAMMAR: LazyLock<Option<Grammar>> = LazyLock::new(|| {
    const SPACE: &str = r"[\t\n\f\r ]";
    let (v, ops) = (PATTERN, OPERATORS);
    Some(Grammar {
        one: Regex::new(&format!(r"^{SPACE}*({ops}){SPACE}*({v}){SPACE}*$")).ok()?,
        range: Regex::new(&format!(r"{SPACE}*({v}){SPACE}+-{SPACE}+({v}){SPACE}*")).ok()?,
        find: Regex::new(&format!(r"({ops}){SPACE}*({v})")).ok()?,
        valid: Regex::new(&format!(
            r"^({SPACE}*({ops}){SPACE}*({v}){SPACE}*)((?:{SPACE}+|,{SPACE}*)({ops}){SPACE}*({v}){SPACE}*)*$"
        ))
        .ok()?,
    })
});

/// What a version must satisfy: any of the alternatives, each of which is a list of conditions.
#[derive(Clone, Debug)]
pub struct Constraint {
    alternatives: Vec<Vec<Condition>>,
}

#[derive(Clone, Debug)]
struct Condition {
    operator: Operator,
    version: Version,
    /// The operator and version as they were written.
    text: (String, String),
    /// What was left out or a wildcard.
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

/// From where on the numbers of a condition's version are wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wild {
    Nothing,
    Patch,
    Minor,
    Everything,
}

impl Constraint {
    /// Reads a constraint.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        if text.len() > MAX_CONSTRAINT_LEN {
            return Err(SemverError::ConstraintTooLong);
        }
        let grammar = GRAMMAR.as_ref().ok_or(SemverError::Constraint)?;
        let text = rewrite_ranges(grammar, text);
        let alternatives: Vec<&str> = text.split("||").collect();
        if alternatives.len() > MAX_CONSTRAINT_GROUPS {
            return Err(SemverError::TooManyGroups);
        }
        let alternatives = alternatives
            .into_iter()
            .map(|alternative| {
                if !grammar.valid.is_match(alternative) {
                    return Err(improper(alternative));
                }
                grammar.find.find_iter(alternative).map(|m| Condition::parse(grammar, m.as_str())).collect()
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { alternatives })
    }

    /// Whether the version satisfies it. Pre-releases satisfy only alternatives that name a pre-release themselves.
    pub fn check(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|conditions| {
            let with_pre = conditions.iter().any(|condition| !condition.version.pre.is_empty());
            conditions.iter().all(|condition| condition.check(version, with_pre).is_ok())
        })
    }

    /// Why the version does not satisfy it, one text for each condition that fails; `Ok` if it does satisfy it.
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

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, conditions) in self.alternatives.iter().enumerate() {
            if i > 0 {
                f.write_str(" || ")?;
            }
            for (j, Condition { text: (operator, version), .. }) in conditions.iter().enumerate() {
                if j > 0 {
                    f.write_str(" ")?;
                }
                write!(f, "{operator}{version}")?;
            }
        }
        Ok(())
    }
}

fn improper(text: &str) -> SemverError {
    SemverError::ImproperConstraint(quote(text.as_bytes()))
}

/// Replaces `1.2 - 1.4` by `>= 1.2, <= 1.4 `.
fn rewrite_ranges(grammar: &Grammar, text: &str) -> String {
    let mut out = text.to_owned();
    for captures in grammar.range.captures_iter(text) {
        let part = |i| captures.get(i).map_or("", |m| m.as_str());
        // The first place of the same text, which need not be this one: as Go does.
        out = out.replacen(part(0), &format!(">= {}, <= {} ", part(1), part(11)), 1);
    }
    out
}

fn is_wildcard(part: &str) -> bool {
    matches!(part.strip_prefix('.').unwrap_or(part), "" | "x" | "X" | "*")
}

fn is_prerelease(version: &Version) -> String {
    let version = quote(version.to_string().as_bytes());
    format!("{version} is a prerelease version and the constraint is only looking for release versions")
}

impl Condition {
    fn parse(grammar: &Grammar, text: &str) -> Result<Self, SemverError> {
        let captures = grammar.one.captures(text).ok_or_else(|| improper(text))?;
        let part = |i| captures.get(i).map_or("", |m| m.as_str());
        let (major, minor, patch, pre) = (part(3), part(4), part(5), part(6));
        let (wild, version) = if is_wildcard(major) {
            (Wild::Everything, format!("0.0.0{pre}"))
        } else if is_wildcard(minor) {
            (Wild::Minor, format!("{major}.0.0{pre}"))
        } else if is_wildcard(patch) {
            (Wild::Patch, format!("{major}{minor}.0{pre}"))
        } else {
            (Wild::Nothing, part(2).to_owned())
        };
        let operator = match part(1) {
            "!=" => Operator::NotEqual,
            ">" => Operator::Greater,
            "<" => Operator::Less,
            ">=" | "=>" => Operator::GreaterEqual,
            "<=" | "=<" => Operator::LessEqual,
            "~" | "~>" => Operator::Tilde,
            "^" => Operator::Caret,
            _ => Operator::Equal,
        };
        let version = Version::parse(&version).map_err(|_| SemverError::Constraint)?;
        Ok(Self { operator, version, text: (part(1).into(), part(2).into()), wild })
    }

    /// Whether the version satisfies it, or why not.
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
        format!("{} {complaint} {}", quote(version.to_string().as_bytes()), quote(self.text.1.as_bytes()))
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
