//! Rejects projects with a PROJECT file in a build without the feature `scaffold`.

use std::path::Path;

use crate::failure::{Failure, Result};

/// The settings of a PROJECT file, never loaded in this build.
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
