//! Semantic versions and constraints, as in Masterminds/semver v3.5.
//!
//! The `semver` crate follows Cargo's rules. Helm's differ in grammar, in the meaning of `^`, `~` and wildcards, and in
//! how pre-releases match.

use std::cmp::Ordering;
use std::fmt;

use steersman_gostd::strconv::quote;

/// Maximum length of a version.
const MAX_VERSION_LEN: usize = 256;
/// Maximum length of a constraint.
pub(super) const MAX_CONSTRAINT_LEN: usize = 512;
/// Maximum number of alternatives (`
///
/// `) in a constraint.
pub(super) const MAX_CONSTRAINT_GROUPS: usize = 32;

/// Why a version or constraint is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SemverError {
    /// The string is not a version.
    #[error("invalid semantic version")]
    Invalid,
    /// A strict version is empty.
    #[error("version string empty")]
    Empty,
    /// A strict version has something other than digits in a number.
    #[error("invalid characters in version")]
    InvalidCharacters,
    /// A number has a leading zero where none may be.
    #[error("version segment starts with 0")]
    LeadingZero,
    /// The build metadata has an empty or invalid part.
    #[error("invalid metadata string")]
    InvalidMetadata,
    /// The pre-release has an empty or invalid part.
    #[error("invalid prerelease string")]
    InvalidPrerelease,
    /// The string is longer than any sensible version.
    #[error("version string is too long (max {MAX_VERSION_LEN} bytes)")]
    VersionTooLong,
    /// A number does not fit 64 bits.
    #[error("error parsing version segment: strconv.ParseUint: parsing {0}: value out of range")]
    OutOfRange(String),
    /// The string is longer than any sensible constraint.
    #[error("constraint string is too long (max {MAX_CONSTRAINT_LEN} bytes)")]
    ConstraintTooLong,
    /// There are more alternatives than any sensible constraint has.
    #[error("too many constraint groups (max {MAX_CONSTRAINT_GROUPS})")]
    TooManyGroups,
    /// The string is not a constraint.
    #[error("improper constraint: {0}")]
    ImproperConstraint(String),
    /// The string has the form of a constraint, but its version is invalid.
    #[error("constraint parser error")]
    Constraint,
}

/// A semantic version. Build metadata does not affect equality and order, as semver requires.
#[derive(Clone, Debug)]
pub struct Version {
    /// The major version.
    pub major: u64,
    /// The minor version, 0 if omitted.
    pub minor: u64,
    /// The patch version, 0 if omitted.
    pub patch: u64,
    /// The pre-release, after `-`; may be empty.
    pub pre: String,
    /// The build metadata, after `+`; may be empty.
    pub metadata: String,
    /// The string it was parsed from.
    pub original: String,
}

impl Version {
    /// Parses a version that may begin with `v` and omit the minor and patch numbers (Go's `NewVersion`).
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        if text.len() > MAX_VERSION_LEN {
            return Err(SemverError::VersionTooLong);
        }
        let (numbers, pre, metadata) =
            split(text.strip_prefix('v').unwrap_or(text)).ok_or(SemverError::Invalid)?;
        let mut parts = numbers.split('.');
        let mut number = || match parts.next() {
            Some(part) => part.parse().map_err(|_| SemverError::OutOfRange(quote(part.as_bytes()))),
            None => Ok(0),
        };
        let version = Self {
            major: number()?,
            minor: number()?,
            patch: number()?,
            pre: pre.into(),
            metadata: metadata.into(),
            original: text.into(),
        };
        // The characters have been validated; only leading zeros remain to be checked.
        if !pre.is_empty() {
            validate_prerelease(pre)?;
        }
        Ok(version)
    }

    /// Parses a version with all three numbers and no `v` (Go's `StrictNewVersion`).
    pub fn parse_strict(text: &str) -> Result<Self, SemverError> {
        if text.is_empty() {
            return Err(SemverError::Empty);
        }
        if text.len() > MAX_VERSION_LEN {
            return Err(SemverError::VersionTooLong);
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else { return Err(SemverError::Invalid) };
        let (rest, metadata) =
            rest.split_once('+').map_or((rest, None), |(rest, metadata)| (rest, Some(metadata)));
        if let Some(metadata) = metadata {
            validate_metadata(metadata)?;
        }
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        if let Some(pre) = pre {
            validate_prerelease(pre)?;
        }
        for part in [major, minor, patch] {
            if !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(SemverError::InvalidCharacters);
            }
            if part.len() > 1 && part.starts_with('0') {
                return Err(SemverError::LeadingZero);
            }
        }
        let number = |part: &str| part.parse().map_err(|_| SemverError::OutOfRange(quote(part.as_bytes())));
        Ok(Self {
            major: number(major)?,
            minor: number(minor)?,
            patch: number(patch)?,
            pre: pre.unwrap_or_default().into(),
            metadata: metadata.unwrap_or_default().into(),
            original: text.into(),
        })
    }

    /// Returns the next patch version, or the release of a pre-release.
    pub(crate) fn inc_patch(&self) -> Option<Self> {
        let patch = if self.pre.is_empty() { self.patch.checked_add(1)? } else { self.patch };
        Some(self.next(self.major, self.minor, patch))
    }

    /// Returns the next minor version.
    pub(crate) fn inc_minor(&self) -> Option<Self> {
        Some(self.next(self.major, self.minor.checked_add(1)?, 0))
    }

    /// Returns the next major version.
    pub(crate) fn inc_major(&self) -> Option<Self> {
        Some(self.next(self.major.checked_add(1)?, 0, 0))
    }

    fn next(&self, major: u64, minor: u64, patch: u64) -> Self {
        Self { major, minor, patch, pre: String::new(), metadata: String::new(), ..self.clone() }.renamed()
    }

    /// Returns this version with another pre-release.
    pub(crate) fn with_prerelease(&self, pre: &str) -> Result<Self, SemverError> {
        if !pre.is_empty() {
            validate_prerelease(pre)?;
        }
        Ok(Self { pre: pre.into(), ..self.clone() }.renamed())
    }

    /// Returns this version with other build metadata.
    pub(crate) fn with_metadata(&self, metadata: &str) -> Result<Self, SemverError> {
        if !metadata.is_empty() {
            validate_metadata(metadata)?;
        }
        Ok(Self { metadata: metadata.into(), ..self.clone() }.renamed())
    }

    /// Updates the original string to the current numbers, keeping a leading `v`.
    fn renamed(self) -> Self {
        let prefix = if self.original.starts_with('v') { "v" } else { "" };
        Self { original: format!("{prefix}{self}"), ..self }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |v: &Self| (v.major, v.minor, v.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => compare_prerelease(&self.pre, &other.pre),
        })
    }
}

pub(super) fn compare_prerelease(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (a, b) => compare_part(a.unwrap_or_default(), b.unwrap_or_default()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Orders missing parts first, then numbers by value, then identifiers alphabetically.
fn compare_part(a: &str, b: &str) -> Ordering {
    if a == b || a.is_empty() || b.is_empty() {
        return a.cmp(b);
    }
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(x), Ok(y)) if x > y => Ordering::Greater,
        (Ok(_), Ok(_) | Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

/// Splits `1.2.3-pre+meta` into numbers, pre-release and metadata; `None` if it has another form.
///
/// The latter two may be empty.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let words = |text: &str| {
        text.split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
    };
    let (rest, metadata) = match text.split_once('+') {
        Some((rest, metadata)) if words(metadata) => (rest, metadata),
        Some(_) => return None,
        None => (text, ""),
    };
    let (numbers, pre) = match rest.split_once('-') {
        Some((numbers, pre)) if words(pre) => (numbers, pre),
        Some(_) => return None,
        None => (rest, ""),
    };
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (numbers.split('.').count() <= 3 && numbers.split('.').all(all_digits))
        .then_some((numbers, pre, metadata))
}

fn is_word(part: &str) -> bool {
    part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn validate_prerelease(pre: &str) -> Result<(), SemverError> {
    for part in pre.split('.') {
        if part.is_empty() || !is_word(part) {
            return Err(SemverError::InvalidPrerelease);
        }
        if part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit()) {
            return Err(SemverError::LeadingZero);
        }
    }
    Ok(())
}

fn validate_metadata(metadata: &str) -> Result<(), SemverError> {
    let valid = metadata.split('.').all(|part| !part.is_empty() && is_word(part));
    if valid { Ok(()) } else { Err(SemverError::InvalidMetadata) }
}
