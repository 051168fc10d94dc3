//! What templates give.

use std::collections::BTreeMap;

use steersman_gotemplate::Str;

/// Each rendered template's text by its path.
pub type RenderedFiles = BTreeMap<String, Str>;
