//! Versions and constraints on them, as Helm reads them: what Masterminds' semver for Go accepts.

pub use crate::functions::constraint::Constraint;
pub use crate::functions::semver::{SemverError, Version};
