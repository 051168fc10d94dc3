//! The file PROJECT in a build without the feature `scaffold`: a project that has one is refused.

use std::path::Path;

use crate::failure::{Failure, Result};

/// There is none.
pub(super) struct ProjectFile {
    pub(super) is_rust: Option<bool>,
    pub(super) is_namespaced: bool,
}

impl ProjectFile {
    pub(super) fn load(root: &Path) -> Result<Option<Self>> {
        let path = root.join("PROJECT");
        match path.exists() {
            true => Err(Failure::of_feature(&format!("cannot read {}", path.display()), "scaffold")),
            false => Ok(None),
        }
    }
}
