//! Query parameters.

use crate::status::{ApiError, ApiResult};

/// Handling of unknown and duplicate fields (`fieldValidation`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them with a warning.
    #[default]
    Warn,
    /// Reject the request.
    Strict,
}

/// Handling of the dependents of a deleted object (`propagationPolicy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are orphaned.
    Orphan,
    /// Dependents are deleted after the object.
    Background,
    /// Dependents are deleted before the object.
    Foreground,
}

impl Propagation {
    /// Parses a `propagationPolicy`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Orphan" => Some(Self::Orphan),
            "Background" => Some(Self::Background),
            "Foreground" => Some(Self::Foreground),
            _ => None,
        }
    }
}

/// The API's query parameters, of all verbs.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `labelSelector`, unparsed.
    pub label_selector: String,
    /// `fieldSelector`, unparsed.
    pub field_selector: String,
    /// Items per page of a list; 0 for all.
    pub limit: usize,
    /// `continue`: token of the next page of a list.
    pub continue_token: String,
    /// `resourceVersion`, unparsed.
    pub resource_version: String,
    /// `resourceVersionMatch`: `Exact`, `NotOlderThan` or empty.
    pub resource_version_match: String,
    /// `watch`: whether to watch instead of list.
    pub watch: bool,
    /// `allowWatchBookmarks`.
    pub allow_bookmarks: bool,
    /// `sendInitialEvents`: whether a watch starts with the existing objects.
    pub send_initial_events: Option<bool>,
    /// `timeoutSeconds` of a watch.
    pub timeout_seconds: Option<u64>,
    /// `dryRun`, once per value.
    pub dry_run: Vec<String>,
    /// `fieldManager`, or empty.
    pub field_manager: String,
    /// `fieldValidation`, or empty for the default.
    pub field_validation: String,
    /// `force` of an apply: whether to take over fields in conflict.
    pub force: Option<bool>,
    /// `gracePeriodSeconds` of a deletion.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy` of a deletion.
    pub propagation_policy: Option<String>,
    /// `orphanDependents`, the predecessor of `propagationPolicy`.
    pub orphan_dependents: Option<bool>,
    /// `includeObject` of a Table, or empty for the default.
    pub include_object: String,
}

/// Names of all parameters.
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

/// Names of the parameters that `DeleteOptions` has.
const DELETE_OPTIONS: [&str; 4] = ["dryRun", "gracePeriodSeconds", "propagationPolicy", "orphanDependents"];

impl Options {
    /// Parses the query string of a request.
    ///
    /// # Errors
    /// 400 for a value that is malformed.
    pub fn parse(query: &str) -> ApiResult<Self> {
        Self::parse_except(query, &[])
    }

    /// Parses the query string of a deletion that has `DeleteOptions` in its body. Delete options in the query are
    /// ignored.
    ///
    /// # Errors
    /// 400 for a value that is malformed.
    pub fn parse_beside_body(query: &str) -> ApiResult<Self> {
        Self::parse_except(query, &DELETE_OPTIONS)
    }

    fn parse_except(query: &str, ignored: &[&str]) -> ApiResult<Self> {
        let mut o = Self::default();
        let mut seen = 0_u32;
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(place) = KNOWN.iter().position(|known| *known == key) else { continue };
            if ignored.contains(&&*key) {
                continue;
            }
            // The first value of a repeated parameter wins.
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

/// Like the API, takes any value other than `false` and `0` as true.
fn boolean(value: &str) -> bool {
    !matches!(value, "false" | "0")
}
