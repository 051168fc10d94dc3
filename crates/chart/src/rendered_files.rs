//! The output of templates.

use std::collections::BTreeMap;

use steersman_gotemplate::Str;

/// Rendered output by template path.
pub type RenderedFiles = BTreeMap<String, Str>;
