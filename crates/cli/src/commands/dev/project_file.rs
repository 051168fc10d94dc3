//! Reads an operator's settings from the PROJECT file.

use std::path::Path;

use steersman_scaffold::{Error, Plugin, Project};

use crate::failure::Result;

/// The operator's settings in the PROJECT file.
pub(super) struct ProjectFile {
    /// Whether the operator is written in Rust; `None` if the plugin is unknown.
    pub(super) is_rust: Option<bool>,
    /// Whether the operator watches only one namespace.
    pub(super) is_namespaced: bool,
}

impl ProjectFile {
    /// Loads the PROJECT file, if there is one.
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
