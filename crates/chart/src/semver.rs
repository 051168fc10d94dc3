//! Versions and constraints as Helm parses them, by Masterminds/semver for Go.

pub use crate::functions::constraint::Constraint;
pub use crate::functions::semver::{SemverError, Version};
