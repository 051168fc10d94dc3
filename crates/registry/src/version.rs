//! Versions and version constraints with Helm's semantics.

use std::cmp::Reverse;

use steersman_chart::semver::{Constraint, Version};

/// A version constraint.
pub(crate) struct Matcher(Constraint);

impl Matcher {
    /// Parses a constraint; an empty one accepts everything but pre-releases.
    pub(crate) fn new(constraint: &str) -> Result<Self, String> {
        let constraint = if constraint.is_empty() { "*" } else { constraint };
        Constraint::parse(constraint).map(Self).map_err(|error| error.to_string())
    }

    /// Parses a dependency's constraint, where an empty one is not the same as `*`.
    pub(crate) fn of_dependency(constraint: &str) -> Result<Self, String> {
        Constraint::parse(constraint).map(Self).map_err(|error| error.to_string())
    }

    /// Whether `version` is valid and satisfies the constraint.
    pub(crate) fn accepts(&self, version: &str) -> bool {
        Version::parse(version).is_ok_and(|version| self.0.check(&version))
    }
}

/// Returns the first of `versions` that satisfies `constraint`.
pub(crate) fn first_match<'a>(
    mut versions: impl Iterator<Item = &'a str>,
    constraint: &str,
) -> Result<Option<&'a str>, String> {
    let matcher = Matcher::new(constraint)?;
    Ok(versions.find(|version| matcher.accepts(version)))
}

/// Whether `text` is a version, possibly as short as `1`.
pub(crate) fn is_version(text: &str) -> bool {
    Version::parse(text).is_ok()
}

/// Whether `text` is a version with all three numbers and no prefix.
pub(crate) fn is_strict_version(text: &str) -> bool {
    Version::parse_strict(text).is_ok()
}

/// Whether two versions are equal; invalid ones are compared as strings.
pub(crate) fn equal(left: &str, right: &str) -> bool {
    match (Version::parse(left), Version::parse(right)) {
        (Ok(left), Ok(right)) => left == right,
        (Err(_), _) => left == right,
        (Ok(_), Err(_)) => false,
    }
}

/// Sorts versions, newest first.
pub(crate) fn newest_first(versions: impl Iterator<Item = String>) -> Vec<String> {
    newest_first_by(versions, |version| version)
}

/// Sorts items by version, newest first; those without a valid one are last.
pub(crate) fn newest_first_by<T>(things: impl Iterator<Item = T>, version: impl Fn(&T) -> &str) -> Vec<T> {
    let mut dated: Vec<_> = things.map(|thing| (Version::parse(version(&thing)).ok(), thing)).collect();
    dated.sort_by(|(left, _), (right, _)| Reverse(left).cmp(&Reverse(right)));
    dated.into_iter().map(|(_, thing)| thing).collect()
}
