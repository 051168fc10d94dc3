//! Versions and ranges of them, as Masterminds' semver reads them.

use crate::functions::constraint::Constraint;
use crate::functions::semver::Version;

/// Whether it is a version, parts of which may be missing.
pub(crate) fn is_version(text: &str) -> bool {
    Version::parse(text).is_ok()
}

/// Whether the version is in the range. What does not parse is in no range.
pub(crate) fn is_compatible(range: &str, version: &str) -> bool {
    match (Version::parse(version), Constraint::parse(range)) {
        (Ok(version), Ok(range)) => range.check(&version),
        _ => false,
    }
}
