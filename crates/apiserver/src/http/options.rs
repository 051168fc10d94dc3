//! Query parameters.

use crate::status::{ApiError, ApiResult};

/// What to do about fields that the schema does not know, and about repeated ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them with a warning.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are left alone.
    Orphan,
    /// They follow.
    Background,
    /// They go first.
    Foreground,
}

impl Propagation {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "Orphan" => Some(Self::Orphan),
            "Background" => Some(Self::Background),
            "Foreground" => Some(Self::Foreground),
            _ => None,
        }
    }
}

/// All query parameters that the API knows, of all verbs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) watch: bool,
    pub(crate) allow_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: Vec<String>,
    pub(crate) field_manager: String,
    pub(crate) field_validation: String,
    pub(crate) force: Option<bool>,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) include_object: String,
}

/// The names of all parameters.
const KNOWN: [&str; 18] = [
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "watch",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "timeoutSeconds",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "includeObject",
];

impl Options {
    pub(crate) fn parse(query: &str) -> ApiResult<Self> {
        let mut o = Self::default();
        let mut seen = 0_u32;
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(place) = KNOWN.iter().position(|known| *known == key) else { continue };
            // Of a parameter that is given twice, the first counts.
            let bit = 1 << place;
            if seen & bit != 0 && key != "dryRun" {
                continue;
            }
            seen |= bit;
            let value = value.into_owned();
            match &*key {
                "labelSelector" => o.label_selector = value,
                "fieldSelector" => o.field_selector = value,
                "limit" => {
                    let limit: i64 = number(&value)?;
                    o.limit = usize::try_from(limit).unwrap_or_default();
                }
                "continue" => o.continue_token = value,
                "resourceVersion" => o.resource_version = value,
                "resourceVersionMatch" => o.resource_version_match = value,
                "watch" => o.watch = boolean(&value),
                "allowWatchBookmarks" => o.allow_bookmarks = boolean(&value),
                "sendInitialEvents" => o.send_initial_events = Some(boolean(&value)),
                "timeoutSeconds" => {
                    o.timeout_seconds = u64::try_from(number::<i64>(&value)?).ok().filter(|t| *t > 0);
                }
                "dryRun" => o.dry_run.push(value),
                "fieldManager" => o.field_manager = value,
                "fieldValidation" => o.field_validation = value,
                "force" => o.force = Some(boolean(&value)),
                "gracePeriodSeconds" => o.grace_period_seconds = Some(number(&value)?),
                "propagationPolicy" => o.propagation_policy = Some(value),
                "orphanDependents" => o.orphan_dependents = Some(boolean(&value)),
                "includeObject" => o.include_object = value,
                _ => {}
            }
        }
        Ok(o)
    }
}

fn number<T: std::str::FromStr>(value: &str) -> ApiResult<T> {
    value.parse().map_err(|_| {
        let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
        let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let why = if whole { "value out of range" } else { "invalid syntax" };
        let value = crate::status::quote(value);
        ApiError::bad_request(format!("strconv.ParseInt: parsing {value}: {why}"))
    })
}

/// The API takes anything but an explicit no for a yes.
fn boolean(value: &str) -> bool {
    !matches!(value, "false" | "0")
}
