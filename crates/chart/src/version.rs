//! Versions and version ranges, by the rules of Masterminds/semver.

use crate::functions::constraint::Constraint;
use crate::functions::semver::Version;

/// Whether it is a version, which may omit minor and patch.
pub(crate) fn is_version(text: &str) -> bool {
    Version::parse(text).is_ok()
}

/// Whether the version is in the range. False if either does not parse.
pub(crate) fn is_compatible(range: &str, version: &str) -> bool {
    match (Version::parse(version), Constraint::parse(range)) {
        (Ok(version), Ok(range)) => range.check(&version),
        _ => false,
    }
}
