//! Types shared by the watches.yaml of operator-sdk's operators: kinds, selectors and durations.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use steersman_formats::parse_duration;

/// Label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must have these values.
    pub match_labels: BTreeMap<String, String>,
    /// Label selector requirements, all of which must match.
    pub match_expressions: Vec<Expression>,
}

/// Label selector requirement.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expression {
    /// Label key.
    pub key: String,
    /// Operator: `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values for `In` and `NotIn`.
    #[serde(default)]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Returns the selector in the syntax of `kubectl --selector`; empty if it selects every object.
    ///
    /// # Errors
    /// Fails if an operator is unknown.
    pub fn text(&self) -> Result<String, String> {
        let mut parts: Vec<String> =
            self.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        for Expression { key, operator, values } in &self.match_expressions {
            let values = values.join(",");
            parts.push(match operator.as_str() {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.clone(),
                "DoesNotExist" => format!("!{key}"),
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            });
        }
        Ok(parts.join(","))
    }
}

/// Returns the apiVersion of a group and version, as in `apps/v1`; the version alone for the core group.
#[must_use]
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Parses a duration in the syntax of Go's `time.ParseDuration`.
///
/// # Errors
/// Fails with a message that names the string if it is not a duration, or is negative.
pub fn duration(text: &str) -> Result<Duration, String> {
    let nanoseconds = parse_duration(text.trim()).ok_or_else(|| format!("invalid duration {text:?}"))?;
    u64::try_from(nanoseconds).map(Duration::from_nanos).map_err(|_| format!("negative duration {text:?}"))
}

/// Deserializes an optional [`duration`], for `#[serde(deserialize_with)]`.
///
/// # Errors
/// As [`duration`].
pub fn deserialize_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        None => Ok(None),
        Some(text) => duration(&text).map(Some).map_err(de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_in_go() {
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(duration("1ns"), Ok(Duration::from_nanos(1)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "1", "5 minutes", "1d", "-1s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
