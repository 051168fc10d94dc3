//! Cache of `tpl` arguments, parsed once for all renders of a chart.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use steersman_gotemplate::{ParseError, Parsed, Str};

use super::Host;

/// Maximum memory of the cache; values that differ in every render would fill any amount.
const MAX_BYTES: usize = 64 << 20;

/// Parsed templates by their source.
#[derive(Default)]
pub(crate) struct Texts(Mutex<ParsedTemplates>);

#[derive(Default)]
struct ParsedTemplates {
    parsed: HashMap<Str, Parsed<Host>>,
    bytes: usize,
}

impl Texts {
    /// Returns the cached template, or parses it with `parse`, which also returns the memory used.
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
            *known = ParsedTemplates::default();
        }
        if size <= MAX_BYTES && known.parsed.insert(text.clone(), parsed.clone()).is_none() {
            known.bytes += size;
        }
        Ok(parsed)
    }
}
