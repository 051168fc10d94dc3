//! Semantic versions.

use std::cmp::Ordering;
use std::sync::Arc;

use steersman_gostd::strconv::{self, quote};

use super::{Library, unfit};
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value};

const SEMVER: Type = Type::Opaque("kubernetes.Semver");

/// A semantic version. Build metadata is dropped, as it does not affect precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semver {
    numbers: [u64; 3],
    pre: Vec<Pre>,
}

/// One pre-release identifier: numeric ones precede alphanumeric ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pre {
    Number(u64),
    Word(String),
}

fn error<T>(message: impl Into<EvalError>) -> Result<T, EvalError> {
    Err(message.into())
}

impl Semver {
    fn parse(text: &str) -> Result<Self, EvalError> {
        if text.is_empty() {
            return error("Version string empty");
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return error("No Major.Minor.Patch elements found");
        };
        let numbers = [number(major, "Major")?, number(minor, "Minor")?];
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let patch = number(patch, "Patch")?;
        let pre = pre.map(|pre| pre.split('.').map(pre_release).collect()).transpose()?.unwrap_or_default();
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return error("Build meta data is empty");
            }
            if !is_word(part) {
                return error(format!("Invalid character(s) found in build meta data {}", quote(part)));
            }
        }
        Ok(Self { numbers: [numbers[0], numbers[1], patch], pre })
    }

    /// Parses a version with an optional `v` prefix, leading zeros, or missing minor and patch.
    fn parse_lenient(text: &str) -> Result<Self, EvalError> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in &mut parts {
            if part.len() > 1 {
                let trimmed = part.trim_start_matches('0');
                let lacks_digit = !trimmed.starts_with(|c: char| c.is_ascii_digit());
                *part = if lacks_digit { format!("0{trimmed}") } else { trimmed.to_owned() };
            }
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return error("short version cannot contain PreRelease/Build meta data");
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        })
    }
}

fn number(text: &str, name: &str) -> Result<u64, EvalError> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return error(format!(
            "Invalid character(s) found in {} number {}",
            name.to_lowercase(),
            quote(text)
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        return error(format!("{name} number must not contain leading zeroes {}", quote(text)));
    }
    strconv::parse_uint(text.as_bytes(), 10, 64).map_err(EvalError::from)
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn pre_release(text: &str) -> Result<Pre, EvalError> {
    if text.is_empty() {
        return error("Prerelease is empty");
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return error(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                quote(text)
            ));
        }
        let number = strconv::parse_uint(text.as_bytes(), 10, 64);
        return number.map(Pre::Number).map_err(EvalError::from);
    }
    if is_word(text) {
        return Ok(Pre::Word(text.to_owned()));
    }
    error(format!("Invalid character(s) found in prerelease {}", quote(text)))
}

fn read(args: &[Value]) -> Option<Result<Semver, EvalError>> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Some(Semver::parse(text)),
        [Value::String(text), Value::Bool(true)] => Some(Semver::parse_lenient(text)),
        _ => None,
    }
}

fn pair(args: &[Value], accept: fn(Ordering) -> Value) -> Evaluated {
    match args {
        [Value::Semver(a), Value::Semver(b)] => Ok(accept(a.cmp(b))),
        _ => unfit(),
    }
}

fn part(args: &[Value], at: usize) -> Evaluated {
    match args {
        [Value::Semver(version)] => {
            let number = version.numbers.get(at).copied().unwrap_or_default();
            Ok(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)))
        }
        _ => unfit(),
    }
}

pub(super) fn add(library: &mut Library) {
    use Type::{Bool, Int, String};
    for args in [vec![String], vec![String, Bool]] {
        library.global("semver", args.clone(), SEMVER, |args| match read(args) {
            Some(version) => Ok(Value::Semver(Arc::new(version?))),
            None => unfit(),
        });
        library.global("isSemver", args, Bool, |args| match read(args) {
            Some(version) => Ok(Value::Bool(version.is_ok())),
            None => unfit(),
        });
    }
    library.member("isGreaterThan", [SEMVER, SEMVER], Bool, |args| pair(args, |o| Value::Bool(o.is_gt())));
    library.member("isLessThan", [SEMVER, SEMVER], Bool, |args| pair(args, |o| Value::Bool(o.is_lt())));
    library.member("compareTo", [SEMVER, SEMVER], Int, |args| pair(args, |o| Value::Int(o as i64)));
    library.member("major", [SEMVER], Int, |args| part(args, 0));
    library.member("minor", [SEMVER], Int, |args| part(args, 1));
    library.member("patch", [SEMVER], Int, |args| part(args, 2));
}
