//! What the file PROJECT says of an operator.

use std::path::Path;

use steersman_scaffold::{Error, Plugin, Project};

use crate::failure::Result;

/// What the file PROJECT says of an operator.
pub(super) struct ProjectFile {
    /// Whether the operator is code in Rust, if the plugin is known.
    pub(super) is_rust: Option<bool>,
    /// Whether the operator works in one namespace alone.
    pub(super) is_namespaced: bool,
}

impl ProjectFile {
    /// The file of a project, if it has one.
    pub(super) fn load(root: &Path) -> Result<Option<Self>> {
        match Project::load(root) {
            Ok(file) => Ok(Some(Self {
                is_rust: file.plugin().ok().map(|plugin| plugin == Plugin::Rust),
                is_namespaced: file.is_namespaced(),
            })),
            Err(Error::NotAProject(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
