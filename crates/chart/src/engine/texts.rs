//! Texts of `tpl`, parsed once for all renders of a chart.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use steersman_gotemplate::{ParseError, Parsed, Str};

use super::Host;

/// How much memory what is kept parsed may take. Values that differ from render to render would fill any amount.
const MAX_BYTES: usize = 64 << 20;

/// Parsed texts by what they say.
#[derive(Default)]
pub(crate) struct Texts(Mutex<Known>);

#[derive(Default)]
struct Known {
    parsed: HashMap<Str, Parsed<Host>>,
    bytes: usize,
}

impl Texts {
    /// The text as it was parsed before, or parsed now by `parse`, which also says how much memory that takes.
    pub(super) fn get(
        &self,
        text: &Str,
        parse: impl FnOnce(&Str) -> Result<(Parsed<Host>, usize), ParseError>,
    ) -> Result<Parsed<Host>, ParseError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).parsed.get(text).cloned();
        if let Some(parsed) = known {
            return Ok(parsed);
        }
        let (parsed, memory) = parse(text)?;
        let size = memory.saturating_add(2 * text.len());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.bytes.saturating_add(size) > MAX_BYTES {
            *known = Known::default();
        }
        if size <= MAX_BYTES && known.parsed.insert(text.clone(), parsed.clone()).is_none() {
            known.bytes += size;
        }
        Ok(parsed)
    }
}
