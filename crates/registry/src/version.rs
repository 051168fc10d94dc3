//! Versions and constraints on them, as Helm understands them.

use std::cmp::Reverse;

use steersman_chart::semver::{Constraint, Version};

/// What a constraint accepts.
pub(crate) struct Matcher(Constraint);

impl Matcher {
    /// Reads a constraint; an empty one accepts all but pre-releases.
    pub(crate) fn new(constraint: &str) -> Result<Self, String> {
        let constraint = if constraint.is_empty() { "*" } else { constraint };
        Constraint::parse(constraint).map(Self).map_err(|error| error.to_string())
    }

    /// Reads the constraint of a dependency, where nothing is not the same as anything.
    pub(crate) fn of_dependency(constraint: &str) -> Result<Self, String> {
        Constraint::parse(constraint).map(Self).map_err(|error| error.to_string())
    }

    /// Whether `version` is one, and satisfies the constraint.
    pub(crate) fn accepts(&self, version: &str) -> bool {
        Version::parse(version).is_ok_and(|version| self.0.check(&version))
    }
}

/// The first of `versions` that satisfies `constraint`.
pub(crate) fn first_match<'a>(
    mut versions: impl Iterator<Item = &'a str>,
    constraint: &str,
) -> Result<Option<&'a str>, String> {
    let matcher = Matcher::new(constraint)?;
    Ok(versions.find(|version| matcher.accepts(version)))
}

/// Whether `text` is a version, be it as short as `1`.
pub(crate) fn is_version(text: &str) -> bool {
    Version::parse(text).is_ok()
}

/// Whether `text` is a version with all three numbers and nothing before them.
pub(crate) fn is_strict_version(text: &str) -> bool {
    Version::parse_strict(text).is_ok()
}

/// Whether two versions are the same; what is no version must be the same text.
pub(crate) fn equal(left: &str, right: &str) -> bool {
    match (Version::parse(left), Version::parse(right)) {
        (Ok(left), Ok(right)) => left == right,
        (Err(_), _) => left == right,
        (Ok(_), Err(_)) => false,
    }
}

/// Versions from the newest to the oldest.
pub(crate) fn newest_first(versions: impl Iterator<Item = String>) -> Vec<String> {
    newest_first_by(versions, |version| version)
}

/// Things from the newest to the oldest by their version; what has none comes last.
pub(crate) fn newest_first_by<T>(things: impl Iterator<Item = T>, version: impl Fn(&T) -> &str) -> Vec<T> {
    let mut dated: Vec<_> = things.map(|thing| (Version::parse(version(&thing)).ok(), thing)).collect();
    dated.sort_by(|(left, _), (right, _)| Reverse(left).cmp(&Reverse(right)));
    dated.into_iter().map(|(_, thing)| thing).collect()
}
