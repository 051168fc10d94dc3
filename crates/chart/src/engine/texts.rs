//! Texts of `tpl`, parsed once for all renders of a chart.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use steersman_gotemplate::{ParseError, Parsed, Str};

use super::Host;

/// How many bytes of text are kept parsed. Values that differ from render to render would fill any amount.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Parsed texts by what they say.
#[derive(Default)]
pub(crate) struct Texts(Mutex<Known>);

#[derive(Default)]
struct Known {
    parsed: HashMap<Str, Parsed<Host>>,
    bytes: usize,
}

impl Texts {
    /// The text as it was parsed before, or parsed now.
    pub(super) fn get(
        &self,
        text: &Str,
        parse: impl FnOnce(&Str) -> Result<Parsed<Host>, ParseError>,
    ) -> Result<Parsed<Host>, ParseError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).parsed.get(text).cloned();
        if let Some(parsed) = known {
            return Ok(parsed);
        }
        let parsed = parse(text)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.bytes + text.len() > MAX_BYTES {
            *known = Known::default();
        }
        if text.len() <= MAX_BYTES && known.parsed.insert(text.clone(), parsed.clone()).is_none() {
            known.bytes += text.len();
        }
        Ok(parsed)
    }
}
